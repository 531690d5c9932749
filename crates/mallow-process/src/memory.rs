// SPDX-License-Identifier: MIT
//! The memory of another process, read while it runs. The process is not stopped, and nothing of it
//! changes: pages that are swapped out stay there (their content counts as unreadable), and pages
//! that were never touched are not touched (they count as zeros).

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::page_size;
use crate::smaps::Vma;
use crate::stat::folder;

/// What is read at a time: this or a page, whichever is more.
const BLOCK: u64 = 64 * 1024;
/// A heap of any size is walked in 16 MiB.
const MOST_BYTES: u64 = 16 << 20;
/// Entries of the pagemap that are held at a time.
const MOST_ENTRIES: u64 = 1 << 16;
/// Where the kernel cannot pass over what was never touched, ranges of more pages are sampled:
/// their entries alone would take seconds to read.
const MOST_COUNTED: u64 = 1 << 24;
const SAMPLES: u64 = 1 << 10;

/// Of what is swapped out so much is read, and is in memory again by that: an allocator's own figures, and
/// a small heap. More is left where it is.
const MOST_SWAPPED_IN: u64 = 4 << 20;

const PAGEMAP_PRESENT: u64 = 1 << 63;
const PAGEMAP_SWAPPED: u64 = 1 << 62;
/// A guard of `MADV_GUARD_INSTALL` is in the page tables what a swapped page is, and counts as swapped too.
const PAGEMAP_GUARD: u64 = 1 << 58;

/// What the kernel says of a page, in its entry of the pagemap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Present,
    Swapped,
    /// Never touched, or given back.
    Absent,
    /// Nobody may read it.
    Guard,
}

impl Page {
    fn of(entry: u64) -> Page {
        match entry {
            _ if entry & PAGEMAP_PRESENT != 0 => Page::Present,
            _ if entry & PAGEMAP_GUARD != 0 => Page::Guard,
            _ if entry & PAGEMAP_SWAPPED != 0 => Page::Swapped,
            _ => Page::Absent,
        }
    }
}

/// Words and bytes at an address; `None` where nothing can be read.
pub trait Memory {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()>;

    /// Forgets what was read, so that it is read anew.
    fn refresh(&self) {}

    /// Reads everything that was read before anew, all of it in one go. What follows is answered
    /// from this picture, as long as `loads` stays the same. Nothing to do where nothing changes.
    fn reload(&self) {}

    /// How often something was read that was not known before.
    fn loads(&self) -> u64 {
        0
    }

    /// Whether nothing will be read any more, for lack of time.
    fn is_over(&self) -> bool {
        false
    }

    /// A number as it is at this moment, whatever was read before.
    fn number_now(&self, address: u64, size: u64) -> Option<u64> {
        self.number(address, size)
    }

    /// Resident bytes of a range; `None` if that is not known.
    fn resident(&self, _start: u64, _end: u64) -> Option<u64> {
        None
    }

    /// Where a range has marks of the kernel without access; `None` if that is not known.
    fn guards(&self, _start: u64, _end: u64) -> Option<Vec<(u64, u64)>> {
        None
    }

    fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Some(u64::from_le_bytes(bytes))
    }

    /// An unsigned number of 1, 2, 4 or 8 bytes.
    fn number(&self, address: u64, size: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        let size = usize::try_from(size).ok().filter(|&size| size <= 8)?;
        self.read(address, &mut bytes[..size])?;
        Some(u64::from_le_bytes(bytes))
    }

    fn words(&self, address: u64, count: usize) -> Option<Vec<u64>> {
        Some(to_words(&read_bytes(self, address, count)?))
    }

    /// The same if any is not 0: most of where one searches is.
    fn words_unless_zero(&self, address: u64, count: usize) -> Option<Vec<u64>> {
        let bytes = read_bytes(self, address, count)?;
        // Each byte is the one before it, and the first is 0: one call compares them all.
        let is_zero = bytes.first() == Some(&0) && bytes[1..] == bytes[..bytes.len() - 1];
        (!is_zero).then(|| to_words(&bytes))
    }
}

fn read_bytes(memory: &(impl Memory + ?Sized), address: u64, words: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; words.checked_mul(8)?];
    memory.read(address, &mut bytes)?;
    Some(bytes)
}

fn to_words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

struct Block {
    address: u64,
    bytes: Vec<u8>,
    /// A bit for each page that could be read.
    readable: u64,
    /// Pages of files that the process has not touched: reading one makes it resident, so only
    /// those are read that somebody asks for.
    untouched: u64,
}

