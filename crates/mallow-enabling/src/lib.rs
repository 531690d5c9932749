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

use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

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

/// Absolute, and without `..`, each of which takes the folder before it away, as `cd` has it: the record of a system that
/// is an image by then names no file otherwise.
pub fn absolute(path: &Path) -> std::io::Result<PathBuf> {
    let mut absolute = PathBuf::new();
    for part in std::path::absolute(path)?.components() {
        if part == Component::ParentDir {
            absolute.pop();
        } else {
            absolute.push(part);
        }
    }
    Ok(absolute)
}

/// Behind a folder that is not there, or not yet, nobody can tell where it leads.
fn has_way_up(path: &Path) -> bool {
    path.components().any(|part| part == Component::ParentDir)
}

/// Whether nobody but root can have put the file there: all that is there of the way to it is of whom `/` is. In a
/// namespace of users that may be nobody.
fn is_of_root(file: &Path) -> bool {
    let owner = |at: &Path| at.metadata().ok().map(|found| found.uid());
    let root = owner(Path::new("/"));
    file.ancestors().filter_map(owner).all(|uid| uid == 0 || Some(uid) == root)
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

    /// The other way round: a path that is seen from here, as this system sees it.
    pub fn seen(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.root)
            .map_or_else(|_| path.to_owned(), |below| Path::new("/").join(below))
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

    /// Where sudo keeps HOME the own record is another user's, who may have written anything there: root changes nothing
    /// that it names. That of an image names what lies in there, whoever wrote it.
    pub fn check_records(&self) -> Result<()> {
        let own = self.own_record().ok().filter(|file| file.exists());
        let is_roots =
            |file: &PathBuf| self.is_running() && geteuid().is_root() && !is_of_root(file);
        own.filter(is_roots).map_or(Ok(()), |file| {
            Err(Error::Permission(format!(
                "{} is the record of another user, which root does not follow. Undo what it names as that \
                 user, without sudo, and what root has enabled with the HOME of root (sudo -H).",
                file.display()
            )))
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absolute_path_has_no_way_up() {
        let here = std::env::current_dir().unwrap();
        let above = here.parent().unwrap_or(Path::new("/"));
        for (path, expected) in [
            ("/opt/none/../bin/", Path::new("/opt/bin")),
            ("/../../opt/./bin", Path::new("/opt/bin")),
            ("..", above),
            ("bin", &*here.join("bin")),
        ] {
            assert_eq!(absolute(Path::new(path)).unwrap(), expected, "{path}");
        }
    }
}
