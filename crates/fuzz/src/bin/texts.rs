// SPDX-License-Identifier: MIT
//! Lists that others keep: the loader's of libraries, a runtime's of its code, Java's of its memory, package managers'
//! of packages; leaks that a user knows; what a system says of itself, and files that may name an allocator.
#![no_main]

use mallow_capture::perf_map;
use mallow_enabling::elsewhere;
use mallow_faults::Suppressions;
use mallow_launch::{distribution, ldcache, packages, preflight};
use mallow_process::runtimes::native;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    assert!(ldcache::parse(bytes).len() <= bytes.len() / 2);
    let text = String::from_utf8_lossy(bytes);
    assert!(perf_map::parse(&text).all(|(_, _, name)| name.len() <= text.len()));
    for versions in [packages::parse_dpkg(&text), packages::parse_apk(&text)] {
        versions.values().for_each(|version| assert!(packages::upstream(version).len() <= version.len()));
    }
    distribution::parse(&text);
    assert!(preflight::parse_list(&text).iter().all(|path| path.is_absolute()));
    if let Some((_, word)) = elsewhere::named(&text) {
        assert!(text.contains(&word));
    }
    if let Ok(known) = Suppressions::parse(&text) {
        assert!(!known.cover(std::iter::empty()));
        known.cover(text.lines());
    }
    if let Some(spaces) = native::parse(&text) {
        let parts = spaces.get(1..).expect("the total first");
        assert!(parts.is_sorted_by(|one, next| one.committed >= next.committed));
    }
});
