// SPDX-License-Identifier: MIT
//! A process may write anything into its statistics page and behind it. Its reader ends all the
//! same, in the time that it has, and takes no memory that the page asks for.

use std::time::{Duration, Instant};

use super::bounded::Bounded;
use super::mallow;
use super::stats_page::Page;
use crate::memory::Memory;

const BASE: u64 = 0x10_0000;
const TIME: Duration = Duration::from_millis(10);

const ROOTS: [&str; 14] = [
    "options",
    "arenas",
    "arenas_used",
    "pagemap",
    "heaps",
    "heap_shared",
    "meta_bytes",
    "page_shift",
    "slab_pools",
    "trays",
    "class_sizes",
    "link_keys",
    "lock.process",
    "lock.heaps",
];
const NUMBERS: [&str; 18] = [
    "pagemap_root_at",
    "root_shift",
    "granule_shift",
    "leaf_mask",
    "remote_count_shift",
    "small_classes",
    "classes",
    "lists",
    "outboxes",
    "tray_size",
    "tray_count_shift",
    "tray_unit",
    "large_classes",
    "state_active",
    "state_cached",
    "state_dirty",
    "state_muzzy",
    "state_retained",
];
const FIELDS: [&str; 47] = [
    "option.dirty_decay_ms",
    "option.purge_thread",
    "sizeof.arena",
    "arena.lock_state",
    "arena.lock_turns",
    "arena.dirty_pages",
    "arena.huge_pages",
    "arena.muzzy_pages",
    "arena.retained_pages",
    "arena.regions",
    "arena.region_bytes",
    "arena.active_pages",
    "arena.huge_active_pages",
    "arena.huge_active_count",
    "region.next",
    "region.start",
    "region.size",
    "extent.start",
    "extent.pages",
    "extent.state",
    "extent.is_huge",
    "extent.remote",
    "extent.left",
    "extent.bias",
    "extent.capacity",
    "extent.slot_size",
    "heap.next",
    "heap.free",
    "heap.rooms",
    "heap.outboxes",
    "outbox.slab",
    "outbox.count",
    "heap.arena",
    "heap.delayed_bytes",
    "heap.delayed_larger",
    "heap.counts",
    "heap.puts",
    "class_counts.handed",
    "class_counts.returned",
    "class_counts.sent",
    "class_counts.fills",
    "class_counts.flushes",
    "class_counts.slabs",
    "sizeof.slab_pool",
    "slab_pool.lock",
    "slab_pool.batch_bytes",
    "arena.lock",
];

/// A page with every name, and behind it whatever `word` says.
struct Liar<F: Fn(u64) -> u64> {
    image: Vec<u8>,
    word: F,
}

impl<F: Fn(u64) -> u64> Liar<F> {
    fn new(number: u64, field: u64, word: F) -> Liar<F> {
        let mut image = vec![0; 104];
        image[..15].copy_from_slice(b"mallow:stats:2\n");
        image[16..20].copy_from_slice(&2u32.to_le_bytes());
        image[24..32].copy_from_slice(&BASE.to_le_bytes());
        let tables = [
            (56, 80, ROOTS.to_vec(), None),
            (64, 84, NUMBERS.to_vec(), Some(number)),
            (72, 88, FIELDS.to_vec(), Some(field)),
        ];
        for (place, count, names, value) in tables {
            let at = BASE + image.len() as u64;
            image[place..place + 8].copy_from_slice(&at.to_le_bytes());
            image[count..count + 4].copy_from_slice(&(names.len() as u32).to_le_bytes());
            for (index, name) in (0u64..).zip(names) {
                let mut line = name.as_bytes().to_vec();
                line.resize(24, 0);
                image.extend(line);
                image.extend(value.unwrap_or(0x7000_0000 + 4096 * index).to_le_bytes());
            }
        }
        Liar { image, word }
    }
}

impl<F: Fn(u64) -> u64> Memory for Liar<F> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        let end = BASE + self.image.len() as u64;
        if (BASE..end).contains(&address) {
            let from = (address - BASE) as usize;
            buffer.copy_from_slice(self.image.get(from..from + buffer.len())?);
        } else {
            for (index, part) in (0u64..).zip(buffer.chunks_mut(8)) {
                let word = (self.word)(address.wrapping_add(8 * index)).to_le_bytes();
                part.copy_from_slice(&word[..part.len()]);
            }
        }
        Some(())
    }

    fn number_now(&self, _address: u64, _size: u64) -> Option<u64> {
        Some(0)
    }
}

fn ends(liar: &impl Memory, what: &str) {
    let page = Page::read(liar, BASE).expect("a page");
    let begin = Instant::now();
    // Whether there is a result does not matter.
    let _ = mallow::read(&Bounded::new(liar, TIME), &page).map(|heap| {
        let held = heap.regions.len() + heap.leaves.len() + heap.metadata_at.len();
        assert!(held < 1 << 26, "{what}: {held}");
        (heap.allocated(), heap.free_slots())
    });
    let huge = mallow::huge(&Bounded::new(liar, TIME), &page, &[(4096, 8192)]).unwrap_or_default();
    let held = huge.blocks.len() + huge.others.len() + huge.metadata_at.len();
    assert!(held < 1 << 22, "{what}: {held}");
    // Far from what an endless walk takes, whatever else the machine does.
    assert!(begin.elapsed() < 1000 * TIME, "{what}: {:?}", begin.elapsed());
}

/// SplitMix64.
fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[test]
fn any_page_is_read_in_the_time_that_there_is() {
    let field = |offset: u64, size: u64| size << 32 | offset;
    for number in [0, 1, 3, 12, 48, 64, 1 << 32, u64::MAX] {
        for field in [field(0, 8), field(8, 8), field(0xffff_ffff, 4), field(0, 0), u64::MAX] {
            let what = format!("numbers {number:#x}, fields {field:#x}");
            // Everything is small, leads to itself, is as large as can be, or differs.
            ends(&Liar::new(number, field, |_| 1), &what);
            ends(&Liar::new(number, field, |_| 12), &what);
            ends(&Liar::new(number, field, |address| address), &what);
            ends(&Liar::new(number, field, |_| u64::MAX), &what);
            ends(&Liar::new(number, field, mixed), &what);
            ends(&Liar::new(number, field, |address| mixed(address) & 31), &what);
        }
    }
}
