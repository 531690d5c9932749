//! The memory of another process, read while it runs. The process is not stopped, and nothing of it
//! changes: pages that are swapped out stay there (their content counts as unreadable), and pages
//! that were never touched are not touched (they count as zeros).

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::smaps::Vma;

pub const PAGE: u64 = 4096;
const BLOCK: u64 = 64 * 1024;
/// A heap of any size is walked in 16 MiB.
const MOST_BLOCKS: usize = 256;

const PAGEMAP_PRESENT: u64 = 1 << 63;
const PAGEMAP_SWAPPED: u64 = 1 << 62;

/// Words and bytes at an address; `None` where nothing can be read.
pub trait Memory {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()>;

    /// Forgets what was read, so that it is read anew.
    fn refresh(&self) {}

    /// Reads everything that was read before anew, all of it in one go. What follows is answered
    /// from this picture, as long as `loads` stays the same.
    fn reload(&self);

    /// How often something was read that was not known before.
    fn loads(&self) -> u64;

    /// A number as it is at this moment, whatever was read before.
    fn number_now(&self, address: u64, size: u64) -> Option<u64>;

    /// Resident bytes of a range; `None` if that is not known.
    fn resident(&self, _start: u64, _end: u64) -> Option<u64> {
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
        let mut bytes = vec![0; count * 8];
        self.read(address, &mut bytes)?;
        let word = |chunk: &[u8]| u64::from_le_bytes(chunk.try_into().unwrap_or_default());
        Some(bytes.chunks_exact(8).map(word).collect())
    }
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
#[derive(Default)]
struct Cache {
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
    fn find(&mut self, address: u64) -> Option<usize> {
        if self.blocks.get(self.latest).is_none_or(|block| block.address != address) {
            self.latest = *self.index_of.get(&address)?;
        }
        Some(self.latest)
    }

    fn add(&mut self, block: Block) -> usize {
        let index = if self.blocks.len() < MOST_BLOCKS {
            self.index_of.insert(block.address, self.blocks.len());
            self.blocks.push(block);
            self.blocks.len() - 1
        } else {
            let index = self.oldest;
            self.is_partial = true;
            self.oldest = (index + 1) % MOST_BLOCKS;
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
    /// Private memory without a file, in order: what of it was never touched reads as zero.
    anonymous: Vec<(u64, u64)>,
    cache: RefCell<Cache>,
    loads: Cell<u64>,
    swapped: Cell<bool>,
}

impl ProcessMemory {
    pub fn open(pid: u32, vmas: &[Vma]) -> std::io::Result<ProcessMemory> {
        let mut memory = ProcessMemory {
            memory: File::open(format!("/proc/{pid}/mem"))?,
            pagemap: File::open(format!("/proc/{pid}/pagemap")).ok(),
            anonymous: Vec::new(),
            cache: RefCell::default(),
            loads: Cell::new(0),
            swapped: Cell::new(false),
        };
        memory.remap(vmas);
        Ok(memory)
    }

    /// The mappings are others now.
    pub fn remap(&mut self, vmas: &[Vma]) {
        let anonymous = vmas.iter().filter(|vma| vma.is_anonymous() && vma.is_private());
        self.anonymous = anonymous.map(|vma| (vma.start, vma.end)).collect();
        self.refresh();
    }

    /// Whether something was left unread because it is swapped out.
    pub fn met_swap(&self) -> bool {
        self.swapped.get()
    }

    fn pagemap_entries(&self, start: u64, pages: u64) -> Option<Vec<u64>> {
        let mut bytes = vec![0; usize::try_from(pages * 8).ok()?];
        self.pagemap.as_ref()?.read_exact_at(&mut bytes, start / PAGE * 8).ok()?;
        let entry = |chunk: &[u8]| u64::from_le_bytes(chunk.try_into().unwrap_or_default());
        Some(bytes.chunks_exact(8).map(entry).collect())
    }

    fn is_anonymous(&self, address: u64) -> bool {
        let after = self.anonymous.partition_point(|(start, _)| *start <= address);
        after > 0 && address < self.anonymous[after - 1].1
    }

    fn load(&self, address: u64) -> Block {
        let pages = BLOCK / PAGE;
        let mut block =
            Block { address, bytes: vec![0; BLOCK as usize], readable: 0, untouched: 0 };
        let entries = self.pagemap_entries(address, pages);
        let all = (1u64 << pages) - 1;
        let present = |entry: &u64| entry & PAGEMAP_PRESENT != 0;
        if entries.as_ref().is_none_or(|entries| entries.iter().all(present))
            && self.memory.read_exact_at(&mut block.bytes, address).is_ok()
        {
            block.readable = all;
            return block;
        }
        for page in 0..pages {
            let at = address + page * PAGE;
            let entry = entries.as_ref().map(|entries| entries[page as usize]);
            match entry {
                Some(entry) if entry & PAGEMAP_SWAPPED != 0 => {
                    self.swapped.set(true);
                }
                Some(entry) if entry & PAGEMAP_PRESENT == 0 && self.is_anonymous(at) => {
                    block.readable |= 1 << page;
                }
                Some(entry) if entry & PAGEMAP_PRESENT == 0 => block.untouched |= 1 << page,
                _ => self.load_page(&mut block, page),
            }
        }
        block
    }

    fn load_page(&self, block: &mut Block, page: u64) {
        let range = (page * PAGE) as usize..((page + 1) * PAGE) as usize;
        let at = block.address + page * PAGE;
        if self.memory.read_exact_at(&mut block.bytes[range], at).is_ok() {
            block.readable |= 1 << page;
        }
    }

    fn read_within(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        let start = address / BLOCK * BLOCK;
        let mut cache = self.cache.borrow_mut();
        let index = cache.find(start).unwrap_or_else(|| {
            self.loads.set(self.loads.get() + 1);
            cache.add(self.load(start))
        });
        let block = &mut cache.blocks[index];
        let from = (address - start) as usize;
        let to = from + buffer.len();
        let (first, last) = (from as u64 / PAGE, (to as u64 - 1) / PAGE);
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
            let room = (BLOCK - at % BLOCK) as usize;
            let end = buffer.len().min(done + room);
            self.read_within(at, &mut buffer[done..end])?;
            done = end;
        }
        Some(())
    }

    fn refresh(&self) {
        *self.cache.borrow_mut() = Cache::default();
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
        let entries = self.pagemap_entries(start, (end - start) / PAGE)?;
        Some(entries.iter().filter(|entry| **entry & PAGEMAP_PRESENT != 0).count() as u64 * PAGE)
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
        assert_eq!(memory.number(&raw const numbers[300] as u64, 2), Some(300));
        assert_eq!(memory.word(8), None, "the first page is never mapped");
    }

    #[test]
    fn places_that_lie_anywhere_are_kept_together() {
        let size = MOST_BLOCKS * BLOCK as usize;
        let bytes = vec![7u8; 2 * size];
        let memory = own();
        let start = bytes.as_ptr() as u64;
        for _ in 0..3 {
            // As far apart as the cache is large.
            assert!(memory.number(start, 1) == memory.number(start + size as u64, 1));
        }
        assert_eq!(memory.loads(), 2);
        assert_eq!(memory.words(start, 2 * size / 8), Some(vec![0x0707_0707_0707_0707; size / 4]));
        assert!(memory.cache.borrow().blocks.len() == MOST_BLOCKS);
        assert_eq!(memory.cache.borrow().index_of.len(), MOST_BLOCKS);
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
}
