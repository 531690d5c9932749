// SPDX-License-Identifier: MIT
//! What happened in a process under Mallow since it began: what its heaps, locks and arenas counted.

use super::{Counts, Lock, MOST_CLASSES, Purges, Reader, add, list_length};

/// The locks that the process has once.
const LOCKS: [&str; 12] = [
    "process",
    "heaps",
    "shared",
    "tray",
    "rob",
    "meta",
    "table",
    "quarantine",
    "emptied",
    "limit",
    "tables",
    "guarded",
];

impl Reader<'_> {
    /// `None` where the allocator does not count.
    pub(super) fn counts(&self) -> Option<Vec<Counts>> {
        let classes = self.page.number("classes")?;
        let mut all = vec![Counts::default(); usize::try_from(classes.min(MOST_CLASSES)).ok()?];
        for heap in self.heaps()? {
            for (class, counts) in (0u64..).zip(&mut all) {
                self.count(heap, class, counts)?;
            }
        }
        for (class, counts) in (0u64..).zip(&mut all) {
            counts.slot_size = self.class_size(class)?;
        }
        all.retain(|counts| counts.allocations != 0);
        Some(all)
    }

    /// Those that went past the lists of their heap, and those that came from one. `None` where the allocator
    /// does not count.
    pub(super) fn large_allocations(&self) -> Option<u64> {
        let classes = self.page.number("classes")?;
        let page_classes = self.page.number("large_classes")?.min(MOST_CLASSES);
        let (past, past_size) = self.page.field("heap.large_counts")?;
        let (puts, put_size) = self.page.field("heap.puts")?;
        let lists = self.page.number("lists")?.min(MOST_CLASSES);
        let mut all = 0;
        for heap in self.heaps()? {
            let number = |at: u64, size: u64| self.memory.number(heap.checked_add(at)?, size);
            for class in 0..page_classes {
                add(&mut all, number(past + class * past_size, past_size)?);
            }
            for class in classes..lists {
                let put = number(puts + class * put_size, put_size)?;
                add(&mut all, put.saturating_sub(self.counted_length(heap, class)?));
            }
        }
        Some(all)
    }

    /// Adds what one heap counted of a class.
    fn count(&self, heap: u64, class: u64, to: &mut Counts) -> Option<()> {
        let (at, step) = self.page.field("heap.counts")?;
        let (free, size) = self.page.field("heap.free")?;
        let counts = heap.checked_add(at + class * step)?;
        let get = |name: &str| self.get(counts, name);
        let (puts, put_size) = self.page.field("heap.puts")?;
        let put = self.memory.number(heap.wrapping_add(puts + class * put_size), put_size)?;
        let moved = get("class_counts.handed")?.wrapping_add(put);
        let out = moved.wrapping_sub(get("class_counts.returned")?);
        let listed = if class < self.page.number("small_classes")? {
            let list = heap.wrapping_add(free + class * size);
            list_length(self.memory, list, self.link_keys()).unwrap_or(0)
        } else {
            self.counted_length(heap, class)?
        };
        add(&mut to.allocations, out.saturating_sub(listed));
        add(&mut to.remote_frees, get("class_counts.sent")?);
        add(&mut to.fills, get("class_counts.fills")?);
        add(&mut to.flushes, get("class_counts.flushes")?);
        add(&mut to.slabs_made, get("class_counts.slabs")?);
        Some(())
    }

    /// `None` where the allocator does not count.
    pub(super) fn locks(&self, arenas: &[u64]) -> Option<Vec<Lock>> {
        let at = |structure: u64, field: &str| structure.checked_add(self.page.field(field)?.0);
        let mut locks = Vec::new();
        for name in LOCKS {
            // Not every version has all of them.
            if let Some(place) = self.page.root(&format!("lock.{name}")) {
                locks.push(self.lock_at(place, name.to_owned())?);
            }
        }
        let pools = self.page.root("slab_pools")?;
        let pool_size = self.page.field("sizeof.slab_pool")?.1;
        let shared = self.shared_arenas()?;
        for (index, &arena) in (0..).zip(arenas) {
            let mut places = vec![
                ("arena", at(arena, "arena.lock")?),
                ("purge", at(arena, "arena.purge_lock")?),
            ];
            places.extend(at(arena, "arena.growth_lock").map(|place| ("growth", place)));
            // The pools of the others lie elsewhere.
            if index < shared {
                places.push(("pool", at(pools.wrapping_add(index * pool_size), "slab_pool.lock")?));
            }
            for (name, place) in places {
                locks.push(self.lock_at(place, format!("arena {index} {name}"))?);
            }
        }
        Some(locks)
    }

    fn lock_at(&self, address: u64, name: String) -> Option<Lock> {
        Some(Lock {
            name,
            operations: self.get(address, "lock.turns")?,
            owner_changes: self.get(address, "lock.owner_changes")?,
            spins: self.get(address, "lock.spins")?,
            waits: self.get(address, "lock.waits")?,
            wait_time: self.get(address, "lock.wait_ns")?,
            wait_time_most: self.get(address, "lock.wait_ns_most")?,
            queue_most: self.get(address, "lock.queue_most"),
        })
    }

    /// What the limits come to in bytes, by the options that set them; 0 where there is none. `None` where the
    /// allocator does not tell.
    pub(super) fn limits(&self) -> Option<[(String, i64); 2]> {
        let limit = |option: &str, root: &str| {
            let pages = self.memory.word(self.page.root(root)?)?;
            let bytes = if pages == u64::MAX { 0 } else { pages.saturating_mul(1 << self.shift) };
            Some((option.to_owned(), i64::try_from(bytes).unwrap_or(i64::MAX)))
        };
        let soft = limit("memory_soft_limit", "limit.soft_pages")?;
        Some([limit("memory_limit", "limit.hard_pages")?, soft])
    }

    /// Of the counters that an arena has under this name.
    pub(super) fn purges(&self, arena: u64, name: &str) -> Option<Purges> {
        let counts = arena.checked_add(self.page.field(name)?.0)?;
        let get = |name: &str| self.get(counts, name);
        Some(Purges {
            rounds: get("purge_counts.runs")?,
            calls: get("purge_counts.calls")?,
            bytes: get("purge_counts.pages")?.saturating_mul(1 << self.shift),
        })
    }
}
