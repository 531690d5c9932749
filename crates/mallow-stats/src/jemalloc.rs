// SPDX-License-Identifier: MIT
//! jemalloc's JSON, as 5.2.1, 5.3.0 and 5.3.1 write it, and Mallow, which says so in its version.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::fields::{as_option, list, number, signed, sum};
use crate::vocabulary::{Arena, Class, Large, Lock, Purges, Stats, Totals};

pub fn read(dump: &Value) -> Option<Stats> {
    let dump = dump.get("jemalloc").filter(|dump| dump.is_object())?;
    let stats = dump.get("stats").unwrap_or(&Value::Null);
    // One that was built without statistics says so in its configuration.
    if number(stats, "allocated").is_none() && !dump.get("config").is_some_and(Value::is_object) {
        return None;
    }
    let named = named_arenas(dump, stats);
    let merged: Vec<&Value> = match named.iter().find(|(name, _)| *name == "merged") {
        Some((_, merged)) => vec![*merged],
        None => numbered(&named).map(|(_, arena)| arena).collect(),
    };
    let reader = Reader::new(dump);
    let mut read = Stats {
        allocator: if reader.of_mallow.is_some() { "mallow" } else { "jemalloc" }.into(),
        version: dump
            .get("version")
            .and_then(Value::as_str)
            .map(|version| reader.of_mallow.map_or_else(|| short_version(version), str::to_owned)),
        uptime_ns: merged.iter().filter_map(|arena| number(arena, "uptime_ns")).max(),
        page_size: number(reader.arenas, "page"),
        threads: sum(merged.iter().map(|arena| number(arena, "nthreads"))),
        arenas_for_threads: reader.narenas(),
        options: reader.options(),
        totals: reader.totals(stats, &merged),
        dirty_purges: reader.purges(&merged, "dirty"),
        muzzy_purges: reader.purges(&merged, "muzzy"),
        locks: reader.locks(stats, &merged),
        classes: reader.classes(&merged),
        large: large(&merged),
        arenas: numbered(&named).map(|(name, arena)| reader.arena(name, arena)).collect(),
        missing: Vec::new(),
    };
    read.missing = missing(&read, &reader);
    Some(read)
}

/// `stats.arenas` stands beside `stats`; before, it stood in it as `arenas`.
fn named_arenas<'a>(dump: &'a Value, stats: &'a Value) -> Vec<(&'a str, &'a Value)> {
    let places = [dump.get("stats.arenas"), stats.get("stats.arenas"), stats.get("arenas")];
    let arenas = places.into_iter().flatten().find_map(Value::as_object);
    arenas.map_or(Vec::new(), |arenas| {
        arenas.iter().map(|(name, arena)| (name.as_str(), arena)).collect()
    })
}

fn numbered<'a>(
    named: &'a [(&'a str, &'a Value)],
) -> impl Iterator<Item = (&'a str, &'a Value)> + 'a {
    named.iter().copied().filter(|(name, _)| name.bytes().all(|byte| byte.is_ascii_digit()))
}

/// `5.3.0-0-g54eaed1d` is 5.3.0.
fn short_version(version: &str) -> String {
    version.split('-').next().unwrap_or(version).to_owned()
}

/// Mallow's version: `0.1.0` in `5.3.0-mallow-0.1.0`, or, as it wrote that before, in `0.1.0 fast`.
pub fn version_of_mallow(version: &str) -> Option<&str> {
    let modes = [" fast", " secure", " debug"];
    let before = modes.iter().find_map(|mode| version.strip_suffix(mode));
    version.split_once("-mallow-").map(|(_, own)| own).or(before)
}

struct Reader<'a> {
    of_mallow: Option<&'a str>,
    dump: &'a Value,
    arenas: &'a Value,
    page: u64,
    /// Its JSON has the counters of locks under wrong names.
    has_mixed_locks: bool,
}

