// SPDX-License-Identifier: MIT
//! Rules for what the program is. They speak only where malloc's heap is worth it.

use mallow_process::heap::Heap;
use mallow_process::mappings::{Kind, Runtime};

use super::super::case::{Case, NOTABLE, Seen, counted, percent, size};
use super::{Advice, Rule, Step, Verdict};

pub const RULES: &[Rule] = &[
    Rule {
        id: "MLW3401",
        of: "Java",
        reason: "The heap of Java is not malloc's, but compression buffers, JNI, compiled code and \
                 threads use malloc, from many short-lived places of many threads.",
        applies: |case| is(case, Runtime::Java),
        judge: java,
    },
    Rule {
        id: "MLW3402",
        of: "Python",
        reason: "Python serves objects up to 512 bytes itself; larger ones and extensions use malloc.",
        applies: |case| is(case, Runtime::Python),
        judge: python,
    },
    Rule {
        id: "MLW3403",
        of: "Ruby",
        reason: "Threads of Ruby spread objects of all ages over many arenas of glibc, and each \
                 keeps its own free memory.",
        applies: |case| is(case, Runtime::Ruby),
        judge: ruby,
    },
    Rule {
        id: "MLW3404",
        of: "Node.js",
        reason: "V8's heap is not malloc's, but buffers and native add-ons are.",
        applies: |case| is(case, Runtime::Node),
        judge: node,
    },
    Rule {
        id: "MLW3405",
        of: "MySQL, MariaDB",
        reason: "Connections allocate at the same time; from 8 CPUs on they wait for each other in \
                 glibc's arenas.",
        applies: |case| is_program(case, &["mysqld", "mariadbd"]),
        judge: mysql,
    },
    Rule {
        id: "MLW3406",
        of: "Redis, Valkey",
        reason: "Active defragmentation needs the jemalloc that Redis brings along; with another \
                 allocator it is refused.",
        applies: |case| is_program(case, &["redis-server", "valkey-server"]),
        judge: redis,
    },
];

fn is(case: &Case, runtime: Runtime) -> bool {
    case.process.as_ref().is_some_and(|seen| seen.runtime == runtime)
}

fn is_program(case: &Case, names: &[&str]) -> bool {
    case.process.as_ref().is_some_and(|seen| names.contains(&seen.program.as_str()))
}

/// The process, if glibc serves it and its heap is a part of RSS that matters.
fn worth<'a>(case: &'a Case) -> Option<&'a Seen<'a>> {
    let seen = case.process.as_ref()?;
    let is_glibc = matches!(seen.picture.heap, Heap::Glibc(_));
    let rss = seen.picture.process.rss();
    (is_glibc && seen.heap_rss >= 4 * NOTABLE && seen.heap_rss >= rss / 4).then_some(seen)
}

/// What malloc has, and what of it is free.
fn part(seen: &Seen) -> String {
    let rss = seen.picture.process.rss();
    format!(
        "malloc has {} of {} resident ({:.0} %), {} of it free; {}, {} of glibc",
        size(seen.heap_rss),
        size(rss),
        percent(seen.heap_rss, rss),
        size(free(seen)),
        counted(seen.picture.process.thread_count(), "thread"),
        counted(arenas(seen) as u64, "arena")
    )
}

fn free(seen: &Seen) -> u64 {
    seen.picture.heap.used_and_free().map_or(0, |(_, free)| free.min(seen.heap_rss))
}

fn arenas(seen: &Seen) -> usize {
    match &seen.picture.heap {
        Heap::Glibc(heaps) => heaps.arenas.len(),
        _ => 0,
    }
}

fn java(case: &Case) -> Verdict {
    let Some(seen) = worth(case).filter(|seen| arenas(seen) >= 4) else { return Verdict::Fine };
    // Fewer arenas share what is free; what is in use they need as well.
    if free(seen) < seen.heap_rss / 8 {
        return Verdict::Fine;
    }
    Verdict::Found(Advice {
        evidence: part(seen),
        set: Step::words("MALLOC_ARENA_MAX=2, or another allocator by preload"),
        effect: "native memory beside -Xmx falls; the Java heap stays as it is".into(),
        check: case.compare_values("glibc", "MALLOC_ARENA_MAX", "", "2"),
    })
}

