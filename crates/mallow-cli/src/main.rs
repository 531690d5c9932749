// SPDX-License-Identifier: MIT
//! The `mallow` command. `cli` is the table of contents.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(mallow_cli::main())
}
