//! A table of text: drawn for a terminal, or written as CSV or Markdown.

use comfy_table::{CellAlignment, ContentArrangement, Table as Drawn, presets};

use super::Format;

/// A table of text that can be drawn, or written as CSV or Markdown.
#[derive(Clone, Debug)]
pub struct Table {
    /// The heading, and whether the column holds numbers.
    pub columns: Vec<(&'static str, bool)>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(columns: &[(&'static str, bool)]) -> Table {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    pub fn render(&self, format: Format, unicode: bool) -> String {
        match format {
            Format::Csv => self.csv(),
            Format::Md => self.markdown(),
            _ => self.draw(unicode),
        }
    }

    fn draw(&self, unicode: bool) -> String {
        let mut table = Drawn::new();
        table.load_preset(presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(self.columns.iter().map(|(name, _)| *name));
        for row in &self.rows {
            table.add_row(row);
        }
        for (index, (_, number)) in self.columns.iter().enumerate() {
            if let Some(column) = table.column_mut(index).filter(|_| *number) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let drawn = table.to_string();
        let mut lines: Vec<String> = drawn.lines().map(|line| line.trim_end().to_owned()).collect();
        if unicode {
            let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
            lines.insert(1, format!(" {}", "─".repeat(width.saturating_sub(1))));
        }
        lines.join("\n") + "\n"
    }

    fn csv(&self) -> String {
        let line = |cells: Vec<&str>| -> String {
            let quoted: Vec<String> = cells.into_iter().map(csv_cell).collect();
            quoted.join(",") + "\n"
        };
        let mut text = line(self.columns.iter().map(|(name, _)| *name).collect());
        for row in &self.rows {
            text += &line(row.iter().map(String::as_str).collect());
        }
        text
    }

    fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(self.columns.iter().map(|(name, _)| (*name).to_owned()).collect());
        text += &line(
            self.columns
                .iter()
                .map(|(_, number)| if *number { "---:" } else { "---" }.to_owned())
                .collect(),
        );
        for row in &self.rows {
            text += &line(row.iter().map(|cell| cell.replace('|', "\\|")).collect());
        }
        text
    }
}

fn csv_cell(cell: &str) -> String {
    if cell.contains([',', '"', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        let mut table = Table::new(&[("a", false), ("b", true)]);
        table.rows.push(vec!["x, \"y\"|".into(), "1".into()]);
        assert_eq!(table.csv(), "a,b\n\"x, \"\"y\"\"|\",1\n");
        assert_eq!(table.markdown(), "| a | b |\n| --- | ---: |\n| x, \"y\"\\| | 1 |\n");
    }
}
