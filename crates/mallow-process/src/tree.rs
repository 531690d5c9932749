// SPDX-License-Identifier: MIT
//! A process and those that it started.

/// Adds the process and all that descend from it, parents first.
pub fn descendants(pid: u32, found: &mut Vec<u32>) {
    found.push(pid);
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return };
    for thread in threads.flatten() {
        let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|child| child.parse().ok()) {
            descendants(child, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn children_are_found() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let mut found = Vec::new();
        descendants(std::process::id(), &mut found);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found[0], std::process::id());
        assert!(found.contains(&child.id()), "{found:?}");
    }
}
