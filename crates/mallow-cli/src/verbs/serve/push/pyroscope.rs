// SPDX-License-Identifier: MIT
//! Heap profiles to Pyroscope, or to what takes them for it (Grafana Alloy): each that a process has
//! written since the last push, in pprof's format, with names.
//!
//! The messages are written out here rather than generated, so that the build needs no protoc; the
//! tags are those of https://github.com/grafana/pyroscope/blob/main/api/push/v1/push.proto.

use std::collections::HashMap;
use std::sync::Arc;

use hyper::body::Bytes;
use prost::Message;

use super::Rejected;
use super::client::{Body, Client, Connection, Failure};
use crate::verbs::serve::collect::{Snapshot, Target, host};
use crate::verbs::serve::convert::{Converter, Kind, Process};
use crate::verbs::serve::profile::{self, Dump, Place};

/// The service and the method, as the Connect protocol calls them.
pub const PATH: &str = "/push.v1.PusherService/Push";

#[derive(Clone, PartialEq, Message)]
struct PushRequest {
    #[prost(message, repeated, tag = "1")]
    series: Vec<RawProfileSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct RawProfileSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<LabelPair>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<RawSample>,
}

#[derive(Clone, PartialEq, Message)]
struct LabelPair {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct RawSample {
    #[prost(bytes = "bytes", tag = "1")]
    raw_profile: Bytes,
}

/// Which file a profile was, and in which state.
type Identity = [u64; 5];

pub struct Profiles {
    converter: Arc<Converter>,
    /// What each process wrote last, once it was taken or refused for good.
    done: HashMap<Process, Identity>,
}

impl Profiles {
    pub fn new(converter: Arc<Converter>) -> Profiles {
        Profiles { converter, done: HashMap::new() }
    }

    /// A profile that cannot be read, or that is refused for good, is left out.
    pub async fn push(
        &mut self,
        client: &Client,
        connection: &Connection,
        snapshot: &Snapshot,
    ) -> Result<Rejected, Failure> {
        let is_there = |process: &Process| snapshot.targets.iter().any(|t| t.process() == *process);
        self.done.retain(|process, _| is_there(process));
        let mut rejected = None;
        for target in &snapshot.targets {
            let Some((dumps, place)) = find(target).await else { continue };
            let Some(identity) = dumps.first().map(|dump| dump.identity) else { continue };
            if self.done.get(&target.process()) == Some(&identity) {
                continue;
            }
            match self.pprof(target, dumps, &place).await {
                Ok(bytes) => {
                    let body = Body::plain("application/proto", message(target, bytes));
                    match client.post(connection, body).await {
                        Err(failure) if failure.is_passing => return Err(failure),
                        Err(failure) => {
                            rejected = rejected.or(Some(self.told(client, &failure.why)))
                        }
                        Ok(_) => {}
                    }
                }
                Err(why) => rejected = rejected.or(Some(self.told(client, &why))),
            }
            self.done.insert(target.process(), identity);
        }
        Ok(rejected)
    }

    fn told(&self, client: &Client, why: &str) -> String {
        format!("A profile is not at {}: {}.", client.url, why.trim_end_matches('.'))
    }

    async fn pprof(
        &self,
        target: &Target,
        dumps: Vec<Dump>,
        place: &Place,
    ) -> Result<Bytes, String> {
        let mut first = None;
        for dump in dumps {
            let (process, uid) = (target.process(), target.vitals.uid);
            match self.converter.convert(process, Kind::Heap, uid, place, dump).await {
                Ok(bytes) => return Ok(bytes),
                // Of several, the newest one's.
                Err(why) => first = first.or(Some(why)),
            }
        }
        Err(first.unwrap_or_default())
    }
}

/// None for a process that has written no profile, as most have not.
async fn find(target: &Target) -> Option<(Vec<Dump>, Place)> {
    let (pid, uid) = (target.pid, target.vitals.uid);
    let work = move || Some((profile::newest(pid, uid).ok()?, profile::surroundings(pid)?));
    tokio::task::spawn_blocking(work).await.ok()?
}

/// `__name__` is what Pyroscope's own clients call profiles of the heap.
fn message(target: &Target, raw_profile: Bytes) -> Vec<u8> {
    let labels = [
        ("__name__", "memory".to_owned()),
        ("service_name", target.service().to_owned()),
        ("hostname", host()),
        ("pid", target.pid.to_string()),
        ("allocator", target.allocator.clone()),
    ];
    let pair = |(name, value): (&str, String)| LabelPair { name: name.into(), value };
    let labels = labels.into_iter().map(pair).collect();
    let series = RawProfileSeries { labels, samples: vec![RawSample { raw_profile }] };
    PushRequest { series: vec![series] }.encode_to_vec()
}