fn python(case: &Case) -> Verdict {
    let Some(seen) = worth(case) else { return Verdict::Fine };
    // With threads that each have free memory of their own it is worth it earlier.
    let is_threaded = seen.picture.process.thread_count() >= 4;
    if free(seen) < seen.heap_rss / if is_threaded { 8 } else { 4 } {
        return Verdict::Fine;
    }
    let own: u64 = seen
        .picture
        .mappings
        .iter()
        .filter(|mapping| mapping.kind == Kind::RuntimeHeap)
        .map(|mapping| mapping.rss)
        .sum();
    Verdict::Found(Advice {
        evidence: format!("{}; Python's own heap {}", part(seen), size(own)),
        set: Step::words(
            "another allocator by preload; PYTHONMALLOC=malloc gives it the small objects as well",
        ),
        effect: "memory of large objects and extensions goes back sooner; pymalloc is fast, so \
                 measure both"
            .into(),
        check: Step::typed(format!(
            "mallow compare --matrix PYTHONMALLOC=pymalloc,malloc -- {}",
            case.typed()
        )),
    })
}

fn ruby(case: &Case) -> Verdict {
    let Some(seen) = worth(case).filter(|seen| arenas(seen) >= 3) else { return Verdict::Fine };
    Verdict::Found(Advice {
        evidence: part(seen),
        set: Step::words("MALLOC_ARENA_MAX=2, or jemalloc or Mallow by preload"),
        effect: "RSS falls; a published Rails application went from 235 to 177 MB with jemalloc"
            .into(),
        check: case.compare_values("glibc", "MALLOC_ARENA_MAX", "", "2"),
    })
}

fn node(case: &Case) -> Verdict {
    let Some(seen) = worth(case) else { return Verdict::Fine };
    let free = seen.picture.heap.used_and_free().map_or(0, |(_, free)| free);
    if free < seen.heap_rss / 4 {
        return Verdict::Fine;
    }
    Verdict::Found(Advice {
        evidence: part(seen),
        set: Step::words("another allocator by preload"),
        effect: "memory of freed buffers goes back; --max-old-space-size bounds the rest".into(),
        check: case.compare(""),
    })
}

fn mysql(case: &Case) -> Verdict {
    const CPUS_FROM: u64 = 8;
    let Some(seen) = worth(case) else { return Verdict::Fine };
    let process = &seen.picture.process;
    let cpus = process.cpu_quota.map_or(process.cpus, |quota| quota as u64);
    if cpus <= CPUS_FROM {
        return Verdict::Fine;
    }
    Verdict::Found(Advice {
        evidence: format!("{}; {cpus} CPUs", part(seen)),
        set: Step::words(
            "[mysqld_safe] malloc-lib=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2, or the path of \
             another allocator",
        ),
        effect: "more transactions under many connections; jemalloc and tcmalloc gain alike".into(),
        check: case.compare(""),
    })
}

fn redis(case: &Case) -> Verdict {
    let Some(seen) = &case.process else { return Verdict::Fine };
    let free = seen.picture.heap.used_and_free().map_or(0, |(_, free)| free);
    let is_glibc = matches!(seen.picture.heap, Heap::Glibc(_));
    if !is_glibc || seen.heap_rss < 4 * NOTABLE || free < seen.heap_rss / 4 {
        return Verdict::Fine;
    }
    Verdict::Found(Advice {
        evidence: part(seen),
        set: Step::words("a build of Redis with its own jemalloc, and CONFIG SET activedefrag yes"),
        effect: "memory between the keys is packed and goes back".into(),
        check: Step::words("redis-cli INFO memory (mem_allocator, mem_fragmentation_ratio)"),
    })
}
