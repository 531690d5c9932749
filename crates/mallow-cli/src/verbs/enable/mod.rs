// SPDX-License-Identifier: MIT
//! `mallow enable`: an allocator for login shells, for a service, as wrappers, or as the lines to
//! paste into somebody else's files.

mod args;
mod global;
mod proof;
mod snippets;
mod unit;
mod wrappers;

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::path::PathBuf;

use crate::enabling::{Outcome, Place, Record, System, Wanted};
use crate::error::{Error, Result};
use crate::output::{self, Notes};
pub use args::EnableArgs;
use mallow_launch::installed::{self, Installed};
use mallow_launch::preload::Changes;
use mallow_launch::target::Starter;
use mallow_launch::{Target, preflight, trial, words};

/// What is to be written, and what its user should know.
#[derive(Default)]
struct Plan {
    /// Why nothing is to be written: it is enabled by somebody else.
    already: Option<String>,
    files: Vec<Wanted>,
    /// What changes beside the files.
    also: Vec<String>,
    /// How to make it take effect, where the system runs.
    next: Vec<String>,
    /// What follows `mallow disable`.
    undo: String,
}

pub fn main(args: &EnableArgs, notes: Notes) -> Result<u8> {
    let system = System::new(args.change.root.as_deref())?;
    if let Some(text) = snippet(args, &system)? {
        output::print(&text)?;
        return Ok(0);
    }
    let plan = match (&args.place.wrappers, &args.place.unit) {
        (Some(folder), _) => wrappers::plan(&args.allocators, folder, &system)?,
        (_, Some(name)) => {
            let (user, force) = (args.place.user, args.change.force);
            unit::plan(&one(args, &system)?, name, user, force, &system, notes)?
        }
        _ if args.place.ld_so_preload => global::plan_for_loader(&one(args, &system)?, &system)?,
        _ => global::plan(&one(args, &system)?, args.change.force, &system, notes)?,
    };
    let is_looked_up = args.place.wrappers.is_none() && !args.place.ld_so_preload;
    if is_looked_up && !args.full_path && plan.already.is_none() {
        tell_full_path(&one(args, &system)?, notes);
    }
    if args.if_better && plan.already.is_none() {
        proof::demand(&one(args, &system)?, args, notes)?;
    }
    let text = match &plan.already {
        Some(sentence) => format!("{sentence}\n"),
        None if args.change.dry_run => {
            let (text, refusal) = foresee(&plan, args, &system)?;
            output::print(&text)?;
            return refusal.map_or(Ok(0), Err);
        }
        None => carry_out(&plan, args, &system)?,
    };
    output::print(&text)?;
    Ok(0)
}

fn snippet(args: &EnableArgs, system: &System) -> Result<Option<String>> {
    let form: fn(&snippets::Wish) -> String = if args.docker {
        snippets::docker
    } else if args.compose {
        snippets::compose
    } else if args.kubernetes {
        snippets::kubernetes
    } else if args.procfile {
        snippets::procfile
    } else if args.supervisor {
        snippets::supervisor
    } else {
        return Ok(None);
    };
    Ok(Some(form(&snippets::Wish::new(name(args)?, system)?)))
}

/// One allocator at a time, Mallow if none is named.
fn name(args: &EnableArgs) -> Result<&str> {
    match args.allocators.as_slice() {
        [] => Ok("mallow"),
        [name] => Ok(name),
        _ => Err(Error::Usage(
            "Only one allocator at a time can be enabled there. Name one, or use --wrappers DIR for \
             several."
                .into(),
        )),
    }
}

fn one(args: &EnableArgs, system: &System) -> Result<Installed> {
    let mut found = installed::find(&system.root, name(args)?)?;
    if args.full_path {
        found.word = found.path.display().to_string();
    }
    Ok(found)
}

/// Fails unless the loader of the running system would serve `program` by the allocator.
fn check(allocator: &Installed, program: &OsStr, system: &System, notes: Notes) -> Result<()> {
    check_for(allocator, program, Starter::own(), system, notes)
}

fn check_for(
    allocator: &Installed,
    program: &OsStr,
    starter: Starter,
    system: &System,
    notes: Notes,
) -> Result<()> {
    let target = Target::resolve(program)?;
    let found = allocator.allocator(&system.root);
    target.check_for(&found, starter)?.iter().for_each(|sentence| notes.note(sentence));
    if system.is_running() {
        let word = OsString::from(&allocator.word);
        let changes: Changes = vec![("LD_PRELOAD".into(), Some(word))];
        preflight::check(&target, &found, &changes)?;
    }
    Ok(())
}

