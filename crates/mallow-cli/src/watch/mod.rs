//! `mallow watch`: memory and faults of a process and its children over time, and the difference
//! between two such runs. `sampler` takes samples, `run` is what they add up to, `live` shows them
//! as they come, `chart` and `html` afterwards.

pub mod chart;
pub mod compare;
pub mod html;
pub mod live;
pub mod run;
pub mod sampler;

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use std::os::unix::process::ExitStatusExt;

use crate::allocator;
use crate::binding::Failure;
use crate::cli::{Format, WatchArgs};
use crate::error::{Error, Result};
use crate::output::{self, Notes, Table};
use crate::target::Target;
use crate::{preflight, preload};
use live::Live;
use run::{Figures, Run, SCHEMA, Summary};
use sampler::Sampler;

const FIRST_AFTER: Duration = Duration::from_millis(20);
/// A look at least this often whether the command has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub fn main(args: &WatchArgs, notes: Notes) -> Result<u8> {
    for path in [&args.output.file, &args.save].into_iter().flatten() {
        output::check_writable(path)?;
    }
    if let [a, b] = args.compare.as_slice() {
        return compare_files(args, a, b);
    }
    let format = args.output.chosen_format();
    let interrupted = crate::compare::watch_signals()?;
    // A table on standard output has its lines as they come.
    let lines = format == Format::Table && args.output.file.is_none();
    let mut live = Live::new(notes.quiet, lines);
    let mut child = match args.pid {
        Some(_) => None,
        None => Some(start(args, notes, live.is_chart())?),
    };
    let pid = args.pid.or_else(|| child.as_ref().map(Child::id)).unwrap_or(0);
    let watched = watch(args, pid, &mut child, &mut live, &interrupted);
    live.close();
    let (run, status) = watched?;
    publish(args, &run)?;
    Ok(status.map_or(0, exit_code))
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(70)
}

