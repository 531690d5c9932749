// SPDX-License-Identifier: MIT
//! The metrics as text, in Prometheus's format or as OpenMetrics. `FAMILIES` is the one table of
//! them; explanations of what the allocator counts come from its own table of figures.

use std::fmt::Write;

use mallow_process::heap::mallow::Arena;
use mallow_process::vitals::TICKS_PER_SECOND;
use mallow_stats::definitions;

use super::accept::Form;
use super::collect::{Counters, Outcome, Reading, Snapshot, Target};

/// Arenas of a process that get a label of their own; those behind them are summed up as `other`.
pub const MOST_ARENAS: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Gauge,
    Counter,
    Info,
}

/// Where an explanation comes from.
enum Help {
    /// Level and name in the allocator's table.
    Table(&'static str, &'static str),
    Words(&'static str),
}
use Help::{Table, Words};

/// How the values of a family are found.
enum Values {
    /// In bytes, by arena.
    ByArena(fn(&Arena) -> u64),
    Count(fn(&Counters) -> u64),
    Heap(fn(&Reading) -> f64),
    /// `None`: this target has none.
    Of(fn(&Target) -> Option<u64>),
    OfTarget(fn(&Target, &Snapshot) -> Option<f64>),
    /// Targets by what came of reading them.
    States,
    Own(fn(&Snapshot) -> f64),
    Version,
}

use Values::{ByArena, Count, Heap, Of, OfTarget, Own, States, Version};

pub struct Family {
    /// Without `mallow_`, which every one begins with, `_total`, which every counter ends in, and
    /// `_info`. Those of bytes and seconds end in their unit.
    name: &'static str,
    kind: Kind,
    help: Help,
    values: Values,
}

const fn gauge(name: &'static str, help: Help, values: Values) -> Family {
    Family { name, kind: Kind::Gauge, help, values }
}

const fn counter(name: &'static str, help: Help, values: Values) -> Family {
    Family { name, kind: Kind::Counter, help, values }
}

pub const FAMILIES: [Family; 31] = [
    Family {
        name: "target",
        kind: Kind::Info,
        help: Words("A process that is served, and who serves its malloc"),
        values: OfTarget(|_, _| Some(1.0)),
    },
    gauge("heap_allocated_bytes", Table("PROCESS", "allocated"), ByArena(Arena::allocated)),
    gauge("heap_cached_bytes", Table("PROCESS", "cached"), ByArena(|arena| arena.listed)),
    gauge("heap_active_bytes", Table("PROCESS", "active"), ByArena(|arena| arena.active)),
    gauge(
        "heap_dirty_bytes",
        Table("PROCESS", "dirty"),
        ByArena(|arena| arena.dirty.saturating_add(arena.cached)),
    ),
    gauge("heap_muzzy_bytes", Table("PROCESS", "muzzy"), ByArena(|arena| arena.muzzy)),
    gauge("heap_retained_bytes", Table("PROCESS", "retained"), ByArena(|arena| arena.retained)),
    gauge(
        "heap_mapped_bytes",
        Words("Bytes of address space in regions and huge blocks, without what is retained"),
        ByArena(|arena| arena.mapped.saturating_sub(arena.retained)),
    ),
    gauge(
        "heap_metadata_bytes",
        Words("Bytes of the allocator's own data"),
        Heap(|reading| reading.heap.metadata as f64),
    ),
    gauge(
        "heap_arenas",
        Table("PROCESS", "arenas"),
        Heap(|reading| reading.heap.arenas.len() as f64),
    ),
    gauge("heap_heaps", Table("PROCESS", "heaps"), Heap(|reading| reading.heap.heaps as f64)),
    counter(
        "heap_slot_allocations",
        Words("Blocks that the program was given from slots; larger ones are not counted"),
        Count(|counters| counters.allocations),
    ),
    counter(
        "heap_slot_remote_frees",
        Table("CLASS", "remote_frees"),
        Count(|counters| counters.remote_frees),
    ),
    counter("heap_list_fills", Table("CLASS", "fills"), Count(|counters| counters.fills)),
    counter("heap_list_flushes", Table("CLASS", "flushes"), Count(|counters| counters.flushes)),
    counter(
        "heap_lock_waits",
        Words("Turns at a lock of the allocator, had after sleeping"),
        Count(|counters| counters.lock_waits),
    ),
    counter(
        "heap_lock_wait_seconds",
        Words("Seconds that threads slept in all until a lock of the allocator was free"),
        Heap(|reading| reading.counters.lock_wait_ns as f64 / 1e9),
    ),
    counter(
        "heap_mappings_made",
        Table("PROCESS", "mappings_made"),
        Count(|counters| counters.mappings_made),
    ),
    counter(
        "heap_mappings_dropped",
        Table("PROCESS", "mappings_dropped"),
        Count(|counters| counters.mappings_dropped),
    ),
    counter(
        "heap_mappings_moved",
        Table("PROCESS", "mappings_moved"),
        Count(|counters| counters.mappings_moved),
    ),
    gauge(
        "process_resident_bytes",
        Words("Bytes of the process in memory (RSS)"),
        Of(|target| Some(target.vitals.rss)),
    ),
    gauge(
        "process_swap_bytes",
        Words("Bytes of the process that are swapped out"),
        Of(|target| Some(target.vitals.swap)),
    ),
    gauge(
        "process_virtual_bytes",
        Words("Bytes of address space that the process has mapped"),
        Of(|target| Some(target.vitals.size)),
    ),
    gauge(
        "process_threads",
        Words("Threads of the process"),
        Of(|target| Some(target.vitals.threads)),
    ),
    gauge(
        "process_start_time_seconds",
        Words("When the process started, in seconds since 1970"),
        OfTarget(|target, snapshot| Some(start_time(target, snapshot))),
    ),
    gauge(
        "process_memory_limit_bytes",
        Words("The memory limit of the control group that leaves the process the least room"),
        Of(|target| Some(target.limit?.bytes)),
    ),
    gauge(
        "process_memory_limit_used_bytes",
        Words("What that control group uses of its limit, files in memory included"),
        Of(|target| Some(target.limit?.used)),
    ),
    gauge(
        "serve_targets",
        Words(
            "Processes by what came of reading their heap; left_out: there are more than the limit",
        ),
        States,
    ),
    gauge(
        "serve_targets_limit",
        Words("The most processes that are served (--most), the bound on labels of processes"),
        Own(|snapshot| snapshot.most as f64),
    ),
    gauge(
        "serve_collect_seconds",
        Words("How long reading all targets took"),
        Own(|snapshot| snapshot.took.as_secs_f64()),
    ),
    Family {
        name: "serve_build",
        kind: Kind::Info,
        help: Words(
            "The version of mallow serve, and the most arenas that get a label of their own",
        ),
        values: Version,
    },
];

pub fn start_time(target: &Target, snapshot: &Snapshot) -> f64 {
    // Ticks as /proc has them are a hundredth of a second on every machine that Linux runs on.
    snapshot.boot_time as f64 + target.vitals.started as f64 / TICKS_PER_SECOND
}

/// One value of a family.
pub struct Sample<'a> {
    /// Whose it is: an index into the targets; the server's own if there is none.
    pub target: Option<usize>,
    /// Besides those of the target.
    pub labels: &'a [(&'static str, &'a str)],
    pub value: f64,
}

