// SPDX-License-Identifier: MIT
//! Starts small programs with a library preloaded: does it work at all? The loader, which
//! `preflight` asks, runs nothing of it.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::preload::{self, Changes};

/// On every system, and it does nothing.
pub const PROBE: &str = "/bin/true";
/// What a login needs at least: a start, a fork, memory, and output that is the right one.
const SHELL: (&str, &[&str]) = ("/bin/sh", &["-c", "x=$(echo works) && test \"$x\" = works"]);

/// They need a hundredth of it.
const LIMIT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(2);

/// Fails, with the allocator's name in the sentence, where a program does not work in that
/// environment. What a system lacks is not tried, and nothing where there is no /dev: it is a folder that is to
/// become one.
pub fn check(name: &str, library: &str, changes: &Changes) -> Result<()> {
    if !Path::new("/dev/null").exists() {
        return Ok(());
    }
    for (program, arguments) in [(PROBE, &[][..]), SHELL] {
        if !Path::new(program).exists() {
            continue;
        }
        if let Some(end) = failure(program, arguments, changes, LIMIT)? {
            return Err(Error::Unsupported(format!(
                "{name} does not work here: {program}, started with {library}, {end}. Install a build \
                 of it for this system, or use another allocator."
            )));
        }
    }
    Ok(())
}

/// How it ended, if that was not well.
fn failure(
    program: &str,
    arguments: &[&str],
    changes: &Changes,
    limit: Duration,
) -> Result<Option<String>> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    preload::apply(&mut command, changes);
    let what = || format!("{program} cannot be started");
    let mut child = command.spawn().map_err(Error::io(what()))?;
    let begin = Instant::now();
    loop {
        match child.try_wait().map_err(Error::io(what()))? {
            Some(status) => return Ok((!status.success()).then(|| ending(status))),
            None if begin.elapsed() > limit => {
                let _ = child.kill();
                let _ = child.wait();
                return Ok(Some(format!("did not end within {} seconds", limit.as_secs())));
            }
            None => std::thread::sleep(PAUSE),
        }
    }
}

fn ending(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("was ended by {}", mallow_os::signal_name(signal)),
        (None, code) => format!("failed with exit code {}", code.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_apart() {
        let end = |script: &str, limit: u64| {
            let limit = Duration::from_secs(limit);
            failure("/bin/sh", &["-c", script], &Changes::new(), limit).unwrap()
        };
        assert_eq!(end("exit 0", 60), None);
        assert_eq!(end("exit 3", 60).as_deref(), Some("failed with exit code 3"));
        assert_eq!(end("kill -ABRT $$", 60).as_deref(), Some("was ended by SIGABRT"));
        assert_eq!(end("exec sleep 60", 1).as_deref(), Some("did not end within 1 seconds"));
    }

    #[test]
    fn what_works_passes() {
        let changes = vec![("LD_PRELOAD".into(), Some("".into()))];
        check("nothing", "nothing", &changes).unwrap();
    }
}
