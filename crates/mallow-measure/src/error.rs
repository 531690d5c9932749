// SPDX-License-Identifier: MIT
//! Why a program could not be measured, as sentences with the remedy.

use mallow_os::threads::{NoThread, why_not_started};
use thiserror::Error;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, Error)]
pub enum Error {
    #[error("The command {command} could not be started: {reason}.")]
    NotStarted { command: String, reason: String },

    #[error(
        "The server {server} {reason}. Check --ready against what it prints or where it listens, and \
         that its port is free."
    )]
    NotReady { server: String, reason: String },

    #[error("The expression of --ready cannot be understood: {0}.")]
    BadPattern(String),

    #[error("--ready {0} names no port: that is a number from 1 to 65535, as in 127.0.0.1:80.")]
    BadPort(String),

    #[error("The host {host} of --ready cannot be found: {reason}.")]
    UnknownHost { host: String, reason: String },

    #[error("An expression of --value cannot be used: {0}.")]
    BadValue(String),

    #[error("A service needs a load: give --load CMD, or a command behind --.")]
    NoLoad,

    #[error(
        "Under the defaults the command {how}, so there is nothing to compare with. Run it alone to see \
         why."
    )]
    DefaultsFail { how: String, code: u8 },

    #[error(transparent)]
    NoThread(#[from] NoThread),

    #[error("The command's processes cannot be waited for: {0}")]
    Wait(std::io::Error),
}

impl Error {
    pub(crate) fn not_started(command: &str) -> impl Fn(std::io::Error) -> Error + use<> {
        let command = command.to_owned();
        move |error| Error::NotStarted { command: command.clone(), reason: why_not_started(&error) }
    }
}
