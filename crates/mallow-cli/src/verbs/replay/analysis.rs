// SPDX-License-Identifier: MIT
//! What the runs mean, and whether they may be believed.

use mallow_replay::Run;
use mallow_replay::fidelity::{Fidelity, Objection};

use super::args::{ReplayArgs, ReplayMode};
use super::report::{Entry, Latencies, Report, Settings, metric};
use super::rounds::{Cell, Measured};
use crate::output::wording::{self, Contestant};
use crate::replaying::Input;
use mallow_measure::machine::Machine;
use mallow_measure::statistics::Verdict;
use mallow_measure::verdict::{self, Judge, Versus};
use mallow_process::allocators::Family;

type Runs = [(u32, Run)];
/// One of the comparisons of an entry.
type Side = fn(&Entry) -> &Option<Versus>;

/// By so much a peak depends on the CPUs that the threads happen to be on.
const BY_CPUS: f64 = 0.07;

pub fn analyse(args: &ReplayArgs, input: &Input, measured: &Measured) -> Report {
    let recorded_on = input.recorded_allocator();
    let fidelity = Fidelity::of(&input.summary, &recorded_on, measured.reference.as_ref().ok());
    // Speed alone does not depend on the program's memory.
    let of_speed = Fidelity { rss_error: Some(0.0), ..fidelity.clone() }.objection();
    let objection = match (&args.mode, &measured.reference) {
        (ReplayMode::Free, _) => of_speed.clone(),
        (_, Err(reason)) => Some(reason.clone()),
        (_, Ok(_)) => fidelity.objection(),
    };
    let is_ranked_by_time = match (&args.mode, &measured.reference) {
        (ReplayMode::Both, Ok(_)) => of_speed.is_none(),
        _ => objection.is_none(),
    };
    let claims = 2 * measured.cells.len().saturating_sub(1).max(1);
    // Without a ranking there is nothing to judge.
    let judge = |is_ranked: bool| is_ranked.then(|| Judge::new(claims, args.verdict.margin));
    let judges = Judges { time: judge(is_ranked_by_time), memory: judge(objection.is_none()) };
    let confidence = Judge::new(claims, args.verdict.margin).confidence();
    let needed = Judge::new(claims, args.verdict.margin).fewest_rounds();
    let lanes = input.summary.lanes;
    let entry = |cell| entry(judges, lanes, &measured.cells[0], cell);
    let entries: Vec<Entry> = measured.cells.iter().map(entry).collect();
    let verdict = is_ranked_by_time.then(|| sentence(&entries, needed));
    let is_unmeasured = objection == Some(Objection::NotMeasured);
    let objection = objection.map(|reason| {
        let what = match is_ranked_by_time {
            true => "By memory the allocators are not ranked",
            false => "The allocators are not ranked",
        };
        format!("{what}, because {reason}. {}", reason.remedy())
    });
    Report {
        schema: "mallow.replay/1",
        version: env!("CARGO_PKG_VERSION"),
        file: args.trace.display().to_string(),
        command: input.header.command.clone(),
        machine: Machine::read(),
        process: input.summary.clone(),
        processes: input.processes.clone(),
        settings: Settings {
            mode: format!("{:?}", args.mode).to_lowercase(),
            touch: format!("{:?}", args.touch).to_lowercase(),
            rounds: measured.rounds,
            rounds_needed: needed,
            margin_percent: args.verdict.margin,
            confidence,
            seed: measured.seed,
            compile_s: input.compile_s,
            took_s: measured.took.as_secs_f64(),
        },
        fidelity,
        damage: input.damage.clone(),
        objection,
        is_unmeasured,
        verdict,
        entries,
    }
}

/// `None`: there is no ranking.
#[derive(Clone, Copy)]
struct Judges {
    time: Option<Judge>,
    memory: Option<Judge>,
}

/// How far the peaks of two lockstep runs may lie apart. With one thread, and under the C library's own allocator, they
/// are alike.
fn varies(family: Family, lanes: u32) -> f64 {
    if lanes > 1 && family != Family::System { BY_CPUS } else { 0.0 }
}