pub fn render(snapshot: &Snapshot, form: Form) -> String {
    let labels = |target: &Target| labels_of(target).map(|(name, value)| label(name, &value));
    let labels: Vec<String> = snapshot.targets.iter().map(|t| labels(t).join(",")).collect();
    let mut text = String::new();
    for family in &FAMILIES {
        family.head(&mut text, form);
        let name = family.sample_name();
        family.samples(snapshot, &mut |sample| {
            let of_target = sample.target.map(|index| labels[index].clone());
            let own = sample.labels.iter().map(|(name, value)| label(name, value));
            let all: Vec<String> = of_target.into_iter().chain(own).collect();
            let all = if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) };
            let _ = writeln!(text, "{name}{all} {}", sample.value);
        });
    }
    if form == Form::OpenMetrics {
        text += "# EOF\n";
    }
    text
}

impl Family {
    /// As the samples are called.
    fn sample_name(&self) -> String {
        match self.kind {
            Kind::Gauge => self.full_name(),
            Kind::Counter => format!("mallow_{}_total", self.name),
            Kind::Info => format!("mallow_{}_info", self.name),
        }
    }

    fn full_name(&self) -> String {
        format!("mallow_{}", self.name)
    }

    /// As OpenTelemetry writes names: `mallow.heap.allocated`, with the unit beside it. A collector
    /// makes the name of `/metrics` of it for Prometheus.
    pub fn dotted_name(&self) -> String {
        let name = match self.unit() {
            Some(unit) => self.name.trim_end_matches(unit).trim_end_matches('_'),
            None => self.name,
        };
        let suffix = if self.kind == Kind::Info { "_info" } else { "" };
        format!("mallow.{}{suffix}", name.replacen('_', ".", 1))
    }

