// SPDX-License-Identifier: MIT
//! Inputs to begin with: `seeds DIR` writes DIR/TARGET/NAME.

use std::path::Path;

use mallow_process::process::SAVED;
use mallow_trace::{Call, Event, Frame, Header, Op, Record, Stack, Writer};

/// What compiled code calls that is to be counted: here nobody counts.
macro_rules! uncounted {
    ($($name:ident)*) => { $(#[unsafe(no_mangle)] extern "C" fn $name() {})* };
}

uncounted! {
    __sanitizer_cov_8bit_counters_init __sanitizer_cov_pcs_init __sanitizer_cov_trace_pc_indir
    __sanitizer_cov_trace_switch __sanitizer_cov_trace_cmp1 __sanitizer_cov_trace_cmp2 __sanitizer_cov_trace_cmp4
    __sanitizer_cov_trace_cmp8 __sanitizer_cov_trace_const_cmp1 __sanitizer_cov_trace_const_cmp2
    __sanitizer_cov_trace_const_cmp4 __sanitizer_cov_trace_const_cmp8
}

/// A part of a dump of each kind, small enough to be varied.
const DUMPS: [(&str, &str); 3] = [
    (
        "jemalloc",
        r#"{"jemalloc":{"version":"5.3.0-0-g5","config":{"stats":true},"opt":{"narenas":8,"tcache":true,
        "dirty_decay_ms":-1,"junk":"false"},"arenas":{"narenas":9,"dirty_decay_ms":10000,"page":4096,
        "bin":[{"size":8,"nregs":512,"slab_size":4096}],"lextent":[{"size":16384}]},
        "stats":{"allocated":1,"active":2,"resident":3,"mutexes":{"ctl":{"num_ops":1,"num_wait":2}}},
        "stats.arenas":{"merged":{"nthreads":2,"uptime_ns":5,"pactive":1,"pdirty":2,"dirty_purged":3,
        "small":{"allocated":4},"large":{"nmalloc":5,"nrequests":6},"base":1,"internal":2,
        "mutexes":{"base":{"num_ops":18446744073709551615,"num_spin_acq":3,"max_num_thds":1}},
        "bins":[{"curregs":5,"curslabs":1,"nfills":7,"mutex":{"num_ops":1}}],
        "lextents":[{"curlextents":3}]},"0":{"nthreads":1,"pactive":9}}}}"#,
    ),
    (
        "mimalloc",
        r#"{"stat_version":6,"mimalloc_version":30600,"process":{"elapsed_msecs":2,"rss_current":5,
        "commit_current":6},"reserved":{"total":9,"peak":9,"current":9},"committed":{"current":4},
        "allocated":{"total":7,"current":6},"threads":{"current":2},"arena_count":1,
        "malloc_bins":[{"total":5,"current":1,"block_size":8,"page_size":65536}]}"#,
    ),
    (
        "glibc",
        r#"<malloc version="1"><heap nr="0"><sizes><size from="33" to="33" total="33" count="1"/></sizes>
        <total type="fast" count="0" size="0"/><total type="rest" count="1" size="9"/>
        <system type="current" size="135168"/><aspace type="total" size="135168"/>
        <aspace type="mprotect" size="135168"/></heap><total type="fast" count="0" size="0"/>
        <total type="rest" count="1" size="9"/><total type="mmap" count="1" size="4096"/>
        <system type="current" size="135168"/><aspace type="total" size="9"/></malloc>"#,
    ),
];

/// A line of each form.
const FAULT: &str = "\
mallow-fault 1\nkind overflow\ncall free\nsentence bytes behind a block\npid 7\ntid 8\nprogram /bin/a b\n\
pointer 0x1010\nblock 0x1000 13\nstate live\nmade new[]\noffset -2\nlength 3\nstack now 0x10 0x20\n\
stack allocated 8 0x30\nstack freed 9 0x40\nbytes 0xff0 00ff10\nleak 9 1 direct stack 0x60\n\
leak 64 2 indirect stack 0x50\npoints 1 2\n\
map 1000-2000 a0 2c58 /bin/a b\nend\nfree(): invalid pointer\n";

const PROFILE: &str = "\
heap_v2/1024\n  t*: 3: 1536 [4: 2048]\n  t3: 3: 1536 [4: 2048] main\n@ 0x10 0x20\n  t*: 2: 1024 [3: 1536]\n\
  t3: 2: 1024 [3: 1536]\n@ 0x30\n  t*: 18446744073709551615: 1 [0: 0]\n\nMAPPED_LIBRARIES:\n\
400000-401000 r-xp 00000000 fe:01 42 /bin/program\n";

