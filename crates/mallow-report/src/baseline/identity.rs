// SPDX-License-Identifier: MIT
//! What a stack is called, so that a rebuild of the same source gives the same names: by function
//! and file, without addresses, lines and inlined functions.

use crate::Frame;

/// Where compilers note how they changed a function.
const SUFFIXES: [&str; 7] =
    [".constprop.", ".isra.", ".part.", ".cold", ".lto_priv.", ".llvm.", " [clone "];
/// Files there belong to the system: whether it has their debug information does not matter.
const SYSTEM: [&str; 3] = ["/usr/", "/lib/", "/lib64/"];

/// How a libc begins a program and its threads, which differs from release to release.
const BEGINNINGS: [&str; 9] = [
    "__libc_start_call_main",
    "__libc_start_main",
    "__libc_start_main_impl",
    "_start",
    "_start_c",
    "libc_start_main_stage2",
    "start_thread",
    "clone",
    "clone3",
];

/// The name of a stack; frames are innermost first.
pub fn of_stack<'a>(frames: impl Iterator<Item = &'a Frame>, depth: usize) -> String {
    let is_named = |frame: &&Frame| {
        !frame.inlined && !BEGINNINGS.contains(&frame.function.trim_start_matches("__GI_"))
    };
    let mut names: Vec<String> = frames.filter(is_named).map(of_frame).collect();
    // Functions without names, of which there may be any number in a row.
    names.dedup_by(|a, b| a == b && !a.ends_with(')'));
    // A beginning that has no symbol.
    let is_libc = |name: &String| name.starts_with("libc.so") || name.starts_with("ld-musl");
    while names.last().is_some_and(|name| is_libc(name) && !name.ends_with(')')) {
        names.pop();
    }
    names.truncate(depth);
    if names.is_empty() { "(no stack)".into() } else { names.join(" < ") }
}

/// How Go starts a thread where there is C: as many as its goroutines happen to need.
const GO_THREADS: [&str; 4] = [
    "x_cgo_thread_start",
    "_cgo_sys_thread_start",
    "x_cgo_sys_thread_create",
    "_cgo_try_pthread_create",
];

pub fn is_of_go_threads(stack: &str) -> bool {
    let starts = |frame: &str| GO_THREADS.contains(&frame.split(' ').next().unwrap_or_default());
    stack.split(" < ").any(starts)
}

fn of_frame(frame: &Frame) -> String {
    let module = frame.module.as_deref().map(without_hash);
    if let Some((place, _)) = frame.function.split_once("+0x")
        && (place == "unknown module"
            || frame.module.as_deref().is_some_and(|m| m.ends_with(place)))
    {
        return without_hash(place).to_owned();
    }
    let function = SUFFIXES.iter().fold(frame.function.as_str(), |name, suffix| {
        name.find(suffix).filter(|at| *at > 0).map_or(name, |at| &name[..at])
    });
    let is_system = |module: &String| SYSTEM.iter().any(|folder| module.starts_with(folder));
    let file = match (&frame.module, &frame.file) {
        (Some(path), _) if is_system(path) => module,
        (_, Some(file)) => Some(file_name(file)),
        _ => module,
    };
    match file {
        Some(file) => format!("{function} ({file})"),
        None => format!("{function} ()"),
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Cargo names test programs `name-0123456789abcdef`, another number for other dependencies.
fn without_hash(path: &str) -> &str {
    let file = file_name(path);
    match file.rsplit_once('-') {
        Some((name, hash))
            if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
        {
            name
        }
        _ => file,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, module: &str, file: Option<(&str, u32)>) -> Frame {
        Frame {
            function: function.into(),
            module: Some(module.into()),
            file: file.map(|(file, _)| file.into()),
            line: file.map(|(_, line)| line),
            inlined: false,
        }
    }

    #[test]
    fn what_a_rebuild_changes_is_no_part_of_a_name() {
        let before = [
            frame("fill", "/home/a/app", Some(("/home/a/src/fill.c", 12))),
            frame("app+0x1200", "/home/a/app", None),
            frame("app+0x1300", "/home/a/app", None),
            frame("qsort_r", "/usr/lib/libc.so.6", None),
            frame("main", "/home/a/app-0123456789abcdef", None),
            frame("libc.so.6+0x27249", "/usr/lib/libc.so.6", None),
            frame("__libc_start_main", "/usr/lib/libc.so.6", None),
        ];
        let inlined = Frame { inlined: true, ..frame("tiny", "/app", None) };
        let after = [
            inlined,
            frame("fill.constprop.0", "/srv/b/app", Some(("../src/fill.c", 90))),
            frame("app+0x7200", "/srv/b/app", None),
            frame("qsort_r", "/usr/lib/libc.so.6", Some(("./stdlib/qsort.c", 300))),
            frame("main", "/srv/b/app-fedcba9876543210", None),
        ];
        let name = "fill (fill.c) < app < qsort_r (libc.so.6) < main (app)";
        assert_eq!(of_stack(before.iter(), 8), name);
        assert_eq!(of_stack(after.iter(), 8), name);
        assert_eq!(of_stack(after.iter(), 2), "fill (fill.c) < app");
        assert_eq!(of_stack([].iter(), 8), "(no stack)");
    }

    #[test]
    fn stacks_of_go_threads_are_known_from_their_functions() {
        let thread =
            "_dl_allocate_tls (ld.so) < _cgo_try_pthread_create (gcc_libinit.c) < main (a)";
        assert!(is_of_go_threads(thread) && is_of_go_threads("x_cgo_thread_start (gcc_util.c)"));
        assert!(!is_of_go_threads("work (u.go) < of_x_cgo_thread_start (a)"));
    }
}
