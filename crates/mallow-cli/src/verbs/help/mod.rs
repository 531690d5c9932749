//! `mallow help`: of the command, of a verb, or of a finding by its id.

mod args;

use clap::Command;

use crate::error::{Error, Result};
use crate::findings;
pub use args::HelpArgs;

pub fn main(args: &HelpArgs, mut command: Command) -> Result<u8> {
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
