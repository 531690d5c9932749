// SPDX-License-Identifier: MIT
//! Runs the command: recorded, for what it allocates, and alone, for how much memory it takes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use mallow_capture::{Recorded, Request, Stdin, Stdout, WHY_OUTSIDE};
use mallow_launch::go;
use mallow_measure::run::{self, Limits, Outcome};
use mallow_report::baseline::Measured;
use mallow_report::{Detail, Limits as Shown};
use mallow_trace::{Event, Record};

use super::args::CheckArgs;
use crate::error::{Error, Result};
use crate::output::Notes;
use crate::parse::Stacks;
use crate::recording::{self, Recording, Sources};
use crate::signals;

/// `padding`: variables for one run more, where the environment is not the baseline's.
pub fn measure(
    args: &CheckArgs,
    depth: usize,
    padding: Option<&[(String, String)]>,
    notes: Notes,
    interrupted: &AtomicBool,
) -> Result<Measured> {
    if let Some(sentence) = mallow_launch::input::why_none() {
        notes.note(&sentence);
    }
    mallow_capture::check(&args.command.words, args.allocator.as_deref(), true)?;
    let mut measured = Measured::default();
    // What the command does only once, such as filling caches, is over before it is measured.
    peak_rss(args, 1, interrupted)?;
    let own = (2..=args.runs + 1).map(|number| (number, None));
    for (number, padding) in own.chain(padding.map(|padding| (2 * args.runs + 2, Some(padding)))) {
        let request = Wanted { args, depth, number, padding };
        let recorded =
            signals::ended_by(interrupted, || record(request, notes, interrupted, &mut measured));
        go_on(interrupted)?;
        recorded??;
    }
    // The kernel counts a copy of this process as the child's memory.
    mallow_os::trim_heap();
    for number in args.runs + 2..=2 * args.runs + 1 {
        measured.rss.push(peak_rss(args, number, interrupted)?);
    }
    Ok(measured)
}

/// One of the runs that are recorded.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    args: &'a CheckArgs,
    depth: usize,
    number: u32,
    padding: Option<&'a [(String, String)]>,
}

fn record(
    wanted: Wanted,
    notes: Notes,
    interrupted: &AtomicBool,
    measured: &mut Measured,
) -> Result<()> {
    let Wanted { args, depth, number, padding } = wanted;
    let trace = tempfile::Builder::new()
        .prefix("mallow-check-")
        .tempfile()
        .map_err(Error::io("The trace cannot be written (set TMPDIR to another folder)"))?;
    let temporary = Temporary::new(args)?;
    let variables = [padding.unwrap_or_default(), &temporary.variables].concat();
    let request = Request {
        command: &args.command.words,
        allocator: args.allocator.as_deref(),
        trace: trace.path(),
        stacks: args.stacks.into(),
        stack_distance: 0,
        drops: false,
        duration: None,
        stdin: Stdin::EachRun,
        // The same in each run: programs allocate more or less by what their output is.
        stdout: Stdout::Nowhere,
        variables: &variables,
        through: true,
    };
    // The same would be said of each run.
    let notes = Notes { quiet: notes.quiet || number > 2 };
    let captured = mallow_capture::record(&request, &|sentence| notes.note(sentence))
        .map_err(Error::of_temporary)?;
    if captured.code() != 0 {
        return Err(failed(args, number, captured.outcome()));
    }
    let names = names(args);
    measured.notes.extend(complaints(&captured.recorded, &names)?);
    let mut filter = Filter::new(&names);
    let limits = Shown { stacks: 0, sizes: 0, sizes_of_thread: 0 };
    let quiet = Notes { quiet: true };
    let sources = Sources { folders: &[], debug_files: false };
    let counts = |record: &Record| filter.takes(record);
    let recording = Recording::open(trace.path())?;
    // It is open: nothing of it stays behind, however this ends.
    drop(trace);
    let go_on = || go_on(interrupted);
    let analysed =
        recording::analyse_some(recording, sources, Detail::User, limits, quiet, counts, go_on)?;
    if let Some(damage) = analysed.damage {
        return Err(Error::Internal(format!("the recording is damaged: {damage}")));
    }
    if !filter.found_any {
        return Err(none_is_named(&names, &filter.others));
    }
    measured.processes.append(&mut filter.programs);
    let depth = if args.stacks == Stacks::None { 0 } else { depth };
    let add = if padding.is_some() { Measured::add_elsewhere } else { Measured::add };
    add(measured, &analysed.summary, &analysed.profile, depth);
    Ok(())
}

