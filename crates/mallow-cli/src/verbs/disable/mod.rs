// SPDX-License-Identifier: MIT
//! `mallow disable`: makes every file what it was before `mallow enable`.

mod args;

use std::fmt::Write as _;

use crate::enabling::{Entry, Place, Record, System, elsewhere};
use crate::error::{Error, Result};
use crate::output;
pub use args::DisableArgs;

pub fn main(args: &DisableArgs) -> Result<u8> {
    let system = System::new(args.change.root.as_deref())?;
    let mut text = String::new();
    for file in system.records() {
        let record = Record::read(&system, &file)?;
        let chosen = chosen(args, &record)?;
        if chosen.is_empty() {
            if !args.change.dry_run {
                record.clear();
            }
            continue;
        }
        if args.change.dry_run {
            check(&chosen, &record, args)?;
            for entry in &chosen {
                record.check_writable(&entry.file)?;
                let path = system.at(&entry.file);
                let _ = writeln!(text, "{} would be as it was before.", path.display());
            }
            continue;
        }
        // Somebody may have changed it until now.
        let record = Record::open(&system, &file)?;
        let chosen = self::chosen(args, &record)?;
        text += &take(&chosen, record, args, &system)?;
    }
    if text.is_empty() {
        text = "Nothing is enabled there, so nothing was changed. See: mallow status\n".into();
    } else if args.change.dry_run {
        text += "Nothing was changed: this is a dry run.\n";
    }
    if args.place.global || args.all {
        text += &others(&system);
    }
    output::print(&text)?;
    Ok(0)
}

/// What this verb cannot undo, because `mallow enable` did not write it.
fn others(system: &System) -> String {
    let own: Vec<_> = system
        .records()
        .iter()
        .filter_map(|file| Record::read(system, file).ok())
        .flat_map(|record| record.entries().to_vec())
        .map(|entry| system.at(&entry.file))
        .collect();
    let mut text = String::new();
    for other in elsewhere::find(system, &own) {
        let _ = writeln!(
            text,
            "{} enables {} for {}, not by mallow enable; to undo that, {}.",
            other.file.display(),
            other.allocator,
            other.place.describe(),
            other.remedy()
        );
    }
    text
}

/// All are looked at before the first is undone.
fn check(chosen: &[Entry], record: &Record, args: &DisableArgs) -> Result<()> {
    if args.change.force {
        return Ok(());
    }
    chosen.iter().try_for_each(|entry| record.check_removal(entry))
}

fn take(
    chosen: &[Entry],
    mut record: Record,
    args: &DisableArgs,
    system: &System,
) -> Result<String> {
    check(chosen, &record, args)?;
    let mut text = String::new();
    for entry in chosen {
        let was_there = record.take(entry)?;
        let what = if was_there { "is as it was before" } else { "is gone" };
        let path = system.at(&entry.file);
        let (name, place) = (&entry.allocator, entry.place.describe());
        let _ = match &entry.place {
            Place::Wrapper { .. } => writeln!(text, "{} {what}", path.display()),
            _ => writeln!(text, "{name} is disabled for {place}:\n  {} {what}", path.display()),
        };
        let _ = match (&entry.place, entry.place.restart()) {
            (_, Some(command)) => writeln!(text, "To make it take effect:\n  {command}"),
            (Place::Global, _) if system.is_running() => {
                writeln!(text, "Shells that run keep it until their end; here: unset LD_PRELOAD")
            }
            _ => Ok(()),
        };
    }
    Ok(text)
}

fn chosen(args: &DisableArgs, record: &Record) -> Result<Vec<Entry>> {
    let folder = args.place.wrappers.as_ref().map(std::path::absolute).transpose();
    let folder = folder.map_err(Error::io("The folder cannot be used"))?;
    let wanted_unit = args.place.unit.as_deref().map(|name| name.trim_end_matches(".service"));
    let is_wanted = |entry: &&Entry| match &entry.place {
        _ if args.all => true,
        Place::Global => args.place.global,
        Place::LdSoPreload => args.place.ld_so_preload,
        // Never in a record.
        Place::Environment => false,
        Place::Unit { unit } => {
            !args.place.user && wanted_unit == Some(unit.trim_end_matches(".service"))
        }
        Place::UserUnit { unit } => {
            args.place.user && wanted_unit == Some(unit.trim_end_matches(".service"))
        }
        Place::Wrapper { folder: other } => folder.as_ref() == Some(other),
    };
    Ok(record.entries().iter().filter(is_wanted).cloned().collect())
}
