//! The command line of `mallow disable`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

#[derive(Args, Debug)]
#[command(group(ArgGroup::new("where").required(true).args([
    "global", "unit", "wrappers", "ld_so_preload", "all",
])))]
pub struct DisableArgs {
    /// The script for login shells
    #[arg(long)]
    pub global: bool,

    /// The drop-in of a service of systemd
    #[arg(long, value_name = "UNIT")]
    pub unit: Option<String>,

    /// The service is one of this user's own
    #[arg(long, requires = "unit")]
    pub user: bool,

    /// The wrappers in DIR
    #[arg(long, value_name = "DIR")]
    pub wrappers: Option<PathBuf>,

    /// What was added to /etc/ld.so.preload
    #[arg(long)]
    pub ld_so_preload: bool,

    /// All that mallow status shows
    #[arg(long)]
    pub all: bool,

    /// Print what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Undo it also where somebody changed a file since
    #[arg(long)]
    pub force: bool,

    /// The folder of a system that does not run, such as an image that is being made
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}