fn none_is_named(names: &[String], others: &BTreeSet<String>) -> Error {
    let names = names.join(" or ");
    Error::Usage(match others.len() {
        0 => format!(
            "No process of the command is a program named {names}. None of them allocates, or can be \
             recorded, so there is nothing to check."
        ),
        _ => {
            let others = others.iter().cloned().collect::<Vec<_>>().join(", ");
            format!("No process of the command is a program named {names}. There were: {others}.")
        }
    })
}

/// Those that count, by name.
fn names(args: &CheckArgs) -> Vec<String> {
    match args.process.is_empty() && go::is_test(&args.command.words) {
        true => vec![go::PROGRAMS.into()],
        false => args.process.clone(),
    }
}

/// A folder for what `go test` builds, until its names have been read.
struct Temporary {
    _folder: Option<tempfile::TempDir>,
    variables: Vec<(String, String)>,
}

impl Temporary {
    fn new(args: &CheckArgs) -> Result<Temporary> {
        if !go::is_test(&args.command.words) {
            return Ok(Temporary { _folder: None, variables: Vec::new() });
        }
        let folder = tempfile::Builder::new()
            .prefix("mallow-check-")
            .tempdir()
            .map_err(Error::io("A folder cannot be made (set TMPDIR to another folder)"))?;
        let variables = go::variables(&args.command.words[0], folder.path());
        Ok(Temporary { _folder: Some(folder), variables })
    }
}

/// What keeps the counts from being exact; an error where they are worth nothing.
fn complaints(recorded: &Recorded, names: &[String]) -> Result<Vec<String>> {
    if recorded.damaged_rings > 0 {
        return Err(Error::Inconclusive(
            "The command overwrote some of what was recorded, so its allocations cannot be counted. \
             mallow guard finds who writes where it should not."
                .into(),
        ));
    }
    if recorded.dropped > 0 {
        return Err(Error::Inconclusive(
            "Calls were lost, so the command's allocations cannot be counted: mallow could not keep up for \
             some seconds, or the command overwrote the count. Run the check again; where it is so each \
             time, mallow guard finds who writes where it should not."
                .into(),
        ));
    }
    let mut found = Vec::new();
    if recorded.lost_threads > 0 {
        found.push(
            "Some threads are not counted: more than 4,096 ran at a time, or no address space was left."
                .into(),
        );
    }
    let counts = |outsider: &String| {
        // The kernel keeps 15 letters of a name.
        let is = |name: &String| matches(name, outsider) || outsider.len() >= 15;
        names.is_empty() || names.iter().any(is)
    };
    if recorded.outsiders.iter().any(counts) {
        found.push(format!("Some processes of the command are not counted: they {WHY_OUTSIDE}."));
    }
    if recorded.still_running > 0 {
        found.push(
            "Processes of the command outlive it; what they do after its end is not counted."
                .into(),
        );
    }
    Ok(found)
}

