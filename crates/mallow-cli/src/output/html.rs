//! The page around every report: one file that needs nothing else, with one stylesheet.

use super::{Table, clean};

const STYLE: &str = include_str!("page.css");

/// What differs between the pages of two verbs.
pub struct Page<'a> {
    pub title: &'a str,
    /// Rules of this page alone, after the common ones.
    pub style: &'a str,
    /// HTML between `<body>` and its end, but for the closing line.
    pub body: &'a str,
    pub version: &'a str,
}

impl Page<'_> {
    pub fn render(&self) -> String {
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
             'unsafe-inline'; img-src data:\">\n<link rel=\"icon\" href=\"data:,\">\n\
             <title>{}</title>\n<style>\n{STYLE}{}</style>\n</head>\n<body>\n<main>\n{}\
             <footer><p>mallow {}</p></footer>\n</main>\n</body>\n</html>\n",
            escape(self.title),
            self.style,
            self.body,
            escape(self.version)
        )
    }
}

/// The title, the command if there is one, and the result in a sentence.
pub fn head(title: &str, command: Option<&str>, verdict: &str) -> String {
    let command = command.map_or(String::new(), |command| {
        format!("<p class=\"command\"><code>{}</code></p>", escape(command))
    });
    format!(
        "<header><h1>{}</h1>{command}</header>\n<p class=\"verdict\">{}</p>\n",
        escape(title),
        escape(verdict)
    )
}

/// Text as the content of an element or a quoted attribute.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in clean::line(text).chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// The table as one that scrolls where it is wider than the page.
pub fn table(table: &Table) -> String {
    let align = |is_number: bool| if is_number { "" } else { " class=\"words\"" };
    let mut text = String::from("<div class=\"scroll\"><table>\n<thead><tr>");
    for (name, is_number) in &table.columns {
        text += &format!("<th{}>{}</th>", align(*is_number), escape(name));
    }
    text += "</tr></thead>\n<tbody>\n";
    for row in &table.rows {
        text += "<tr>";
        for (cell, (_, is_number)) in row.iter().zip(&table.columns) {
            text += &format!("<td{}>{}</td>", align(*is_number), escape(cell));
        }
        text += "</tr>\n";
    }
    text + "</tbody></table></div>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!(escape("<a & \"b\">"), "&lt;a &amp; &quot;b&quot;&gt;");
        let page = Page { title: "<x>", style: ".own {}", body: "<p></p>", version: "1" }.render();
        assert!(page.contains("<title>&lt;x&gt;</title>") && page.contains(".own {}"));
    }
}
