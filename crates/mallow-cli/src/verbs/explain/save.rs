// SPDX-License-Identifier: MIT
//! A picture of a process kept in a folder: the files of `/proc` as they were, and the report,
//! whose heap cannot be read again later.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::error::{Error, Result};
use crate::output;
use crate::output::{Format, Screen};
use mallow_advice::explain::{self, Report, SCHEMA};
use mallow_process::binding::Failure;
use mallow_process::heap::Heap;
use mallow_process::mappings::{self, Context};
use mallow_process::process::Process;

use super::text;

const REPORT: &str = "report.json";

/// The files of a living process are dropped as they are written: the text of smaps is large.
pub fn store(folder: &Path, report: &Report, files: BTreeMap<&'static str, String>) -> Result<()> {
    let failed = |source| Error::Io {
        what: format!("The folder {} cannot be written", folder.display()),
        source,
    };
    fs::create_dir_all(folder).map_err(failed)?;
    let write = |name: &str, text: &str| fs::write(folder.join(name), text);
    for (name, text) in files {
        write(name, &text).map_err(failed)?;
    }
    write(REPORT, &output::json(report)?).map_err(failed)?;
    write("report.txt", &text::text(report, Format::Table, true, Screen::PLAIN)).map_err(failed)
}

pub fn load(folder: &Path) -> Result<Report> {
    if !folder.is_dir() {
        return Err(Error::Usage(format!(
            "{} is neither the number of a process nor a folder that explain --save wrote.",
            folder.display()
        )));
    }
    let path = folder.join(REPORT);
    match fs::read_to_string(&path) {
        Ok(text) => parse(&path, &text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => from_files(folder),
        Err(error) => Err(Error::io(format!("{} cannot be read", path.display()))(error)),
    }
}

fn parse(path: &Path, text: &str) -> Result<Report> {
    let damaged = |reason: String| {
        Error::Damaged(format!("{} is not what explain --save wrote: {reason}.", path.display()))
    };
    let report: Report = crate::parse::of_schema(text, SCHEMA).map_err(damaged)?;
    match report.mappings.iter().find(|mapping| mapping.start > mapping.end) {
        Some(_) => Err(damaged("a mapping ends before it begins".into())),
        None => Ok(report),
    }
}

/// Copies of the files of `/proc` alone, such as somebody may send: all but the heap.
fn from_files(folder: &Path) -> Result<Report> {
    let process = Process::saved(folder).map_err(|failure| {
        let reason = match failure {
            Failure::Damaged(reason) => reason,
            _ => "it has no mappings".into(),
        };
        Error::Damaged(format!("{} holds no process: {reason}.", folder.display()))
    })?;
    let context = Context {
        process: &process,
        heap: &Heap::Unknown,
        allocator: "",
        memory: None,
        page: None,
        spaces: &[],
    };
    let mappings = mappings::name(&context);
    let mut report = explain::assemble(&process, mappings, "unknown".into());
    report.notes.push("Only the kernel's figures were saved, not the heap.".into());
    explain::conclude(&mut report);
    Ok(report)
}

#[cfg(test)]
mod tests {
    use mallow_process::picture;
    use mallow_process::process::Keep;

    use super::*;
    use crate::parse;
    use crate::verbs::explain::html;

    /// A folder comes from another machine, and whoever sends it may have written anything into it.
    #[test]
    fn a_changed_report_is_shown_or_refused() {
        let picture = picture::take(std::process::id(), Keep::Figures).expect("this process");
        let (_, report) = explain::report(picture);
        let report = serde_json::to_value(&report).expect("data");
        let copies = parse::changed_copies(report, u64::MAX);
        let mut shown = 0;
        for copy in copies {
            let Ok(report) = super::parse(Path::new("report.json"), &copy.to_string()) else {
                continue;
            };
            text::text(&report, Format::Table, true, Screen::PLAIN);
            text::mapping_table(&report.mappings).render(Format::Csv, Screen::PLAIN);
            assert!(html::page(&report).collect::<String>().ends_with("</html>\n"));
            shown += 1;
        }
        assert!(shown > 100, "{shown}");
    }

    /// What is resident is in smaps; `stat` has it in pages, of which another machine may have larger ones.
    #[test]
    fn a_folder_of_a_machine_with_larger_pages_has_its_figures() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).expect("a file");
        };
        write("status", "Name:\tapp\nPid:\t7\nVmRSS:\t     192 kB\nVmHWM:\t     256 kB\n");
        write(
            "smaps",
            "10000000-10040000 rw-p 00000000 00:00 0    [heap]\nSize:    256 kB\n\
             KernelPageSize:       16 kB\nRss:      192 kB\nPss:    192 kB\n",
        );
        let stat = "7 (app) S 1 7 7 0 -1 4194304 9 0 0 0 1 2 0 0 20 0 1 0 99 262144 12 1 1 1 1 1";
        write("stat", stat);
        let report = load(folder.path()).expect("a process");
        let totals = &report.totals;
        assert_eq!((report.pid, totals.rss, totals.peak_rss), (7, 192 << 10, 256 << 10));
        let heap = &report.mappings[0];
        assert_eq!((heap.start, heap.end, heap.rss), (0x1000_0000, 0x1004_0000, 192 << 10));
    }
}
