// SPDX-License-Identifier: MIT
//! What is run: the command, the allocators, the conditions.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::Wish;
use crate::error::{Error, Result};
use crate::output::Notes;
use mallow_launch::contender::{self, Choice, Contender};
use mallow_launch::input;
use mallow_launch::target::Target;
use mallow_launch::words;
use mallow_measure::run::{self, Limits, Sample};
use mallow_measure::service::Service;
use mallow_measure::values::Pattern;
use mallow_os::threads::why_not_started;
use nix::sys::signal::Signal;

/// Between a signal to a shell command and the same one to this process.
const SIGNAL_WITHIN: Duration = Duration::from_millis(100);

/// One setting of CPUs and variables under which all allocators are compared.
#[derive(Clone, Debug, Default)]
pub struct Condition {
    pub name: String,
    pub cpu_count: Option<usize>,
    pub environment: Vec<(String, String)>,
}

/// Of a cell in the result; what stands in the first row of a table is its baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub table: usize,
    pub row: usize,
}

#[derive(Debug)]
pub struct Plan {
    pub target: Target,
    program: PathBuf,
    argv: Vec<OsString>,
    pub command_line: String,
    /// The baseline first.
    pub contenders: Vec<Contender>,
    pub conditions: Vec<Condition>,
    pub service: Option<Service>,
    show_output: bool,
}

impl Plan {
    pub fn new(wish: &Wish, notes: Notes) -> Result<Plan> {
        let service = service(wish)?;
        let words = wish.words()?;
        let target = Target::resolve(words.first().ok_or_else(mallow_launch::Error::no_command)?)?;
        let choice = Choice {
            allocators: &wish.allocators,
            baseline: wish.baseline.as_deref(),
            secure: wish.secure,
            debug: wish.debug,
            options: &wish.options,
        };
        let contenders = contender::choose(choice, &target, &|sentence| notes.note(sentence))?;
        let conditions = conditions(wish)?;
        both_set(&conditions[0], &contenders)?;
        let (program, argv) = target.argv(&words);
        if let Some(sentence) = input::why_none() {
            notes.note(&sentence);
        }
        Ok(Plan {
            program,
            argv,
            command_line: command_line(wish),
            contenders,
            conditions,
            service,
            show_output: wish.show_output,
            target,
        })
    }

    /// Whether one allocator is compared with itself under other conditions.
    pub fn compares_conditions(&self) -> bool {
        self.contenders.len() == 1 && self.conditions.len() > 1
    }

    /// Where a contender under a condition stands in the result.
    pub fn place(&self, condition: usize, contender: usize) -> Place {
        if self.compares_conditions() {
            Place { table: contender, row: condition }
        } else {
            Place { table: condition, row: contender }
        }
    }

    pub fn tables(&self) -> usize {
        if self.compares_conditions() { 1 } else { self.conditions.len() }
    }

    /// Of each table.
    pub fn rows(&self) -> usize {
        if self.compares_conditions() { self.conditions.len() } else { self.contenders.len() }
    }

    pub fn command(&self, condition: &Condition, contender: &Contender) -> Command {
        let mut command = Command::new(&self.program);
        let input = if self.service.is_some() { Stdio::null() } else { input::each_run() };
        command.args(&self.argv[1..]).stdin(input);
        if !self.show_output {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        command.envs(condition.environment.iter().map(|(name, value)| (name, value)));
        mallow_launch::preload::apply(&mut command, &contender.changes);
        command
    }

    /// One run: of the command, or of the service under its load.
    pub fn run(
        &self,
        condition: &Condition,
        contender: &Contender,
        limits: Limits,
        values: &[Pattern],
        interrupted: &AtomicBool,
    ) -> Result<Sample> {
        let command = self.command(condition, contender);
        let environment = &condition.environment;
        Ok(match &self.service {
            Some(service) => service.run(command, environment, limits, values, interrupted)?,
            None => run::run(command, limits, values, interrupted)?,
        })
    }

    /// Runs a command of --setup, --prepare or --cleanup. False: it was interrupted, so that nothing may
    /// follow from it.
    pub fn run_shell(
        &self,
        what: &str,
        script: Option<&str>,
        interrupted: &AtomicBool,
    ) -> Result<bool> {
        let Some(script) = script else { return Ok(true) };
        let was_interrupted = interrupted.load(Ordering::Relaxed);
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).stdin(Stdio::null());
        if !self.show_output {
            command.stdout(Stdio::null());
        }
        let status = command.status().map_err(|error| Error::NotStarted {
            command: "/bin/sh".into(),
            reason: why_not_started(&error),
        })?;
        if is_cut(status, was_interrupted, interrupted) {
            return Ok(false);
        }
        if status.success() {
            return Ok(true);
        }
        Err(Error::Child {
            message: format!("The {what} command failed ({status}): {script}"),
            code: status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(125),
        })
    }
}

/// Whether Ctrl-C ended a shell command, which gets it too, or came while the command ran. After an
/// interruption the cleanup may still fail by itself.
fn is_cut(status: ExitStatus, was_interrupted: bool, interrupted: &AtomicBool) -> bool {
    let ends = [Signal::SIGINT as i32, Signal::SIGTERM as i32];
    let by_signal = |code: i32| ends.iter().any(|signal| code == 128 + signal);
    let is_ended = status.signal().is_some_and(|signal| ends.contains(&signal))
        || status.code().is_some_and(by_signal);
    let start = Instant::now();
    // The shell may end before this process has got its own signal.
    while is_ended && !interrupted.load(Ordering::Relaxed) && start.elapsed() < SIGNAL_WITHIN {
        std::thread::sleep(Duration::from_millis(1));
    }
    interrupted.load(Ordering::Relaxed) && (is_ended || !was_interrupted)
}