fn start(args: &WatchArgs, notes: Notes, is_hidden: bool) -> Result<Child> {
    let command = args.command.first().ok_or_else(crate::commands::run::no_command)?;
    let target = Target::resolve(command)?;
    let (program, argv) = target.argv(&args.command);
    let mut command = Command::new(program);
    command.args(&argv[1..]);
    if let Some(name) = &args.allocator {
        let allocator = allocator::find(name, target.libc())?;
        let changes = preload::changes(&allocator, &[])?;
        for note in target.check(&allocator)? {
            notes.note(&note);
        }
        preflight::check(&target, &allocator, &changes)?;
        preflight::apply(&mut command, &changes);
    }
    if is_hidden {
        // The terminal shows the chart.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    }
    command.spawn().map_err(|error| Error::NotStarted {
        command: target.command.clone(),
        reason: error.to_string(),
    })
}

fn watch(
    args: &WatchArgs,
    pid: u32,
    child: &mut Option<Child>,
    live: &mut Live,
    interrupted: &AtomicBool,
) -> Result<(Run, Option<ExitStatus>)> {
    let mut sampler = Sampler::new(pid);
    let mut run = new_run(args, pid);
    let begin = Instant::now();
    // A command needs a moment until it is itself and not a copy of this process.
    let mut next = if child.is_some() { begin + args.interval.min(FIRST_AFTER) } else { begin };
    let mut status = None;
    run.ending = loop {
        if let Some(child) = child {
            status = child.try_wait().map_err(Error::io("The command cannot be waited for"))?;
            if status.is_some() {
                break "ended".into();
            }
        }
        if interrupted.load(Ordering::Relaxed) {
            break "was still running when the watch was interrupted".into();
        }
        if args.duration.is_some_and(|duration| begin.elapsed() >= duration) {
            break "was still running when the time was over".into();
        }
        if Instant::now() >= next {
            let Some(sample) = sampler.take() else {
                if child.is_none() {
                    break "ended".into();
                }
                // The next look finds its exit code.
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            run.samples.push(sample);
            run.allocator.clone_from(&sampler.allocator);
            live.show(&run);
            next += args.interval;
            // What took too long is not made up for.
            next = next.max(Instant::now());
        }
        let pause = next.saturating_duration_since(Instant::now()).min(LOOK_EVERY);
        if live.wait(pause) {
            break "was still running when the watch was ended".into();
        }
    };
    if let (Some(child), None) = (child, status) {
        // Who started it also ends it.
        let _ = child.kill();
        status = child.wait().ok().filter(|_| false);
    }
    if run.samples.is_empty() {
        return Err(match args.pid {
            Some(pid) => crate::commands::verify::explain(pid, &Failure::Vanished),
            None => Error::Inconclusive(
                "The command ended before a sample could be taken. Use a smaller --interval, or \
                 mallow compare."
                    .into(),
            ),
        });
    }
    run.summary = Summary::of(&run.samples);
    Ok((run, status))
}

fn new_run(args: &WatchArgs, pid: u32) -> Run {
    let words = match args.pid {
        Some(pid) => {
            let text = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&text).trim_end_matches('\0').replace('\0', " ")
        }
        None => {
            let words = args.command.iter().map(|word| word.to_string_lossy().into_owned());
            words.collect::<Vec<_>>().join(" ")
        }
    };
    Run {
        schema: SCHEMA.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        command: words,
        pid,
        started_at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        interval_s: args.interval.as_secs_f64(),
        ..Run::default()
    }
}

fn publish(args: &WatchArgs, run: &Run) -> Result<()> {
    let format = args.output.chosen_format();
    let text = match format {
        Format::Json => json(run)?,
        Format::Csv => run::csv(run),
        Format::Html => html::page(run),
        _ => {
            let table = summary_table(&run.summary);
            let unicode = output::unicode_wanted(&args.output);
            format!("\n{}\n\n{}", html::sentence(run), table.render(format, unicode))
        }
    };
    output::write_result(&args.output, &text)?;
    match &args.save {
        Some(path) => output::write_file(path, &json(run)?),
        None => Ok(()),
    }
}

fn json(run: &Run) -> Result<String> {
    let text = serde_json::to_string_pretty(run);
    text.map(|text| text + "\n").map_err(|error| Error::Internal(error.to_string()))
}

/// What has an average, a peak and an end.
pub fn rows(summary: &Summary) -> Vec<(&'static str, Figures)> {
    let all = [
        ("RSS", Some(summary.rss)),
        ("PSS", summary.pss),
        ("swap", Some(summary.swap).filter(|swap| swap.peak > 0.0)),
        ("heap in use", summary.heap_used),
        ("heap free but kept", summary.heap_free),
    ];
    all.into_iter().filter_map(|(name, figures)| Some((name, figures?))).collect()
}

fn summary_table(summary: &Summary) -> Table {
    let mut table = Table::new(&[("", false), ("average", true), ("peak", true), ("end", true)]);
    for (name, Figures { average, peak, end }) in rows(summary) {
        let sizes = [average, peak, end].map(output::bytes);
        table.rows.push([name.to_owned()].into_iter().chain(sizes).collect());
    }
    table
}

fn compare_files(args: &WatchArgs, a: &Path, b: &Path) -> Result<u8> {
    let (first, second) = (run::load(a)?, run::load(b)?);
    let file = |path: &Path| path.display().to_string();
    let [a, b] = compare::names(&first, &second, [file(a), file(b)]);
    let differences = compare::differences(&first, &second);
    let format = args.output.chosen_format();
    let text = match format {
        Format::Json => compare::json(&a, &b, &differences)
            .map_err(|error| Error::Internal(error.to_string()))?,
        Format::Html => html::comparison_page((&a, &first), (&b, &second), &differences),
        _ => {
            let table = compare::table(&a, &b, &differences);
            let drawn = table.render(format, output::unicode_wanted(&args.output));
            match format {
                Format::Csv => drawn,
                _ => format!("{}\n\n{drawn}", compare::sentence(&a, &b, &differences)),
            }
        }
    };
    output::write_result(&args.output, &text)?;
    Ok(0)
}
