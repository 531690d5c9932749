// SPDX-License-Identifier: MIT
//! Why a process cannot be looked at.

use std::io::ErrorKind;

use nix::errno::Errno;

#[derive(Debug)]
pub enum Failure {
    Vanished,
    NoPermission,
    Damaged(String),
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        match error.kind() {
            ErrorKind::NotFound => Failure::Vanished,
            ErrorKind::PermissionDenied => Failure::NoPermission,
            // ESRCH has no kind of its own.
            _ if error.raw_os_error() == Some(Errno::ESRCH as i32) => Failure::Vanished,
            // A number that no process can have, or that a thread has.
            _ if error.raw_os_error() == Some(Errno::EINVAL as i32) => Failure::Vanished,
            _ => Failure::Damaged(error.to_string()),
        }
    }
}
