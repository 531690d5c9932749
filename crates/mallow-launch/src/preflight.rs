// SPDX-License-Identifier: MIT
//! Asks the target's own loader, without running the target, what it would load and in which order.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::allocator::Allocator;
use crate::error::{Error, Result};
use crate::preload::{self, Changes};
use crate::target::Target;
use mallow_process::allocators::Family;
use mallow_process::elf::ElfInfo;
use mallow_process::elf::identify;

/// Checks that the loader would load the allocator and bind `malloc` to it.
pub fn check(target: &Target, allocator: &Allocator, changes: &Changes) -> Result<()> {
    let Some(library) = &allocator.path else { return Ok(()) };
    let Some((objects, complaints)) = list_objects(target, changes) else {
        // Then the program does not start either, and the loader says why better than we could.
        return Ok(());
    };
    if !objects.iter().any(|object| same_file(object, library)) {
        let reason = complaint_about(&complaints, library)
            .unwrap_or_else(|| "the loader left it out without a reason".into());
        return Err(Error::Unsupported(format!(
            "{} cannot be preloaded into {}: {reason}. Install a build of it for this system, or use \
             Mallow, which needs no other library.",
            allocator.name,
            target.describe()
        )));
    }
    if let Some(sentence) = refuse_sanitizer(target, allocator, &objects) {
        return Err(Error::Unsupported(sentence));
    }
    match first_definer(&target.program, &objects) {
        Some((path, info)) if !same_file(&path, library) => Err(Error::Unsupported(format!(
            "In {} malloc would still come from {} ({}), which the loader puts before {}. Remove it \
             from LD_PRELOAD or from /etc/ld.so.preload.",
            target.describe(),
            identify(&path, &info),
            path.display(),
            allocator.name
        ))),
        _ => Ok(()),
    }
}

/// A program whose sanitizer's library would end it at its start, or crash, behind the allocator.
fn refuse_sanitizer(target: &Target, allocator: &Allocator, objects: &[PathBuf]) -> Option<String> {
    let has = |short: &str| objects.iter().any(|object| is_runtime_of(short, object));
    let allows_order = || {
        let options = std::env::var("ASAN_OPTIONS").unwrap_or_default();
        options.split([':', ',', ' ']).any(|option| option == "verify_asan_link_order=0")
    };
    if has("asan") && !allows_order() {
        return Some(format!(
            "{} is built with -fsanitize=address. AddressSanitizer has a malloc of its own and ends the \
             program if another comes first. Use a build without it.",
            target.describe()
        ));
    }
    // The recorder allocates by the malloc behind it.
    let is_allocator = !matches!(allocator.family, Family::System | Family::Other);
    (has("tsan") && is_allocator).then(|| {
        format!(
            "{} is built with -fsanitize=thread. ThreadSanitizer has a malloc of its own: behind {} it crashes, \
             or reports races that are none. Use a build without it.",
            target.describe(),
            allocator.name
        )
    })
}

/// The names that gcc and clang give the shared library of a sanitizer.
fn is_runtime_of(short: &str, object: &Path) -> bool {
    let name = object.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with(&format!("lib{short}.so"))
        || name.starts_with(&format!("libclang_rt.{short}-"))
        || name == format!("libclang_rt.{short}.so")
}

/// The allocator that the loader would bind the target's `malloc` to.
pub fn server(target: &Target, changes: &Changes) -> Option<(String, PathBuf)> {
    let (objects, _) = list_objects(target, changes)?;
    let (path, info) = first_definer(&target.program, &objects)?;
    Some((identify(&path, &info), path))
}

/// The objects in load order and what the loader wrote to stderr; `None` if it gave no list.
pub fn list_objects(target: &Target, changes: &Changes) -> Option<(Vec<PathBuf>, String)> {
    let interpreter = target.elf.interpreter.as_ref()?;
    let mut command = Command::new(interpreter);
    command.arg("--list").arg(&target.program).stdin(Stdio::null());
    preload::apply(&mut command, changes);
    let output = command.output().ok()?;
    if !output.status.success() {
        return None;
    }
    let mut listed = parse_list(&String::from_utf8_lossy(&output.stdout));
    // musl's loader is the C library too and lists itself first, but is searched last.
    listed.sort_by_key(|object| object == Path::new(interpreter));
    Some((listed, String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// `name => /path (0x…)` and `/path (0x…)`.
pub fn parse_list(text: &str) -> Vec<PathBuf> {
    let mut seen = BTreeSet::new();
    text.lines()
        .filter_map(|line| {
            let line = line.trim();
            let place = line.split_once(" => ").map_or(line, |(_, place)| place);
            let path = place.rsplit_once(" (0x").map_or(place, |(path, _)| path);
            path.starts_with('/').then(|| PathBuf::from(path))
        })
        .filter(|path| seen.insert(path.clone()))
        .collect()
}

fn complaint_about(complaints: &str, library: &Path) -> Option<String> {
    let name = library.to_string_lossy();
    let line = complaints.lines().find(|line| line.contains(name.as_ref()))?;
    let line = line.trim().trim_end_matches('.').trim_end_matches(": ignored");
    let reason = line.split_once("cannot be preloaded ").map_or(line, |(_, reason)| reason);
    Some(reason.trim_matches(['(', ')']).to_owned())
}

fn first_definer(program: &Path, objects: &[PathBuf]) -> Option<(PathBuf, ElfInfo)> {
    std::iter::once(program).chain(objects.iter().map(PathBuf::as_path)).find_map(|path| {
        let info = ElfInfo::read(path).ok()??;
        info.defined.contains("malloc").then(|| (path.to_owned(), info))
    })
}

pub fn same_file(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_both_loaders_are_read() {
        let glibc = "\tlinux-vdso.so.1 (0x00007ffc)\n\t/opt/libmallow.so (0x00007f1)\n\
                     \tlibc.so.6 => /lib/libc.so.6 (0x00007f2)\n\t/lib64/ld-linux.so.2 (0x00007f3)\n";
        let paths = ["/opt/libmallow.so", "/lib/libc.so.6", "/lib64/ld-linux.so.2"];
        assert_eq!(parse_list(glibc), paths.map(PathBuf::from));
        let musl = "\t/lib/ld-musl.so.1 (0x7f)\n\tlibc.so => /lib/ld-musl.so.1 (0x7f)\n";
        assert_eq!(parse_list(musl), [PathBuf::from("/lib/ld-musl.so.1")]);
    }

    #[test]
    fn runtimes_of_both_compilers_are_known() {
        let is = |name| is_runtime_of("asan", &Path::new("/usr/lib").join(name));
        assert!(
            is("libasan.so.8") && is("libclang_rt.asan-x86_64.so") && is("libclang_rt.asan.so")
        );
        assert!(!is("libhwasan.so.0") && !is("libtsan.so.2") && !is("libclang_rt.asan_cxx.so"));
    }

    #[test]
    fn complaint_is_cut_to_its_reason() {
        let text = "ERROR: ld.so: object '/x/lib.so' from LD_PRELOAD cannot be preloaded \
                    (cannot open shared object file): ignored.\n";
        let reason = complaint_about(text, Path::new("/x/lib.so"));
        assert_eq!(reason.as_deref(), Some("cannot open shared object file"));
        assert_eq!(complaint_about(text, Path::new("/y/lib.so")), None);
    }
}
