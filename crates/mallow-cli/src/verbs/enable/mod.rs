// SPDX-License-Identifier: MIT
//! `mallow enable`: an allocator for login shells, for a service, as wrappers, or as the lines to
//! paste into somebody else's files.

mod args;
mod global;
mod proof;
mod report;
mod snippets;
mod text;
mod unit;
mod wrappers;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::output::Notes;
pub use args::EnableArgs;
use mallow_enabling::elsewhere::Other;
use mallow_enabling::{Outcome, Place, Record, System, Wanted};
use mallow_launch::installed::{self, Installed};
use mallow_launch::preload::Changes;
use mallow_launch::target::Starter;
use mallow_launch::{Target, preflight, trial, words};
use report::{File, Report, Snippet};

/// What is to be written, and what its user should know.
#[derive(Default)]
struct Plan {
    /// Nothing is to be written: it is enabled by somebody else.
    already: Option<Other>,
    files: Vec<Wanted>,
    /// What changes beside the files.
    also: Vec<String>,
    /// How to make it take effect, where the system runs.
    next: Vec<String>,
    /// What follows `mallow disable`.
    undo: String,
}

pub fn main(args: &EnableArgs, notes: Notes) -> Result<u8> {
    args.output.check()?;
    let system = System::new(args.change.root.as_deref())?;
    let (report, refusal) = match snippet(args, &system)? {
        Some(snippet) => (Report { snippet: Some(snippet), ..Report::default() }, None),
        None => change(args, &system, notes)?,
    };
    args.output.write(
        &report,
        || text::page(&report),
        |format, screen| text::text(&report, format, screen),
    )?;
    refusal.map_or(Ok(0), Err)
}

/// What was done; of a dry run what would be, and why that cannot be.
fn change(args: &EnableArgs, system: &System, notes: Notes) -> Result<(Report, Option<Error>)> {
    let plan = match (&args.place.wrappers, &args.place.unit) {
        (Some(folder), _) => wrappers::plan(&args.allocators, folder, system)?,
        (_, Some(name)) => {
            let (user, force) = (args.place.user, args.change.force);
            unit::plan(&one(args, system)?, name, user, force, system, notes)?
        }
        _ if args.place.ld_so_preload => global::plan_for_loader(&one(args, system)?, system)?,
        _ => global::plan(&one(args, system)?, args.change.force, system, notes)?,
    };
    if plan.already.is_some() {
        return Ok((Report { already: plan.already, ..Report::default() }, None));
    }
    if args.place.wrappers.is_none() && !args.place.ld_so_preload && !args.full_path {
        tell_full_path(&one(args, system)?, notes);
    }
    if args.if_better {
        proof::demand(&one(args, system)?, args, notes)?;
    }
    let (files, refusal) = match args.change.dry_run {
        true => foresee(&plan, args, system)?,
        false => (carry_out(&plan, args, system)?, None),
    };
    let report = Report {
        is_dry_run: args.change.dry_run,
        files,
        also: plan.also,
        next: plan.next.into_iter().filter(|_| system.is_running()).collect(),
        undo: Some(format!("mallow disable {}{}", plan.undo, root_words(args))),
        ..Report::default()
    };
    Ok((report, refusal))
}

fn snippet(args: &EnableArgs, system: &System) -> Result<Option<Snippet>> {
    let forms: [(bool, &str, snippets::Form); 5] = [
        (args.docker, "docker", snippets::docker),
        (args.compose, "compose", snippets::compose),
        (args.kubernetes, "kubernetes", snippets::kubernetes),
        (args.procfile, "procfile", snippets::procfile),
        (args.supervisor, "supervisor", snippets::supervisor),
    ];
    let Some((_, form, text)) = forms.into_iter().find(|(is_wanted, ..)| *is_wanted) else {
        return Ok(None);
    };
    let wish = snippets::Wish::new(name(args)?, system)?;
    let (allocator, preload) = (wish.name.clone(), wish.word());
    Ok(Some(Snippet { form, allocator, preload, text: text(&wish) }))
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
fn foresee(plan: &Plan, args: &EnableArgs, system: &System) -> Result<(Vec<File>, Option<Error>)> {
    let (mut files, mut refusal) = (Vec::new(), None);
    for wanted in &plan.files {
        let record = Record::read(system, &system.record_for(&wanted.place)?)?;
        let mut outcome = record.foresee(wanted, args.change.force)?;
        if outcome != Outcome::Unchanged {
            let refused = || record.check_writable(&wanted.file).err().map(Error::from);
            refusal = refusal.or_else(refused);
            if refusal.is_some() {
                outcome = Outcome::Refused;
            }
        }
        files.push(File::new(wanted, outcome, system));
    }
    Ok((files, refusal))
}

fn root_words(args: &EnableArgs) -> String {
    let quoted = |root: &PathBuf| format!(" --root {}", words::quoted(root.as_os_str()));
    args.change.root.as_ref().map_or(String::new(), quoted)
}

/// All files are looked at before the first is written.
fn carry_out(plan: &Plan, args: &EnableArgs, system: &System) -> Result<Vec<File>> {
    let Some(first) = plan.files.first() else {
        return Err(Error::Internal("nothing is to be written".into()));
    };
    // All of one call are of one place.
    let mut record = Record::open(system, &system.record_for(&first.place)?)?;
    let files = plan.files.iter().map(|wanted| renewed(wanted, system));
    let files: Vec<Wanted> = files.collect::<Result<_>>()?;
    for wanted in &files {
        record.foresee(wanted, args.change.force)?;
    }
    let put = |wanted: &Wanted| -> Result<File> {
        let outcome = record.put(wanted, args.change.force)?;
        Ok(File::new(wanted, outcome, system))
    };
    files.iter().map(put).collect()
}

/// With what somebody has added to the loader's list while the allocator was tried out, compared, and waited for others.
fn renewed(wanted: &Wanted, system: &System) -> Result<Wanted> {
    let mut wanted = wanted.clone();
    if wanted.place == Place::LdSoPreload {
        wanted.text = global::list_with(&wanted.library, system)?;
    }
    Ok(wanted)
}
