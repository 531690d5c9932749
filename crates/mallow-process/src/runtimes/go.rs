//! Go's heap: arenas of 64 MiB at multiples of that, which no other program maps so. Stacks of
//! goroutines lie in it, so a thread's stack pointer says nothing there.

use super::{Found, Kept, space};
use crate::mappings::Kind;
use crate::process::Process;
use crate::smaps::Vma;

const ARENA: u64 = 64 << 20;

pub fn find(process: &Process) -> Found {
    let mut found = Found::default();
    let mut kept = Kept { what: "Go: heap, with stacks of goroutines".into(), ..Kept::default() };
    let may_be = |vma: &Vma| {
        let is_of_go = vma.name.is_empty() || vma.name.starts_with("[anon: Go:");
        vma.is_anonymous() && vma.is_private() && is_of_go
    };
    // What is not in use yet is reserved without access.
    let runs = process
        .vmas
        .chunk_by(|one, next| one.end == next.start && may_be(one) && may_be(next))
        .filter(|run| may_be(&run[0]));
    for run in runs {
        let (start, end) = (run[0].start, run[run.len() - 1].end);
        let is_writable = |vma: &&Vma| vma.is_writable();
        if start.is_multiple_of(ARENA)
            && end.is_multiple_of(ARENA)
            && run.iter().any(|v| is_writable(&v))
        {
            for vma in run.iter().filter(is_writable) {
                kept.size += vma.size();
                found.spaces.push(space((vma.start, vma.end), Kind::RuntimeHeap, &kept.what));
            }
        }
    }
    if kept.size > 0 {
        found.kept.push(kept);
    }
    found
}
