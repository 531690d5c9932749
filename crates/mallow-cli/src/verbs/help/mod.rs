// SPDX-License-Identifier: MIT
//! `mallow help`: of the command, of a verb, or of a finding by its id.

mod args;
mod report;

use clap::Command;
use mallow_advice::findings::{CATALOGUE, Entry};

use crate::error::{Error, Result};
use crate::output::{self, Format, Screen};
pub use args::HelpArgs;
use report::Report;

/// Longer lines are hard to read.
const WIDEST: usize = 80;

pub fn main(args: &HelpArgs, mut command: Command) -> Result<u8> {
    args.output.check()?;
    // Gives each verb the name that it has on the command line.
    command.build();
    let topic = args.topic.as_deref();
    let Some(report) = Report::on(topic, &command) else {
        let topic = topic.unwrap_or_default();
        return Err(Error::Usage(format!(
            "There is no finding and no verb called {topic}. Verbs: mallow --help; findings: \
             mallow help findings."
        )));
    };
    // What clap prints on a terminal has its colours.
    let of_clap = match topic {
        None => Some(&mut command),
        Some(name) => command.find_subcommand_mut(name),
    };
    if let (Some(command), Format::Table) = (of_clap, args.output.chosen_format()) {
        match &args.output.to.file {
            Some(file) => output::write_file(file, &command.render_long_help().to_string())?,
            None => output::printed(command.print_long_help())?,
        }
        args.output.write_page(|| Ok(report.page()))?;
        return Ok(0);
    }
    args.output.write(
        &report,
        || report.page(),
        |format, screen| match (format, report.findings.as_slice()) {
            (Format::Csv | Format::Md, _) => report.table().render(format, screen),
            (_, [entry]) => explain(entry, screen),
            _ => list(screen),
        },
    )?;
    Ok(0)
}

/// All findings, a line each.
fn list(screen: Screen) -> String {
    let mut text = String::from("What mallow explain, advise and guard may find:\n\n");
    for entry in &CATALOGUE {
        text += &format!("{}  {}\n", entry.id, entry.title);
    }
    screen.fill(&(text + "\nmallow help ID explains one.\n"))
}

fn explain(entry: &Entry, screen: Screen) -> String {
    let width = screen.width.map_or(WIDEST, |width| width.min(WIDEST));
    let screen = Screen { width: Some(width), ..screen };
    screen.fill(&format!("{}: {}\n\n{}\n", entry.id, entry.title, entry.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finding_is_listed_and_fits_a_terminal() {
        let fits = |text: &str, width| text.lines().all(|line| line.chars().count() <= width);
        for entry in &CATALOGUE {
            let text = explain(entry, Screen::PLAIN);
            assert!(text.contains(entry.title) && fits(&text, WIDEST), "{text}");
            let narrow = explain(entry, Screen { unicode: false, width: Some(50) });
            assert!(fits(&narrow, 50), "{narrow}");
        }
        assert_eq!(list(Screen::PLAIN).lines().count(), CATALOGUE.len() + 4);
        assert!(fits(&list(Screen { unicode: false, width: Some(30) }), 30));
    }
}
