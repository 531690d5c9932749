// SPDX-License-Identifier: MIT
//! `mallow man`: the manual, a page for the command and one for each verb.

mod args;
mod reference;

use std::io::Write;

use clap::Command;
use clap_mangen::Man;

use crate::error::{Error, Result};
use crate::guide;
use crate::output;
pub use args::ManArgs;

pub fn main(args: &ManArgs, mut command: Command) -> Result<u8> {
    // Gives each verb what all share, and the name that it has on the command line.
    command.build();
    if args.markdown {
        output::put(args.file.as_deref(), &reference::page(&command))?;
        return Ok(0);
    }
    if let Some(folder) = &args.all {
        std::fs::create_dir_all(folder)
            .map_err(Error::io(format!("{} cannot be made", folder.display())))?;
        output::write_file(&folder.join("mallow.1"), &whole_page(&command)?)?;
        for verb in command.get_subcommands() {
            let file = folder.join(format!("mallow-{}.1", verb.get_name()));
            output::write_file(&file, &verb_page(verb)?)?;
        }
        return Ok(0);
    }
    let page = match &args.verb {
        None => whole_page(&command)?,
        Some(name) => match command.find_subcommand(name) {
            Some(verb) => verb_page(verb)?,
            None => {
                return Err(Error::Usage(format!("There is no verb {name}. See mallow --help.")));
            }
        },
    };
    output::put(args.file.as_deref(), &page)?;
    Ok(0)
}

/// The sections that both kinds of pages have first.
fn beginning(command: &Command, page: &mut Vec<u8>) -> std::io::Result<Man> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let man = Man::new(command.clone().display_name(&name))
        .title(name.to_uppercase())
        .source(format!("mallow {}", env!("CARGO_PKG_VERSION")))
        .manual("Mallow");
    man.render_title(page)?;
    man.render_name_section(page)?;
    write!(page, ".SH SYNOPSIS\n{}", synopsis(command))?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    Ok(man)
}

/// As the help has it: the page's own writer leaves out the `--` before a command, and that it has words.
fn synopsis(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    let lines = usage.trim_start_matches("Usage:").lines().map(str::trim);
    let lines: Vec<String> = lines.map(|line| line.replace('-', "\\-")).collect();
    lines.join("\n.br\n") + "\n"
}

fn whole_page(command: &Command) -> Result<String> {
    let mut page = Vec::new();
    let text = "Settings come from \\fI/etc/mallow/config.toml\\fR, \
        \\fI~/.config/mallow/config.toml\\fR (below $XDG_CONFIG_HOME where that is set), \
        \\fI./mallow.toml\\fR, variables such as $MALLOW_COMPARE_RUNS, and flags; what comes later \
        wins. A file has lines such as\n.PP\n.nf\n.RS\n[compare]\nruns = 20\n.RE\n.fi\n.PP\n\
        \\fBmallow config\\fR shows what holds. $NO_COLOR turns colours off.\n";
    let rendered = beginning(command, &mut page).and_then(|man| {
        man.render_subcommands_section(&mut page)?;
        write!(page, ".SH CONFIGURATION\n{text}")?;
        let codes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let codes = codes.trim_start_matches("Exit codes: ").replace("; ", "\n.br\n");
        writeln!(page, ".SH \"EXIT STATUS\"\n{codes}")
    });
    finished(page, rendered)
}

fn verb_page(verb: &Command) -> Result<String> {
    let mut page = Vec::new();
    let rendered = beginning(verb, &mut page).and_then(|_| {
        writeln!(page, ".SH EXAMPLES\n.nf")?;
        for example in guide::examples(verb.get_name()) {
            writeln!(page, "{}", example.replace('-', "\\-"))?;
        }
        writeln!(page, ".fi\n.SH \"SEE ALSO\"\n\\fBmallow\\fR(1)")?;
        match guide::next(verb.get_name()) {
            Some((next, sentence)) => {
                writeln!(page, ", \\fBmallow\\-{next}\\fR(1)\n.PP\n{sentence}")
            }
            None => Ok(()),
        }
    });
    finished(page, rendered)
}

fn finished(page: Vec<u8>, rendered: std::io::Result<()>) -> Result<String> {
    let internal = |text: String| Error::Internal(text);
    rendered.map_err(|error| internal(error.to_string()))?;
    String::from_utf8(page).map_err(|error| internal(error.to_string()))
}
