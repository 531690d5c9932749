// SPDX-License-Identifier: MIT
//! The token that who asks has to send. Its file is read again when it is another.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use hyper::header::{self, HeaderMap, HeaderValue};

use super::args::ServeArgs;
use super::tls::{Stamp, stamp};
use crate::error::{Error, Result};
use crate::output::Notes;

pub struct Token {
    file: PathBuf,
    notes: Notes,
    current: Mutex<Current>,
}

struct Current {
    /// Of the file as it was last tried.
    stamp: Stamp,
    /// Of the last file that held one.
    token: String,
}

impl Token {
    /// None if everybody is answered.
    pub fn of(args: &ServeArgs, notes: Notes) -> Result<Option<Token>> {
        let Some(file) = &args.token_file else { return Ok(None) };
        let current = Mutex::new(Current { stamp: stamp(file), token: read(file)? });
        Ok(Some(Token { file: file.clone(), notes, current }))
    }

    /// The time that it takes does not tell how much of a token is right.
    pub fn is_in(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
        // The word for the scheme may be written in any case (RFC 9110, section 11.1).
        let given = given
            .and_then(|value| value.split_at_checked(b"Bearer ".len()))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"Bearer "))
            .map_or(&[][..], |(_, token)| token);
        let token = self.current();
        let differ = given.iter().zip(token.as_bytes()).fold(0, |all, (a, b)| all | (a ^ b));
        given.len() == token.len() && std::hint::black_box(differ) == 0
    }

    /// A file that holds none, as while it is written, is told of once, and the old token holds.
    fn current(&self) -> String {
        let stamp = stamp(&self.file);
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.stamp != stamp {
            current.stamp = stamp;
            match read(&self.file) {
                Ok(token) => current.token = token,
                Err(error) => self.notes.note(&format!("{error} The old token stays in use.")),
            }
        }
        current.token.clone()
    }
}

fn read(file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(file)
        .map_err(Error::io(format!("The token cannot be read from {}", file.display())))?;
    match text.lines().next().map(str::trim) {
        Some(token) if token.len() >= 16 => Ok(token.to_owned()),
        _ => Err(Error::Usage(format!(
            "{} holds no token: its first line needs at least 16 characters. Make one with: openssl \
             rand -hex 32.",
            file.display()
        ))),
    }
}
