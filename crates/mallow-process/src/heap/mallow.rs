// SPDX-License-Identifier: MIT
//! Mallow's heap, read from outside through its statistics page: counters of the arenas, and every
//! descriptor of an extent for what only the threads know exactly.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::stats_page::Page;
use crate::memory::Memory;

mod counters;
mod lists;
mod pagemap;

use lists::{LONGEST_LIST, list_length};
pub use pagemap::{Huge, huge};

const TRIES: u32 = 50;
const PAUSE: std::time::Duration = std::time::Duration::from_millis(1);
/// Where structures of the process lead us is not to be trusted blindly.
const MOST: u64 = 1 << 24;
/// More threads than a program has at a time.
const MOST_HEAPS: usize = 1 << 20;
/// More than any build has.
const MOST_ARENAS: u64 = 1 << 12;
const MOST_CLASSES: u64 = 1 << 10;
/// Arenas that a program can make.
const MOST_EXPLICIT: u64 = 4096;

/// Sizes in bytes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Heap {
    pub build: String,
    pub arenas: Vec<Arena>,
    /// By slot size.
    pub classes: Vec<Class>,
    /// Of the threads, those that have ended included, whose heaps wait for another.
    pub heaps: u64,
    /// That have a heap now; `None` where the allocator does not tell.
    #[serde(default)]
    pub threads: Option<u64>,
    pub metadata: u64,
    /// In lists of threads, ready to be handed out.
    pub listed: u64,
    /// Of that, freed and on the way to the slab's owner.
    pub outgoing: u64,
    /// Regions; the leaves of the page map; pages and addresses at which other metadata lies.
    pub regions: Vec<(u64, u64)>,
    #[serde(default)]
    pub leaves: Vec<(u64, u64)>,
    pub metadata_at: Vec<u64>,
    /// What happened so far, by class, of those of which blocks were given out; empty where the
    /// allocator is of a version that did not count.
    #[serde(default)]
    pub counts: Vec<Counts>,
    /// Large blocks that the program was given; `None` likewise.
    #[serde(default)]
    pub large_allocations: Option<u64>,
    /// Of the process, then of each arena; empty likewise.
    #[serde(default)]
    pub locks: Vec<Lock>,
    /// What holds now of the options that it tells of, limits in bytes; empty likewise.
    #[serde(default)]
    pub options: BTreeMap<String, i64>,
    /// Arenas that were never at rest while we looked, or of which a heap has a list that was not.
    pub incomplete: u32,
    pub tries: u32,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Arena {
    /// Address space: regions, and blocks that are mappings of their own.
    pub mapped: u64,
    /// In slabs and large blocks, without what is free in the stacks of threads.
    pub active: u64,
    /// Slots that are out of their slabs.
    pub slots_used: u64,
    pub slots_bytes: u64,
    pub large: u64,
    pub large_count: u64,
    pub huge: u64,
    pub huge_count: u64,
    /// Free pages in the stacks of threads.
    pub cached: u64,
    /// Free and resident, free and perhaps resident, free and not resident.
    pub dirty: u64,
    pub muzzy: u64,
    pub retained: u64,
    /// Of the slots that are out: in lists of threads. A list of a small class counts for the arena of its first
    /// slot, another for that of its heap.
    #[serde(default)]
    pub listed: u64,
    /// `None` where the allocator does not count.
    #[serde(default)]
    pub dirty_purges: Option<Purges>,
    #[serde(default)]
    pub muzzy_purges: Option<Purges>,
    /// Bytes that went back to the kernel and were needed again; `None` likewise.
    #[serde(default)]
    pub refaulted: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Class {
    pub slot_size: u64,
    pub slabs: u64,
    pub bytes: u64,
    pub used: u64,
    pub capacity: u64,
}

/// What heaps did with slots of one class since the program began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub slot_size: u64,
    /// Blocks that the program was given.
    pub allocations: u64,
    /// Blocks that the program gave back by a thread whose heap does not own their slab.
    pub remote_frees: u64,
    /// How often lists were filled, and how often slots of them went back.
    pub fills: u64,
    pub flushes: u64,
    pub slabs_made: u64,
}

/// What happened to a lock since the program began. Times in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    pub name: String,
    pub operations: u64,
    pub owner_changes: u64,
    pub spins: u64,
    pub waits: u64,
    pub wait_time: u64,
    pub wait_time_most: u64,
    /// Threads that waited at one time; `None` where the allocator does not tell.
    #[serde(default)]
    pub queue_most: Option<u64>,
}

/// Pages that went back to the kernel since the arena was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purges {
    pub rounds: u64,
    pub calls: u64,
    pub bytes: u64,
}

