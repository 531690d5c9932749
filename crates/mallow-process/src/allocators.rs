// SPDX-License-Identifier: MIT
//! The table of allocators: their names, the files and symbols that betray them, and the packages
//! that bring them. Everything that the command says of an allocator starts here. The entries are
//! those of `allocators.toml`, which the benchmarks read too.

use std::path::Path;

/// How an allocator is given its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    System,
    Mallow,
    Jemalloc,
    Mimalloc,
    Tcmalloc,
    Scudo,
    Other,
}

/// Where its library comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Inside the command itself.
    Embedded,
    /// Installed, if it is.
    Library,
    /// Linked into programs; it cannot be preloaded.
    Linked,
}

#[derive(Clone, Copy, Debug)]
pub struct Known {
    pub name: &'static str,
    pub family: Family,
    pub origin: Origin,
    /// What sets it apart from others of the family.
    pub variant: &'static str,
    /// File names without what follows `.so`; the first that is found wins.
    pub stems: &'static [&'static str],
    /// What it alone defines. Those of a whole family stand in its first line.
    pub symbols: &'static [&'static str],
    /// Those of one distribution stand together, that of the newest releases last.
    pub packages: &'static [Packaged],
    /// The name of its hardened build.
    pub secure: Option<&'static str>,
}

/// Systems that have the same packages under the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Ubuntu too, and all that descend from the two.
    Debian,
    Alpine,
    Fedora,
    Arch,
}

/// What a distribution brings.
#[derive(Clone, Copy, Debug)]
pub struct Packaged {
    pub distribution: Distribution,
    /// The code names of those that have it; none: all that no other entry names.
    pub releases: &'static [&'static str],
    /// Those of all others that have none.
    pub without: &'static [&'static str],
    pub package: &'static str,
    /// The name by which its loader finds the library; `None`: only by a full path.
    pub file: Option<&'static str>,
    /// Where not everybody has it.
    pub repository: Option<&'static str>,
}

impl Known {
    pub fn packages_of(
        &self,
        distribution: Distribution,
    ) -> impl Iterator<Item = &'static Packaged> + use<> {
        self.packages.iter().filter(move |packaged| packaged.distribution == distribution)
    }

    /// What brings it in a release that has these code names.
    pub fn packaged(
        &self,
        distribution: Distribution,
        codenames: &[String],
    ) -> Option<&'static Packaged> {
        let is_in = |names: &[&str]| codenames.iter().any(|name| names.contains(&name.as_str()));
        let is_of = |packaged: &&Packaged| is_in(packaged.releases);
        let newest =
            |packaged: &&Packaged| packaged.releases.is_empty() && !is_in(packaged.without);
        let all = || self.packages_of(distribution);
        all().find(is_of).or_else(|| all().find(newest))
    }
}

// `KNOWN`, which the build script makes of allocators.toml.
include!(concat!(env!("OUT_DIR"), "/known.rs"));

pub fn by_name(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}

/// The allocator that defines a symbol, if only one does.
pub fn by_symbol(symbol: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.symbols.contains(&symbol))
}

/// The first of the table that one of these symbols betrays.
pub fn by_symbols<'a>(
    symbols: impl IntoIterator<Item = &'a &'static str>,
) -> Option<&'static Known> {
    let place = |symbol: &str| KNOWN.iter().position(|known| known.symbols.contains(&symbol));
    let first = symbols.into_iter().filter_map(|symbol| place(symbol)).min()?;
    Some(&KNOWN[first])
}

/// The family of a name, or of the name before its first dash.
pub fn family_of(name: &str) -> Family {
    let base = name.split('-').next().unwrap_or(name);
    by_name(base).map_or(Family::Other, |known| known.family)
}

/// Whether a name says "no preload", whichever C library the target has.
pub fn is_system_name(name: &str) -> bool {
    matches!(name, "glibc" | "musl" | "libc" | "system")
}

/// `libjemalloc.so.2` → `libjemalloc`.
pub fn stem(path: &Path) -> Option<&str> {
    let (stem, rest) = path.file_name()?.to_str()?.split_once(".so")?;
    (rest.is_empty() || rest.starts_with('.')).then_some(stem)
}

/// The allocator that a library file is, by its name alone.
pub fn by_file(path: &Path) -> Option<&'static Known> {
    let stem = stem(path)?;
    KNOWN.iter().find(|known| known.stems.contains(&stem))
}

pub fn name_from_file(path: &Path) -> Option<String> {
    by_file(path).map(|known| known.name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn files_are_recognised_by_name() {
        let name = |path: &str| name_from_file(Path::new(path));
        assert_eq!(name("/usr/lib/libjemalloc.so.2").as_deref(), Some("jemalloc"));
        assert_eq!(name("libtcmalloc_minimal.so.4.5.9").as_deref(), Some("tcmalloc"));
        assert_eq!(name("/x/libmallow-secure.so").as_deref(), Some("mallow-secure"));
        assert_eq!(name("/lib/x86_64-linux-gnu/libc.so.6"), None);
        assert_eq!(name("/lib/libz.so.1"), None);
    }

    #[test]
    fn nothing_stands_for_two_allocators() {
        let mut seen = BTreeSet::new();
        for known in &KNOWN {
            assert!(seen.insert(known.name), "{} twice", known.name);
            for word in known.stems.iter().chain(known.symbols) {
                // A library may be called as a symbol of it is.
                assert!(seen.insert(word) || *word == known.name, "{word} twice");
            }
            let secure = known.secure.map(|name| by_name(name).expect("a name of the table"));
            assert!(secure.is_none_or(|secure| secure.variant.starts_with("secure")));
        }
    }

    #[test]
    fn releases_have_packages_of_their_own() {
        let package = |name, distribution, codenames: &[&str]| {
            let codenames: Vec<String> = codenames.iter().map(|name| (*name).to_owned()).collect();
            let known = by_name(name).expect("a name of the table");
            known.packaged(distribution, &codenames).map(|packaged| packaged.package)
        };
        let debian = |name, codename| package(name, Distribution::Debian, &[codename]);
        assert_eq!(debian("mimalloc", "bookworm"), Some("libmimalloc2.0"));
        assert_eq!(debian("mimalloc", "trixie"), Some("libmimalloc3"));
        for codename in ["bullseye", "focal"] {
            assert_eq!(debian("mimalloc", codename), None);
            assert_eq!(debian("scudo", codename), None);
        }
        assert_eq!(debian("tcmalloc", "jammy"), Some("libtcmalloc-minimal4"));
        assert_eq!(debian("tcmalloc", "noble"), Some("libtcmalloc-minimal4t64"));
        assert_eq!(debian("tbbmalloc", "jammy"), Some("libtbbmalloc2"));
        assert_eq!(package("mimalloc", Distribution::Debian, &[]), Some("libmimalloc3"));
        assert_eq!(package("tcmalloc", Distribution::Fedora, &[]), Some("gperftools-libs"));
        assert_eq!(package("hardened_malloc", Distribution::Debian, &["trixie"]), None);
    }

    #[test]
    fn families_include_builds_that_are_not_known() {
        assert_eq!(family_of("mallow-debug"), Family::Mallow);
        assert_eq!(family_of("jemalloc-prof"), Family::Jemalloc);
        assert_eq!(family_of("something"), Family::Other);
    }
}