/// What was read last. Any two blocks can be in it together: a walk goes back and forth between
/// places that lie anywhere.
struct Cache {
    most_blocks: usize,
    blocks: Vec<Block>,
    index_of: HashMap<u64, usize>,
    /// Where the oldest block is, once all places are taken.
    oldest: usize,
    /// More was read than there is room for.
    is_partial: bool,
    /// Most reads are of the block that the read before them met.
    latest: usize,
}

impl Cache {
    fn new(block: u64) -> Cache {
        Cache {
            most_blocks: (MOST_BYTES / block).max(4) as usize,
            blocks: Vec::new(),
            index_of: HashMap::new(),
            oldest: 0,
            is_partial: false,
            latest: 0,
        }
    }

    fn find(&mut self, address: u64) -> Option<usize> {
        if self.blocks.get(self.latest).is_none_or(|block| block.address != address) {
            self.latest = *self.index_of.get(&address)?;
        }
        Some(self.latest)
    }

    fn add(&mut self, block: Block) -> usize {
        let index = if self.blocks.len() < self.most_blocks {
            self.index_of.insert(block.address, self.blocks.len());
            self.blocks.push(block);
            self.blocks.len() - 1
        } else {
            let index = self.oldest;
            self.is_partial = true;
            self.oldest = (index + 1) % self.most_blocks;
            self.index_of.remove(&self.blocks[index].address);
            self.index_of.insert(block.address, index);
            self.blocks[index] = block;
            index
        };
        self.latest = index;
        index
    }
}

pub struct ProcessMemory {
    memory: File,
    pagemap: Option<File>,
    page: u64,
    block: u64,
    /// Private memory without a file, in order: what of it was never touched reads as zero.
    anonymous: Vec<(u64, u64)>,
    cache: RefCell<Cache>,
    loads: Cell<u64>,
    swapped: Cell<bool>,
    may_swap_in: Cell<u64>,
    sampled: Cell<bool>,
}

impl ProcessMemory {
    pub fn open(pid: u32, vmas: &[Vma]) -> std::io::Result<ProcessMemory> {
        let page = page_size();
        let block = BLOCK.max(page);
        let proc = folder(pid);
        let mut memory = ProcessMemory {
            memory: File::open(proc.join("mem"))?,
            pagemap: File::open(proc.join("pagemap")).ok(),
            page,
            block,
            anonymous: Vec::new(),
            cache: RefCell::new(Cache::new(block)),
            loads: Cell::new(0),
            swapped: Cell::new(false),
            may_swap_in: Cell::new(MOST_SWAPPED_IN),
            sampled: Cell::new(false),
        };
        memory.remap(vmas);
        Ok(memory)
    }

    /// The mappings are others now.
    pub fn remap(&mut self, vmas: &[Vma]) {
        let is_anonymous = |vma: &&Vma| vma.is_anonymous() || vma.is_hugetlb();
        let anonymous = vmas.iter().filter(is_anonymous).filter(|vma| vma.is_private());
        self.anonymous = anonymous.map(|vma| (vma.start, vma.end)).collect();
        self.refresh();
    }

    /// Whether something was left unread because it is swapped out.
    pub fn met_swap(&self) -> bool {
        self.swapped.get()
    }

    /// Whether what is resident was estimated somewhere.
    pub fn has_sampled(&self) -> bool {
        self.sampled.get()
    }

    fn pagemap_entries(&self, start: u64, pages: u64) -> Option<Vec<u64>> {
        let mut bytes = vec![0; usize::try_from(pages * 8).ok()?];
        self.pagemap.as_ref()?.read_exact_at(&mut bytes, start / self.page * 8).ok()?;
        let entry = |chunk: &[u8]| u64::from_le_bytes(chunk.try_into().unwrap_or_default());
        Some(bytes.chunks_exact(8).map(entry).collect())
    }

    /// Pages that are present, each of them looked at.
    fn count_present(&self, start: u64, pages: u64) -> Option<u64> {
        let mut present = 0;
        for first in (0..pages).step_by(MOST_ENTRIES as usize) {
            let count = MOST_ENTRIES.min(pages - first);
            let entries = self.pagemap_entries(start + first * self.page, count)?;
            let is_present = |entry: &&u64| Page::of(**entry) == Page::Present;
            present += entries.iter().filter(is_present).count() as u64;
        }
        Some(present)
    }

    /// The same, estimated from `looked_at` pages in stretches all over the range.
    fn sample_present(&self, start: u64, pages: u64, looked_at: u64) -> Option<u64> {
        self.sampled.set(true);
        let length = looked_at / SAMPLES;
        let mut present = 0;
        for sample in 0..SAMPLES {
            let first = sample * (pages / SAMPLES);
            present += self.count_present(start + first * self.page, length)?;
        }
        let scaled = u128::from(present) * u128::from(pages) / u128::from(length * SAMPLES);
        Some(scaled as u64)
    }

