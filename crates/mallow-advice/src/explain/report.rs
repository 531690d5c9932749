// SPDX-License-Identifier: MIT
//! What `explain` found out, as data: the source of the text, the page, the JSON, and of what is
//! saved and read back.

use serde::{Deserialize, Serialize};

use mallow_process::heap::{Heap, spans};
use mallow_process::mappings::{Group, Kind, Mapping, Runtime};
use mallow_process::process::Commitment;
use mallow_process::runtimes::Kept;
use mallow_process::runtimes::native::Native;
use mallow_process::sparse::Sparse;

pub const SCHEMA: &str = "mallow.explain/1";

/// Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    pub schema: String,
    pub version: String,
    /// Seconds since 1970.
    pub taken_at: u64,
    pub pid: u32,
    pub command: String,
    pub program: String,
    /// Who serves malloc in the main program.
    pub allocator: String,
    #[serde(default)]
    pub runtime: Runtime,
    /// As the runtime calls itself, such as `go1.22.5`.
    #[serde(default)]
    pub runtime_version: Option<String>,
    pub totals: Totals,
    /// The sentence that answers "why so much".
    pub answer: String,
    pub findings: Vec<Finding>,
    pub groups: Vec<Group>,
    pub heap: Heap,
    /// Of allocators that serve a part of the program under names of their own.
    #[serde(default)]
    pub other_heaps: Vec<spans::Heap>,
    /// What the language's runtime keeps beside it, by its own headers.
    #[serde(default)]
    pub runtime_spaces: Vec<Kept>,
    /// What a runtime counts itself, if it was asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub native: Vec<Native>,
    pub threads: Vec<Thread>,
    pub system: System,
    /// What its huge pages hold, where there are many.
    #[serde(default)]
    pub sparse: Option<Sparse>,
    /// What could not be read, and why.
    pub notes: Vec<String>,
    /// Its memory may not be read.
    #[serde(default)]
    pub is_without_memory: bool,
    /// It started other programs while it was read.
    #[serde(default)]
    pub is_of_several: bool,
    pub mappings: Vec<Mapping>,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Totals {
    pub virt: u64,
    pub rss: u64,
    pub pss: u64,
    pub swap: u64,
    pub private_dirty: u64,
    pub huge: u64,
    pub lazy_free: u64,
    pub locked: u64,
    pub page_tables: u64,
    pub peak_rss: u64,
    pub threads: u64,
    pub mappings: u64,
}

/// What a program's limits and the machine have to say.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct System {
    pub cpus: u64,
    pub cpu_quota: Option<f64>,
    pub stack_limit: Option<u64>,
    pub max_mappings: Option<u64>,
    #[serde(default)]
    pub commitment: Option<Commitment>,
    pub huge_pages: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Thread {
    pub id: u32,
    pub name: String,
    pub stack_size: Option<u64>,
    pub stack_rss: Option<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// `mallow help ID` explains it.
    pub id: String,
    pub title: String,
    /// What was seen, with figures.
    pub evidence: String,
    pub remedy: String,
    /// What the remedy is expected to change.
    pub effect: String,
}

impl Report {
    pub fn group(&self, kind: Kind) -> Group {
        let found = self.groups.iter().find(|group| group.kind == Some(kind));
        found.cloned().unwrap_or_default()
    }

    /// Sums over the groups that malloc serves from.
    pub fn heap_sums(&self) -> (u64, u64) {
        let heaps = self.groups.iter().filter(|group| group.kind.is_some_and(Kind::is_heap));
        heaps.fold((0, 0), |(size, rss), group| (size + group.size, rss + group.rss))
    }
}