/// Fails if programs do not work with it. Those of the system's own C library are tried.
fn try_out(allocator: &Installed, system: &System) -> Result<()> {
    let fits = allocator.libc.is_none() || allocator.libc == installed::libc_of(&system.root);
    if system.is_running() && fits {
        let path = allocator.path.display().to_string();
        let changes: Changes = vec![("LD_PRELOAD".into(), Some(OsString::from(&path)))];
        trial::check(&allocator.name, &path, &changes)?;
    }
    Ok(())
}

/// A sentence for who wonders why it is not the bare name.
fn tell_full_path(allocator: &Installed, notes: Notes) {
    if !allocator.is_bare() && allocator.path.starts_with("/usr") {
        notes.note(&format!(
            "{} is named by its full path, because the loader does not find it by its name alone; \
             ldconfig may change that.",
            allocator.word
        ));
    }
}

/// What would be written, and why that could not be done.
fn foresee(plan: &Plan, args: &EnableArgs, system: &System) -> Result<(String, Option<Error>)> {
    let (mut text, mut refusal) = (String::new(), None);
    for wanted in &plan.files {
        let record = Record::read(system, &system.record_for(&wanted.place)?)?;
        let path = system.at(&wanted.file).display().to_string();
        let outcome = record.foresee(wanted, args.change.force)?;
        if outcome != Outcome::Unchanged && refusal.is_none() {
            refusal = record.check_writable(&wanted.file).err();
        }
        let what = match outcome {
            Outcome::Unchanged => "is as wanted, and would not be written".to_owned(),
            _ if refusal.is_some() => "could not be written".into(),
            Outcome::Written => "would be written".into(),
            Outcome::Replaced(other) => format!("would be written, {other} replaced"),
            Outcome::Kept => "would be written, and what it is now kept for mallow disable".into(),
        };
        let _ = write!(text, "{path} {what}:\n\n");
        wanted.text.lines().for_each(|line| {
            let _ = writeln!(text, "{}", format!("  {line}").trim_end());
        });
        text.push('\n');
    }
    text += "Nothing was written: this is a dry run.\n";
    Ok((text, refusal))
}

fn root_words(args: &EnableArgs) -> String {
    let quoted = |root: &PathBuf| format!(" --root {}", words::quoted(root.as_os_str()));
    args.change.root.as_ref().map_or(String::new(), quoted)
}

/// All files are looked at before the first is written.
fn carry_out(plan: &Plan, args: &EnableArgs, system: &System) -> Result<String> {
    let mut text = String::new();
    let Some(first) = plan.files.first() else {
        return Err(Error::Internal("nothing is to be written".into()));
    };
    // All of one call are of one place.
    let mut record = Record::open(system, &system.record_for(&first.place)?)?;
    for wanted in &plan.files {
        record.foresee(wanted, args.change.force)?;
    }
    for wanted in &plan.files {
        let outcome = record.put(wanted, args.change.force)?;
        let path = system.at(&wanted.file).display().to_string();
        let (name, place) = (&wanted.allocator, wanted.place.describe());
        let _ = match (outcome, &wanted.place) {
            (Outcome::Unchanged, _) => writeln!(text, "{name} is enabled already:\n  {path}"),
            (_, Place::Wrapper { .. }) => writeln!(text, "{path}: runs a command under {name}"),
            (Outcome::Replaced(other), _) => {
                writeln!(text, "{name} is enabled for {place}, {other} is replaced:\n  {path}")
            }
            (Outcome::Kept, _) => {
                let kept = "what the file was before is kept";
                writeln!(text, "{name} is enabled for {place}, {kept}:\n  {path}")
            }
            (Outcome::Written, _) => writeln!(text, "{name} is enabled for {place}:\n  {path}"),
        };
    }
    for line in &plan.also {
        let _ = writeln!(text, "{line}");
    }
    for line in plan.next.iter().filter(|_| system.is_running()) {
        let _ = writeln!(text, "{line}");
    }
    let _ = writeln!(text, "To undo it: mallow disable {}{}", plan.undo, root_words(args));
    Ok(text)
}