fn entry(judges: Judges, lanes: u32, baseline: &Cell, cell: &Cell) -> Entry {
    let is_baseline = baseline.allocator.name == cell.allocator.name;
    let versus = |runs: fn(&Cell) -> &Runs, is_exact: bool, value: fn(&Run) -> f64| {
        let judge = if is_exact { judges.memory } else { judges.time };
        let judge = judge.filter(|_| !is_baseline)?;
        let values = |cell| runs(cell).iter().map(|(round, run)| (*round, value(run)));
        let pairs = verdict::pairs(values(baseline), values(cell));
        let varies = |cell: &Cell| varies(cell.allocator.family, lanes);
        match is_exact {
            true => judge.versus_exact(&pairs, varies(baseline) + varies(cell)),
            false => judge.versus(&pairs),
        }
    };
    let lockstep: fn(&Cell) -> &Runs = |cell| &cell.lockstep;
    let free: fn(&Cell) -> &Runs = |cell| &cell.free;
    let counted = cell.lockstep.first().map(|(_, run)| run.kernel_calls);
    let memory_of = if cell.lockstep.is_empty() { free(cell) } else { lockstep(cell) };
    Entry {
        who: Contestant::new(&cell.allocator, is_baseline),
        failure: cell.failures.first().cloned(),
        wall_s: metric(free(cell), |run| Some(run.wall_ns as f64 / 1e9)),
        cpu_s: metric(free(cell), |run| Some((run.user_us + run.system_us) as f64 / 1e6)),
        calls_per_s: metric(free(cell), |run| Some(run.calls as f64 * 1e9 / run.wall_ns as f64)),
        allocate: Latencies::of(free(cell), |run| run.allocate),
        free: Latencies::of(free(cell), |run| run.free),
        lockstep_s: metric(lockstep(cell), |run| Some(run.wall_ns as f64 / 1e9)),
        peak_rss: metric(memory_of, |run| Some(run.peak_rss as f64)),
        average_rss: metric(lockstep(cell), |run| run.average_rss.map(|rss| rss as f64)),
        final_rss: metric(memory_of, |run| Some(run.final_rss as f64)),
        faults: metric(memory_of, |run| Some((run.minor_faults + run.major_faults) as f64)),
        memory_calls: counted.and_then(|count| u64::try_from(count).ok()),
        failed_calls: cell.lockstep.iter().chain(&cell.free).map(|(_, run)| run.failed).max(),
        time: versus(free, false, |run| run.wall_ns as f64),
        memory: versus(lockstep, true, |run| run.peak_rss as f64),
    }
}

/// The result in words: who needs least memory, which one lockstep run ranks, and who is faster than the baseline. Below so
/// many rounds nothing is known of time.
fn sentence(entries: &[Entry], needed: u32) -> String {
    let Some(baseline) = entries.iter().find(|entry| entry.who.is_baseline) else {
        return String::new();
    };
    let base = &baseline.who.allocator;
    if entries.len() == 1 {
        return format!("Only {base} was replayed; name others with -a to compare.");
    }
    let mut parts = Vec::new();
    let sides: [(&str, Side); 2] =
        [("memory", |entry| &entry.memory), ("time", |entry| &entry.time)];
    for (what, side) in sides {
        if entries.iter().all(|entry| side(entry).is_none()) {
            continue;
        }
        let pairs = |entry: &Entry| side(entry).as_ref().map_or(0, |v| v.comparison.pairs);
        let rounds = entries.iter().map(pairs).max().unwrap_or(0);
        if what == "time" && rounds < needed as usize {
            parts.push(format!(
                "No verdict on time: it needs at least {needed} rounds, and there are {rounds} \
                 (--runs {needed})."
            ));
            continue;
        }
        let mut less: Vec<&Entry> = entries
            .iter()
            .filter(|entry| side(entry).as_ref().is_some_and(|v| v.verdict == Verdict::Less))
            .collect();
        let ratio = |entry: &Entry| side(entry).as_ref().map_or(1.0, |v| v.comparison.ratio);
        less.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
        let unclear = entries
            .iter()
            .any(|entry| side(entry).as_ref().is_some_and(|v| v.verdict == Verdict::Inconclusive));
        parts.push(match (less.first(), unclear) {
            (Some(best), _) => {
                let (name, difference) = (&best.who.allocator, wording::difference(side(best)));
                match what {
                    "memory" => format!("{name} needs least memory: {difference} against {base}."),
                    _ => faster(name, base, &difference, less.len() - 1),
                }
            }
            (None, true) => format!("Nothing was shown to need less {what} than {base}."),
            (None, false) => format!("Nothing needs less {what} than {base}."),
        });
    }
    parts.join(" ")
}

