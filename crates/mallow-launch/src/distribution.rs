// SPDX-License-Identifier: MIT
//! Which distribution a system is, and which of its releases: they call packages differently.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use mallow_os::read_plain;
use mallow_process::allocators::{Distribution, Known, Packaged};

/// A system by what it says of itself.
pub struct Release {
    /// `None`: one whose packages are not known.
    distribution: Option<Distribution>,
    /// Its own, and that of the release of Ubuntu or Debian which it was made of.
    codenames: Vec<String>,
}

impl Release {
    /// Of the system `root`. One that says nothing is taken for the newest Debian.
    pub fn of(root: &Path) -> Release {
        let places = ["etc/os-release", "usr/lib/os-release"];
        let read = |place: &&str| {
            let text = read_plain(&resolved(root, Path::new(place))).ok()?;
            String::from_utf8(text).ok()
        };
        let text = places.iter().find_map(read);
        let is_alpine = resolved(root, Path::new("etc/alpine-release")).exists();
        match text {
            Some(text) => parse(&text),
            None if is_alpine => parse("ID=alpine"),
            None => parse("ID=debian"),
        }
    }

    /// What brings it in this release; where it is none of this distribution, in its newest.
    pub fn packaged_by(
        &self,
        distribution: Distribution,
        known: &Known,
    ) -> Option<&'static Packaged> {
        let is_own = self.distribution == Some(distribution);
        known.packaged(distribution, if is_own { &self.codenames } else { &[] })
    }

    fn packaged(&self, known: &Known) -> Option<&'static Packaged> {
        known.packaged(self.distribution?, &self.codenames)
    }

    /// How a missing allocator is had here.
    pub(crate) fn remedy(&self, known: &Known) -> String {
        let by_path = format!("use -a {}=/path/to/lib.so", known.name);
        if known.packages.is_empty() {
            return format!("build it from source and {by_path}");
        }
        let Some(distribution) = self.distribution else {
            return format!("see whether this system has a package of it, and {by_path}");
        };
        match self.packaged(known) {
            Some(Packaged { package, repository, .. }) => {
                let from = |name| format!(", from the repository {name}");
                let from = repository.map_or(String::new(), from);
                format!("{} {package}{from}", command(distribution))
            }
            None => {
                let is_of_others = known.packages_of(distribution).next().is_some();
                let release = if is_of_others { "this release of " } else { "" };
                format!("not packaged by {release}{distribution:?}; {by_path}")
            }
        }
    }

    /// The same as the end of a sentence that says what is missing.
    pub(crate) fn install_sentence(&self, known: &Known) -> String {
        let remedy = self.remedy(known);
        if self.packaged(known).is_some() { format!("install it with: {remedy}") } else { remedy }
    }
}

/// What installs a package.
fn command(distribution: Distribution) -> &'static str {
    match distribution {
        Distribution::Debian => "apt install",
        Distribution::Alpine => "apk add",
        Distribution::Fedora => "dnf install",
        Distribution::Arch => "pacman -S",
    }
}

