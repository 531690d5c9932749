// SPDX-License-Identifier: MIT
//! Inputs to begin with: `seeds DIR` writes DIR/TARGET/NAME.

use std::path::Path;

use mallow_advice::explain::{Report, SCHEMA};
use mallow_process::heap::Heap;
use mallow_process::heap::glibc::{Arena, Heaps};
use mallow_process::mappings::{Group, Kind, Mapping};
use mallow_process::process::SAVED;
use mallow_recorder::layout::{SCRIPT_ENTRY, SIZE_FOLLOWS, message, script_part};
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

const TEXTS: [(&str, &str); 7] = [
    ("dpkg", "Package: a\nStatus: install ok installed\nVersion: 1:2.0.9+ds-2\n\nPackage: b\nStatus: x\n"),
    ("apk", "P:jemalloc\nV:5.3.0-r4\n\nP:b\nV:\n\n"),
    ("code", "7f0010 20 LazyCompile:~parse /a.js:1\n0x7f0030 0 empty\n7f0040 ffffffffffffffff py::f:/a.py\n"),
    ("release", "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\nUBUNTU_CODENAME=noble\n"),
    ("loaded", "\tlinux-vdso.so.1 (0x7ffd)\n\tlibc.so.6 => /lib/libc.so.6 (0x7f00)\n\t/lib/ld.so (0x7f01)\n"),
    ("profile", "# all\nexport LD_PRELOAD=\"/usr/lib/libjemalloc.so.2:$LD_PRELOAD\"\n"),
    (
        "java",
        "Native Memory Tracking:\n\nTotal: reserved=15461, committed=14352\n       malloc: 5000 #30\n\
-                 Java Heap (reserved=6710, committed=6710)\n                            (mmap: reserved=6710)\n\
-                     Class (reserved=10, committed=5)\n                            (malloc=4 #2)\n",
    ),
];

/// Of each kind that `kept` reads, behind the byte that chooses it.
const KEPT: [(&str, &str); 4] = [
    (
        "baseline",
        r#"0{"schema":"mallow.baseline/1","command":["./a"],"platform":{"architecture":"x86_64","libc":"glibc",
        "allocator":"libc.so.6"},"processes":["a"],"stack_kind":"full","depth":8,"tolerance":{"bytes":1.5},
        "metrics":{"allocations":{"low":5,"high":5},"bytes":{"low":700,"high":700},"peak":{"low":1,"high":900},
        "leaks":{"low":0,"high":0},"rss":{"low":1048576,"high":1048576}},
        "stacks":[{"stack":"main","allocations":5,"bytes":null,"leaks":0}]}"#,
    ),
    (
        "state",
        r#"1{"schema":"mallow.tune.state/1","subject":{"command":["./a"],"trace":["t",9],"second":null,
        "allocator":"glibc","given":{"A":"1"},"space":["arena_max:1"],"constraints":["rss<24M"]},"seed":3,
        "took_s":1.5,"candidates":[1,2,3],"trials":[]}"#,
    ),
    (
        "record",
        r#"2{"schema":"mallow.enabled/1","folders":["/var/lib/mallow"],"entries":[{"kind":"global",
        "allocator":"mallow","word":"/l.so","library":"/l.so","file":"/etc/ld.so.preload","since":0,
        "before":null,"written":["/l.so"],"folders":[]}]}"#,
    ),
    (
        "run",
        r#"4{"schema":"mallow.watch/1","version":"0.1.0","command":"./a","pid":7,"allocator":"glibc","started_at":5,
        "interval_s":0.5,"ending":"ended","summary":{"duration_s":0.5,"rss":{"average":6.0,"peak":8.0,"end":8.0},
        "pss":null,"swap":{"average":0.0,"peak":0.0,"end":0.0},"heap_used":null,"heap_free":null,"minor_faults":3,
        "major_faults":0,"trend":{"bytes_per_s":8.0,"duration_s":0.5}},"samples":[{"time_s":0.0,"rss":4,"pss":null,
        "swap":0,"minor_faults":1,"major_faults":0,"processes":1,"threads":1,"heap_used":2,"heap_free":null},
        {"time_s":0.5,"rss":8,"pss":5,"swap":0,"minor_faults":3,"major_faults":0,"processes":1,"threads":2,
        "heap_used":null,"heap_free":1}]}"#,
    ),
];

