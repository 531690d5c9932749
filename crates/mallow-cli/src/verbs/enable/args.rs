//! The command line of `mallow enable`.

use clap::{ArgGroup, Args};

use crate::enabling::args::{ChangeArgs, PlaceArgs};

#[derive(Args, Debug)]
#[command(group(ArgGroup::new("where").required(true).args([
    "global", "unit", "wrappers", "ld_so_preload",
    "docker", "compose", "kubernetes", "procfile", "supervisor",
])))]
pub struct EnableArgs {
    /// The allocator: a name from `mallow list`, NAME=/path/lib.so, or a path; for wrappers also a
    /// list of them, or all that are installed
    #[arg(short, long = "allocator", value_name = "NAME", value_delimiter = ',')]
    pub allocators: Vec<String>,

    #[command(flatten)]
    pub place: PlaceArgs,

    /// Print the lines for a Dockerfile
    #[arg(long)]
    pub docker: bool,

    /// Print the lines for a compose file
    #[arg(long)]
    pub compose: bool,

    /// Print a patch for a deployment
    #[arg(long)]
    pub kubernetes: bool,

    /// Print the line for a Procfile
    #[arg(long)]
    pub procfile: bool,

    /// Print the lines for supervisord
    #[arg(long)]
    pub supervisor: bool,

    #[command(flatten)]
    pub change: ChangeArgs,
}
