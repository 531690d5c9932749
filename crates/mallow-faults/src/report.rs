// SPDX-License-Identifier: MIT
//! Fault reports of Mallow: lines of words, see docs/fault-report.md.

use crate::Kind;

/// Calls, innermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// 0: not known.
    pub thread: u32,
    /// Return addresses.
    pub frames: Vec<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    pub address: u64,
    /// As the program asked for it.
    pub size: u64,
}

/// A piece of the program's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    pub address: u64,
    pub bytes: Vec<u8>,
}

/// Blocks of one place of allocation to which nothing points.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leak {
    pub bytes: u64,
    pub count: u64,
    /// Nothing at all points to them, not even blocks that leaked.
    pub is_direct: bool,
    pub frames: Vec<u64>,
    /// Blocks of these, by their index among the leaks.
    pub points_to: Vec<usize>,
}

/// Code of a file in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    pub start: u64,
    pub end: u64,
    pub offset: u64,
    pub build_id: Vec<u8>,
    pub path: String,
}

/// One report; what is not known is `None` or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    pub kind: Kind,
    pub call: Option<String>,
    pub sentence: String,
    pub pid: Option<u32>,
    pub thread: Option<u32>,
    pub program: Option<String>,
    pub pointer: Option<u64>,
    /// "read" or "write".
    pub access: Option<String>,
    pub pc: Option<u64>,
    pub block: Option<Block>,
    /// "live" or "freed".
    pub state: Option<String>,
    /// "malloc", "new", "new[]", "aligned".
    pub made: Option<String>,
    /// Where the damage begins, from the start of the block.
    pub offset: Option<i64>,
    /// So many bytes are damaged.
    pub length: Option<u64>,
    pub now: Option<Stack>,
    pub allocated: Option<Stack>,
    pub freed: Option<Stack>,
    pub bytes: Vec<Bytes>,
    pub leaks: Vec<Leak>,
    pub maps: Vec<Map>,
    /// Whether the report has its last line.
    pub is_whole: bool,
}

/// All reports of a text. A line that is not understood is passed over, so that a report which was
/// cut off, or comes from a later version, yields what it holds.
pub fn read(text: &[u8]) -> Vec<Fault> {
    let text = String::from_utf8_lossy(text);
    let mut faults: Vec<Fault> = Vec::new();
    let mut is_open = false;
    for line in text.split('\n') {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "mallow-fault" => {
                faults.push(Fault::default());
                is_open = true;
            }
            "end" if is_open => {
                faults.last_mut().into_iter().for_each(|fault| fault.is_whole = true);
                is_open = false;
            }
            _ if is_open => {
                // What is damaged is left out.
                let _ = faults.last_mut().and_then(|fault| fault.add(word, rest));
            }
            _ => {}
        }
    }
    faults
}

impl Fault {
    fn add(&mut self, word: &str, rest: &str) -> Option<()> {
        let text = || Some(rest.to_owned());
        let mut words = rest.split(' ');
        match word {
            "kind" => self.kind = Kind::of_word(rest),
            "call" => self.call = text(),
            "sentence" => self.sentence = rest.into(),
            "pid" => self.pid = Some(rest.parse().ok()?),
            "tid" => self.thread = Some(rest.parse().ok()?),
            "program" => self.program = Some(path(rest)),
            "pointer" => self.pointer = Some(address(rest)?),
            "access" => self.access = text(),
            "pc" => self.pc = Some(address(rest)?),
            "block" => {
                let address = address(words.next()?)?;
                self.block = Some(Block { address, size: words.next()?.parse().ok()? });
            }
            "state" => self.state = text(),
            "made" => self.made = text(),
            "offset" => self.offset = Some(rest.parse().ok()?),
            "length" => self.length = Some(rest.parse().ok()?),
            "stack" => match words.next()? {
                "now" => self.now = Some(Stack { thread: 0, frames: addresses(words) }),
                "allocated" => self.allocated = stack(words),
                "freed" => self.freed = stack(words),
                _ => {}
            },
            "bytes" => {
                let address = address(words.next()?)?;
                self.bytes.push(Bytes { address, bytes: hexadecimal(words.next()?)? });
            }
            "leak" => self.leaks.push(leak(words)?),
            "points" => {
                let mut number = || words.next()?.parse::<usize>().ok()?.checked_sub(1);
                let (from, to) = (number()?, number()?);
                self.leaks.get(to)?;
                self.leaks.get_mut(from)?.points_to.push(to);
            }
            "map" => self.maps.push(map(rest)?),
            _ => {}
        }
        Some(())
    }
}

