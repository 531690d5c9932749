// SPDX-License-Identifier: MIT
//! A profile of the heap (`heap_v2`) instead of a trace: which stacks hold the memory.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use mallow_capture::modules::{ElfFacts, bias};
use mallow_process::maps::{self, Mapping};
use mallow_report::pprof::{self, Code};
use mallow_report::{Costs, Frame, HeapProfile, Metric, Names, Profile};
use mallow_trace::{Module, ModuleKind};
use serde::Serialize;

use super::args::{By, ReportArgs, TableName};
use super::{csv, text};
use crate::error::{Error, Result};
use crate::input::{self, Peeked};
use crate::output::{self, Format, Notes, Screen};
use crate::recording::{Sources, Symbols};

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    /// Mean distance in bytes between two samples: sums are estimates.
    sample_distance: u64,
    live: mallow_report::Amount,
    /// Of all blocks that were ever asked for, if the program counted them.
    #[serde(skip_serializing_if = "Option::is_none")]
    allocated: Option<mallow_report::Amount>,
    stacks: Vec<Stack<'a>>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct Stack<'a> {
    live: mallow_report::Amount,
    #[serde(skip_serializing_if = "Option::is_none")]
    allocated: Option<mallow_report::Amount>,
    frames: Vec<&'a Frame>,
}

pub fn main(args: &ReportArgs, mut file: Peeked, notes: Notes) -> Result<u8> {
    refuse_what_only_traces_have(args)?;
    let path = &args.trace;
    let failed = || Error::io(format!("The heap profile {} cannot be read", path.display()));
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(failed())?;
    let heap = HeapProfile::parse(&String::from_utf8_lossy(&bytes))
        .map_err(|error| Error::Damaged(format!("{}: {error}.", path.display())))?;
    drop(bytes);
    let written =
        file.get_ref().1.metadata().and_then(|data| data.modified()).unwrap_or(UNIX_EPOCH);
    let mut places = Places::new(&heap.maps, &args.symbols);
    let names = places.name(&heap, &args.symbols, written, notes);
    let profile = profile_of(&heap, &names).with(args.frames.detail());
    if let Some(pprof) = &args.pprof {
        let written_unix_ns =
            written.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let shown = match (args.by, heap.has_all()) {
            (By::Leaked, _) | (_, false) => pprof::Shown::Held,
            _ => pprof::Shown::All,
        };
        let about = pprof::About { written_unix_ns, shown, comments: &places.complaints };
        let bytes = pprof::encode_heap(&heap, &places.code, &names, &about);
        super::write_compressed(pprof, &bytes)?;
        if input::is_standard(pprof) {
            return Ok(0);
        }
    }
    output::write_result(&args.output, &print(args, &heap, &profile, &places.complaints)?)?;
    Ok(0)
}

fn refuse_what_only_traces_have(args: &ReportArgs) -> Result<()> {
    let by_moment = |by: By| matches!(by, By::Peak | By::Temporary);
    let table = |table: TableName| !matches!(table, TableName::Stacks);
    let what = if args.diff.is_some() {
        "--diff"
    } else if by_moment(args.by) || args.folded.is_some_and(by_moment) {
        "the metrics peak and temporary"
    } else if args.csv.is_some_and(table) {
        "tables other than stacks"
    } else if args.output.to.html.is_some() || args.output.chosen_format() == Format::Html {
        "pages"
    } else {
        return Ok(());
    };
    Err(Error::Usage(format!(
        "{} is a profile of the heap, for which there is no report with {what}; a trace \
         (mallow record -o FILE -- COMMAND) has more in it.",
        args.trace.display()
    )))
}

/// What is held counts as never freed: so it is, up to the moment of the profile.
fn profile_of(heap: &HeapProfile, names: &BTreeMap<u64, Vec<Frame>>) -> Profile {
    let mut profile = Profile::default();
    for stack in &heap.stacks {
        let frames = stack.addresses.iter().filter_map(|address| names.get(&call(*address)));
        let frames = frames.flatten().map(|frame| profile.intern(frame.clone())).collect();
        let costs = Costs { allocated: stack.all, leaked: stack.live, ..Costs::default() };
        profile.add(frames, &costs);
    }
    profile
}

/// Before the address that a call returns to.
fn call(address: u64) -> u64 {
    address.saturating_sub(1)
}

/// The files that code was mapped from.
struct Places {
    maps: Vec<Mapping>,
    /// By their places in `maps`.
    modules: Vec<Module>,
    biases: Vec<u64>,
    code: Vec<Code>,
    complaints: Vec<String>,
}

