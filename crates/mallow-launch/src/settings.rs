// SPDX-License-Identifier: MIT
//! The settings of each allocator that are worth trying, each with its reason: what `mallow tune`
//! searches. The table is small by knowledge; a value that can only waste, such as one that never
//! gives memory back, is not in it.
//!
//! Versions of a library differ in what they know, and ignore the rest in silence. So a setting
//! counts only where its name stands in the library's file.

use std::collections::BTreeSet;
use std::path::Path;

use crate::allocator::Allocator;
use crate::error::{Error, Result};
use crate::options;
use crate::target::Target;
use mallow_process::allocators::Family;

/// Settings that are made together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub options: Vec<(String, String)>,
    pub why: String,
}

struct Row {
    family: Family,
    /// `key:value` with spaces between; CPUS is how many the program may use.
    settings: &'static str,
    why: &'static str,
    /// A newer name of the same thing: where the library knows it, this row is not meant.
    unless: &'static str,
    /// The release of glibc since when the setting does what is said of it.
    since: Release,
}

/// Of glibc.
type Release = (u32, u32);

/// Since then it has no fastbins. The tunable of their size is still there, and does nothing.
const NO_FASTBINS: Release = (2, 43);

/// Since then threads keep blocks of more than about 1 KiB.
const LARGE_TCACHE: Release = (2, 42);

const fn row(family: Family, settings: &'static str, why: &'static str) -> Row {
    Row { family, settings, why, unless: "", since: (0, 0) }
}

use Family::{Jemalloc, Mallow, Mimalloc, System, Tcmalloc};

/// The most promising of each allocator first: where time is short, the last are left out.
const ROWS: &[Row] = &[
    row(System, "arena_max:1", "one arena: threads share free memory, and wait for each other"),
    row(System, "mmap_threshold:131072", "large blocks go back to the kernel when they are freed"),
    row(
        System,
        "mmap_threshold:33554432 trim_threshold:536870912",
        "large blocks stay: fewer calls to the kernel and fewer page faults",
    ),
    row(System, "arena_max:CPUS", "an arena for each CPU instead of eight"),
    row(System, "trim_threshold:131072", "free memory at the end of the heap goes back soon"),
    row(System, "hugetlb:1", "huge pages, where the kernel gives them on request"),
    row(System, "tcache_count:127", "each thread keeps more freed blocks for itself"),
    row(System, "top_pad:16777216", "the heap grows in steps of 16 MiB"),
    row(System, "tcache_count:0", "no blocks are kept by threads"),
    row(System, "mxfast:0", "small freed blocks are joined with their neighbours at once"),
    Row {
        since: LARGE_TCACHE,
        ..row(System, "tcache_max:65536", "threads keep freed blocks of up to 64 KiB")
    },
    row(Jemalloc, "dirty_decay_ms:0", "free memory goes back to the kernel at once"),
    row(Jemalloc, "narenas:1", "one arena: threads share free memory, and wait for each other"),
    row(Jemalloc, "dirty_decay_ms:60000", "free memory is kept for a minute: fewer page faults"),
    row(Jemalloc, "narenas:CPUS", "an arena for each CPU instead of four"),
    row(Jemalloc, "background_thread:true", "a thread of jemalloc's own gives memory back"),
    row(Jemalloc, "thp:always", "huge pages for the heap"),
    row(Jemalloc, "percpu_arena:percpu", "threads use the arena of their CPU"),
    row(Jemalloc, "dirty_decay_ms:1000", "free memory goes back after a second"),
    row(Jemalloc, "lg_tcache_max:18", "threads keep freed blocks of up to 256 KiB"),
    row(Jemalloc, "tcache:false", "no blocks are kept by threads"),
    row(Mallow, "dirty_decay_ms:0", "free memory goes back to the kernel at once"),
    row(Mallow, "arenas:1", "one group of heaps: threads share free memory"),
    row(Mallow, "dirty_decay_ms:60000", "free memory is kept for a minute: fewer page faults"),
    row(Mallow, "muzzy_decay_ms:10000", "free memory is given up lazily: cheaper to use again"),
    row(Mallow, "dirty_decay_ms:1000", "free memory goes back after a second"),
    row(Mallow, "purge_thread:true", "memory goes back even when the program makes no calls"),
    row(Mallow, "thp:always", "huge pages for the heap"),
    row(Mallow, "thp:false", "no huge pages: no memory is resident beside what is written to"),
    row(Mimalloc, "purge_delay:0", "free memory goes back to the kernel at once"),
    row(Mimalloc, "purge_delay:1000", "free memory is kept for a second: fewer page faults"),
    row(Mimalloc, "allow_large_os_pages:1", "huge pages for the heap"),
    row(Mimalloc, "arena_eager_commit:0", "address space is committed when it is used"),
    row(Mimalloc, "purge_decommits:0", "free memory is given up lazily: cheaper to use again"),
    Row {
        unless: "purge_delay",
        ..row(Mimalloc, "reset_delay:0", "free memory goes back to the kernel at once")
    },
    Row {
        unless: "purge_delay",
        ..row(Mimalloc, "reset_delay:1000", "free memory is kept for a second: fewer page faults")
    },
    row(Mimalloc, "eager_commit:0", "address space is committed when it is used"),
    row(Tcmalloc, "aggressive_decommit:1", "free memory goes back to the kernel at once"),
    row(Tcmalloc, "max_total_thread_cache_bytes:134217728", "larger caches of the threads"),
    row(Tcmalloc, "max_total_thread_cache_bytes:4194304", "smaller caches of the threads"),
    row(Tcmalloc, "release_rate:10", "free memory goes back sooner"),
    row(Tcmalloc, "release_rate:0", "free memory is kept: fewer page faults"),
];

