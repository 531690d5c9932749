// SPDX-License-Identifier: MIT
//! `mallow top`: the processes of the machine by their heaps, on a terminal or as a table.
//!
//! The process crate reads all processes at each refresh, and makes a row of each; `sort` compares
//! them, `view` orders them. `app` is the list on a terminal: `screen` and `columns`
//! draw it, `terminal` has the terminal, `children` are started for one process. `text` is the list
//! elsewhere.

mod app;
mod args;
mod children;
mod columns;
mod screen;
mod sort;
mod terminal;
mod text;
mod view;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mallow_process::processes::Collector;

use crate::error::{Error, Result};
use crate::output::{self, Format, Notes, Page, Screen};
use crate::signals;
use app::App;
pub use args::TopArgs;
use terminal::Terminal;
use text::Report;
use view::View;

/// For one table all heaps are read; whoever takes longer is told as not read.
const ONCE_WITHIN: Duration = Duration::from_secs(30);
/// Of a series of tables the first one waits so long for what is read first.
const FIRST_WITHIN: Duration = Duration::from_secs(2);
const LONGEST_WAIT: Duration = Duration::from_millis(200);

pub fn main(args: &TopArgs, _notes: Notes) -> Result<u8> {
    args.output.check()?;
    if args.is_once() && args.count.is_some() {
        return Err(Error::Usage(
            "--count is for the list that goes on; a file, a page or Markdown has one.".into(),
        ));
    }
    let view = View {
        sort: args.sort,
        reverse: args.reverse,
        filter: args.filter.clone().unwrap_or_default(),
        tree: args.tree,
        unicode: false,
    };
    let is_table = args.output.chosen_format() == Format::Table;
    if !args.is_once() && is_table && output::is_interactive() {
        let collector = Collector::new(&args.pid, true)?;
        let app = App::new(args, view, collector);
        app.run(Terminal::open()?, args)?;
        return Ok(0);
    }
    let collector = Collector::new(&args.pid, !args.is_once())?;
    if args.is_once() { once(args, &view, collector) } else { follow(args, &view, collector) }
}

fn once(args: &TopArgs, view: &View, mut collector: Collector) -> Result<u8> {
    collector.refresh()?;
    collector.read_all(ONCE_WITHIN)?;
    // Those that ended meanwhile have nothing to show any more.
    collector.refresh()?;
    let rows = collector.rows(args.all);
    let places = view.places(&rows);
    let summary = text::summary(&collector, &rows, places.len());
    let table = |format| text::table(&rows, &places, args.units, format);
    args.output.write(
        &Report::new(&collector, &rows, &places),
        || Page::of_table("mallow top", &summary, &table(Format::Html)),
        |format, screen| text::text(&summary, &table(format), format, screen),
    )?;
    Ok(0)
}

/// A table after another, until Ctrl-C or until nobody reads them any more.
fn follow(args: &TopArgs, view: &View, mut collector: Collector) -> Result<u8> {
    let interrupted = signals::watch()?;
    let format = args.output.chosen_format();
    let mut next = Instant::now();
    for round in 0u64.. {
        if args.count.is_some_and(|count| round >= count) || !wait(next, &interrupted) {
            break;
        }
        collector.take();
        collector.refresh()?;
        collector.ask(None, &[])?;
        if round == 0 {
            collector.settle(FIRST_WITHIN);
        }
        let rows = collector.rows(args.all);
        let places = view.places(&rows);
        let text = match format {
            Format::Json => Report::new(&collector, &rows, &places).line()?,
            _ => {
                let summary = text::summary(&collector, &rows, places.len());
                let table = text::table(&rows, &places, args.units, format);
                let screen =
                    if format == Format::Csv { Screen::PLAIN } else { args.output.screen() };
                text::text(&summary, &table, format, screen) + "\n"
            }
        };
        if !output::write_on(&text)? {
            break;
        }
        next = (next + args.interval).max(Instant::now());
    }
    Ok(0)
}

/// False if it is interrupted.
fn wait(next: Instant, interrupted: &AtomicBool) -> bool {
    loop {
        if interrupted.load(Ordering::Relaxed) {
            return false;
        }
        let left = next.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(LONGEST_WAIT));
    }
}