/// The loader's pairs, and an object in memory with a table of everything and a list of two objects, as `loaded` reads them.
fn loaded() -> Vec<u8> {
    const BASE: u64 = 0x1000;
    let mut memory = vec![0u8; 0x500];
    let mut put = |at: usize, words: &[u64]| {
        for (index, word) in words.iter().enumerate() {
            memory[at + 8 * index..at + 8 * index + 8].copy_from_slice(&word.to_ne_bytes());
        }
    };
    let half = |low: u64, high: u64| high << 32 | low;
    // The header: of 64 bits, with three segments of 56 bytes at 64.
    put(0, &[u64::from_le_bytes(*b"\x7fELF\x02\x01\x01\0"), 0, half(0x003e_0003, 1), 0, 64, 0]);
    put(48, &[half(0, 0x0038_0040), 3]);
    for (index, (kind, address)) in [(6, 64), (1, 0), (2, 256)].into_iter().enumerate() {
        put(64 + 56 * index, &[kind, 0, address]);
    }
    let tags = [(5, 0x300), (10, 0x20), (6, 0x340), (4, 0x3c0), (7, 0x400), (8, 24), (1, 8), (14, 8)];
    let tags = tags.into_iter().chain([(21, BASE + 0x440), (0, 0)]).flat_map(|(tag, value)| [tag, value]);
    put(256, &tags.collect::<Vec<u64>>());
    put(0x340 + 24, &[half(1, 1 << 16), 0x500, 0, half(1, 0)]);
    put(0x3c0, &[half(1, 3)]);
    put(0x400, &[0x520, half(7, 1), 0]);
    put(0x440, &[1, BASE + 0x460]);
    put(0x460, &[BASE, 0, 0, BASE + 0x480, 0x7000, 0, 0, 0]);
    memory[0x300..0x313].copy_from_slice(b"\0malloc\0libc.so.6\0\0");
    let pairs = [3, BASE + 64, 5, 3u64].map(u64::to_ne_bytes).concat();
    [vec![2], pairs, memory].concat()
}

/// A message of each kind, as the recorder writes them.
fn ring() -> Vec<u8> {
    let head = |stamp: u64, kind: u8| stamp << 8 | u64::from(kind);
    let text = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    let part = |part: u8, size: u64, bytes: &[u8; 8]| {
        vec![head(0, message::SCRIPT_CODE), size, 7, 1 << 8 | u64::from(part), 5, text(bytes)]
    };
    let (process, thread) = (100 << 32 | 1, 100 << 32 | 101);
    let words = [
        vec![head(1, message::PROCESS), 16, 10, 0, process, text(b"/lib/c\0/"), text(b"bin/x\0x\0")],
        vec![head(2, message::THREAD), thread, 10, text(b"worker\0\0"), 0],
        vec![head(0, message::MAP), 6, text(b"10-20 \0\0")],
        vec![head(0, message::STACK), 2, 0x1001, 0x2001],
        vec![head(3, Op::Malloc as u8), 0x5010 << 16 | 100],
        vec![head(4, Op::Realloc as u8), 0x5020 << 16 | SIZE_FOLLOWS, 1 << 20, 0x5010, 7],
        vec![head(0, message::STACK_COPY), 16, 0x1001, 0x7000, 0x7010, 1, 0x1001, 0x2001],
        part(script_part::FILE, 5, b"/a.py\0\0\0"),
        part(script_part::NAME, 2, b"rd\0\0\0\0\0\0"),
        part(script_part::TABLE, 3, b"\xd9\x04\x09\0\0\0\0\0"),
        vec![head(0, message::SCRIPT), 1, 0x1000, 7, SCRIPT_ENTRY | 1, 0],
        vec![head(5, message::MARKER), 4, text(b"here\0\0\0\0")],
        vec![head(0, message::MAPS_CHANGED)],
    ];
    words.concat().into_iter().flat_map(u64::to_le_bytes).collect()
}

/// What `explain` saves, with one of each thing, behind the byte that chooses it.
fn explained() -> std::io::Result<Vec<u8>> {
    let heaps = Heaps { arenas: vec![Arena::default()], sizes: vec![(32, 7)], ..Heaps::default() };
    let mapping = Mapping {
        start: 0x1000,
        end: 0x2000,
        perms: "rw-p".into(),
        kind: Kind::GlibcHeap,
        label: "heap".into(),
        rss: 4096,
        pss: 4096,
        anonymous: 4096,
        swap: 0,
        huge: 0,
    };
    let report = Report {
        schema: SCHEMA.into(),
        groups: vec![Group { kind: Some(Kind::GlibcHeap), ..Group::default() }],
        heap: Heap::Glibc(heaps),
        mappings: vec![mapping],
        ..Report::default()
    };
    Ok([b"3".to_vec(), serde_json::to_vec(&report)?].concat())
}

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
    for file in ["maps", "smaps", "smaps_rollup", "status", "stat"] {
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
    write("texts", "leaks", b"# known\nleak:^app*table$\nleak:lib*.so\n")?;
    for (name, kept) in KEPT {
        write("kept", name, kept.as_bytes())?;
    }
    write("kept", "report", &explained()?)?;
    write("loaded", "object", &loaded())?;
    write("ring", "messages", &ring())?;
    write("faults", "report", FAULT.as_bytes())?;
    // The number of a place, some of each runtime, and what it has instead.
    for place in (0..740u64).step_by(20) {
        let edit = [place, 1 << 16].map(u64::to_le_bytes).concat();
        write("runtimes", &format!("place-{place}"), &edit)?;
    }
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