/// Of the command's largest process, without the recorder. What the command prints is shown once.
fn peak_rss(args: &CheckArgs, number: u32, interrupted: &AtomicBool) -> Result<u64> {
    let silent = |_: &str| {};
    let prepared =
        mallow_launch::prepare(&args.command.words, args.allocator.as_deref(), &[], &silent)?
            .checked()?;
    let temporary = Temporary::new(args)?;
    let mut command = prepared.command();
    command.envs(temporary.variables.iter().map(|(name, value)| (name, value)));
    match number {
        1 => command.stdout(std::io::stderr()),
        _ => command.stdout(Stdio::null()).stderr(Stdio::null()),
    };
    let sample = run::run(command, Limits::default(), &[], interrupted)?;
    match sample.outcome {
        Outcome::Finished => Ok(sample.most_rss as u64),
        Outcome::Interrupted => Err(cut_short()),
        outcome => Err(failed(args, number, outcome)),
    }
}

fn failed(args: &CheckArgs, number: u32, outcome: Outcome) -> Error {
    Error::Child {
        message: format!(
            "The command {} in run {number} of {}, so nothing is held against the baseline.",
            outcome.describe(),
            number.max(2 * args.runs + 1)
        ),
        code: outcome.code(),
    }
}

/// Until there is an interruption.
fn go_on(interrupted: &AtomicBool) -> Result<()> {
    if interrupted.load(Ordering::Relaxed) { Err(cut_short()) } else { Ok(()) }
}

fn cut_short() -> Error {
    let message = "The check was interrupted, so nothing is held against the baseline.".into();
    Error::Child { message, code: signals::exit_code() }
}

/// Which processes count, by the file names of their programs.
struct Filter<'a> {
    names: &'a [String],
    processes: HashSet<u32>,
    threads: HashMap<u32, u32>,
    /// Of those that count, and of the others.
    programs: BTreeSet<String>,
    others: BTreeSet<String>,
    found_any: bool,
}

impl<'a> Filter<'a> {
    fn new(names: &'a [String]) -> Filter<'a> {
        Filter {
            names,
            processes: HashSet::new(),
            threads: HashMap::new(),
            programs: BTreeSet::new(),
            others: BTreeSet::new(),
            found_any: names.is_empty(),
        }
    }

    fn takes(&mut self, record: &Record) -> bool {
        match &record.event {
            Event::Process(process) => {
                let path = process.executable.as_str();
                let program = path.rsplit('/').next().unwrap_or(path);
                if self.names.is_empty() || self.names.iter().any(|name| matches(name, program)) {
                    self.found_any = true;
                    self.processes.insert(process.id);
                    self.programs.insert(program.to_owned());
                } else {
                    self.others.insert(program.to_owned());
                }
                true
            }
            Event::Thread(thread) => {
                self.threads.insert(record.thread, thread.process);
                true
            }
            Event::Call(_) => {
                let process = self.threads.get(&record.thread);
                process.is_none_or(|process| self.processes.contains(process))
            }
            _ => true,
        }
    }
}

/// Whether a name is of this pattern, in which `*` stands for any letters. What stands between two is looked for once:
/// where its first place does not do, no other does.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(start) else { return false };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*') {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_any_program_there_is_none_to_name() {
        let said = |others: &[&str]| {
            let others = others.iter().map(|&name| name.to_owned()).collect();
            none_is_named(&["a".into(), "b".into()], &others).to_string()
        };
        assert!(said(&["c", "d"]).ends_with("named a or b. There were: c, d."));
        assert!(said(&[]).ends_with("named a or b. None of them allocates, or can be recorded, so there is nothing to check."));
    }

    #[test]
    fn patterns_match_names() {
        assert!(matches("app", "app") && !matches("app", "app2") && !matches("app", "an app"));
        assert!(matches("app-*", "app-0123") && matches("*", "") && matches("*p*2", "app2"));
        assert!(!matches("app-*", "app") && !matches("*x", "app") && !matches("a*b*c", "acb"));
        assert!(!matches("a*a", "a") && matches("a*a", "aa") && matches("*a*", "\u{f6}a\u{f6}"));
        // By trying all places of each part this one would not end.
        let name = "a".repeat(255);
        assert!(!matches(&("*a".repeat(100) + "*b*a"), &name) && matches(&"*a".repeat(100), &name));
    }
}
