// SPDX-License-Identifier: MIT
//! What the Java machine HotSpot says of its own memory where it was started with
//! `-XX:NativeMemoryTracking`: the text that `jcmd PID VM.native_memory summary scale=B` prints.
//!
//! ```text
//! Total: reserved=1546197087, committed=143521887
//! -                 Java Heap (reserved=67108864, committed=67108864)
//!                             (mmap: reserved=67108864, committed=67108864)
//! ```

use serde::{Deserialize, Serialize};

/// A space as Java calls it; sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Native {
    pub what: String,
    /// Of address space.
    pub reserved: u64,
    /// What may be used of that; the kernel may not have given all of it.
    pub committed: u64,
    /// By malloc, which is part of both.
    pub malloc: u64,
}

/// The total first, then its parts, the largest first. `None`: the text says something else.
pub fn parse(text: &str) -> Option<Vec<Native>> {
    let mut spaces: Vec<Native> = Vec::new();
    for line in text.lines() {
        let line = line.trim_end();
        if let Some(figures) = line.strip_prefix("Total: ") {
            spaces.push(space("all", figures)?);
        } else if let Some(named) = line.strip_prefix('-') {
            let (name, figures) = named.split_once('(')?;
            spaces.push(space(name.trim(), figures)?);
        } else if let Some(last) = spaces.last_mut()
            && last.malloc == 0
        {
            let line = line.trim_start().trim_start_matches('(');
            let count = line.strip_prefix("malloc=").or_else(|| line.strip_prefix("malloc: "));
            last.malloc = count.and_then(number).unwrap_or(0);
        }
    }
    spaces.get_mut(1..)?.sort_by_key(|space| std::cmp::Reverse(space.committed));
    Some(spaces)
}

fn space(what: &str, figures: &str) -> Option<Native> {
    let of = |name: &str| number(figures.split_once(name)?.1);
    let (reserved, committed) = (of("reserved=")?, of("committed=")?);
    Some(Native { what: what.to_owned(), reserved, committed, malloc: 0 })
}

/// The one that a text begins with.
fn number(text: &str) -> Option<u64> {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "4711:\n\nNative Memory Tracking:\n\n\
        Total: reserved=5000, committed=3000\n       malloc: 700 #62\n       mmap:   reserved=4300\n\n\
        -                     Class (reserved=4000, committed=1000)\n\
        \x20                           (classes #2554)\n\
        \x20                           (malloc=300 #4199) (at peak) \n \n\
        -                        GC (reserved=1000, committed=2000)\n";

    #[test]
    fn spaces_are_those_that_java_names() {
        let of = |what: &str, reserved, committed, malloc| Native {
            what: what.into(),
            reserved,
            committed,
            malloc,
        };
        let expected = [of("all", 5000, 3000, 700), of("GC", 1000, 2000, 0)];
        let spaces = parse(TEXT).unwrap();
        assert_eq!(spaces[..2], expected);
        assert_eq!(spaces[2..], [of("Class", 4000, 1000, 300)]);
    }

    #[test]
    fn other_texts_are_none() {
        assert_eq!(parse("4711:\nNative memory tracking is not enabled\n"), None);
        assert_eq!(parse("-  Class (reserved=, committed=3)\n"), None);
        assert_eq!(parse("Total: reserved=99999999999999999999999, committed=1"), None);
    }
}