    /// As the Unified Code for Units of Measure has it.
    pub fn unit_of_ucum(&self) -> &'static str {
        match self.unit() {
            Some("bytes") => "By",
            Some(_) => "s",
            None => "",
        }
    }

    pub fn is_counter(&self) -> bool {
        self.kind == Kind::Counter
    }

    fn unit(&self) -> Option<&'static str> {
        ["bytes", "seconds"].into_iter().find(|unit| self.name.ends_with(unit))
    }

    pub fn help(&self) -> String {
        match self.help {
            Table(level, name) => definitions::help(level, name).unwrap_or_default(),
            Words(words) => words.into(),
        }
    }

    fn head(&self, text: &mut String, form: Form) {
        let (name, kind) = match (form, self.kind) {
            (Form::OpenMetrics, Kind::Counter) => (self.full_name(), "counter"),
            (Form::OpenMetrics, Kind::Info) => (self.full_name(), "info"),
            (Form::Prometheus, Kind::Counter) => (self.sample_name(), "counter"),
            (_, _) => (self.sample_name(), "gauge"),
        };
        let _ = writeln!(text, "# HELP {name} {}.", escape(&self.help()));
        let _ = writeln!(text, "# TYPE {name} {kind}");
        if let (Form::OpenMetrics, Some(unit)) = (form, self.unit()) {
            let _ = writeln!(text, "# UNIT {name} {unit}");
        }
    }

    pub fn samples(&self, snapshot: &Snapshot, take: &mut dyn FnMut(Sample)) {
        let targets = || snapshot.targets.iter().enumerate();
        let read = || {
            targets().filter_map(|(index, target)| match &target.heap {
                Outcome::Read(reading) => Some((index, reading)),
                _ => None,
            })
        };
        let mut of = |index: usize, value: f64| {
            take(Sample { target: Some(index), labels: &[], value });
        };
        match self.values {
            ByArena(amount) => read().for_each(|(index, reading)| {
                by_arena(&reading.heap.arenas, amount, |arena, value| {
                    take(Sample { target: Some(index), labels: &[("arena", arena)], value });
                });
            }),
            Count(count) => read().for_each(|(index, reading)| {
                of(index, count(&reading.counters) as f64);
            }),
            Heap(amount) => read().for_each(|(index, reading)| of(index, amount(reading))),
            Of(amount) => targets().for_each(|(index, target)| {
                amount(target).into_iter().for_each(|value| of(index, value as f64));
            }),
            OfTarget(amount) => targets().for_each(|(index, target)| {
                amount(target, snapshot).into_iter().for_each(|value| of(index, value));
            }),
            States => {
                for (state, count) in states(snapshot) {
                    let labels = &[("state", state)];
                    take(Sample { target: None, labels, value: count as f64 });
                }
            }
            Own(amount) => take(Sample { target: None, labels: &[], value: amount(snapshot) }),
            Version => {
                let arenas = MOST_ARENAS.to_string();
                let labels = &[("version", env!("CARGO_PKG_VERSION")), ("arenas", &arenas)];
                take(Sample { target: None, labels, value: 1.0 });
            }
        }
    }
}

fn by_arena(arenas: &[Arena], of: fn(&Arena) -> u64, mut sample: impl FnMut(&str, f64)) {
    let (own, rest) = arenas.split_at(arenas.len().min(MOST_ARENAS));
    for (index, arena) in own.iter().enumerate() {
        sample(&index.to_string(), of(arena) as f64);
    }
    if !rest.is_empty() {
        sample("other", rest.iter().map(|arena| of(arena) as f64).sum());
    }
}