fn address(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

fn addresses<'a>(words: impl Iterator<Item = &'a str>) -> Vec<u64> {
    words.map_while(address).collect()
}

fn stack<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Stack> {
    let thread = words.next()?.parse().ok()?;
    Some(Stack { thread, frames: addresses(words) })
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

fn leak<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Leak> {
    let (bytes, count) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let is_direct = words.next()? == "direct";
    let _stack = words.next()?;
    Some(Leak { bytes, count, is_direct, frames: addresses(words), points_to: Vec::new() })
}

/// Its line feeds are written as the kernel writes them.
fn path(written: &str) -> String {
    written.replace("\\012", "\n")
}

/// As in `START-END OFFSET ID PATH`; the path may hold blanks.
fn map(rest: &str) -> Option<Map> {
    let mut words = rest.splitn(4, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let number = |word: &str| u64::from_str_radix(word, 16).ok();
    let (start, end, offset) = (number(start)?, number(end)?, number(words.next()?)?);
    let id = words.next()?;
    let build_id = if id == "-" { Vec::new() } else { hexadecimal(id)? };
    Some(Map { start, end, offset, build_id, path: path(words.next()?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
noise
mallow-fault 1
kind overflow
call free
sentence write behind the block
pid 7
tid 8
block 0x1000 13
offset 13
length 2
later words of a new version
stack now 0x10 0x20
stack allocated 8 0x30 0x40
stack freed 9
bytes 0xff0 00ff10
map 1000-2000 a0 2c588d /tmp/a program
leak 32 1 direct stack 0x60
leak 64 2 indirect stack 0x50
points 1 2
points 2 3
points 0 1
points 3 1
end
mallow-fault 1
kind from-the-future
map 1000
pointer 0xzz
block 0x10";

    #[test]
    fn a_report_is_read_line_by_line() {
        let faults = read(TEXT.as_bytes());
        assert_eq!(faults.len(), 2);
        let first = &faults[0];
        assert_eq!((first.kind, first.pid, first.thread), (Kind::Overflow, Some(7), Some(8)));
        assert_eq!(first.block, Some(Block { address: 0x1000, size: 13 }));
        assert_eq!((first.offset, first.length), (Some(13), Some(2)));
        assert_eq!(first.now.as_ref().unwrap().frames, [0x10, 0x20]);
        assert_eq!(first.allocated, Some(Stack { thread: 8, frames: vec![0x30, 0x40] }));
        assert_eq!(first.freed, Some(Stack { thread: 9, frames: vec![] }));
        assert_eq!(first.bytes, [Bytes { address: 0xff0, bytes: vec![0, 255, 16] }]);
        assert_eq!(first.maps[0].path, "/tmp/a program");
        assert_eq!(first.maps[0].build_id, [0x2c, 0x58, 0x8d]);
        assert_eq!((first.leaks[0].bytes, first.leaks[0].is_direct), (32, true));
        assert_eq!((first.leaks[1].bytes, first.leaks[1].is_direct), (64, false));
        assert_eq!((&first.leaks[0].points_to, &first.leaks[1].points_to), (&vec![1], &vec![]));
        assert!(first.is_whole);
    }

    #[test]
    fn a_path_has_its_line_feeds_again() {
        let faults =
            read(b"mallow-fault 1\nprogram /a\\012b\r\nmap 1000-2000 0 - /c\\012 d\nend\n");
        assert_eq!(faults[0].program.as_deref(), Some("/a\nb\r"));
        assert_eq!(faults[0].maps[0].path, "/c\n d");
    }

    #[test]
    fn a_report_that_was_cut_off_yields_what_it_holds() {
        let faults = read(TEXT.as_bytes());
        assert_eq!(faults[1], Fault { kind: Kind::Misuse, ..Fault::default() });
        for cut in 0..TEXT.len() {
            assert!(read(&TEXT.as_bytes()[..cut]).len() <= 2);
        }
    }

    #[test]
    fn every_kind_has_its_word() {
        assert!(Kind::all().all(|kind| Kind::of_word(kind.word()) == kind));
    }
}