impl Wish {
    /// Of what runs under the allocators: with a service, the server.
    pub fn words(&self) -> Result<Vec<OsString>> {
        Ok(match &self.service.server {
            Some(server) => words::split(server)?,
            None => self.command.clone(),
        })
    }
}

fn service(wish: &Wish) -> Result<Option<Service>> {
    if wish.service.server.is_none() {
        return Ok(None);
    }
    let load = match &wish.service.load {
        Some(script) => vec!["/bin/sh".into(), "-c".into(), script.into()],
        None => wish.command.clone(),
    };
    Ok(Some(Service::new(wish.service.ready.as_deref().unwrap_or_default(), load)?))
}

fn command_line(wish: &Wish) -> String {
    match (&wish.service.server, &wish.service.load) {
        (Some(server), Some(load)) => format!("{server}, under load of: {load}"),
        (Some(server), None) => format!("{server}, under load of: {}", words::line(&wish.command)),
        _ => words::line(&wish.command),
    }
}

fn conditions(wish: &Wish) -> Result<Vec<Condition>> {
    let usable = mallow_os::usable_cpu_count();
    if let Some(count) = wish.cpus.iter().find(|count| **count == 0 || **count > usable) {
        return Err(Error::Usage(format!(
            "The command cannot run on {count} CPUs: this process may use 1 to {usable}."
        )));
    }
    let mut conditions = vec![Condition::default()];
    if !wish.cpus.is_empty() {
        let on = |count: &usize| Condition {
            name: if *count == 1 { "1 CPU".into() } else { format!("{count} CPUs") },
            cpu_count: Some(*count),
            environment: Vec::new(),
        };
        conditions = wish.cpus.iter().map(on).collect();
    }
    for (name, values) in &wish.matrix {
        if name == "LD_PRELOAD" {
            return Err(Error::Usage(
                "The matrix cannot set LD_PRELOAD; name the libraries with -a NAME=PATH.".into(),
            ));
        }
        conditions = conditions
            .iter()
            .flat_map(|condition| values.iter().map(|value| condition.with(name, value)))
            .collect();
    }
    Ok(conditions)
}

/// What `--opt` sets would hold whatever the matrix says, and each of its columns show the same.
fn both_set(condition: &Condition, contenders: &[Contender]) -> Result<()> {
    let set = contenders.iter().flat_map(|contender| &contender.changes);
    let both = set
        .map(|(name, _)| name)
        .find(|name| condition.environment.iter().any(|(of_matrix, _)| of_matrix == *name));
    both.map_or(Ok(()), |name| {
        Err(Error::Usage(format!(
            "Both --opt and --matrix set {name}. Leave out --opt, and write its settings into each value of \
             the matrix."
        )))
    })
}

impl Condition {
    fn with(&self, name: &str, value: &str) -> Condition {
        let mut condition = self.clone();
        if !condition.name.is_empty() {
            condition.name.push_str(", ");
        }
        // Two quotes, which a shell takes for an empty value: after a bare `NAME=` one seems to be missing.
        let shown = if value.is_empty() { "''" } else { value };
        condition.name.push_str(&format!("{name}={shown}"));
        condition.environment.push((name.to_owned(), value.to_owned()));
        condition
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_cuts_a_shell_command_only_if_it_came_to_us_too() {
        let killed = ExitStatus::from_raw(Signal::SIGINT as i32);
        let failed = ExitStatus::from_raw(1 << 8);
        let (unset, set) = (AtomicBool::new(false), AtomicBool::new(true));
        assert!(!is_cut(killed, false, &unset));
        assert!(is_cut(killed, false, &set) && is_cut(killed, true, &set));
        assert!(is_cut(ExitStatus::from_raw(130 << 8), true, &set));
        assert!(is_cut(failed, false, &set));
        assert!(!is_cut(failed, true, &set), "a cleanup that fails by itself");
        let late = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(10));
                late.store(true, Ordering::Relaxed);
            });
            assert!(is_cut(killed, false, &late));
        });
    }

    #[test]
    fn what_an_option_sets_is_not_varied_too() {
        let contender = |changes: &[&str]| Contender {
            allocator: mallow_launch::Allocator::system(),
            changes: changes.iter().map(|name| ((*name).into(), Some("x".into()))).collect(),
        };
        let varied = Condition::default().with("MALLOW_CONF", "thp:never");
        assert!(both_set(&varied, &[contender(&["LD_PRELOAD"])]).is_ok());
        assert!(both_set(&Condition::default(), &[contender(&["MALLOW_CONF"])]).is_ok());
        let error = both_set(&varied, &[contender(&[]), contender(&["MALLOW_CONF"])]).unwrap_err();
        assert!(error.to_string().contains("MALLOW_CONF") && error.exit_code() == 2, "{error}");
    }

    #[test]
    fn conditions_multiply() {
        let one = Condition { name: "1 CPU".into(), cpu_count: Some(1), environment: Vec::new() };
        let two = one.with("A", "x").with("B", "y");
        assert_eq!(two.name, "1 CPU, A=x, B=y");
        assert_eq!(two.environment.len(), 2);
        let empty = one.with("A", "");
        assert_eq!((empty.name.as_str(), empty.environment[0].1.as_str()), ("1 CPU, A=''", ""));
    }
}