/// How many targets came to which end.
pub fn states(snapshot: &Snapshot) -> [(&'static str, usize); 5] {
    let count = |name| snapshot.targets.iter().filter(|t| t.heap.name() == name).count();
    let state = |name| (name, count(name));
    let left_out = ("left_out", snapshot.left_out);
    [state("read"), state("other"), state("denied"), state("unreadable"), left_out]
}

/// What every sample of a process is labelled with.
pub fn labels_of(target: &Target) -> [(&'static str, String); 3] {
    [
        ("pid", target.pid.to_string()),
        ("comm", target.vitals.comm.clone()),
        ("allocator", target.allocator.clone()),
    ]
}

fn label(name: &str, value: &str) -> String {
    format!("{name}=\"{}\"", escape(value))
}

/// The value of a label, or a help text. Other control characters are shown, not sent.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' => escaped += "\\\\",
            '"' => escaped += "\\\"",
            '\n' => escaped += "\\n",
            _ if character.is_control() => {
                let shown: String = character.escape_default().collect();
                escaped += &shown.replace('\\', "\\\\");
            }
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use mallow_process::heap::mallow::Heap;
    use mallow_process::vitals::Vitals;

    fn snapshot(comm: &str, arenas: usize) -> Snapshot {
        let arena = Arena { large: 10, mapped: 100, retained: 30, ..Arena::default() };
        let heap = Heap { arenas: vec![arena; arenas], ..Heap::default() };
        let reading = Reading { heap, ..Reading::default() };
        let vitals = Vitals { comm: comm.into(), ..Vitals::default() };
        let heap = Outcome::Read(Box::new(reading));
        let allocator = "mallow".into();
        let target =
            Target { pid: 7, exe: None, started_as: None, vitals, limit: None, allocator, heap };
        Snapshot { targets: vec![target], most: 3, ..Snapshot::default() }
    }

    #[test]
    fn labels_are_escaped() {
        let text = render(&snapshot("a\"b\\c\nd\u{1b}", 1), Form::Prometheus);
        let line = text.lines().find(|line| line.starts_with("mallow_target_info")).unwrap();
        let expected = r#"{pid="7",comm="a\"b\\c\nd\\u{1b}",allocator="mallow"} 1"#;
        assert_eq!(line, format!("mallow_target_info{expected}"));
    }

    #[test]
    fn arenas_are_bounded_and_nothing_is_lost() {
        let text = render(&snapshot("x", 100), Form::Prometheus);
        let lines = text.lines().filter(|line| line.starts_with("mallow_heap_allocated_bytes{"));
        let lines: Vec<&str> = lines.collect();
        assert_eq!(lines.len(), MOST_ARENAS + 1);
        assert!(lines[MOST_ARENAS].ends_with(",arena=\"other\"} 840"), "{}", lines[MOST_ARENAS]);
    }

    #[test]
    fn what_is_retained_is_not_mapped() {
        let text = render(&snapshot("x", 1), Form::Prometheus);
        for (name, value) in [("mapped", " 70"), ("retained", " 30")] {
            let name = format!("mallow_heap_{name}_bytes{{");
            let mut lines = text.lines().filter(|line| line.starts_with(&name));
            assert!(lines.all(|line| line.ends_with(value)), "{name}: {text}");
        }
    }

    #[test]
    fn open_metrics_differ_where_they_must() {
        let text = render(&snapshot("x", 1), Form::OpenMetrics);
        assert!(text.ends_with("# EOF\n"));
        assert!(text.contains("# TYPE mallow_heap_list_fills counter\n"));
        assert!(text.contains("# UNIT mallow_heap_lock_wait_seconds seconds\n"));
        assert!(text.contains("# TYPE mallow_target info\nmallow_target_info{"));
        let old = render(&snapshot("x", 1), Form::Prometheus);
        assert!(old.contains("# TYPE mallow_heap_list_fills_total counter\n"));
        assert!(!old.contains("# UNIT") && !old.contains("# EOF"));
    }

    #[test]
    fn every_family_explains_itself() {
        for family in &FAMILIES {
            assert!(family.help().len() > 8, "{}", family.name);
        }
    }
}
