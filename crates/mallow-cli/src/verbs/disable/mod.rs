// SPDX-License-Identifier: MIT
//! `mallow disable`: makes every file what it was before `mallow enable`.

mod args;
mod report;

use std::path::Path;

use crate::error::{Error, Result};
pub use args::DisableArgs;
use mallow_enabling::{Entry, Place, Record, System, absolute, elsewhere};
use report::{File, Report};

pub fn main(args: &DisableArgs) -> Result<u8> {
    args.output.check()?;
    let system = System::new(args.change.root.as_deref())?;
    system.check_records()?;
    let mut files = Vec::new();
    for file in system.records() {
        files.extend(undo(&file, args, &system)?);
    }
    let others = if args.place.global || args.all { others(&system) } else { Vec::new() };
    let is_dry_run = args.change.dry_run;
    let report = Report { schema: "mallow.disable/1", is_dry_run, files, others };
    args.output.write(&report, || report.page(), |format, screen| report.text(format, screen))?;
    Ok(0)
}

/// What one record holds of what is asked for; a dry run looks whether it can be undone.
fn undo(file: &Path, args: &DisableArgs, system: &System) -> Result<Vec<File>> {
    let record = Record::read(system, file)?;
    let chosen = chosen(args, &record)?;
    if args.change.dry_run {
        check(&chosen, &record, args)?;
        chosen.iter().try_for_each(|entry| record.check_writable(&entry.file))?;
    } else if chosen.is_empty() {
        record.clear();
    } else {
        return take(file, args, system);
    }
    Ok(chosen.iter().map(|entry| File::new(entry, system)).collect())
}

/// Somebody may have changed it until now, so the record is read once more.
fn take(file: &Path, args: &DisableArgs, system: &System) -> Result<Vec<File>> {
    let mut record = Record::open(system, file)?;
    let chosen = chosen(args, &record)?;
    check(&chosen, &record, args)?;
    chosen.iter().try_for_each(|entry| record.take(entry))?;
    Ok(chosen.iter().map(|entry| File::new(entry, system)).collect())
}

/// What this verb cannot undo, because `mallow enable` did not write it.
fn others(system: &System) -> Vec<elsewhere::Other> {
    let own: Vec<_> = system
        .records()
        .iter()
        .filter_map(|file| Record::read(system, file).ok())
        .flat_map(|record| record.entries().to_vec())
        .map(|entry| system.at(&entry.file))
        .collect();
    elsewhere::find(system, &own).iter().map(elsewhere::Elsewhere::report).collect()
}

/// All are looked at before the first is undone.
fn check(chosen: &[Entry], record: &Record, args: &DisableArgs) -> Result<()> {
    if args.change.force {
        return Ok(chosen.iter().try_for_each(|entry| record.check_way(entry))?);
    }
    Ok(chosen.iter().try_for_each(|entry| record.check_removal(entry))?)
}

fn chosen(args: &DisableArgs, record: &Record) -> Result<Vec<Entry>> {
    let folder = args.place.wrappers.as_deref().map(absolute).transpose();
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
        // Earlier builds wrote it as it was given.
        Place::Wrapper { folder: other } => folder.is_some() && folder == absolute(other).ok(),
    };
    Ok(record.entries().iter().filter(is_wanted).cloned().collect())
}
