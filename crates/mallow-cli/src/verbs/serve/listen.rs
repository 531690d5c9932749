// SPDX-License-Identifier: MIT
//! Where to listen, and what is wrong with that.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use super::args::ServeArgs;
use crate::error::{Error, Result};

#[derive(Debug)]
pub enum Listener {
    Tcp(TcpListener),
    /// The path goes with the listener.
    Unix(UnixListener, PathBuf),
}

impl Listener {
    pub fn bind(args: &ServeArgs) -> Result<Listener> {
        if let Some(path) = args.listen.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            return Ok(Listener::Unix(bind_unix(&path)?, path));
        }
        let address: SocketAddr = args.listen.parse().map_err(|_| {
            Error::Usage(format!(
                "{} is no address to listen on. Write it as 127.0.0.1:9095, [::1]:9095 or unix:PATH.",
                args.listen
            ))
        })?;
        if !address.ip().is_loopback() && args.token_file.is_none() && !args.no_token {
            return Err(Error::Usage(format!(
                "Others can reach {address}. Give a token with --token-file FILE, or say --no-token if \
                 everybody may read the metrics."
            )));
        }
        let listener = TcpListener::bind(address).map_err(|error| unbound(&args.listen, error))?;
        listener.set_nonblocking(true).map_err(|error| unbound(&args.listen, error))?;
        Ok(Listener::Tcp(listener))
    }

    /// As one would write it to reach it.
    pub fn name(&self, has_tls: bool) -> String {
        let scheme = if has_tls { "https" } else { "http" };
        match self {
            Listener::Tcp(listener) => match listener.local_addr() {
                Ok(address) => format!("{scheme}://{address}"),
                Err(_) => "an address".into(),
            },
            Listener::Unix(_, path) => format!("unix:{}", path.display()),
        }
    }
}

fn bind_unix(path: &Path) -> Result<UnixListener> {
    // What a server left behind that was killed.
    let is_socket = path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket());
    if is_socket
        && UnixStream::connect(path).is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused)
    {
        let _ = std::fs::remove_file(path);
    }
    let name = path.display().to_string();
    let listener = UnixListener::bind(path).map_err(|error| unbound(&name, error))?;
    let own = std::fs::set_permissions(path, PermissionsExt::from_mode(0o600));
    own.and_then(|()| listener.set_nonblocking(true)).map_err(|error| unbound(&name, error))?;
    Ok(listener)
}

fn unbound(place: &str, error: std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::AddrInUse => Error::Usage(format!(
            "{place} is in use. Choose another with --listen, or see who has it: ss -lp."
        )),
        ErrorKind::AddrNotAvailable => Error::Usage(format!(
            "{place} is no address of this machine. See them with: ip address."
        )),
        ErrorKind::PermissionDenied => Error::Permission(format!(
            "This user may not listen on {place}. Choose another place with --listen, such as a port \
             above 1023."
        )),
        ErrorKind::InvalidInput => {
            Error::Usage(format!("{place} cannot be a socket: its path is too long, or empty."))
        }
        _ => Error::Io { what: format!("It is not possible to listen on {place}"), source: error },
    }
}
