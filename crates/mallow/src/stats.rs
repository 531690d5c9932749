// SPDX-License-Identifier: MIT
//! What the heap holds, in the words of Mallow's statistics.

use core::ffi::{CStr, c_void};

/// Figures of the whole process. Sizes are in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// In blocks that the program holds, rounded up to their class.
    pub allocated: u64,
    /// In free slots that are ready for the next allocation.
    pub cached: u64,
    /// Pages that hold blocks.
    pub active: u64,
    /// Free pages that are resident.
    pub dirty: u64,
    /// Free pages that the kernel may take when it wants to.
    pub muzzy: u64,
    /// Free address space without memory behind it.
    pub retained: u64,
    /// Mallow's own data.
    pub metadata: u64,
    /// What may be in memory at most: active, dirty, muzzy and metadata.
    pub resident: u64,
    /// Address space in all.
    pub mapped: u64,
    /// Blocks that the program was given so far.
    pub allocations: u64,
    /// Blocks that it gave back so far.
    pub frees: u64,
}

impl Stats {
    fn field(&mut self, name: &[u8]) -> Option<&mut u64> {
        Some(match name {
            b"allocated" => &mut self.allocated,
            b"cached" => &mut self.cached,
            b"active" => &mut self.active,
            b"dirty" => &mut self.dirty,
            b"muzzy" => &mut self.muzzy,
            b"retained" => &mut self.retained,
            b"metadata" => &mut self.metadata,
            b"resident" => &mut self.resident,
            b"mapped" => &mut self.mapped,
            b"allocations" => &mut self.allocations,
            b"frees" => &mut self.frees,
            _ => return None,
        })
    }
}

/// Reads the figures, which walks over the whole heap. While other threads allocate, they are of
/// slightly different moments. `None` if there is no memory to gather them in.
pub fn stats() -> Option<Stats> {
    let mut stats = Stats::default();
    let context = (&raw mut stats).cast();
    // SAFETY: `take` gets this context, which lives as long as the call, and fits its type.
    unsafe { mallow_sys::mw_stats_each(take, context) }.then_some(stats)
}

unsafe extern "C" fn take(context: *mut c_void, stat: *const mallow_sys::mw_stat) {
    // SAFETY: the context is the one of `stats`, used by nobody else; the figure and its name, a C
    // string, are valid during the call.
    let (stats, name, value) = unsafe {
        let stat = &*stat;
        (&mut *context.cast::<Stats>(), CStr::from_ptr(stat.name), stat.value)
    };
    if let Some(field) = stats.field(name.to_bytes()) {
        *field = value;
    }
}
