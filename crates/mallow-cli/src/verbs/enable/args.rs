//! The command line of `mallow enable`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args};

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

    /// For login shells and what they start, by a script in /etc/profile.d
    #[arg(long)]
    pub global: bool,

    /// For one service of systemd, by a drop-in
    #[arg(long, value_name = "UNIT")]
    pub unit: Option<String>,

    /// The service is one of this user's own
    #[arg(long, requires = "unit")]
    pub user: bool,

    /// Write jemalloc.sh, mallow.sh … into DIR, each of which runs a command under that allocator
    #[arg(long, value_name = "DIR")]
    pub wrappers: Option<PathBuf>,

    /// For every program of the system, by /etc/ld.so.preload; keep a root shell open
    #[arg(long)]
    pub ld_so_preload: bool,

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

    /// First compare the allocator with the C library's own on the command behind --, and enable it
    /// only if the runs prove it better
    #[arg(long, requires = "command", conflicts_with_all = [
        "wrappers", "root", "docker", "compose", "kubernetes", "procfile", "supervisor",
    ])]
    pub if_better: bool,

    /// With --if-better: exactly this many runs of each [default: 10, and more until it is clear]
    #[arg(long, value_name = "N", requires = "if_better",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub runs: Option<u32>,

    /// Print what would be written, and write nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Write over a file that somebody changed since mallow wrote it
    #[arg(long)]
    pub force: bool,

    /// The folder of a system that does not run, such as an image that is being made
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,

    /// With --if-better: the command to compare on, and its arguments
    #[arg(last = true, requires = "if_better", value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
