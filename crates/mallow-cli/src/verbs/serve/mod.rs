// SPDX-License-Identifier: MIT
//! `mallow serve`: heaps of processes as metrics for Prometheus, with their profiles, over HTTP.
//!
//! `targets` says which processes, `collect` reads them, on the thread of `reader`, `metrics` and `page` show what was read,
//! `profile` finds what a process wrote itself, `convert` has it in pprof's format; `listen`, `tls` and `http`
//! answer, to whom `token` and `guests` say, in the form that `accept` reads; `push` sends to collectors, `textfile` writes a file.

mod accept;
mod args;
mod collect;
mod convert;
mod guests;
mod http;
mod listen;
mod metrics;
mod page;
mod profile;
mod push;
mod reader;
mod targets;
mod textfile;
mod tls;
mod token;

use std::sync::{Arc, mpsc};

use mallow_os::threads;
use mallow_process::binding::Failure;
use mallow_process::position::{LeftAlone, Position};
use mallow_process::stat::folder;
use mallow_process::vitals::Vitals;
use tokio::sync::oneshot;

use crate::error::{Error, Result};
use crate::output::Notes;
pub use args::ServeArgs;
use collect::{Collector, Snapshot};
use convert::Converter;
use http::Server;
use listen::Listener;
use push::Push;
use reader::{Read, Reader};
use targets::Choice;
use token::Token;

pub fn main(args: &ServeArgs, notes: Notes) -> Result<u8> {
    let choice = Choice::of(args)?;
    if let Choice::Pids(pids) = &choice {
        pids.iter().try_for_each(|pid| check(*pid))?;
    }
    choice.missing_unit().iter().for_each(|sentence| notes.note(sentence));
    let most = args.most as usize;
    if let Some(file) = &args.textfile {
        let choice = Arc::new(choice);
        let make = looks(move || Collector::new(choice.clone(), most).patient());
        let mut reader = Reader::new(make)?.patient();
        return textfile::write(file, args.interval, || reader.whole(), notes);
    }
    let token = Token::of(args, notes)?;
    let tls = tls::Identity::of(args, notes)?;
    let converter = Arc::new(Converter::new());
    let pushes = Push::of(args, &converter)?;
    // All threads before the first sentence, and before there is a socket.
    let runtime = http::runtime()?;
    let readings = start(choice, most)?;
    let listener = Listener::bind(args)?;
    notes.note(&format!(
        "Metrics are served at {}/metrics; Ctrl-C ends it.",
        listener.name(tls.is_some())
    ));
    pushes.iter().for_each(|push| notes.note(&push.name()));
    let beside = pushes.into_iter().map(|push| push.run(readings.clone(), notes)).collect();
    let tls = tls.map(Arc::new);
    http::serve(runtime, listener, Server { token, tls, readings, converter }, beside)?;
    Ok(0)
}

/// A process that is named has to be there, and readable, when it begins.
fn check(pid: u32) -> Result<()> {
    let failed = |failure| Error::Process { pid, failure };
    Vitals::read(pid).map_err(failed)?;
    match std::fs::File::open(folder(pid).join("mem")) {
        Ok(_) => Ok(()),
        Err(error) => Err(failed(Failure::from(error))),
    }
}

/// What a thread that reads does, each with a collector of its own.
fn looks(
    collector: impl Fn() -> Collector + Clone + Send + 'static,
) -> impl Fn(Arc<Position>, LeftAlone) -> Read<Snapshot> + Clone + Send + 'static {
    move |position, left_alone| {
        let mut collector = collector().beside(position, left_alone);
        Box::new(move || collector.snapshot()) as Read<Snapshot>
    }
}

/// The thread that has processes read. It ends with the last who may ask it.
fn start(choice: Choice, most: usize) -> Result<http::Readings> {
    let (sender, requests) = mpsc::channel::<oneshot::Sender<Arc<Snapshot>>>();
    let choice = Arc::new(choice);
    let mut reader = Reader::new(looks(move || Collector::new(choice.clone(), most)))?;
    let work = move || {
        for request in requests {
            // Without an answer who asked is told that there is none; he may have gone.
            if let Some(snapshot) = reader.snapshot() {
                let _ = request.send(snapshot);
            }
        }
    };
    threads::spawn("answer", work)?;
    Ok(sender)
}
