//! `mallow help`: of the command, of a verb, or of a finding by its id.

use clap::CommandFactory;

use crate::cli::{Cli, HelpArgs};
use crate::error::{Error, Result};
use crate::findings;

pub fn main(args: &HelpArgs) -> Result<u8> {
    let mut command = Cli::command();
    let Some(topic) = &args.topic else {
        command.print_long_help().map_err(Error::io("The help cannot be written"))?;
        return Ok(0);
    };
    // Gives the verb the name that it has on the command line.
    command.build();
    if let Some(verb) = command.find_subcommand_mut(topic) {
        verb.print_long_help().map_err(Error::io("The help cannot be written"))?;
        return Ok(0);
    }
    print!("{}", findings::explain(topic)?);
    Ok(0)
}
