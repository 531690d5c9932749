// SPDX-License-Identifier: MIT
//! A system in which allocators are turned on: what was changed in it (`record`), by files that are written
//! whole (`files`), and what others did (`elsewhere`); `wildcards` are those of systemd.
//!
//! Every file is written whole or not at all. The record is written first and holds what the file
//! was before, so that whatever is interrupted can be undone.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod elsewhere;
mod error;
mod files;
mod record;
mod time;
pub mod wildcards;

use std::path::{Path, PathBuf};

use nix::unistd::geteuid;
use serde::{Deserialize, Serialize, Serializer};

use mallow_launch::installed::{resolved, within};

pub use error::{Error, Result};
pub use record::{Entry, Outcome, Record, State, Wanted};
pub use time::{Stamp, now};

/// The script for login shells. Those of Mallow's `-global` packages do nothing while it is there.
pub const SCRIPT: &str = "/etc/profile.d/mallow.sh";

/// What `mallow enable` writes says so in its first line, a wrapper in its second.
const HEADER: &str = "# Written by mallow enable";

fn is_of_mallow(text: &str) -> bool {
    text.lines().take(2).any(|line| line.starts_with(HEADER))
}

/// Where an allocator is enabled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Place {
    Global,
    LdSoPreload,
    /// /etc/environment, which PAM reads for logins, cron and sudo. Only others write it.
    Environment,
    Unit {
        unit: String,
    },
    UserUnit {
        unit: String,
    },
    Wrapper {
        folder: PathBuf,
    },
}

impl Place {
    /// As in "enabled for login shells".
    pub fn describe(&self) -> String {
        match self {
            Place::Global => "login shells".into(),
            Place::LdSoPreload => "every program".into(),
            Place::Environment => "logins by PAM".into(),
            Place::Unit { unit } => format!("unit {unit}"),
            Place::UserUnit { unit } => format!("user unit {unit}"),
            Place::Wrapper { .. } => "a wrapper".into(),
        }
    }

    /// What makes systemd take a change, for units.
    pub fn restart(&self) -> Option<String> {
        let (unit, user) = match self {
            Place::Unit { unit } => (unit, ""),
            Place::UserUnit { unit } => (unit, " --user"),
            _ => return None,
        };
        Some(format!("systemctl{user} daemon-reload && systemctl{user} restart {unit}"))
    }
}

/// As reports have it.
pub fn described<S: Serializer>(
    place: &Place,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(&place.describe())
}

/// The running system, or a folder that is to become one.
#[derive(Clone, Debug)]
pub struct System {
    pub root: PathBuf,
}

impl System {
    pub fn new(root: Option<&Path>) -> Result<System> {
        let Some(root) = root else { return Ok(System { root: "/".into() }) };
        let root = root.canonicalize().ok().filter(|root| root.is_dir()).ok_or_else(|| {
            Error::Usage(format!("There is no folder {}. Give one to --root.", root.display()))
        })?;
        Ok(System { root })
    }

    pub fn is_running(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The same of one that is only read: its links lead through this system.
    pub fn resolved(&self, path: &Path) -> PathBuf {
        resolved(&self.root, path)
    }

    /// The place of a path of this system, seen from here.
    pub fn at(&self, path: &Path) -> PathBuf {
        within(&self.root, path)
    }

    /// The record of what only this user sees changed is the user's own.
    pub fn record_for(&self, place: &Place) -> Result<PathBuf> {
        let is_own = match place {
            Place::UserUnit { .. } => true,
            Place::Wrapper { .. } => !geteuid().is_root(),
            _ => false,
        };
        if is_own { self.own_record() } else { Ok(self.system_record()) }
    }

    /// All that there may be, for this user.
    pub fn records(&self) -> Vec<PathBuf> {
        std::iter::once(self.system_record()).chain(self.own_record().ok()).collect()
    }

    fn system_record(&self) -> PathBuf {
        self.at(Path::new("/var/lib/mallow/enabled.json"))
    }

    fn own_record(&self) -> Result<PathBuf> {
        let folder = home_folder("XDG_STATE_HOME", ".local/state")?;
        Ok(self.at(&folder.join("mallow/enabled.json")))
    }

    /// Where units are changed and looked for.
    pub fn user_config(&self) -> Result<PathBuf> {
        home_folder("XDG_CONFIG_HOME", ".config")
    }
}

fn home_folder(variable: &str, below_home: &str) -> Result<PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(variable).or_else(|| Some(absolute("HOME")?.join(below_home))).ok_or_else(|| {
        Error::Usage("HOME is not set, so there is no place for a user's own files. Set it.".into())
    })
}