impl Places {
    fn new(text: &str, folders: &[PathBuf]) -> Places {
        let is_code = |line: &maps::Line| line.perms.contains('x') && line.name.starts_with('/');
        let lines =
            text.lines().filter(|line| maps::split(line).is_some_and(|line| is_code(&line)));
        let maps = lines.filter_map(|line| maps::mapping(line.as_bytes())).collect();
        let mut places = Places {
            maps,
            modules: Vec::new(),
            biases: Vec::new(),
            code: Vec::new(),
            complaints: Vec::new(),
        };
        let mut other = Vec::new();
        for (index, mapping) in places.maps.iter().enumerate() {
            let file = file_of(mapping, folders);
            let is_recorded = file.metadata().is_ok_and(|data| data.ino() == mapping.inode);
            if file == mapping.path && file.is_file() && !is_recorded {
                other.push(mapping.path.display().to_string());
            }
            let facts = ElfFacts::read(&file);
            places.biases.push(bias(facts.as_ref(), mapping));
            let build_id = facts.map(|facts| facts.build_id).unwrap_or_default();
            let path = mapping.path.display().to_string();
            places.code.push(Code {
                start: mapping.start,
                end: mapping.end,
                offset: mapping.offset,
                path: path.clone(),
                build_id: build_id.clone(),
                has_names: true,
            });
            let id = index as u32 + 1;
            let kind = ModuleKind::File;
            places.modules.push(Module { id, kind, path, build_id, process: 0 });
        }
        if !other.is_empty() {
            other.dedup();
            places.complaints.push(format!(
                "Names may be wrong: {} is not the file that was mapped when the profile was written; \
                 give the folder of that one with --symbols.",
                other.join(", ")
            ));
        }
        places
    }

    /// The functions at each call, innermost first.
    fn name(
        &mut self,
        heap: &HeapProfile,
        folders: &[PathBuf],
        written: SystemTime,
        notes: Notes,
    ) -> BTreeMap<u64, Vec<Frame>> {
        let sources = Sources { folders, debug_files: true };
        let mut symbols = Symbols::of(Default::default(), written, sources);
        let mut names = BTreeMap::new();
        let bar = notes.progress(heap.stacks.len() as u64);
        bar.set_message("stacks named");
        for stack in &heap.stacks {
            for address in stack.addresses.iter().map(|address| call(*address)) {
                names.entry(address).or_insert_with(|| self.frames(address, &mut symbols));
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        self.complaints.extend(symbols.complaints());
        names
    }

    fn frames(&self, address: u64, symbols: &mut Symbols) -> Vec<Frame> {
        let unnamed = |function: String| vec![Frame { function, ..Frame::default() }];
        let holds = |mapping: &Mapping| (mapping.start..mapping.end).contains(&address);
        let Some(index) = self.maps.iter().position(holds) else {
            return unnamed("(code without a name)".to_owned());
        };
        let module = &self.modules[index];
        let place = address.wrapping_sub(self.biases[index]);
        let mut frames = symbols.frames(module, place);
        if frames.is_empty() {
            let file = super::words::file_name(&module.path);
            frames = unnamed(format!("{file}+{place:#x}"));
            frames[0].module = Some(module.path.clone());
        }
        frames
    }
}

/// Where the mapped file is: in one of the folders, or where it was.
fn file_of(mapping: &Mapping, folders: &[PathBuf]) -> PathBuf {
    let path = &mapping.path;
    let whole = path.strip_prefix("/").unwrap_or(path);
    let name = path.file_name().unwrap_or_default();
    let mut found = folders.iter().flat_map(|folder| [folder.join(whole), folder.join(name)]);
    found.find(|candidate| candidate.is_file()).unwrap_or_else(|| path.clone())
}

/// What the stacks are ranked by: what is held, unless the profile has what is asked for.
fn metric(by: By, heap: &HeapProfile) -> Metric {
    if heap.has_all() { by.metric() } else { Metric::Leaked }
}

fn print(
    args: &ReportArgs,
    heap: &HeapProfile,
    profile: &Profile,
    notes: &[String],
) -> Result<String> {
    if let Some(by) = args.folded {
        return Ok(profile.folded(metric(by, heap)));
    }
    let format = args.output.chosen_format();
    if args.csv.is_some() || format == Format::Csv {
        return Ok(csv::held(profile, heap.has_all()).render(Format::Csv, Screen::PLAIN));
    }
    let by = metric(args.by, heap);
    if format == Format::Json {
        return output::json(&json(args, heap, profile, by, notes));
    }
    let style = text::Style {
        format,
        screen: args.output.screen(),
        top: args.top as usize,
        depth: args.depth as usize,
        by,
    };
    Ok(text::heap(heap, profile, notes, style))
}

fn json<'a>(
    args: &ReportArgs,
    heap: &HeapProfile,
    profile: &'a Profile,
    by: Metric,
    notes: &'a [String],
) -> Report<'a> {
    let of_all = |costs: &Costs| heap.has_all().then_some(costs.allocated);
    let stack = |sample: &&'a mallow_report::Sample| Stack {
        live: sample.costs.leaked,
        allocated: of_all(&sample.costs),
        frames: sample.frames.iter().map(|frame| &profile.frames[*frame as usize]).collect(),
    };
    let total = profile.total();
    Report {
        schema: "mallow.heap/1",
        sample_distance: heap.distance,
        live: total.leaked,
        allocated: of_all(&total),
        stacks: profile.top(by, args.top as usize).iter().map(stack).collect(),
        notes,
    }
}
