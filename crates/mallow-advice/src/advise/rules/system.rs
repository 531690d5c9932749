// SPDX-License-Identifier: MIT
//! Rules for what surrounds a heap: the kernel, and the C library.

use super::super::case::{Case, NOTABLE, Seen, count, size};
use super::{Advice, Rule, Step, Verdict};
use crate::commitment::tight;

pub const RULES: &[Rule] = &[
    Rule {
        id: "MLW2302",
        of: "any, of a process",
        reason: "The kernel gives 2 MiB where the program touched one page, and joins again what the \
                 allocator gave back.",
        applies: is_process,
        judge: huge_pages,
    },
    Rule {
        id: "MLW2304",
        of: "any, of a process",
        reason: "At the limit mmap fails, and malloc returns NULL although memory is free.",
        applies: is_process,
        judge: mappings,
    },
    Rule {
        id: "MLW2308",
        of: "any, of a process",
        reason: "Where the kernel may promise no more memory, mmap and fork fail, and malloc returns NULL \
                 although memory is free.",
        applies: is_process,
        judge: commitment,
    },
    Rule {
        id: "MLW2402",
        of: "musl",
        reason: "musl's malloc has one lock for all threads, and takes it at every call.",
        applies: |case| case.stats.allocator == "musl",
        judge: musl,
    },
];

fn is_process(case: &Case) -> bool {
    case.process.is_some()
}

fn huge_pages(case: &Case) -> Verdict {
    let Some(Seen { picture, heap_rss, heap_huge, .. }) = &case.process else {
        return Verdict::Fine;
    };
    let Some(free) = picture.heap.free_resident() else { return Verdict::Fine };
    if *heap_huge < NOTABLE || free < heap_rss / 4 || free < NOTABLE {
        return Verdict::Fine;
    }
    Verdict::Found(Advice {
        evidence: format!(
            "{} of {} of the heap in huge pages, {} free but resident",
            size(*heap_huge),
            size(*heap_rss),
            size(free)
        ),
        set: huge_pages_off(case),
        effect: "up to the free part goes back; more TLB misses, so look at time as well".into(),
        check: case.compare(""),
    })
}

/// Where the kernel gives them to who asks alone, it is the allocator, or the program, that asks.
fn huge_pages_off(case: &Case) -> Step {
    let asks =
        case.process.as_ref().is_some_and(|seen| seen.picture.process.huge_pages != "always");
    match case.stats.allocator.as_str() {
        _ if !asks => Step::words(
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, which is a setting of the \
             whole machine",
        ),
        name if name.starts_with("mallow") => Step::typed("MALLOW_CONF=thp:false"),
        "jemalloc" => Step::typed("MALLOC_CONF=thp:never"),
        _ => {
            Step::words("what makes the allocator or the program ask for huge pages (madvise) off")
        }
    }
}

fn mappings(case: &Case) -> Verdict {
    let Some(seen) = &case.process else { return Verdict::Fine };
    let process = &seen.picture.process;
    let (mappings, limit) = (process.vmas.len() as u64, process.max_mappings);
    match limit {
        Some(limit) if mappings.saturating_mul(10) >= limit.saturating_mul(8) => {
            Verdict::Found(Advice {
                evidence: format!("{} of {} mappings", count(mappings), count(limit)),
                set: Step::typed(format!("sysctl vm.max_map_count={}", limit.saturating_mul(4))),
                effect: "mmap and malloc go on working".into(),
                check: Step::typed(format!("mallow explain {}", process.pid)),
            })
        }
        _ => Verdict::Fine,
    }
}

fn commitment(case: &Case) -> Verdict {
    let Some(seen) = &case.process else { return Verdict::Fine };
    let process = &seen.picture.process;
    match process.commitment.as_ref().and_then(tight) {
        Some(tight) => Verdict::Found(Advice {
            evidence: tight.evidence,
            set: Step::typed(tight.set),
            effect: tight.effect.into(),
            check: Step::typed(format!("mallow explain {}", process.pid)),
        }),
        None => Verdict::Fine,
    }
}

fn musl(case: &Case) -> Verdict {
    let Some(seen) = &case.process else { return Verdict::Fine };
    let threads = seen.picture.process.thread_count();
    if threads < 2 {
        return Verdict::Fine;
    }
    Verdict::Found(Advice {
        evidence: format!("{threads} threads share one lock"),
        set: Step::typed(format!("mallow run -- {}", case.typed())),
        effect: "threads that allocate no longer wait for each other".into(),
        check: case.compare(""),
    })
}
