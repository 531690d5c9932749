// SPDX-License-Identifier: MIT
//! `mallow help`: of the command, of a verb, or of a finding by its id.

mod args;

use clap::Command;
use mallow_advice::findings;

use crate::error::{Error, Result};
use crate::output;
pub use args::HelpArgs;

pub fn main(args: &HelpArgs, mut command: Command) -> Result<u8> {
    let Some(topic) = &args.topic else {
        output::printed(command.print_long_help())?;
        return Ok(0);
    };
    // Gives the verb the name that it has on the command line.
    command.build();
    match command.find_subcommand_mut(topic) {
        Some(verb) => output::printed(verb.print_long_help())?,
        None if topic == "findings" => output::print(&list())?,
        None => output::print(&explain(topic)?)?,
    }
    Ok(0)
}

/// All findings, a line each.
fn list() -> String {
    let mut text = String::from("What mallow explain, advise and guard may find:\n\n");
    for entry in &findings::CATALOGUE {
        text += &format!("{}  {}\n", entry.id, entry.title);
    }
    text + "\nmallow help ID explains one.\n"
}

fn explain(id: &str) -> Result<String> {
    match findings::find(id) {
        Some(entry) => {
            Ok(format!("{}: {}\n\n{}\n", entry.id, entry.title, textwrap::fill(entry.text, 80)))
        }
        None => Err(Error::Usage(format!(
            "There is no finding and no verb called {id}. Verbs: mallow --help; findings: \
             mallow help findings."
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finding_is_listed_and_fits_a_terminal() {
        for entry in &findings::CATALOGUE {
            let text = explain(entry.id).unwrap();
            assert!(text.contains(entry.title) && text.lines().all(|line| line.len() <= 80));
        }
        assert_eq!(list().lines().count(), findings::CATALOGUE.len() + 4);
        assert!(explain("MLW9999").is_err());
    }
}