/// The place of a path of the system `root`, seen from here.
pub fn within(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// As many links as the kernel follows.
const MOST_LINKS: usize = 40;

/// The same with every link on the way followed as a program in that system would: one to an absolute path
/// begins at `root` anew, and `..` does not lead out of it. More links than the kernel follows, as of a loop, end in
/// a path that nobody can open.
pub fn resolved(root: &Path, path: &Path) -> PathBuf {
    // There the kernel does it, and the path stays as it is called.
    if root == Path::new("/") {
        return path.to_owned();
    }
    let reversed = |path: &Path| -> Vec<OsString> {
        path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
    };
    let (mut inside, mut rest, mut links) = (PathBuf::from("/"), reversed(path), 0);
    while let Some(part) = rest.pop() {
        if part == ".." {
            inside.pop();
            continue;
        }
        let next = inside.join(part);
        match std::fs::read_link(within(root, &next)) {
            Ok(_) if links == MOST_LINKS => return within(root, &next.join("\0")),
            Ok(target) => {
                links += 1;
                rest.extend(reversed(&target));
            }
            Err(_) => inside = next,
        }
    }
    within(root, &inside)
}

/// The text of an os-release file.
pub fn parse(text: &str) -> Release {
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.trim().split_once('='));
        let (_, value) = lines.find(|(name, _)| *name == key)?;
        Some(value.trim_matches(['"', '\'']).to_owned())
    };
    let own = value("ID").unwrap_or_default();
    let like = value("ID_LIKE").unwrap_or_default();
    // Red Hat's, which name Fedora too, have few of its packages.
    let is_red_hats = |id: &str| matches!(id, "rhel" | "ol" | "amzn");
    let has_few = is_red_hats(&own) || like.split(' ').any(is_red_hats);
    let known = |id: &str| match id {
        "debian" | "ubuntu" => Some(Distribution::Debian),
        "alpine" => Some(Distribution::Alpine),
        "fedora" if !has_few => Some(Distribution::Fedora),
        "arch" => Some(Distribution::Arch),
        _ => None,
    };
    let distribution = [own.as_str()].into_iter().chain(like.split(' ')).find_map(known);
    let keys = ["VERSION_CODENAME", "UBUNTU_CODENAME", "DEBIAN_CODENAME"];
    Release { distribution, codenames: keys.into_iter().filter_map(value).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mallow_process::allocators;

    fn remedy(os_release: &str, name: &str) -> String {
        parse(os_release).remedy(allocators::by_name(name).expect("a name of the table"))
    }

    #[test]
    fn remedy_is_that_of_the_release() {
        let trixie = "ID=debian\nVERSION_ID=\"13\"\nVERSION_CODENAME=trixie\n";
        assert_eq!(remedy(trixie, "mimalloc"), "apt install libmimalloc3");
        let bookworm = "VERSION_CODENAME=bookworm\nID=debian\n";
        assert_eq!(remedy(bookworm, "mimalloc"), "apt install libmimalloc2.0");
        assert_eq!(remedy(bookworm, "tcmalloc-full"), "apt install libgoogle-perftools4");
        let sid = "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux forky/sid\"\n";
        assert_eq!(remedy(sid, "tcmalloc-full"), "apt install libgoogle-perftools4t64");
        let mint = "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\nVERSION_CODENAME=wilma\n\
                    UBUNTU_CODENAME=noble\n";
        assert_eq!(remedy(mint, "mimalloc"), "apt install libmimalloc2.0");
        let focal = "ID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=focal\n";
        assert_eq!(remedy(focal, "tbbmalloc"), "apt install libtbb2");
        let none = "not packaged by this release of Debian; use -a mimalloc=/path/to/lib.so";
        assert_eq!(remedy(focal, "mimalloc"), none);
    }

    #[test]
    fn a_link_is_followed_inside_of_the_system() {
        let root = tempfile::tempdir().expect("a temporary folder");
        for folder in ["etc", "made"] {
            std::fs::create_dir(root.path().join(folder)).expect("writable");
        }
        let file = root.path().join("made/os-release");
        std::fs::write(file, "ID=fedora\n").expect("writable");
        std::os::unix::fs::symlink("/made", root.path().join("folder")).expect("writable");
        std::os::unix::fs::symlink("loop", root.path().join("loop")).expect("writable");
        let targets = [
            "/made/os-release",
            "../made/os-release",
            "../../../../made/../made/./os-release",
            "/folder/os-release",
            "../folder/../folder/os-release",
        ];
        for target in targets {
            let link = root.path().join("etc/os-release");
            std::os::unix::fs::symlink(target, &link).expect("writable");
            let found = Release::of(root.path()).distribution;
            assert!(matches!(found, Some(Distribution::Fedora)), "{target}");
            std::fs::remove_file(link).expect("it is there");
        }
        assert!(!resolved(root.path(), Path::new("/loop/os-release")).exists());
        assert_eq!(resolved(root.path(), Path::new("/none/../x/y")), root.path().join("x/y"));
    }

    #[test]
    fn more_links_than_the_kernel_follows_do_not_lead_out() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let outside = tempfile::NamedTempFile::new().expect("a temporary file");
        let link = |number: usize, target: &Path| {
            let link = root.path().join(format!("link{number}"));
            std::os::unix::fs::symlink(target, link).expect("writable");
        };
        link(0, outside.path());
        (1..=MOST_LINKS).for_each(|n| link(n, Path::new(&format!("/link{}", n - 1))));
        for number in [MOST_LINKS - 1, MOST_LINKS] {
            let path = resolved(root.path(), Path::new(&format!("/link{number}")));
            assert!(std::fs::read(&path).is_err(), "{}", path.display());
        }
    }

    #[test]
    fn other_distributions_have_other_commands() {
        assert_eq!(remedy("ID=fedora", "tcmalloc"), "dnf install gperftools-libs");
        assert_eq!(remedy("ID='arch'", "tbbmalloc"), "pacman -S onetbb");
        let testing = "apk add hardened-malloc, from the repository testing";
        assert_eq!(remedy("ID=alpine", "hardened_malloc"), testing);
        assert!(remedy("ID=alpine", "tbbmalloc").starts_with("not packaged by Alpine; use -a"));
        assert!(remedy("ID=fedora", "rpmalloc").starts_with("build it from source"));
        for unknown in [
            "ID=opensuse-leap\nID_LIKE=\"suse opensuse\"",
            "ID=rocky\nID_LIKE=\"rhel centos fedora\"",
            "ID=\"rhel\"\nID_LIKE=\"fedora\"",
            "ID=\"amzn\"\nID_LIKE=\"fedora\"",
        ] {
            assert!(remedy(unknown, "jemalloc").starts_with("see whether this system has"));
        }
    }
}