impl Arena {
    /// Out of their slabs, or with pages of their own.
    fn out(&self) -> u64 {
        self.slots_used.saturating_add(self.large).saturating_add(self.huge)
    }

    /// With the program.
    pub fn allocated(&self) -> u64 {
        self.out().saturating_sub(self.listed)
    }

    /// Blocks of pages of one size that lie in a list of a heap, though their arena takes them for the program's.
    /// Returns how many of them must be of another arena.
    fn blocks_in_list(&mut self, size: u64, count: u64) -> u64 {
        let taken = count.min(self.large.checked_div(size).unwrap_or(0));
        let bytes = taken * size;
        self.large -= bytes;
        self.large_count = self.large_count.saturating_sub(taken);
        self.active = self.active.saturating_sub(bytes);
        add(&mut self.cached, bytes);
        count - taken
    }
}

impl Heap {
    pub fn sum(&self, of: impl Fn(&Arena) -> u64) -> u64 {
        self.arenas.iter().map(of).fold(0, u64::saturating_add)
    }

    /// Bytes in a list of a thread. Those of no known arena count for the first.
    fn list(&mut self, bytes: u64, arena: Option<usize>) {
        add(&mut self.listed, bytes);
        let index = arena.filter(|index| *index < self.arenas.len()).unwrap_or(0);
        if let Some(arena) = self.arenas.get_mut(index) {
            add(&mut arena.listed, bytes);
        }
    }

    /// With the program.
    pub fn allocated(&self) -> u64 {
        self.sum(Arena::out).saturating_sub(self.listed)
    }

    /// Free slots of slabs that are in use.
    pub fn free_slots(&self) -> u64 {
        let in_slabs = self.sum(|arena| arena.slots_bytes.saturating_sub(arena.slots_used));
        in_slabs.saturating_add(self.listed)
    }
}

/// Numbers of another process may be any: a sum of them stops at the largest.
fn add(to: &mut u64, more: u64) {
    *to = to.saturating_add(more);
}

/// Descriptors by page, as the process's own look-up does it.
struct Reader<'a> {
    memory: &'a dyn Memory,
    page: &'a Page,
    shift: u64,
}

fn page_shift(memory: &dyn Memory, page: &Page) -> Option<u64> {
    memory.number(page.root("page_shift")?, 4).filter(|shift| (12..32).contains(shift))
}

pub fn read(memory: &dyn Memory, page: &Page) -> Option<Heap> {
    let reader = Reader { memory, page, shift: page_shift(memory, page)? };
    let arenas = reader.arenas()?;
    let mut heap = Heap { build: page.build.clone(), ..Heap::default() };
    heap.metadata = memory.word(page.root("meta_bytes")?)?;
    let heaps = reader.heaps();
    let mut heaps_of: BTreeMap<Option<u64>, Vec<u64>> = BTreeMap::new();
    for &at in heaps.iter().flatten() {
        heaps_of.entry(reader.get(at, "heap.arena")).or_default().push(at);
    }
    let mut classes: BTreeMap<u64, Class> = BTreeMap::new();
    let mut places = Vec::new();
    let mut others_blocks = Vec::new();
    let mut incomplete = BTreeSet::new();
    for (index, &address) in arenas.iter().enumerate() {
        let own = heaps_of.remove(&Some(address)).unwrap_or_default();
        let mut met = Met::default();
        memory.refresh();
        for attempt in 1..=TRIES {
            met = Met::default();
            heap.tries = heap.tries.max(attempt);
            met.is_whole = reader.arena(address, &own, &mut met).is_some();
            if met.is_whole {
                break;
            }
            if memory.is_over() {
                return None;
            }
            std::thread::sleep(PAUSE);
        }
        if !met.is_whole {
            incomplete.insert(index);
        }
        add(&mut heap.listed, met.arena.listed);
        heap.arenas.push(met.arena);
        others_blocks.extend(met.others_blocks);
        places.extend(met.regions.iter().map(|&(start, end)| (start, end, index)));
        heap.regions.extend(met.regions);
        heap.metadata_at.extend(met.metadata_at);
        for (size, class) in met.classes {
            classes.entry(size).or_default().add(&class);
        }
    }
    let shared = usize::try_from(reader.shared_arenas()?).ok()?;
    for (size, mut count) in others_blocks {
        for arena in heap.arenas.iter_mut().take(shared) {
            count = arena.blocks_in_list(size, count);
        }
    }
    memory.refresh(); // lists are walked in the memory that they are in, as it is now
    places.sort_unstable();
    if let Some(heaps) = &heaps {
        let of_threads = &heaps[..heaps.len() - 1];
        heap.heaps = of_threads.len() as u64;
        heap.metadata_at.extend(of_threads);
        incomplete.extend(reader.threads(heaps, &mut heap, &places));
    } else {
        incomplete.insert(0);
    }
    heap.incomplete = u32::try_from(incomplete.len()).unwrap_or(u32::MAX);
    heap.leaves = reader.leaves().unwrap_or_default();
    heap.counts = reader.counts().unwrap_or_default();
    heap.large_allocations = reader.large_allocations();
    heap.threads = page.root("threads").and_then(|place| memory.number(place, 4));
    heap.locks = reader.locks(&arenas).unwrap_or_default();
    heap.options = page.options(memory).unwrap_or_default();
    heap.options.extend(reader.limits().into_iter().flatten());
    heap.classes = classes.into_values().collect();
    (!memory.is_over()).then_some(heap)
}

