// SPDX-License-Identifier: MIT
//! Whether a thread lives, by /proc: threads of the command do nothing at their end that could be seen.

use std::io::ErrorKind;
use std::path::Path;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// Or dead and not yet buried.
    Gone,
    Named(String),
    /// /proc does not say, as where no file can be opened any more: its memory may be written to still.
    Unknown,
}

pub fn thread_name(pid: u32, tid: u32) -> Look {
    look_at(Path::new(&format!("/proc/{pid}/task/{tid}/stat")))
}

pub fn is_gone(pid: u32) -> bool {
    thread_name(pid, pid) == Look::Gone
}

fn look_at(path: &Path) -> Look {
    match std::fs::read(path) {
        Ok(stat) => parse(&stat).unwrap_or(Look::Unknown),
        Err(error) if error.kind() == ErrorKind::NotFound => Look::Gone,
        Err(error) if error.raw_os_error() == Some(nix::errno::Errno::ESRCH as i32) => Look::Gone,
        Err(_) => Look::Unknown,
    }
}

fn parse(stat: &[u8]) -> Option<Look> {
    let open = stat.iter().position(|&byte| byte == b'(')?;
    let close = stat.iter().rposition(|&byte| byte == b')')?;
    let name = stat.get(open + 1..close)?;
    Some(match stat.get(close + 2)? {
        b'Z' | b'X' | b'x' => Look::Gone,
        _ => Look::Named(String::from_utf8_lossy(name).into_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_not_gone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("stat");
        assert_eq!(look_at(&file), Look::Gone);
        // As root may read all, an error of another kind.
        assert_eq!(look_at(folder.path()), Look::Unknown);
        for (text, look) in [
            ("7 (a (b) c) R 1", Look::Named("a (b) c".into())),
            ("7 (a) Z 1", Look::Gone),
            ("", Look::Unknown),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(look_at(&file), look, "{text}");
        }
    }
}
