//! The memory of another process, read while it runs. The process is not stopped, and nothing of it
//! changes: pages that are swapped out stay there (their content counts as unreadable), and pages
//! that were never touched are not touched (they count as zeros).

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::os::unix::fs::FileExt;

use super::smaps::Vma;

pub const PAGE: u64 = 4096;
const BLOCK: u64 = 64 * 1024;
/// Blocks kept at a time: a heap of any size is walked in 16 MiB.
const SLOTS: usize = 256;

const PAGEMAP_PRESENT: u64 = 1 << 63;
const PAGEMAP_SWAPPED: u64 = 1 << 62;

/// Words and bytes at an address; `None` where nothing can be read.
pub trait Memory {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()>;

    /// Forgets what was read, so that it is read anew.
    fn refresh(&self) {}

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

pub struct ProcessMemory {
    memory: File,
    pagemap: Option<File>,
    /// Private memory without a file, in order: what of it was never touched reads as zero.
    anonymous: Vec<(u64, u64)>,
    cache: RefCell<Vec<Option<Block>>>,
    swapped: Cell<bool>,
}

impl ProcessMemory {
    pub fn open(pid: u32, vmas: &[Vma]) -> std::io::Result<ProcessMemory> {
        let mut memory = ProcessMemory {
            memory: File::open(format!("/proc/{pid}/mem"))?,
            pagemap: File::open(format!("/proc/{pid}/pagemap")).ok(),
            anonymous: Vec::new(),
            cache: RefCell::new((0..SLOTS).map(|_| None).collect()),
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
        let slot = (start / BLOCK) as usize % SLOTS;
        let mut cache = self.cache.borrow_mut();
        if cache[slot].as_ref().is_none_or(|block| block.address != start) {
            cache[slot] = Some(self.load(start));
        }
        let block = cache[slot].as_mut()?;
        let from = (address - start) as usize;
        let to = from + buffer.len();
        let (first, last) = (from as u64 / PAGE, (to as u64 - 1) / PAGE);
        for page in first..=last {
            if block.untouched & (1 << page) != 0 {
                block.untouched &= !(1 << page);
                self.load_page(block, page);
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
        self.cache.borrow_mut().iter_mut().for_each(|slot| *slot = None);
    }

    fn resident(&self, start: u64, end: u64) -> Option<u64> {
        let entries = self.pagemap_entries(start, (end - start) / PAGE)?;
        Some(entries.iter().filter(|entry| **entry & PAGEMAP_PRESENT != 0).count() as u64 * PAGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::smaps;

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
    fn change_is_seen_after_refresh() {
        let mut value = Box::new(1u64);
        let memory = own();
        let address = &raw const *value as u64;
        assert_eq!(memory.word(address), Some(1));
        *value = 2;
        memory.refresh();
        assert_eq!(memory.word(address), Some(*value));
    }
}
