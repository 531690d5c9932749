// SPDX-License-Identifier: MIT
//! The shell of every page: one file that needs nothing else, with one stylesheet and one escape.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{Table, clean};

const STYLE: &str = include_str!("page.css");
const THEME_SCRIPT: &str = include_str!("theme.js");
/// Nothing comes from elsewhere.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// What differs between the pages of two verbs.
pub struct Page<'a> {
    pub title: &'a str,
    /// What stands between the beginning of the page and its closing line.
    pub body: Markup,
    pub version: &'a str,
    /// For pages that show what is asked for.
    pub script: Option<Script<'a>>,
}

/// A script with its data. It may count on a theme switch, an empty `nav` and `main`.
pub struct Script<'a> {
    /// What stands at the top.
    pub name: &'a str,
    pub code: &'a [&'a str],
    pub data: &'a serde_json::Value,
}

impl Page<'_> {
    pub fn render(self) -> String {
        let policy = match self.script {
            Some(_) => format!("{POLICY}; script-src 'unsafe-inline'"),
            None => POLICY.to_owned(),
        };
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta http-equiv="Content-Security-Policy" content=(policy);
                    link rel="icon" href="data:,";
                    title { (clean::line(self.title)) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    @if let Some(script) = &self.script { (top(script)) }
                    main #main tabindex="-1" {
                        (self.body)
                        footer { p { "mallow " (clean::line(self.version)) } }
                    }
                    @if let Some(script) = &self.script { (end(script)) }
                }
            }
        };
        page.into_string() + "\n"
    }

    /// A page that is a sentence and a table.
    pub fn of_table(title: &str, sentence: &str, rows: &Table) -> String {
        let body = html! { (head(title, None, sentence)) (table(rows)) };
        Page { title, body, version: env!("CARGO_PKG_VERSION"), script: None }.render()
    }
}

fn top(script: &Script) -> Markup {
    html! {
        a.skip href="#main" { "Skip to the report" }
        header.top {
            div.bar {
                strong { (script.name) }
                nav #nav aria-label="Sections" {}
                button #theme type="button" {}
            }
        }
    }
}

fn end(script: &Script) -> Markup {
    // Nothing in a name may end the script element that holds the data.
    let data = script.data.to_string().replace('<', "\\u003c");
    html! {
        script #data type="application/json" { (PreEscaped(data)) }
        script {
            (PreEscaped("\"use strict\";\n")) (PreEscaped(THEME_SCRIPT))
            @for code in script.code { (PreEscaped(code)) }
        }
    }
}

/// The title, the command if there is one, and the result in a sentence.
pub fn head(title: &str, command: Option<&str>, verdict: &str) -> Markup {
    html! {
        header {
            h1 { (clean::line(title)) }
            @if let Some(command) = command {
                p.command { code { (clean::line(command)) } }
            }
        }
        p.verdict { (clean::line(verdict)) }
    }
}

/// A table under a title that opens and closes it.
pub fn details(title: &str, rows: &Table, is_open: bool) -> Markup {
    html! {
        details open[is_open] {
            summary { (clean::line(title)) }
            (table(rows))
        }
    }
}

/// Sentences that say what the result does not.
pub fn notes(sentences: &[String]) -> Markup {
    html! { @for sentence in sentences { p.quiet { (clean::line(sentence)) } } }
}

/// The table as one that scrolls where it is wider than the page.
pub fn table(table: &Table) -> Markup {
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        @for (name, is_number) in &table.columns {
                            th class=[class(*is_number)] { (name) }
                        }
                    }
                }
                tbody { (rows(table)) }
            }
        }
    }
}

/// The rows of a table without what is around them.
pub fn rows(table: &Table) -> Markup {
    html! {
        @for row in &table.rows {
            tr {
                @for (cell, (_, is_number)) in row.iter().zip(&table.columns) {
                    td class=[class(*is_number)] { (clean::line(cell)) }
                }
            }
        }
    }
}

fn class(is_number: bool) -> Option<&'static str> {
    (!is_number).then_some("words")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        let sentences = notes(&["<a & \"b\">\u{1b}".into()]).into_string();
        assert_eq!(sentences, "<p class=\"quiet\">&lt;a &amp; &quot;b&quot;&gt;\\u{1b}</p>");
        let page = Page { title: "<x>", body: html! { p {} }, version: "1", script: None }.render();
        assert!(page.contains("<title>&lt;x&gt;</title>") && page.contains("<p></p>"));
        assert!(!page.contains("<script") && !page.contains("script-src"));
        let mut rows = Table::new(&[("name", false), ("size", true)]);
        rows.rows.push(vec!["<b>".into(), "1".into()]);
        let expected = "<tr><td class=\"words\">&lt;b&gt;</td><td>1</td></tr>";
        let table = table(&rows).into_string();
        assert!(table.contains(expected), "{table}");
    }

    #[test]
    fn no_data_ends_its_element() {
        let data = serde_json::json!({ "name": "</script><b>" });
        let script = Script { name: "x", code: &["draw();"], data: &data };
        let page = Page { title: "t", body: html! {}, version: "1", script: Some(script) }.render();
        assert_eq!(page.matches("</script>").count(), 2, "{page}");
        assert!(page.contains("<script>\"use strict\";\n"), "{page}");
        assert!(page.contains("draw();") && page.contains("\\u003c/script>"));
    }
}