    /// Whether all of the page at an address is such memory.
    fn is_anonymous(&self, address: u64) -> bool {
        let after = self.anonymous.partition_point(|(start, _)| *start <= address);
        after > 0 && self.anonymous[after - 1].1.saturating_sub(address) >= self.page
    }

    fn load(&self, address: u64) -> Block {
        let pages = self.block / self.page;
        let bytes = vec![0; self.block as usize];
        let mut block = Block { address, bytes, readable: 0, untouched: 0 };
        let entries = self.pagemap_entries(address, pages);
        let all = (1u64 << pages) - 1;
        let present = |entry: &u64| Page::of(*entry) == Page::Present;
        if entries.as_ref().is_none_or(|entries| entries.iter().all(present))
            && self.memory.read_exact_at(&mut block.bytes, address).is_ok()
        {
            block.readable = all;
            return block;
        }
        for page in 0..pages {
            let at = address + page * self.page;
            match entries.as_ref().map(|entries| Page::of(entries[page as usize])) {
                Some(Page::Guard) => {}
                Some(Page::Swapped) => self.swap_in(&mut block, page),
                Some(Page::Absent) if self.is_anonymous(at) => block.readable |= 1 << page,
                Some(Page::Absent) => block.untouched |= 1 << page,
                Some(Page::Present) | None => _ = self.load_page(&mut block, page),
            }
        }
        block
    }

    /// Before Linux 6.15 guards are told from pages in swap space by trying: they cost nothing of it.
    fn swap_in(&self, block: &mut Block, page: u64) {
        match self.may_swap_in.get().checked_sub(self.page) {
            Some(left) if self.load_page(block, page) => self.may_swap_in.set(left),
            Some(_) => {}
            None => self.swapped.set(true),
        }
    }

    /// Whether it could be read.
    fn load_page(&self, block: &mut Block, page: u64) -> bool {
        let range = (page * self.page) as usize..((page + 1) * self.page) as usize;
        let at = block.address + page * self.page;
        let is_read = self.memory.read_exact_at(&mut block.bytes[range], at).is_ok();
        block.readable |= u64::from(is_read) << page;
        is_read
    }

    fn read_within(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        let start = address / self.block * self.block;
        let mut cache = self.cache.borrow_mut();
        let index = cache.find(start).unwrap_or_else(|| {
            self.loads.set(self.loads.get() + 1);
            cache.add(self.load(start))
        });
        let block = &mut cache.blocks[index];
        let from = (address - start) as usize;
        let to = from + buffer.len();
        let (first, last) = (from as u64 / self.page, (to as u64 - 1) / self.page);
        for page in first..=last {
            if block.untouched & (1 << page) != 0 {
                block.untouched &= !(1 << page);
                self.load_page(block, page);
                self.loads.set(self.loads.get() + 1);
            }
            if block.readable & (1 << page) == 0 {
                return None;
            }
        }
        buffer.copy_from_slice(&block.bytes[from..to]);
        Some(())
    }
}