/// The runs judge each allocator against the baseline only, so nobody is the fastest.
fn faster(name: &str, base: &str, difference: &str, others: usize) -> String {
    let verdict = format!("{name} is faster than {base} in the calls: {difference}.");
    match others {
        0 => verdict,
        1 => format!("{verdict} So is 1 other; the two were not compared with each other."),
        more => format!("{verdict} So are {more} others; they were not compared with each other."),
    }
}

#[cfg(test)]
mod tests {
    use mallow_measure::statistics::Comparison;

    use super::*;

    fn versus(verdict: Verdict, ratio: f64, pairs: usize) -> Option<Versus> {
        Some(Versus {
            verdict,
            comparison: Comparison { ratio, interval: None, p_value: 0.0, pairs },
        })
    }

    fn entry(name: &str, memory: Option<Versus>, time: Option<Versus>) -> Entry {
        let is_baseline = name == "glibc";
        let who = Contestant { allocator: name.into(), is_baseline, ..Contestant::default() };
        Entry { who, memory, time, ..Entry::default() }
    }

    #[test]
    fn the_sentence_names_the_least_of_each_side_and_why_there_is_none() {
        use Verdict::{Inconclusive, Less, NoDifference};
        let say = |others: &[Entry]| sentence(&[&[entry("glibc", None, None)], others].concat(), 6);
        assert_eq!(say(&[]), "Only glibc was replayed; name others with -a to compare.");
        assert_eq!(sentence(&[entry("mallow", None, None)], 6), "");
        let (less, least) = (versus(Less, 0.9, 6), versus(Less, 0.5, 6));
        let both = say(&[entry("tcmalloc", less, least), entry("mallow", least, less)]);
        let (memory, time) = both.split_once(". ").expect("two sentences");
        assert!(
            memory.starts_with("mallow needs least memory: ") && memory.contains("50.0 %"),
            "{both}"
        );
        assert!(
            time.starts_with("tcmalloc is faster than glibc") && time.contains("So is 1 other")
        );
        // One lockstep run ranks by memory; time needs more.
        let few = say(&[entry("mallow", versus(Less, 0.5, 1), versus(Less, 0.5, 5))]);
        assert!(few.contains("least memory"), "{few}");
        assert!(few.ends_with("needs at least 6 rounds, and there are 5 (--runs 6)."), "{few}");
        let same = versus(NoDifference, 1.0, 6);
        let none = say(&[entry("mallow", same, versus(Inconclusive, 0.9, 6))]);
        let expected = "Nothing needs less memory than glibc. Nothing was shown to need less time than \
                        glibc.";
        assert_eq!(none, expected);
        assert_eq!(say(&[entry("mallow", None, same)]), "Nothing needs less time than glibc.");
    }

    #[test]
    fn with_threads_the_c_librarys_peak_alone_is_exact() {
        for family in [Family::Mallow, Family::Jemalloc, Family::Other] {
            assert_eq!((varies(family, 1), varies(family, 2)), (0.0, BY_CPUS));
        }
        assert_eq!(varies(Family::System, 8), 0.0);
    }

    #[test]
    fn nobody_is_the_fastest_of_those_that_were_not_compared() {
        let say = |others| faster("mallow", "glibc", "-20.0 %", others);
        let alone = "mallow is faster than glibc in the calls: -20.0 %.";
        assert_eq!(say(0), alone);
        assert_eq!(
            say(1),
            format!("{alone} So is 1 other; the two were not compared with each other.")
        );
        assert!(say(3).ends_with("So are 3 others; they were not compared with each other."));
    }
}
