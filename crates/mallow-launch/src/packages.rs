//! Versions of installed packages, read from the package managers' own databases.

use std::collections::BTreeMap;

/// Package name to version, from dpkg or apk; empty where there is neither.
pub fn installed_versions() -> BTreeMap<String, String> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let mut versions = parse_dpkg(&read("/var/lib/dpkg/status"));
    versions.extend(parse_apk(&read("/lib/apk/db/installed")));
    versions
}

fn parse_dpkg(status: &str) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    for paragraph in status.split("\n\n") {
        let field = |name: &str| paragraph.lines().find_map(|line| line.strip_prefix(name));
        if let (Some(package), Some(version)) = (field("Package: "), field("Version: "))
            && field("Status: ").is_some_and(|status| status.ends_with(" installed"))
        {
            versions.insert(package.to_owned(), version.to_owned());
        }
    }
    versions
}

fn parse_apk(database: &str) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    for paragraph in database.split("\n\n") {
        let field = |name: &str| paragraph.lines().find_map(|line| line.strip_prefix(name));
        if let (Some(package), Some(version)) = (field("P:"), field("V:")) {
            versions.insert(package.to_owned(), version.to_owned());
        }
    }
    versions
}

/// The version without a package's epoch and revision: `1:2.0.9+ds-2` → `2.0.9`.
pub fn upstream(version: &str) -> &str {
    let version = version.split_once(':').map_or(version, |(_, rest)| rest);
    let version = version.split('-').next().unwrap_or(version);
    version.split('+').next().unwrap_or(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_databases_are_read() {
        let dpkg = "Package: a\nStatus: install ok installed\nVersion: 1:2.0.9+ds-2\n\n\
                    Package: b\nStatus: deinstall ok config-files\nVersion: 1\n";
        let versions = parse_dpkg(dpkg);
        assert_eq!(versions.len(), 1);
        assert_eq!(upstream(&versions["a"]), "2.0.9");
        let apk = "C:Q1x=\nP:jemalloc\nV:5.3.0-r6\nA:x86_64\n\nP:musl\nV:1.2.5-r0\n";
        assert_eq!(upstream(&parse_apk(apk)["jemalloc"]), "5.3.0");
    }
}