impl Row {
    fn options(&self, cpus: usize) -> Vec<(String, String)> {
        let pair = |text: &str| {
            let (key, value) = text.split_once(':').unwrap_or((text, ""));
            (key.to_owned(), value.replace("CPUS", &cpus.to_string()))
        };
        self.settings.split(' ').map(pair).collect()
    }
}

impl Candidate {
    /// As in `dirty_decay_ms:0 narenas:1`.
    pub fn name(&self) -> String {
        let pairs = self.options.iter().map(|(key, value)| format!("{key}:{value}"));
        pairs.collect::<Vec<_>>().join(" ")
    }

    /// Both together, where they do not set the same thing.
    pub fn with(&self, other: &Candidate) -> Option<Candidate> {
        let is_set = |key: &str| self.options.iter().any(|(own, _)| own == key);
        if other.options.iter().any(|(key, _)| is_set(key)) {
            return None;
        }
        let options = [self.options.clone(), other.options.clone()].concat();
        Some(Candidate { options, why: format!("{}; {}", self.why, other.why) })
    }
}

/// What there is to try for an allocator in this program, on so many CPUs.
pub fn candidates(allocator: &Allocator, target: &Target, cpus: usize) -> Result<Vec<Candidate>> {
    let has_settings = ROWS.iter().any(|row| row.family == allocator.family);
    let is_musl = allocator.family == Family::System && allocator.name == "musl";
    if !has_settings || is_musl {
        return Err(Error::Unsupported(format!(
            "{} has no settings that mallow knows of. Choose another allocator with -a: glibc, mallow, \
             jemalloc, mimalloc or tcmalloc.",
            allocator.name
        )));
    }
    let path = file_of(allocator, target);
    let bytes = std::fs::read(path)
        .map_err(Error::io(format!("The file {} cannot be read", path.display())))?;
    let release = if allocator.family == System { release(&bytes) } else { (0, 0) };
    let found =
        known(allocator.family, cpus, release, &|name| knows(allocator.family, &bytes, name));
    if found.is_empty() {
        return Err(Error::Unsupported(format!(
            "There is nothing to tune: {} has none of the settings of {} that mallow knows of.",
            path.display(),
            allocator.name
        )));
    }
    Ok(found)
}

/// The file that has the names of an allocator's settings. The loader reads those of glibc, in a static program
/// that itself.
fn file_of<'a>(allocator: &'a Allocator, target: &'a Target) -> &'a Path {
    match (&allocator.path, &target.elf.interpreter) {
        (Some(path), _) => path,
        (None, Some(loader)) => Path::new(loader),
        (None, None) => &target.program,
    }
}

/// Names that the allocator would ignore in silence: an error where all that it knows can be told, else a
/// sentence in `note`. Other allocators complain themselves.
pub fn check(
    allocator: &Allocator,
    target: &Target,
    options: &[(String, String)],
    note: &dyn Fn(&str),
) -> Result<()> {
    let is_silent = matches!(allocator.family, System | Mimalloc | Tcmalloc);
    if !is_silent {
        return Ok(());
    }
    check_unheard(allocator, target, options, note)
}

