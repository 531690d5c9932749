//! `mallow help`: of the command, of a verb, or of a finding by its id.

mod args;

use clap::Command;

use crate::error::Result;
use crate::findings;
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
        None if topic == "findings" => output::print(&findings::list())?,
        None => output::print(&findings::explain(topic)?)?,
    }
    Ok(0)
}
