// SPDX-License-Identifier: MIT
//! Pushes to where fleets keep such things: metrics to an OpenTelemetry collector, by OTLP over
//! HTTP, and heap profiles to Pyroscope or Grafana Alloy.
//!
//! A push is a task beside the answers of the server, and takes each reading anew: metrics that could
//! not be sent are not kept, since counters go on from where they were. `otlp` and `pyroscope` make
//! of a reading what is sent, `client` sends it.

mod client;
mod otlp;
mod pyroscope;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::args::ServeArgs;
use super::convert::Converter;
use super::http::Readings;
use crate::error::Result;
use crate::output::{self, Notes};
use client::{Client, Failure};
use otlp::Metrics;
use pyroscope::Profiles;

/// What OpenTelemetry's own libraries take.
const INTERVAL: Duration = Duration::from_secs(60);
/// After a failure, doubled with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// What came of a push that reached its end: what was not taken of it, in words.
type Rejected = Option<String>;

enum What {
    Metrics(Metrics),
    Profiles(Profiles),
}

pub struct Push {
    client: Arc<Client>,
    what: What,
    interval: Duration,
}

impl Push {
    /// Those that are asked for. What is wrong with a file is told now, not at the first push.
    pub fn of(args: &ServeArgs, converter: &Arc<Converter>) -> Result<Vec<Push>> {
        let interval = args.interval.unwrap_or(INTERVAL);
        let mut pushes = Vec::new();
        let mut add = |url: &Option<String>,
                       path: &str,
                       [headers, ca]: [&Option<PathBuf>; 2],
                       option: &'static str,
                       what: What|
         -> Result<()> {
            let Some(url) = url else { return Ok(()) };
            let client = Client::new(url, path, headers.clone(), ca.clone(), option)?;
            client.connection()?;
            pushes.push(Push { client: Arc::new(client), what, interval });
            Ok(())
        };
        let files = [&args.otlp_headers, &args.otlp_ca];
        add(&args.otlp, otlp::PATH, files, "--otlp", What::Metrics(Metrics))?;
        let files = [&args.pyroscope_headers, &args.pyroscope_ca];
        let profiles = What::Profiles(Profiles::new(converter.clone()));
        add(&args.pyroscope, pyroscope::PATH, files, "--pyroscope", profiles)?;
        Ok(pushes)
    }

    /// As a note says it.
    pub fn name(&self) -> String {
        let what = match self.what {
            What::Metrics(_) => "Metrics",
            What::Profiles(_) => "New heap profiles",
        };
        let interval = output::seconds(self.interval.as_secs_f64());
        format!("{what} are pushed to {} every {interval}.", self.client.url)
    }

    /// Until the server ends.
    pub async fn run(mut self, readings: Readings, notes: Notes) {
        let mut failed = 0;
        let mut last_told = String::new();
        loop {
            let begin = Instant::now();
            let pause = match self.once(&readings).await {
                Ok(rejected) => {
                    if failed > 0 {
                        notes.note(&format!("{} answers again.", self.client.url));
                    }
                    tell(notes, &mut last_told, rejected.unwrap_or_default());
                    failed = 0;
                    self.interval.saturating_sub(begin.elapsed())
                }
                Err(failure) => {
                    tell(notes, &mut last_told, self.sentence(&failure));
                    failed += 1;
                    pause(&failure, failed, self.interval)
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// One reading.
    async fn once(&mut self, readings: &Readings) -> std::result::Result<Rejected, Failure> {
        let (sender, receiver) = oneshot::channel();
        let broken = || Failure::here("the processes could not be read");
        readings.send(sender).map_err(|_| broken())?;
        let snapshot = receiver.await.map_err(|_| broken())?;
        // Files to read must not keep the server from answering.
        let client = self.client.clone();
        let connection = tokio::task::spawn_blocking(move || client.connection());
        let connection = connection.await.map_err(|_| broken())?.map_err(Failure::here)?;
        match &mut self.what {
            What::Metrics(metrics) => metrics.push(&self.client, &connection, snapshot).await,
            What::Profiles(profiles) => profiles.push(&self.client, &connection, &snapshot).await,
        }
    }

    fn sentence(&self, failure: &Failure) -> String {
        let again = "It is tried again, less and less often";
        format!("Nothing is pushed to {}: {}. {again}.", self.client.url, failure.why)
    }
}

/// The same sentence is not said twice in a row.
fn tell(notes: Notes, last: &mut String, sentence: String) {
    if !sentence.is_empty() && *last != sentence {
        notes.note(&sentence);
    }
    *last = sentence;
}

/// Who is away is asked again soon, who refuses what is sent as late as at the next turn. Not all
/// hosts of a fleet at the same moment.
fn pause(failure: &Failure, failed: u32, interval: Duration) -> Duration {
    let first = if failure.is_passing { FIRST_PAUSE } else { interval };
    let longest = LONGEST_PAUSE.max(interval);
    let pause = first.saturating_mul(1 << failed.saturating_sub(1).min(16)).min(longest);
    let asked = failure.after.unwrap_or_default().min(longest);
    pause.mul_f64(0.75 + fastrand::f64() / 4.0).max(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end_growing() {
        let interval = Duration::from_secs(60);
        let away = Failure::away("x");
        let mut least = Duration::ZERO;
        for failed in 1..100 {
            let full = LONGEST_PAUSE.min(FIRST_PAUSE * (1 << (failed - 1).min(20)));
            let pause = pause(&away, failed, interval);
            assert!(pause >= full.mul_f64(0.75) && pause <= full, "{failed}: {pause:?}");
            assert!(pause >= least);
            least = full.mul_f64(0.75);
        }
        assert!(pause(&Failure::here("x"), 1, interval) >= interval.mul_f64(0.75));
        let asked = Failure { after: Some(Duration::from_secs(20)), ..Failure::away("x") };
        assert_eq!(pause(&asked, 1, interval), Duration::from_secs(20));
        let forever = Failure { after: Some(Duration::MAX), ..Failure::away("x") };
        assert_eq!(pause(&forever, 1, interval), LONGEST_PAUSE);
    }
}