/// The same where the program's standard error is not shown, so that nobody hears an allocator complain.
pub fn check_unheard(
    allocator: &Allocator,
    target: &Target,
    options: &[(String, String)],
    note: &dyn Fn(&str),
) -> Result<()> {
    if allocator.family == Mallow {
        return options::validate(options);
    }
    if options.is_empty() {
        return Ok(());
    }
    if allocator.family == System && allocator.name == "musl" {
        return Err(Error::Usage("musl's malloc has no options. Leave out --opt.".into()));
    }
    let file = file_of(allocator, target);
    let Ok(bytes) = std::fs::read(file) else { return Ok(()) };
    if allocator.family == System {
        return check_tunables(&tunables(&bytes), options);
    }
    for (key, _) in options {
        if !knows(allocator.family, &bytes, &key.to_ascii_lowercase()) {
            note(&format!(
                "{} ({}) does not seem to have the option {key}, and would ignore it in silence.",
                allocator.name,
                file.display()
            ));
        }
    }
    Ok(())
}

fn check_tunables(all: &BTreeSet<String>, options: &[(String, String)]) -> Result<()> {
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let unknown = options.iter().find(|(key, _)| !all.contains(&key.as_str()));
    // A glibc of before the tunables would have none.
    let Some((key, _)) = unknown.filter(|_| !all.is_empty()) else { return Ok(()) };
    if key == "mxfast" {
        return Err(Error::Usage(
            "This glibc has no tunable mxfast that does anything (fastbins went with 2.43). Leave it out.".into(),
        ));
    }
    let remedy = match options::nearest(key, &all) {
        Some(name) => format!("Did you mean {name}?"),
        None => format!("It has: {}.", all.join(", ")),
    };
    Err(Error::Usage(format!(
        "glibc's malloc has no tunable {key}, and would ignore it in silence. {remedy}"
    )))
}

/// The tunables of malloc that a loader has and that do something, without their prefix.
fn tunables(loader: &[u8]) -> BTreeSet<String> {
    const PREFIX: &[u8] = b"glibc.malloc.";
    let is_part = |byte: &&u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || **byte == b'_';
    let places = loader.windows(PREFIX.len()).enumerate().filter(|(_, window)| *window == PREFIX);
    let names = places.map(|(at, _)| {
        let name = loader[at + PREFIX.len()..].iter().take_while(is_part);
        name.map(|&byte| char::from(byte)).collect()
    });
    let is_there =
        |name: &String| !name.is_empty() && (name != "mxfast" || release(loader) < NO_FASTBINS);
    names.filter(is_there).collect()
}

/// Of the glibc that a loader is of, as `ld.so --version` prints it; 0 where that cannot be told.
fn release(loader: &[u8]) -> Release {
    const BEFORE: &[u8] = b" release version "; // "stable" or "development"
    let at = loader.windows(BEFORE.len()).position(|window| window == BEFORE);
    let rest = at.map_or(&[][..], |at| &loader[at + BEFORE.len()..]);
    let text: String = rest.iter().take(10).map(|&byte| char::from(byte)).collect();
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn known(
    family: Family,
    cpus: usize,
    release: Release,
    knows: &dyn Fn(&str) -> bool,
) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    for row in ROWS.iter().filter(|row| row.family == family && row.since <= release) {
        let options = row.options(cpus);
        let is_renamed = !row.unless.is_empty() && knows(row.unless);
        let is_there = found.iter().any(|candidate| candidate.options == options);
        if !is_renamed && !is_there && options.iter().all(|(key, _)| knows(key)) {
            found.push(Candidate { options, why: row.why.into() });
        }
    }
    found
}

