// SPDX-License-Identifier: MIT
//! A Rust program with jemalloc as its global allocator, which asks it through the typed calls of
//! tikv-jemalloc-ctl. Each answer is checked against what the program holds, or was started with:
//! narenas:3,zero:true,background_thread:true and, in the second argument's folder, profiles.

use std::hint::black_box;
use std::{env, fs, io, thread};

use tikv_jemalloc_ctl::{
    Access, AsName, arenas, background_thread, config, epoch, max_background_threads, opt,
    profiling, raw, stats, stats_print, thread as thread_figures, version,
};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const MIB: usize = 1 << 20;

fn main() {
    let folder = env::args().nth(1).expect("the folder for profiles");
    check_options();
    check_statistics();
    check_thread_counters();
    check_names();
    check_background_thread();
    check_report();
    check_profiles(&folder);
    println!("{}", text(version::read().unwrap()));
}

/// The crate gives strings with the NUL that ends them.
fn text(string: &'static str) -> &'static str {
    string.strip_suffix('\0').expect("a NUL at the end")
}

fn check_options() {
    assert!(version::read().unwrap().contains("mallow"), "the jemalloc is not Mallow");
    assert_eq!(version::mib().unwrap().read().unwrap(), version::read().unwrap());
    assert_eq!(text(config::malloc_conf::read().unwrap()), "");
    assert!(!opt::abort::read().unwrap());
    assert_eq!(opt::narenas::read().unwrap(), 3);
    assert_eq!(arenas::narenas::read().unwrap(), 3);
    assert!(opt::zero::read().unwrap());
    assert!(opt::background_thread::read().unwrap());
    assert!(opt::tcache::read().unwrap());
    assert!(opt::tcache_max::read().unwrap() > 1024);
    assert_eq!(text(opt::junk::read().unwrap()), "false");
    assert!(["disabled", "primary", "secondary"].contains(&text(opt::dss::read().unwrap())));
}

fn check_statistics() {
    epoch::advance().unwrap();
    let (before, mapped) = (stats::allocated::mib().unwrap(), stats::mapped::mib().unwrap());
    let allocated = before.read().unwrap();
    let held: Vec<Vec<u8>> = (0..64).map(|_| vec![1; MIB]).collect();
    assert_eq!(before.read().unwrap(), allocated, "figures changed without an epoch");
    let old = epoch::read().unwrap();
    assert!(epoch::mib().unwrap().advance().unwrap() > 0);
    assert!(epoch::read().unwrap() > old);

    let grown = before.read().unwrap() - allocated;
    // What lies in the thread's lists counts as allocated, and may have become less.
    assert!((63 * MIB..65 * MIB).contains(&grown), "64 MiB more, but {grown} allocated");
    let active = stats::active::read().unwrap();
    assert!(active >= before.read().unwrap());
    assert!(stats::resident::read().unwrap() >= active);
    assert!(mapped.read().unwrap() >= active);
    assert!(stats::metadata::read().unwrap() > 0);
    stats::retained::read().unwrap();
    drop(black_box(held));
    epoch::advance().unwrap();
    assert!(before.read().unwrap() < allocated + MIB, "64 MiB were freed");
}

fn check_thread_counters() {
    let allocated = thread_figures::allocatedp::mib().unwrap().read().unwrap();
    let deallocated = thread_figures::deallocatedp::read().unwrap();
    let (before, freed) = (allocated.get(), deallocated.get());
    let block = black_box(Vec::<u8>::with_capacity(1000));
    let size = allocated.get() - before;
    assert!((1000..=1280).contains(&size), "one block of 1000 bytes counts {size}");
    drop(block);
    assert_eq!(deallocated.get() - freed, size);
    // Another thread's calls count for that thread.
    let before = allocated.get();
    let other = thread::spawn(|| {
        let own = thread_figures::allocatedp::read().unwrap();
        let before = own.get();
        drop(black_box(vec![0u8; MIB]));
        own.get() - before
    });
    let here = allocated.get() - before;
    assert!(other.join().unwrap() >= MIB as u64);
    assert!(here < MIB as u64 / 2, "{here} bytes of another thread counted here");
}

fn check_names() {
    let mut mib = [0; 4];
    raw::name_to_mib(b"arenas.bin.0.size\0", &mut mib).unwrap();
    let bins: u32 = b"arenas.nbins\0".name().read().unwrap();
    let mut last = 0;
    for bin in 0..bins as usize {
        mib[2] = bin;
        let size: usize = unsafe { raw::read_mib(&mib) }.unwrap();
        assert!(size > last, "bin {bin} has {size} bytes, the one before {last}");
        last = size;
    }
    let dss: &'static [u8] = b"arena.0.dss\0".name().read().unwrap();
    assert_eq!(dss, b"disabled\0");
    // The epoch is 64 bits wide.
    unsafe { raw::read::<u32>(b"epoch\0") }.unwrap_err();
    unsafe { raw::read::<u32>(b"no.such.name\0") }.unwrap_err();
    let arena: u32 = unsafe { raw::read(b"arenas.create\0") }.unwrap();
    assert_eq!(arena, 3);
    let decay: isize = unsafe { raw::update(b"arena.3.dirty_decay_ms\0", 500isize) }.unwrap();
    assert_ne!(decay, 500);
    assert_eq!(unsafe { raw::read::<isize>(b"arena.3.dirty_decay_ms\0") }.unwrap(), 500);
}

fn check_background_thread() {
    assert!(background_thread::read().unwrap());
    assert!(background_thread::update(false).unwrap());
    assert!(!background_thread::mib().unwrap().read().unwrap());
    background_thread::write(true).unwrap();
    assert!(max_background_threads::read().unwrap() >= 1);
}

fn check_report() {
    let mut text = Vec::new();
    stats_print::stats_print(&mut text, stats_print::Options::default()).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("Begin jemalloc statistics"), "{text}");
    let mut options = stats_print::Options::default();
    options.json_format = true;
    options.skip_per_arena = true;
    let mut json = Vec::new();
    stats_print::stats_print(&mut json, options).unwrap();
    assert!(json.starts_with(b"{"));
    // What the writer fails with comes back.
    struct Full;
    impl io::Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let error = stats_print::stats_print(Full, stats_print::Options::default()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}

#[inline(never)]
fn grow_for_profile() -> Vec<Box<[u8; 4096]>> {
    (0..20_000).map(|_| black_box(Box::new([1; 4096]))).collect()
}

fn check_profiles(folder: &str) {
    assert!(profiling::prof::read().unwrap());
    assert_eq!(profiling::lg_prof_sample::read().unwrap(), 14);
    assert_eq!(profiling::lg_prof_interval::read().unwrap(), -1);
    assert!(!profiling::prof_final::read().unwrap() && !profiling::prof_leak::read().unwrap());
    let active = b"prof.active\0".name();
    assert!(!Access::<bool>::read(active).unwrap());
    active.write(true).unwrap();
    let held = grow_for_profile();
    active.write(false).unwrap();
    let path: &'static str = format!("{folder}/profile.heap\0").leak();
    b"prof.dump\0".name().write(path.as_bytes()).unwrap();
    drop(held);

    let profile = fs::read_to_string(path.trim_end_matches('\0')).unwrap();
    assert!(profile.starts_with("heap_v2/16384\n"), "{}", &profile[..40]);
    assert!(profile.contains("MAPPED_LIBRARIES:"));
    // `  t*: blocks: bytes [...]`, of the whole program: these counts are of samples.
    let total = profile.lines().nth(1).unwrap().split([' ', ':', '[']);
    let numbers: Vec<f64> = total.filter_map(|word| word.parse().ok()).collect();
    let estimate = numbers[1] / (1.0 - (-numbers[1] / numbers[0] / 16384.0).exp());
    let real = 20_000.0 * 4096.0;
    // The deviation is sqrt(80 MB * 16 KiB), 1.4 %.
    assert!((estimate / real - 1.0).abs() < 0.1, "{estimate} bytes, really {real}");
}