impl<'a> Reader<'a> {
    fn new(dump: &'a Value) -> Reader<'a> {
        const DEFAULT_PAGE: u64 = 4096;
        let arenas = dump.get("arenas").unwrap_or(&Value::Null);
        let version = dump.get("version").and_then(Value::as_str).unwrap_or_default();
        Reader {
            dump,
            arenas,
            page: number(arenas, "page").unwrap_or(DEFAULT_PAGE),
            of_mallow: version_of_mallow(version),
            has_mixed_locks: version_of_mallow(version).is_none() && is_before(version, [5, 3, 1]),
        }
    }

    /// Without the one that is made for huge blocks.
    fn narenas(&self) -> Option<u64> {
        let options = self.dump.get("opt").unwrap_or(&Value::Null);
        number(options, "narenas").or_else(|| number(self.arenas, "narenas"))
    }

    fn options(&self) -> BTreeMap<String, String> {
        let options = self.dump.get("opt").and_then(Value::as_object);
        let pairs = options.into_iter().flatten();
        let mut options: BTreeMap<String, String> =
            pairs.filter_map(|(name, value)| Some((name.clone(), as_option(value)?))).collect();
        // What the program changed since its start holds.
        for name in ["dirty_decay_ms", "muzzy_decay_ms"] {
            let value = signed(self.arenas, name).map(|value| value.to_string());
            options.extend(value.map(|value| (name.to_owned(), value)));
        }
        let mode = self.dump.get("system").and_then(|system| system.get("thp_mode"));
        let mode = mode.and_then(as_option).map(|mode| ("system.thp_mode".into(), mode));
        options.extend(mode);
        options.extend(self.purge_thread().map(|value| ("purge_thread".into(), value.to_string())));
        options
    }

    /// Mallow's own name of `background_thread`, which the program may have started later.
    fn purge_thread(&self) -> Option<bool> {
        self.of_mallow?;
        let option = self.dump.get("opt")?.get("background_thread")?.as_bool()?;
        let threads = self.dump.get("stats").and_then(|stats| stats.get("background_thread"));
        let runs = threads.and_then(|threads| number(threads, "num_threads")).unwrap_or(0) > 0;
        Some(option || runs)
    }

    fn totals(&self, stats: &Value, merged: &[&Value]) -> Totals {
        let of_process = |name| number(stats, name);
        let pages = |name| self.pages(sum(merged.iter().map(|arena| number(arena, name))));
        let bytes = |name| sum(merged.iter().map(|arena| number(arena, name)));
        let allocated = || sum(merged.iter().map(|arena| self.out(arena)));
        let cached = bytes("tcache_bytes");
        Totals {
            allocated: self.allocated(of_process("allocated").or_else(allocated), cached),
            active: of_process("active").or_else(|| pages("pactive")),
            metadata: of_process("metadata").or_else(|| sum([bytes("base"), bytes("internal")])),
            resident: of_process("resident").or_else(|| bytes("resident")),
            mapped: of_process("mapped").or_else(|| bytes("mapped")),
            retained: of_process("retained").or_else(|| bytes("retained")),
            dirty: pages("pdirty"),
            muzzy: pages("pmuzzy"),
            cached,
            huge: of_process("huge_pages"),
        }
    }

    /// What waits in caches of threads is allocated in jemalloc's words. Of Mallow it is taken off, as where its
    /// heap is read from outside.
    fn allocated(&self, out: Option<u64>, cached: Option<u64>) -> Option<u64> {
        let cached = cached.filter(|_| self.of_mallow.is_some()).unwrap_or(0);
        out.map(|out| out.saturating_sub(cached))
    }

    fn pages(&self, count: Option<u64>) -> Option<u64> {
        count.map(|count| count.saturating_mul(self.page))
    }

    /// With the program and in caches.
    fn out(&self, arena: &Value) -> Option<u64> {
        let part = |name| number(arena.get(name)?, "allocated");
        sum([part("small"), part("large")])
    }

    fn arena(&self, name: &str, arena: &Value) -> Arena {
        let totals = Totals {
            allocated: self.allocated(self.out(arena), number(arena, "tcache_bytes")),
            metadata: sum([number(arena, "base"), number(arena, "internal")]),
            ..self.totals(&Value::Null, &[arena])
        };
        Arena { name: name.to_owned(), threads: number(arena, "nthreads"), totals }
    }

    fn purges(&self, merged: &[&Value], kind: &str) -> Purges {
        let total = |what: &str| {
            let name = format!("{kind}_{what}");
            sum(merged.iter().map(|arena| number(arena, &name)))
        };
        Purges {
            rounds: total("npurge"),
            calls: total("nmadvise"),
            bytes: self.pages(total("purged")),
        }
    }

    fn locks(&self, stats: &Value, merged: &[&Value]) -> Vec<Lock> {
        let mut locks: BTreeMap<&str, Lock> = BTreeMap::new();
        let of_process = stats.get("mutexes").into_iter();
        let of_arenas = merged.iter().filter_map(|arena| arena.get("mutexes"));
        for set in of_process.chain(of_arenas).filter_map(Value::as_object) {
            for (name, counters) in set {
                let Some(lock) = self.lock(name, counters) else { continue };
                match locks.get_mut(name.as_str()) {
                    Some(known) => known.add(&lock),
                    None => drop(locks.insert(name, lock)),
                }
            }
        }
        locks.into_values().collect()
    }

    /// Up to 5.3.0 the JSON skips the rates that the text has between the counters, but not in what
    /// it takes the values from: num_wait is a rate, and what comes behind it stands one name or
    /// two too late. The times are not in it at all.
    fn lock(&self, name: &str, counters: &Value) -> Option<Lock> {
        let operations = number(counters, "num_ops")?;
        let read = |field| number(counters, field);
        let name = name.to_owned();
        let most_waiting = read("max_num_thds");
        Some(if self.has_mixed_locks {
            Lock {
                name,
                operations,
                waits: read("num_spin_acq"),
                spins: read("total_wait_time"),
                most_waiting,
                ..Lock::default()
            }
        } else {
            Lock {
                name,
                operations,
                waits: read("num_wait"),
                spins: read("num_spin_acq"),
                owner_switches: read("num_owner_switch"),
                wait_ns: read("total_wait_time"),
                longest_wait_ns: read("max_wait_time"),
                most_waiting,
            }
        })
    }

    fn classes(&self, merged: &[&Value]) -> Vec<Class> {
        let small = list(self.arenas, "bin").iter().enumerate();
        let small = small.filter_map(|(index, class)| {
            let bins: Vec<&Value> =
                merged.iter().filter_map(|arena| list(arena, "bins").get(index)).collect();
            self.small(class, &bins)
        });
        let large = list(self.arenas, "lextent").iter().enumerate();
        let large = large.filter_map(|(index, class)| {
            let extents: Vec<&Value> =
                merged.iter().filter_map(|arena| list(arena, "lextents").get(index)).collect();
            let total = |name| sum(extents.iter().map(|extent| number(extent, name)));
            let (used, requests) = (total("curlextents"), total("nrequests"));
            // There are sizes up to exabytes.
            let is_used = used.unwrap_or(0) > 0 || requests.unwrap_or(0) > 0;
            let size = number(class, "size").filter(|_| is_used)?;
            let allocations = total("nmalloc");
            Some(Class { size, used, requests, allocations, ..Class::default() })
        });
        small.chain(large).collect()
    }

    fn small(&self, class: &Value, bins: &[&Value]) -> Option<Class> {
        let total = |name| sum(bins.iter().map(|bin| number(bin, name)));
        let locks = bins.iter().filter_map(|bin| self.lock("bin", bin.get("mutex")?));
        Some(Class {
            size: number(class, "size")?,
            is_small: true,
            slab_size: number(class, "slab_size"),
            blocks_per_slab: number(class, "nregs"),
            slabs: total("curslabs"),
            used: total("curregs"),
            requests: total("nrequests"),
            allocations: total("nmalloc"),
            fills: total("nfills"),
            flushes: total("nflushes"),
            lock: locks.reduce(|mut sum, lock| {
                sum.add(&lock);
                sum
            }),
        })
    }
}

fn large(merged: &[&Value]) -> Large {
    let total =
        |name| sum(merged.iter().map(|arena| arena.get("large").and_then(|of| number(of, name))));
    Large {
        allocated: total("allocated"),
        allocations: total("nmalloc"),
        requests: total("nrequests"),
    }
}

/// Whether a version is older; one that cannot be read is not.
fn is_before(version: &str, other: [u64; 3]) -> bool {
    let numbers: Vec<u64> =
        short_version(version).split('.').map_while(|part| part.parse().ok()).collect();
    numbers.len() == 3 && numbers.as_slice() < other.as_slice()
}

fn missing(stats: &Stats, reader: &Reader) -> Vec<String> {
    let mut missing = Vec::new();
    let mut say = |is_missing: bool, sentence: &str| {
        if is_missing {
            missing.push(sentence.to_owned());
        }
    };
    say(
        reader.dump.get("config").and_then(|config| config.get("stats")) == Some(&false.into()),
        "This jemalloc was built without statistics.",
    );
    say(
        reader.dump.get("opt").is_none(),
        "The options are not in the dump (it was made with the letter g).",
    );
    say(
        stats.totals.dirty.is_none(),
        "The arenas are not in the dump (it was made with the letters m and a).",
    );
    let has_bins = stats.classes.iter().any(|class| class.allocations.is_some());
    say(
        stats.totals.dirty.is_some() && !has_bins,
        "The size classes are not in the dump (it was made with the letter b).",
    );
    say(
        stats.totals.dirty.is_some() && stats.locks.is_empty(),
        "The locks are not in the dump (it was made with the letter x).",
    );
    say(
        reader.has_mixed_locks && !stats.locks.is_empty(),
        "The JSON of jemalloc before 5.3.1 has the counters of locks under wrong names; they are put \
         right here, and times of waiting are not in it.",
    );
    missing
}