fn knows(family: Family, library: &[u8], key: &str) -> bool {
    let name = match family {
        Family::Mallow => return options::OPTIONS.iter().any(|option| option.name == key),
        Family::System => return tunables(library).contains(key),
        Family::Tcmalloc => format!("TCMALLOC_{}", key.to_ascii_uppercase()),
        _ => key.to_owned(),
    };
    library.windows(name.len()).any(|window| window == name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_one_that_the_allocator_takes() {
        for row in ROWS {
            let options = row.options(2);
            assert!(!row.why.is_empty() && options.iter().all(|(_, value)| !value.is_empty()));
            if row.family == Family::Mallow {
                options::validate(&options).unwrap();
            }
        }
    }

    #[test]
    fn what_a_library_does_not_know_is_left_out() {
        let names = |family, library: &[u8]| -> Vec<String> {
            let found = known(family, 4, release(library), &|key| knows(family, library, key));
            found.iter().map(Candidate::name).collect()
        };
        assert_eq!(names(System, b"..glibc.malloc.arena_max\0.."), ["arena_max:1", "arena_max:4"]);
        assert_eq!(names(System, b"arena_max"), [""; 0]);
        assert_eq!(names(Jemalloc, b"\0narenas\0")[1], "narenas:4");
        let glibc = |version: &str| {
            let text =
                "glibc.malloc.mxfast\0glibc.malloc.tcache_max\0ld.so (x) stable release version ";
            names(System, format!("{text}{version}.\n").as_bytes())
        };
        assert_eq!(glibc("2.36"), ["mxfast:0"]);
        assert_eq!(glibc("2.42"), ["mxfast:0", "tcache_max:65536"]);
        assert_eq!(glibc("2.43"), ["tcache_max:65536"]);
        // An old name is used only where there is no new one.
        assert_eq!(names(Mimalloc, b"reset_delay"), ["reset_delay:0", "reset_delay:1000"]);
        let both = names(Mimalloc, b"reset_delay purge_delay");
        assert_eq!(both, ["purge_delay:0", "purge_delay:1000"]);
        assert_eq!(names(Tcmalloc, b"TCMALLOC_RELEASE_RATE").len(), 2);
        assert_eq!(names(Mallow, b"").len(), 8);
    }

    #[test]
    fn a_static_program_has_the_names_of_its_settings_itself() {
        let folder = tempfile::tempdir().unwrap();
        let mut target = Target::resolve("true".as_ref()).unwrap();
        target.elf.interpreter = None;
        target.program = folder.path().join("program");
        let glibc = Allocator { name: "glibc".into(), ..Allocator::system() };
        let of = |text: &str| {
            std::fs::write(&target.program, text).unwrap();
            candidates(&glibc, &target, 4)
        };
        assert_eq!(of("..glibc.malloc.arena_max\0..").unwrap().len(), 2);
        let sentence = of("no names").expect_err("nothing to try").to_string();
        assert!(sentence.contains("program has none of the settings of glibc"), "{sentence}");
    }

    #[test]
    fn tunables_that_glibc_would_ignore_are_refused() {
        let all = tunables(
            b"\0glibc.malloc.arena_max\0glibc.rtld.nns\0glibc.malloc.top_pad\0glibc.malloc.",
        );
        assert_eq!(all.iter().collect::<Vec<_>>(), ["arena_max", "top_pad"]);
        let without = tunables(b"glibc.malloc.mxfast\0stable release version 2.43.\n");
        assert!(without.is_empty(), "nothing is a fastbin there");
        let of = |key: &str| check_tunables(&all, &[(key.to_owned(), "1".to_owned())]);
        assert!(of("arena_max").is_ok());
        let sentence = |key| of(key).expect_err("not known").to_string();
        assert!(sentence("arena_mx").ends_with("Did you mean arena_max?"));
        assert!(sentence("bogus").ends_with("It has: arena_max, top_pad."));
        assert!(sentence("arena").contains("no tunable arena,"));
        assert!(check_tunables(&BTreeSet::new(), &[("bogus".into(), "1".into())]).is_ok());
    }

    #[test]
    fn one_cpu_makes_no_setting_twice() {
        let found = known(System, 1, (0, 0), &|_| true);
        let ones = found.iter().filter(|candidate| candidate.name() == "arena_max:1");
        assert_eq!(ones.count(), 1);
    }

    #[test]
    fn settings_are_joined_unless_they_contradict() {
        let found = known(Jemalloc, 4, (0, 0), &|_| true);
        let by_name = |name: &str| found.iter().find(|found| found.name() == name).unwrap();
        let both = by_name("dirty_decay_ms:0").with(by_name("narenas:1")).unwrap();
        assert_eq!(both.name(), "dirty_decay_ms:0 narenas:1");
        assert!(by_name("dirty_decay_ms:0").with(by_name("dirty_decay_ms:1000")).is_none());
    }
}