/// In gperftools' form.
const PROFILE_FOR_PPROF: &str = "\
heap profile: 3: 1536 [4: 2048] @ heap_v2/1024\n2: 1024 [3: 1536] @ 0x10 0x20\n1: 1 [0: 0] @ 0x30\n\n\
MAPPED_LIBRARIES:\n400000-401000 r-xp 00000000 fe:01 42 /bin/program\n";

const TEXTS: [(&str, &str); 2] = [
    ("code", "7f0010 20 LazyCompile:~parse /a.js:1\n0x7f0030 0 empty\n7f0040 ffffffffffffffff py::f:/a.py\n"),
    (
        "java",
        "Native Memory Tracking:\n\nTotal: reserved=15461, committed=14352\n       malloc: 5000 #30\n\
-                 Java Heap (reserved=6710, committed=6710)\n                            (mmap: reserved=6710)\n\
-                     Class (reserved=10, committed=5)\n                            (malloc=4 #2)\n",
    ),
];

/// One library.
fn loader_cache() -> Vec<u8> {
    let mut cache = b"glibc-ld.so.cache1.1\x01\0\0\0".to_vec();
    cache.resize(48, 0);
    cache.extend([1u32, 72, 82, 0, 0, 0].map(u32::to_ne_bytes).concat());
    cache.extend(b"liba.so.1\0/lib/liba.so.1\0");
    cache
}

fn main() -> std::io::Result<()> {
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("usage: seeds DIR");
        std::process::exit(2);
    };
    let write = |target: &str, name: &str, bytes: &[u8]| {
        let folder = Path::new(&folder).join(target);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(name), bytes)
    };
    for file in ["maps", "smaps", "smaps_rollup", "status"] {
        let bytes = std::fs::read(format!("/proc/self/{file}"))?;
        let bytes = &bytes[..bytes.len().min(4000)];
        let target = if file == "maps" { "maps" } else { "smaps" };
        write(target, file, bytes)?;
    }
    for (index, file) in SAVED.iter().enumerate() {
        let mut bytes = vec![index as u8];
        bytes.extend(std::fs::read(format!("/proc/self/{file}")).unwrap_or_default());
        bytes.truncate(4000);
        write("process", file, &bytes)?;
    }
    // The smallest dynamic program that is there.
    for path in ["/usr/bin/true", "/bin/busybox"] {
        if let Ok(bytes) = std::fs::read(path) {
            write("elf", &path.replace('/', "-"), &bytes)?;
        }
    }
    write("trace", "calls", &trace().map_err(|error| std::io::Error::other(error.to_string()))?)?;
    for (name, dump) in DUMPS {
        write("stats", name, dump.as_bytes())?;
    }
    for (name, text) in TEXTS {
        write("texts", name, text.as_bytes())?;
    }
    write("texts", "libraries", &loader_cache())?;
    write("faults", "report", FAULT.as_bytes())?;
    write("profile", "heap", PROFILE.as_bytes())?;
    write("profile", "pprof", PROFILE_FOR_PPROF.as_bytes())?;
    // Chunks of a heap: sizes with the flag of the one before, and the top.
    let chunks: Vec<u8> = (1..200u64)
        .flat_map(|n| [0, (n % 40 + 2) * 16 + 1, 0x5500_0000_0010 + n * 16, 0])
        .flat_map(u64::to_le_bytes)
        .collect();
    write("heap", "chunks", &chunks)
}

fn trace() -> mallow_trace::Result<Vec<u8>> {
    let mut writer = Writer::new(Vec::new(), &Header::default())?;
    for i in 0..200u64 {
        let thread = (i % 3) as u32 + 1;
        let op = Op::ALL[i as usize % Op::ALL.len()];
        let call = Call { op, size: i, address: i * 16, stack: (i % 5) as u32, ..Call::default() };
        writer.write(&Record { time: i, thread, event: Event::Call(call) })?;
        if i % 20 == 0 {
            let frames = vec![Frame { module: 1, address: i }; 20];
            let event = Event::Stack(Stack { id: i as u32 + 1, frames, distance: 0 });
            writer.write(&Record { time: 0, thread: 0, event })?;
            writer.flush()?;
        }
    }
    writer.finish()
}
