// SPDX-License-Identifier: MIT
//! The options that `enable` and `disable` share: the places that both know, and how to go about it.

use std::path::PathBuf;

use clap::Args;

#[derive(Args, Debug)]
pub struct PlaceArgs {
    /// Login shells and what they start, by a script in /etc/profile.d
    #[arg(long)]
    pub global: bool,

    /// One service of systemd, by a drop-in
    #[arg(long, value_name = "UNIT")]
    pub unit: Option<String>,

    /// The service is one of this user's own
    #[arg(long, requires = "unit")]
    pub user: bool,

    /// Wrappers in DIR: jemalloc.sh, mallow.sh …, each of which runs a command under that allocator
    #[arg(long, value_name = "DIR")]
    pub wrappers: Option<PathBuf>,

    /// Every program of the system, by /etc/ld.so.preload; keep a root shell open
    #[arg(long)]
    pub ld_so_preload: bool,
}

#[derive(Args, Debug)]
pub struct ChangeArgs {
    /// Print what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Do it also where somebody changed a file since mallow wrote it
    #[arg(long)]
    pub force: bool,

    /// The folder of a system that does not run, such as an image that is being made
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}
