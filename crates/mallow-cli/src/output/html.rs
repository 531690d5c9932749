//! The shell of every page: one file that needs nothing else, with one stylesheet and one escape.

use maud::{DOCTYPE, PreEscaped, html};

use super::{Table, clean};

const STYLE: &str = include_str!("page.css");
const THEME_SCRIPT: &str = include_str!("theme.js");
/// Nothing comes from elsewhere.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// What differs between the pages of two verbs.
pub struct Page<'a> {
    pub title: &'a str,
    /// HTML between the beginning of the page and its closing line.
    pub body: &'a str,
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
    pub fn render(&self) -> String {
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
                        (PreEscaped(self.body))
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
        let body = head(title, None, sentence) + &table(rows);
        Page { title, body: &body, version: env!("CARGO_PKG_VERSION"), script: None }.render()
    }
}

fn top(script: &Script) -> maud::Markup {
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

fn end(script: &Script) -> maud::Markup {
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
pub fn head(title: &str, command: Option<&str>, verdict: &str) -> String {
    let head = html! {
        header {
            h1 { (clean::line(title)) }
            @if let Some(command) = command {
                p.command { code { (clean::line(command)) } }
            }
        }
        p.verdict { (clean::line(verdict)) }
    };
    head.into_string() + "\n"
}

/// Text as the content of an element or a quoted attribute.
pub fn escape(text: &str) -> String {
    html! { (clean::line(text)) }.into_string()
}

/// The table as one that scrolls where it is wider than the page.
pub fn table(table: &Table) -> String {
    let class = |is_number: bool| (!is_number).then_some("words");
    let numbers = || table.columns.iter().map(|(_, is_number)| *is_number);
    let drawn = html! {
        div.scroll {
            table {
                thead {
                    tr {
                        @for (name, is_number) in &table.columns {
                            th class=[class(*is_number)] { (name) }
                        }
                    }
                }
                tbody {
                    @for row in &table.rows {
                        tr {
                            @for (cell, is_number) in row.iter().zip(numbers()) {
                                td class=[class(is_number)] { (clean::line(cell)) }
                            }
                        }
                    }
                }
            }
        }
    };
    drawn.into_string() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!(escape("<a & \"b\">\u{1b}"), "&lt;a &amp; &quot;b&quot;&gt;\\u{1b}");
        let page = Page { title: "<x>", body: "<p></p>", version: "1", script: None }.render();
        assert!(page.contains("<title>&lt;x&gt;</title>") && page.contains("<p></p>"));
        assert!(!page.contains("<script") && !page.contains("script-src"));
        let mut rows = Table::new(&[("name", false), ("size", true)]);
        rows.rows.push(vec!["<b>".into(), "1".into()]);
        let expected = "<tr><td class=\"words\">&lt;b&gt;</td><td>1</td></tr>";
        assert!(table(&rows).contains(expected), "{}", table(&rows));
    }

    #[test]
    fn no_data_ends_its_element() {
        let data = serde_json::json!({ "name": "</script><b>" });
        let script = Script { name: "x", code: &["draw();"], data: &data };
        let page = Page { title: "t", body: "", version: "1", script: Some(script) }.render();
        assert_eq!(page.matches("</script>").count(), 2, "{page}");
        assert!(page.contains("<script>\"use strict\";\n"), "{page}");
        assert!(page.contains("draw();") && page.contains("\\u003c/script>"));
    }
}
