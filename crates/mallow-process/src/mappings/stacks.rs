// SPDX-License-Identifier: MIT
//! The stacks of threads other than the first.
//!
//! ```text
//!     | guard, without access | stack |                   a mapping each
//!     | guard | stack | guard | stack | ...               one mapping
//! ```
//!
//! The second is so since glibc 2.42 where Linux is 6.13 or later: guards are marks of the kernel, and
//! stacks that lie beside each other are joined.

use super::{Context, GUARD_MAX, Kind, is_plain};
use crate::page_size;
use crate::process::{Process, Thread};
use crate::smaps::Vma;

/// What glibc 2.39 and later call a stack where they are asked to (`glibc.mem.decorate_maps`).
const NAMES: [&str; 3] = [
    "[anon: glibc: pthread stack",
    "[anon: glibc: pthread user stack",
    "[anon: glibc: unused stack",
];

pub fn is_named(vma: &Vma) -> bool {
    NAMES.iter().any(|name| vma.name.starts_with(name))
}

/// Marks of the kernel within a mapping that begins with one.
pub fn guards_in(context: &Context, vma: &Vma) -> Vec<(u64, u64)> {
    let Some(memory) = context.memory.filter(|_| is_plain(vma)) else { return Vec::new() };
    let first = memory.guards(vma.start, vma.end.min(vma.start.saturating_add(page_size())));
    if first.is_none_or(|guards| guards.is_empty()) {
        return Vec::new();
    }
    memory.guards(vma.start, vma.end).unwrap_or_default()
}

/// `guards` in the order of their addresses. Of a part of a mapping; the whole of it is told by its size and its guard too.
pub fn by_stack(
    process: &Process,
    index: usize,
    part: &Vma,
    guards: &[(u64, u64)],
) -> Option<(Kind, String)> {
    // Go without C gives its threads stacks of its own heap.
    let is_pure_go = process.is_go && !process.has_library("libc.");
    if !is_plain(part) || part.is_executable() || is_pure_go {
        return None;
    }
    if guards.binary_search(&(part.start, part.end)).is_ok() {
        return Some((Kind::Guard, "guard".into()));
    }
    let inside =
        |thread: &&Thread| thread.stack_pointer.is_some_and(|pointer| part.contains(pointer));
    let mut owners = process.threads.iter().filter(inside);
    if let Some(thread) = owners.next() {
        let more = owners.count();
        let others = if more > 0 { format!(" and {more} more") } else { String::new() };
        return Some((Kind::ThreadStack, format!("thread {} {}{others}", thread.id, thread.name)));
    }
    // Of a thread that runs just now, or has ended.
    let is_stack = is_named(part)
        || guard_before(process, index, part, guards)
            .is_some_and(|guard| is_usual(process, part.size(), guard));
    (is_stack && process.thread_count() > 1)
        .then(|| (Kind::ThreadStack, "stack of a running or ended thread".into()))
}

/// The size of the guard that a part lies behind: it ends where the mapping or the next guard does.
fn guard_before(process: &Process, index: usize, part: &Vma, guards: &[(u64, u64)]) -> Option<u64> {
    let vma = &process.vmas[index];
    let begins = |end: u64| guards.binary_search_by_key(&end, |guard| guard.0).is_ok();
    let is_end = part.end == vma.end || begins(part.end);
    if let Ok(marked) = guards.binary_search_by_key(&part.start, |guard| guard.1) {
        let (start, end) = guards[marked];
        return is_end.then_some(end - start);
    }
    let guard = &process.vmas[index.checked_sub(1)?];
    let is_guard = guard.end == vma.start && guard.is_without_access() && guard.size() <= GUARD_MAX;
    (is_guard && part.size() == vma.size()).then_some(guard.size())
}

/// As large as stacks are, without the guard or with it.
fn is_usual(process: &Process, size: u64, guard: u64) -> bool {
    let sizes = [process.stack_limit.unwrap_or(8 << 20), 8 << 20, 2 << 20, 1 << 20];
    sizes.iter().any(|&usual| size == usual || size + guard == usual)
}
