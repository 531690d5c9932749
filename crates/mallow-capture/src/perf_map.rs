// SPDX-License-Identifier: MIT
//! Files in which runtimes name the code that they made: `/tmp/perf-PID.map`. Anybody may put anything
//! there, for any process.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::modules::open_plain;

/// Where runtimes write them.
pub const FOLDER: &str = "/tmp";
/// A large Java server writes a few MiB.
const MOST_BYTES: u64 = 256 << 20;

pub fn place(folder: &Path, pid: u32) -> PathBuf {
    folder.join(format!("perf-{pid}.map"))
}

/// The text of a plain file, up to a size that no map has.
pub fn read(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    open_plain(path)?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Start, size and name of code: lines of `START SIZE NAME`, both numbers in hexadecimal. A later line
/// replaces an earlier one with the same start: run-time compilers give the place of old code to new.
pub fn parse(text: &str) -> impl Iterator<Item = (u64, u64, &str)> {
    let number = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
    text.lines().filter_map(move |line| {
        let mut words = line.splitn(3, ' ');
        let (start, size) = (number(words.next()?)?, number(words.next()?)?);
        Some((start, size, words.next()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_and_without_a_mark_of_hexadecimal() {
        let text = "1000 20 py::f:/a.py\n0x2000 10 second name\nnonsense\n\n3000 zz no\n4000 1\n1 0 empty\n";
        let lines: Vec<_> = parse(text).collect();
        let wanted =
            [(0x1000, 0x20, "py::f:/a.py"), (0x2000, 0x10, "second name"), (1, 0, "empty")];
        assert_eq!(lines, wanted);
    }

    #[test]
    fn only_plain_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = place(folder.path(), 7);
        assert_eq!(read(&path), None);
        // Whoever opens it to read would wait for a writer.
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(read(&path), None);
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, b"1000 20 f\xff\n").unwrap();
        assert_eq!(read(&path).as_deref(), Some("1000 20 f\u{fffd}\n"));
    }
}
