// SPDX-License-Identifier: MIT
//! `mallow list`: the allocators that can be used here, and how to install the others.

mod args;

use serde::Serialize;

use crate::error::Result;
use crate::output::{Page, Table};
pub use args::ListArgs;
use mallow_launch::allocator::{self, Allocator, Missing};

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    allocators: Vec<Entry>,
    missing: Vec<MissingEntry>,
}

#[derive(Serialize)]
struct Entry {
    name: String,
    version: Option<String>,
    /// The C library whose programs it serves: glibc, musl or either.
    libc: &'static str,
    variant: String,
    path: Option<String>,
    embedded: bool,
}

#[derive(Serialize)]
struct MissingEntry {
    name: String,
    variant: String,
    install: String,
}

pub fn main(args: &ListArgs) -> Result<u8> {
    args.output.check()?;
    let (usable, missing) = allocator::discover()?;
    let rows = table(&usable, &missing);
    let sentence = format!(
        "{} allocators can be used here, and {} could be installed.",
        usable.len(),
        missing.len()
    );
    let report = Report {
        schema: "mallow.list/1",
        allocators: usable.iter().map(entry).collect(),
        missing: missing.into_iter().map(missing_entry).collect(),
    };
    args.output.write(
        &report,
        || Page::of_table("mallow list", &sentence, &rows),
        |format, screen| rows.render(format, screen),
    )?;
    Ok(0)
}

fn table(usable: &[Allocator], missing: &[Missing]) -> Table {
    let mut table = Table::new(&[
        ("allocator", false),
        ("version", false),
        ("libc", false),
        ("variant", false),
        ("path, or how to install", false),
    ]);
    for allocator in usable {
        let entry = entry(allocator);
        table.rows.push(vec![
            entry.name,
            entry.version.unwrap_or_else(|| "?".into()),
            entry.libc.into(),
            entry.variant,
            entry.path.unwrap_or_else(|| "in the C library".into()),
        ]);
    }
    for missing in missing {
        table.rows.push(vec![
            missing.name.clone(),
            "-".into(),
            String::new(),
            missing.variant.clone(),
            format!("not installed: {}", missing.remedy),
        ]);
    }
    table
}

fn entry(allocator: &Allocator) -> Entry {
    Entry {
        name: allocator.name.clone(),
        version: allocator.version.clone(),
        libc: allocator.libc.map_or("either", |libc| libc.name()),
        variant: allocator.variant.clone(),
        path: allocator.path.as_ref().map(|path| path.display().to_string()),
        embedded: mallow_launch::embedded::by_name(&allocator.name).is_some(),
    }
}

fn missing_entry(missing: Missing) -> MissingEntry {
    MissingEntry { name: missing.name, variant: missing.variant, install: missing.remedy }
}