impl Memory for ProcessMemory {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        let mut done = 0;
        while done < buffer.len() {
            let at = address.checked_add(done as u64)?;
            let room = (self.block - at % self.block) as usize;
            let end = buffer.len().min(done + room);
            self.read_within(at, &mut buffer[done..end])?;
            done = end;
        }
        Some(())
    }

    fn refresh(&self) {
        *self.cache.borrow_mut() = Cache::new(self.block);
    }

    fn reload(&self) {
        if self.cache.borrow().is_partial {
            return self.refresh(); // the walk would drive out what was copied for it
        }
        for block in &mut self.cache.borrow_mut().blocks {
            *block = self.load(block.address);
        }
    }

    fn loads(&self) -> u64 {
        self.loads.get()
    }

    fn number_now(&self, address: u64, size: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        let size = usize::try_from(size).ok().filter(|&size| size <= 8)?;
        self.memory.read_exact_at(&mut bytes[..size], address).ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    fn resident(&self, start: u64, end: u64) -> Option<u64> {
        let pagemap = self.pagemap.as_ref()?;
        if let Ok(present) = mallow_os::present_bytes(pagemap, start, end) {
            return Some(present);
        }
        let pages = (end - start) / self.page;
        let present = if pages <= MOST_COUNTED {
            self.count_present(start, pages)?
        } else {
            self.sample_present(start, pages, MOST_COUNTED)?
        };
        Some(present * self.page)
    }

    fn guards(&self, start: u64, end: u64) -> Option<Vec<(u64, u64)>> {
        let mut guards: Vec<(u64, u64)> = Vec::new();
        let step = MOST_ENTRIES * self.page;
        for from in (start..end).step_by(usize::try_from(step).ok()?) {
            let pages = (end - from).min(step) / self.page;
            for (index, entry) in (0..).zip(self.pagemap_entries(from, pages)?) {
                let at = from + index * self.page;
                match guards.last_mut() {
                    _ if Page::of(entry) != Page::Guard => {}
                    Some(last) if last.1 == at => last.1 += self.page,
                    _ => guards.push((at, at + self.page)),
                }
            }
        }
        Some(guards)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smaps;

    fn own() -> ProcessMemory {
        let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
        ProcessMemory::open(std::process::id(), &smaps::parse(&text).unwrap()).unwrap()
    }

    #[test]
    fn own_memory_is_read() {
        let numbers: Vec<u64> = (0..100_000).collect();
        let memory = own();
        let read = memory.words(numbers.as_ptr() as u64, numbers.len()).unwrap();
        assert_eq!(read, numbers);
        let read = memory.words_unless_zero(numbers.as_ptr() as u64, numbers.len());
        assert_eq!(read, Some(numbers.clone()), "only the first is 0");
        let zeros = [0u64; 1000];
        assert_eq!(memory.words_unless_zero(zeros.as_ptr() as u64, zeros.len()), None);
        assert_eq!(memory.number(&raw const numbers[300] as u64, 2), Some(300));
        assert_eq!(memory.word(8), None, "the first page is never mapped");
    }

    #[test]
    fn a_guard_is_no_page_in_swap_space() {
        let [guard, swapped, file] = [PAGEMAP_GUARD | PAGEMAP_SWAPPED, PAGEMAP_SWAPPED, 1 << 61];
        let pages = [guard, swapped, file, file | PAGEMAP_PRESENT].map(Page::of);
        assert_eq!(pages, [Page::Guard, Page::Swapped, Page::Absent, Page::Present]);
    }

    #[test]
    fn places_that_lie_anywhere_are_kept_together() {
        let size = MOST_BYTES as usize;
        let bytes = vec![7u8; 2 * size];
        let memory = own();
        let start = bytes.as_ptr() as u64;
        for _ in 0..3 {
            // As far apart as the cache is large.
            assert!(memory.number(start, 1) == memory.number(start + size as u64, 1));
        }
        assert_eq!(memory.loads(), 2);
        assert_eq!(memory.words(start, 2 * size / 8), Some(vec![0x0707_0707_0707_0707; size / 4]));
        let most = (MOST_BYTES / memory.block) as usize;
        assert!(memory.cache.borrow().blocks.len() == most);
        assert_eq!(memory.cache.borrow().index_of.len(), most);
    }

    #[test]
    fn mappings_may_begin_and_end_within_pages() {
        let mut memory = own();
        let page = memory.page;
        let (start, end) = (page + page / 4, 4 * page - page / 4);
        memory.remap(&[Vma { start, end, perms: "rw-p".into(), ..Vma::default() }]);
        let whole = (0..6).filter(|index| memory.is_anonymous(index * page));
        assert_eq!(whole.collect::<Vec<u64>>(), [2]);
    }

    #[test]
    fn change_is_seen_after_refresh() {
        let mut value = Box::new(1u64);
        let memory = own();
        let address = &raw const *value as u64;
        assert_eq!(memory.word(address), Some(1));
        *value = 2;
        memory.refresh();
        assert_eq!(memory.word(address), Some(*value));
    }

    #[test]
    fn picture_stays_until_it_is_reloaded() {
        let mut value = Box::new(1u64);
        let memory = own();
        let address = &raw const *value as u64;
        assert_eq!((memory.loads(), memory.word(address)), (0, Some(1)));
        *value = 2;
        assert_eq!((memory.word(address), memory.number_now(address, 8)), (Some(1), Some(*value)));
        memory.reload();
        assert_eq!((memory.word(address), memory.loads()), (Some(*value), 1));
    }

    #[test]
    fn resident_pages_are_counted_in_each_way() {
        let memory = own();
        let page = page_size();
        // Address space alone, but for the pages that are touched: one in 16.
        let pages = 1 << 16;
        let mut reserve: Vec<u8> = Vec::with_capacity(((pages + 1) * page) as usize);
        let start = (reserve.as_ptr() as u64).next_multiple_of(page);
        let before = (start - reserve.as_ptr() as u64) as usize;
        for touched in (0..pages).step_by(16) {
            reserve.spare_capacity_mut()[before + (touched * page) as usize].write(1);
        }
        let exact = memory.count_present(start, pages).unwrap();
        assert!((pages / 16..pages / 16 + 8).contains(&exact), "{exact}");
        assert_eq!(memory.resident(start, start + pages * page), Some(exact * page));
        let sampled = memory.sample_present(start, pages, 1 << 14).unwrap();
        assert!(sampled.abs_diff(exact) < exact / 50, "{sampled} against {exact}");
        assert!(memory.has_sampled());
    }
}