#[derive(Default)]
struct Met {
    arena: Arena,
    classes: BTreeMap<u64, Class>,
    regions: Vec<(u64, u64)>,
    metadata_at: BTreeSet<u64>,
    /// In lists of its heaps: the size of blocks of pages, and how many of them are of other arenas.
    others_blocks: Vec<(u64, u64)>,
    is_whole: bool,
}

impl Class {
    fn add(&mut self, other: &Class) {
        self.slot_size = other.slot_size;
        add(&mut self.slabs, other.slabs);
        add(&mut self.bytes, other.bytes);
        add(&mut self.used, other.used);
        add(&mut self.capacity, other.capacity);
    }
}

impl Reader<'_> {
    fn get(&self, structure: u64, name: &str) -> Option<u64> {
        self.page.get(self.memory, structure, name)
    }

    /// Those that threads share.
    fn shared_arenas(&self) -> Option<u64> {
        Some(self.memory.number(self.page.root("arenas_used")?, 4)?.min(MOST_ARENAS))
    }

    /// Where each arena is: first those that threads share, then those that the program made and has
    /// not destroyed. An older allocator does not tell of these.
    fn arenas(&self) -> Option<Vec<u64>> {
        let (first, size) = (self.page.root("arenas")?, self.page.field("sizeof.arena")?.1);
        let mut arenas: Vec<u64> =
            (0..self.shared_arenas()?).map(|index| first.wrapping_add(index * size)).collect();
        if let (Some(table), Some(count)) =
            (self.page.root("explicit_arenas"), self.page.root("explicit_count"))
        {
            let count = self.memory.number(count, 4)?.min(MOST_EXPLICIT);
            let explicit = self.memory.words(table, count as usize)?;
            let is_in_use = |arena: &u64| self.get(*arena, "arena.is_in_use") == Some(1);
            arenas.extend(explicit.into_iter().filter(is_in_use));
        }
        Some(arenas)
    }

    /// `None` if somebody changed the arena meanwhile. A busy arena rests for microseconds only: what
    /// earlier tries met is copied in one go and walked afterwards, so that the arena has to rest for
    /// the copy, not for the walk.
    fn arena(&self, address: u64, heaps: &[u64], met: &mut Met) -> Option<()> {
        let before = self.lock(address)?;
        self.memory.reload();
        let copied = (self.lock(address)?, self.memory.loads());
        self.walk(address, met)?;
        self.counted_lists(heaps, met)?;
        let is_copy = self.memory.loads() == copied.1;
        let after = if is_copy { copied.0 } else { self.lock(address)? };
        (before.0 == 0 && after == before).then_some(())
    }

    /// Whether the arena is locked at this moment, and how often it was.
    fn lock(&self, arena: u64) -> Option<(u64, u64)> {
        let now = |name: &str| {
            self.get(arena, name)?; // nothing is asked of a page that is swapped out
            let (offset, size) = self.page.field(name)?;
            self.memory.number_now(arena.checked_add(offset)?, size)
        };
        Some((now("arena.lock_state")?, now("arena.lock_turns")?))
    }

    fn walk(&self, address: u64, met: &mut Met) -> Option<()> {
        let mut region = self.get(address, "arena.regions")?;
        for _ in 0..MOST {
            if region == 0 {
                break;
            }
            met.metadata_at.insert(region);
            self.region(region, met)?;
            region = self.get(region, "region.next")?;
        }
        let pages = |name: &str| Some(self.get(address, name)? << self.shift);
        let arena = &mut met.arena;
        arena.huge = pages("arena.huge_active_pages")?;
        arena.huge_count = self.get(address, "arena.huge_active_count")?;
        // The arena counts what is in the stacks of threads, too.
        let active = pages("arena.active_pages")?.saturating_add(arena.huge);
        arena.active = active.saturating_sub(arena.cached);
        let huge_dirty = pages("arena.huge_pages")?;
        arena.dirty = pages("arena.dirty_pages")?.saturating_add(huge_dirty);
        arena.muzzy = pages("arena.muzzy_pages")?;
        arena.retained = pages("arena.retained_pages")?;
        let regions = self.get(address, "arena.region_bytes")?;
        arena.mapped = regions.saturating_add(arena.huge).saturating_add(huge_dirty);
        arena.dirty_purges = self.purges(address, "arena.dirty_purges");
        arena.muzzy_purges = self.purges(address, "arena.muzzy_purges");
        arena.refaulted = pages("arena.pages_refaulted");
        Some(())
    }

    fn region(&self, region: u64, met: &mut Met) -> Option<()> {
        let start = self.get(region, "region.start")?;
        let end = start.checked_add(self.get(region, "region.size")?)?;
        met.regions.push((start, end));
        let mut at = start;
        while at < end {
            let extent = self.descriptor(at)?;
            let bytes = self.get(extent, "extent.pages")? << self.shift;
            if bytes == 0 || self.get(extent, "extent.start")? != at {
                return None;
            }
            met.metadata_at.insert(extent >> self.shift << self.shift);
            self.extent(extent, bytes, met)?;
            at = at.checked_add(bytes)?;
        }
        Some(())
    }

    fn extent(&self, extent: u64, bytes: u64, met: &mut Met) -> Option<()> {
        let state = self.get(extent, "extent.state")?;
        let slot_size = self.get(extent, "extent.slot_size")?;
        if Some(state) == self.page.number("state_cached") {
            add(&mut met.arena.cached, bytes);
        } else if Some(state) == self.page.number("state_active") && slot_size != 0 {
            let capacity = self.get(extent, "extent.capacity")?;
            let out = self.get(extent, "extent.left")?;
            let out = out.saturating_add(self.get(extent, "extent.bias")?);
            let shift = u32::try_from(self.page.number("remote_count_shift")?).ok()?;
            let remote = self.get(extent, "extent.remote")?.checked_shr(shift)?;
            let used = out.saturating_sub(remote).min(capacity);
            add(&mut met.arena.slots_used, used.saturating_mul(slot_size));
            add(&mut met.arena.slots_bytes, bytes);
            let class = Class { slot_size, slabs: 1, bytes, used, capacity };
            met.classes.entry(slot_size).or_default().add(&class);
        } else if Some(state) == self.page.number("state_active") {
            add(&mut met.arena.large, bytes);
            met.arena.large_count += 1;
        }
        Some(())
    }

    /// Where the heap of each thread is, and last the one that threads share. `None` if not all could be read.
    fn heaps(&self) -> Option<Vec<u64>> {
        let mut heaps = Vec::new();
        let mut next = self.memory.word(self.page.root("heaps")?)?;
        while next != 0 {
            if heaps.len() >= MOST_HEAPS {
                return None;
            }
            heaps.push(next);
            next = self.get(next, "heap.next")?;
        }
        heaps.push(self.page.root("heap_shared")?);
        Some(heaps)
    }

    /// What the heaps of an arena hold in lists of which they count the length. No such list is followed: its
    /// thread may have taken what lies there, and the program written to it.
    fn counted_lists(&self, heaps: &[u64], met: &mut Met) -> Option<()> {
        let (first, classes) = (self.page.number("small_classes")?, self.page.number("classes")?);
        let lists = self.page.number("lists")?.min(MOST_CLASSES);
        // Where links are encoded, the descriptors of blocks in lists say that these are free.
        let end = if self.page.root("link_keys").is_some() { classes.min(lists) } else { lists };
        for class in first..end {
            let size = self.class_size(class)?;
            for &heap in heaps {
                let count = self.counted_length(heap, class)?;
                if class < classes {
                    add(&mut met.arena.listed, count.saturating_mul(size));
                } else {
                    let left = met.arena.blocks_in_list(size, count);
                    met.others_blocks.extend((left != 0).then_some((size, left)));
                }
            }
        }
        Some(())
    }

    /// The length of a list of a medium class, or of blocks of pages, as its heap counts it.
    fn counted_length(&self, heap: u64, class: u64) -> Option<u64> {
        let (rooms, size) = self.page.field("heap.rooms")?;
        let word = self.memory.number(heap.wrapping_add(rooms + class * size), size)?;
        let minus_length = u16::try_from(word).ok()?.cast_signed();
        Some(u64::try_from(-i64::from(minus_length)).unwrap_or(0))
    }

    fn class_size(&self, class: u64) -> Option<u64> {
        self.memory.number(self.page.root("class_sizes")?.wrapping_add(4 * class), 4)
    }

    /// What the heaps hold beside that: lists of small classes, frees on their way. Returns the arenas whose heaps
    /// could not be read to the end.
    fn threads(&self, heaps: &[u64], heap: &mut Heap, places: &Places) -> BTreeSet<usize> {
        let mut cut = BTreeSet::new();
        for &address in heaps {
            if self.thread(address, heap, places).is_none() {
                cut.insert(self.arena_of(address).unwrap_or(0));
            }
        }
        self.trays(heap);
        self.batches(heap);
        cut
    }

    /// Slots that wait for the next thread that lacks some. `None` where the allocator has no trays.
    fn trays(&self, heap: &mut Heap) -> Option<()> {
        let trays = self.page.root("trays")?;
        let size = self.page.number("tray_size")?;
        let shift = u32::try_from(self.page.number("tray_count_shift")?).ok()?;
        let unit = self.page.number("tray_unit")?;
        for index in 0..self.shared_arenas()? {
            let word = self.memory.word(trays.wrapping_add(index.wrapping_mul(size)))?;
            let bytes = word.checked_shr(shift)?.saturating_mul(unit);
            heap.list(bytes, usize::try_from(index).ok());
        }
        Some(())
    }

    /// Slots that wait together for the next empty magazine. `None` where the allocator has no batches.
    fn batches(&self, heap: &mut Heap) -> Option<()> {
        let pools = self.page.root("slab_pools")?;
        let pool_size = self.page.field("sizeof.slab_pool")?.1;
        for index in 0..self.shared_arenas()? {
            let pool = pools.wrapping_add(index.wrapping_mul(pool_size));
            let bytes = self.get(pool, "slab_pool.batch_bytes")?;
            heap.list(bytes, usize::try_from(index).ok());
        }
        Some(())
    }

    /// By which the links of free slots are encoded; zeros where they are plain.
    fn link_keys(&self) -> [u64; 2] {
        let key = |place: u64| self.memory.word(place);
        let keys = self.page.root("link_keys");
        keys.and_then(|place| Some([key(place)?, key(place.wrapping_add(8))?])).unwrap_or_default()
    }

    fn thread(&self, address: u64, heap: &mut Heap, places: &Places) -> Option<()> {
        let (free, step) = self.page.field("heap.free")?;
        let keys = self.link_keys();
        for class in 0..self.page.number("small_classes")?.min(MOST_CLASSES) {
            let list = address.wrapping_add(free + class * step);
            let slot = self.memory.word(list)?;
            if slot == 0 {
                continue;
            }
            // Slots of one list are of one class, whichever slab they are of. What lies in one that never rests is little,
            // and counts as the program's.
            if let Some(length) = list_length(self.memory, list, keys) {
                let bytes = self.class_size(class)?.saturating_mul(length);
                heap.list(bytes, arena_at(places, slot));
            }
        }
        // Only the secure build has slots that wait after they were freed.
        let delayed = ["heap.delayed_bytes", "heap.delayed_larger"]
            .map(|field| self.get(address, field).unwrap_or(0))
            .iter()
            .sum();
        heap.list(delayed, self.arena_of(address));
        let (outboxes, outbox_size) = self.page.field("heap.outboxes")?;
        for index in 0..self.page.number("outboxes")?.min(MOST_CLASSES) {
            let outbox = address.wrapping_add(outboxes + index * outbox_size);
            let slab = self.get(outbox, "outbox.slab")?;
            if slab != 0 {
                let count = self.get(outbox, "outbox.count")?.min(LONGEST_LIST);
                let bytes = count.saturating_mul(self.get(slab, "extent.slot_size")?);
                add(&mut heap.outgoing, bytes);
                let start = self.get(slab, "extent.start")?;
                heap.list(bytes, arena_at(places, start));
            }
        }
        Some(())
    }

    /// The place of a heap's arena among all.
    fn arena_of(&self, heap: u64) -> Option<usize> {
        let arena = self.get(heap, "heap.arena")?;
        let from_first = arena.checked_sub(self.page.root("arenas")?)?;
        let index = from_first.checked_div(self.page.field("sizeof.arena")?.1)?;
        usize::try_from(index).ok()
    }
}

/// Regions in order, and whose they are.
type Places = [(u64, u64, usize)];

fn arena_at(places: &Places, address: u64) -> Option<usize> {
    let after = places.partition_point(|(start, ..)| *start <= address);
    let (_, end, arena) = places[after.checked_sub(1)?];
    (address < end).then_some(arena)
}

#[cfg(test)]
mod tests;
