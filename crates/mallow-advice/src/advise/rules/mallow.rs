//! Rules for Mallow's own heap.

use mallow_process::heap::Heap;
use mallow_process::heap::mallow;

use super::super::case::{Case, NOTABLE, size};
use super::{Advice, Rule, Verdict};

const OF: &str = "mallow";

pub const RULES: &[Rule] = &[
    Rule {
        id: "MLW2201",
        of: OF,
        reason: "Free pages go back while the program calls the allocator; one that rests keeps them.",
        applies: is_mallow,
        judge: dirty,
    },
    Rule {
        id: "MLW2202",
        of: OF,
        reason: "A slab goes back only when all its slots are free.",
        applies: is_mallow,
        judge: slabs,
    },
];

fn is_mallow(case: &Case) -> bool {
    case.stats.allocator == OF && heap(case).is_some()
}

fn heap<'a>(case: &'a Case) -> Option<&'a mallow::Heap> {
    match &case.process.as_ref()?.picture.heap {
        Heap::Mallow(heap) => Some(heap),
        _ => None,
    }
}

fn dirty(case: &Case) -> Verdict {
    let Some(heap) = heap(case) else { return Verdict::Fine };
    let (dirty, used) = (heap.sum(|arena| arena.dirty), heap.allocated());
    if dirty < 4 * NOTABLE || dirty < used / 4 {
        return Verdict::Fine;
    }
    Verdict::Found(Advice {
        evidence: format!("{} free and resident beside {} in use", size(dirty), size(used)),
        set: "MALLOW_CONF=purge_thread:true".into(),
        effect: "free pages go back within dirty_decay_ms (10 s) also while the program rests"
            .into(),
        check: case.compare_values(OF, "MALLOW_CONF", "", "purge_thread:true"),
    })
}

fn slabs(case: &Case) -> Verdict {
    let Some(heap) = heap(case) else { return Verdict::Fine };
    let (free, used) = (heap.free_slots(), heap.allocated());
    if free < NOTABLE || free < used / 2 {
        return Verdict::Fine;
    }
    let worst = heap
        .classes
        .iter()
        .max_by_key(|class| class.bytes.saturating_sub(class.used.saturating_mul(class.slot_size)));
    Verdict::Found(Advice {
        evidence: format!(
            "{} of free slots beside {} in use, most of {} bytes",
            size(free),
            size(used),
            worst.map_or(0, |class| class.slot_size)
        ),
        set: "allocate what lives long apart from what does not".into(),
        effect: "slabs become empty and go back; there is no setting for it".into(),
        check: format!("mallow record -o app.trace -- {}", case.typed()),
    })
}
