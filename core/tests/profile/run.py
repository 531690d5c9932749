#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Heap profiles of a program that is known: what it allocates by function, what it holds, what it says.

  run.py MODE LIBRARY CLIENT STATIC-CLIENT MODULE EXCHANGED RESIZED

CLIENT, EXCHANGED and RESIZED run with LIBRARY preloaded, STATIC-CLIENT has the archive in it. Each case is a process of its own
in a folder of its own. Names are looked up with nm, so that the static client and the module are read alike.
MODE is fast, secure or debug.
"""

import bisect
import math
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

MODE = sys.argv[1]
LIBRARY, CLIENT, STATIC, MODULE, EXCHANGED, RESIZED = (os.path.abspath(path) for path in sys.argv[2:8])
failures = []


def expect(good, text):
    if not good:
        failures.append(text)
        print("FAIL", text)


def run(folder, client, *arguments, conf="", thinning=False, guards=None, status=0, beside=""):
    environment = dict(os.environ, MALLOC_CONF="prof:true," + conf)
    ours = environment.get("MALLOW_CONF", "")
    guarded = f",guard_sample:{guards}" if guards is not None else ""
    environment["MALLOW_CONF"] = f"{ours},prof_thinning:{str(thinning).lower()}{guarded}".lstrip(",")
    if client != STATIC:
        environment["LD_PRELOAD"] = f"{LIBRARY} {beside}"
    done = subprocess.run([client, *arguments], cwd=folder, env=environment, timeout=300,
                          stderr=subprocess.PIPE, text=True)
    expect(done.returncode == status,
           f"{arguments} ends with {done.returncode} and not {status}: {done.stderr}")
    return done.stderr


class Symbols:
    """Functions of a file, by address."""

    def __init__(self, path):
        text = subprocess.run(["nm", "-n", "--defined-only", path], capture_output=True, text=True,
                              check=True).stdout
        found = re.findall(r"^([0-9a-f]+) [tTwW] (\S+)$", text, re.M)
        self.starts = [int(start, 16) for start, _ in found]
        self.names = [name for _, name in found]

    def name(self, address):
        at = bisect.bisect_right(self.starts, address) - 1
        return self.names[at] if at >= 0 else "?"


known = {path: Symbols(path) for path in (CLIENT, STATIC, MODULE, EXCHANGED, RESIZED)}


class Profile:
    """stacks: (names, live blocks, live bytes, all blocks, all bytes), as readers scale them."""

    def __init__(self, path):
        text = pathlib.Path(path).read_text()
        head, maps = text.split("\nMAPPED_LIBRARIES:\n")
        first, *lines = head.strip().splitlines()
        tally = r"\d+: \d+ \[\d+: \d+\]"
        self.is_for_pprof = first.startswith("heap profile:")
        if self.is_for_pprof:
            self.rate = int(re.fullmatch(rf"heap profile: {tally} @ heap_v2/(\d+)", first)[1])
            lines = [part for line in lines for part in reversed(re.fullmatch(rf"({tally}) (@.*)", line).groups())]
        else:
            self.rate = int(re.fullmatch(r"heap_v2/(\d+)", first)[1])
            expect(re.fullmatch(rf"  t\*: {tally}", lines.pop(0)), f"{path}: the totals")
        self.maps = [(int(start, 16), int(end, 16), int(offset, 16), file) for start, end, offset, file in
                     re.findall(r"^(\w+)-(\w+) \S+ (\w+) \S+ \S+ +(/.*)$", maps, re.M)]
        self.stacks = []
        for frames, numbers in zip(lines[::2], lines[1::2]):
            expect(frames.startswith("@"), f"{path}: '{frames}'")
            values = [int(value) for value in re.findall(r"\d+", numbers)]
            live = self.scaled(values[0], values[1])
            total = self.scaled(values[2], values[3])
            names = [self.name(int(frame, 16) - 1) for frame in frames.split()[1:]]
            self.stacks.append((names, *live, *total))

    def scaled(self, blocks, size):
        if blocks == 0:
            return 0, 0
        factor = 1 / -math.expm1(-size / blocks / self.rate)
        return blocks * factor, size * factor

    def name(self, address):
        for start, end, offset, file in self.maps:
            if start <= address < end and file in known:
                first = min(begin - off for begin, _, off, path in self.maps if path == file)
                symbols = known[file]
                is_fixed = symbols.starts and symbols.starts[-1] >= first
                return symbols.name(address if is_fixed else address - first)
        return "?"

    def live(self, name):
        return sum(stack[2] for stack in self.stacks if name in stack[0])

    def allocated(self, name):
        return sum(stack[4] for stack in self.stacks if name in stack[0])


def near_by(value, truth, spread, weight, text):
    """`weight`: with so much a sample counts. Where there are few, some more or less are no wonder."""
    expect(abs(value - truth) <= 5 * spread + 4 * weight, f"{text}: {value:.0f} and not {truth:.0f}, "
           f"{abs(value - truth) / max(spread, 1):.1f} standard deviations, {abs(value - truth) / weight:.1f} samples")


def near(value, truth, block, rate, text):
    """An estimate of bytes in blocks of `block`."""
    near_by(value, truth, spread_of(truth, block, rate), weight_of(block, rate), text)


def near_on_average(values, truth, spread, text):
    """The values spread so far at least, or farther."""
    mean, spread = statistics.mean(values), max(statistics.stdev(values), spread)
    expect(abs(mean - truth) < 6 * spread / math.sqrt(len(values)),
           f"{text}: {mean:.0f} and not {truth:.0f}, of +-{spread:.0f}")


def weight_of(block, rate):
    """The bytes that a sample of `block` bytes counts with."""
    return block / -math.expm1(-block / rate)


def spread_of(size, block, rate):
    """The standard deviation of an estimate of `size` bytes in blocks of `block`."""
    return math.sqrt(size * (weight_of(block, rate) - block))


def counts(asked, by_class, is_tracked=True):
    """The bytes with which a block counts: those of its class, in the debug build what was asked for. Blocks of
    explicit arenas are not tracked there."""
    return asked if MODE == "debug" and is_tracked else by_class


def work(of=""):
    """By function: bytes in a round, the largest block. In the secure build there are 8 bytes more in each slot."""
    small, aligned = (64, 768) if MODE == "secure" else (48, 512)
    is_tracked = of not in ("named", "bound")
    medium, large = counts(5000, 5120, is_tracked), counts(60000, 61440, is_tracked)
    single = counts(2000, 2048, is_tracked)
    return {
        "small_blocks": (4000 * small, small),
        "medium_blocks": (400 * medium, medium),
        "large_blocks": (40 * large, large),
        "one_at_a_time": (4000 * single, single),
        "aligned_blocks": (1000 * aligned, aligned),
    }


LEAKING = counts(1000, 1024)


def check_estimate(folder, client, of="", conf="", rates=((10, 10), (14, 25), (19, 150))):
    """Many rounds with other samples each, at several rates."""
    for lg_rate, rounds in rates:
        run(folder, client, "estimate", str(rounds), of,
            conf=f"prof_accum:true,lg_prof_sample:{lg_rate},{conf}")
        profile = Profile(folder / "estimate.heap")
        expect(profile.rate == 1 << lg_rate, "the rate")
        for name, (size, block) in work(of).items():
            near(profile.allocated(name), rounds * size, block, profile.rate,
                 f"{pathlib.Path(client).name} {of}{conf}, rate 2^{lg_rate}, {name}")
            expect(profile.live(name) == 0, f"rate 2^{lg_rate}: {name} holds nothing")
        grown = rounds * 5 * sum(size for size in (106496, 212992, 425984, 819200, 1638400))
        expect(abs(profile.allocated("grown_blocks") / grown - 1) < 0.2, "blocks that realloc grows: "
               f"{profile.allocated('grown_blocks') / grown:.2f} of them")


REPLACED = [2040, 5112, 10232, 20472, 40960, 49152, 65536, 81920, 98304, 131072, 196608, 262144]


def replaced(calls, rate):
    """By function: the bytes that it asks for, the standard deviation of their estimate, and with what a sample of the
    largest block counts."""
    counted = [counts(size, -(-size // 1024) * 1024) for size in REPLACED]
    parts = {"replaced_slots": counted[:4], "replaced_blocks": counted[4:], "replaced_any": counted}
    return {name: (calls / len(sizes) * sum(sizes),
                   math.sqrt(calls / len(sizes) * sum(spread_of(size, size, rate) ** 2 for size in sizes)),
                   weight_of(sizes[-1], rate))
            for name, sizes in parts.items()}


def check_replaced(folder, client):
    """Blocks that go in and out of lists; samples are the rarer, the larger blocks may lie there."""
    calls = {"fast": 2000004, "secure": 300000, "debug": 12000}[MODE]
    rates = (19, 24) if MODE == "debug" else (19, 24, 27)  # there 2^27 would be one sample of slots
    for lg_rate in rates if client == CLIENT else (24,):
        run(folder, client, "replaced", str(calls), conf=f"prof_accum:true,lg_prof_sample:{lg_rate}")
        profile = Profile(folder / "replaced.heap")
        for name, (size, spread, weight) in replaced(calls, 1 << lg_rate).items():
            near_by(profile.allocated(name), size, spread, weight, f"rate 2^{lg_rate}, {name}")
            expect(profile.live(name) == 0, f"rate 2^{lg_rate}: {name} holds nothing")


def exchanged(folder, calls, lg_rate, thinning=False, guards=None):
    """The estimate of what is exchanged, what it is, its standard deviation, and with what a sample counts at most."""
    counted = [counts(asked, size) for asked, size in ((24, 32), (184, 192), (504, 512), (1016, 1024))]
    run(folder, EXCHANGED, str(calls), conf=f"prof_accum:true,lg_prof_sample:{lg_rate}", thinning=thinning,
        guards=guards)
    profile = Profile(folder / "exchanged.heap")
    expect(profile.live("exchanged_blocks") == 0, "all that was exchanged is free")
    spread = math.sqrt(sum(spread_of(calls / 4 * size, size, profile.rate) ** 2 for size in counted))
    return (profile.allocated("exchanged_blocks"), calls / 4 * sum(counted), spread,
            weight_of(counted[-1], profile.rate))


def check_exchanged(folder):
    """Slots of other threads, which a heap keeps in its lists; also where some are guarded, and thinned out."""
    calls = {"fast": 8000000, "secure": 800000, "debug": 80000}[MODE]
    for lg_rate in (12, 16):
        near_by(*exchanged(folder, calls, lg_rate), f"exchanged, rate 2^{lg_rate}")
    near_by(*exchanged(folder, calls // 8, 16, guards=20), "exchanged, with guarded blocks")
    found = [exchanged(folder, calls // 8, 12, thinning=True) for _ in range(16)]
    near_on_average([value for value, *_ in found], *found[0][1:3], "exchanged, thinned out")


def check_resized(folder):
    """A sample stays where another block would: what gets another size counts as before, or anew."""
    blocks = {
        "slots_stay": (8000, counts(1003, 1024)),
        "pages_stay": (400, counts(100003, 106496)),
        "slots_are_kept": (8000, counts(1500, 2048)),
        "aligned_again": (8000, counts(70, 128)),
        "cut_in_place": (400, 81920),
        "grown_in_place": (0 if MODE == "debug" else 400, 81920),
    }
    for lg_rate in (12, 16, 19):
        said = run(folder, RESIZED, MODE, conf=f"lg_prof_sample:{lg_rate}")
        profile = Profile(folder / "resized.heap")
        for name, (count, size) in blocks.items():
            near(profile.live(name), count * size, size, profile.rate, f"rate 2^{lg_rate}, {name}")
        if MODE == "fast":
            kept = int(re.search(r"kept (\d+)", said)[1])
            near(profile.live("pages_are_kept"), kept, 106496, profile.rate, f"rate 2^{lg_rate}, pages_are_kept")


def check_thinned(folder, client):
    """However often samples are taken, the sums are right on average. How far they spread depends on that."""
    calls, runs = {"fast": 600000, "secure": 120000, "debug": 12000}[MODE], 16
    profiles = []
    for _ in range(runs):
        run(folder, client, "replaced", str(calls), conf="prof_accum:true", thinning=True)
        profiles.append(Profile(folder / "replaced.heap"))
    for name, (size, spread, _) in replaced(calls, 1 << 19).items():
        found = [profile.allocated(name) for profile in profiles]
        near_on_average(found, size, spread, f"{name}, thinned out")


def check_direct(folder, client):
    """The same for blocks that come past the thread's lists."""
    rates = ((10, 5), (14, 25)) if client == CLIENT else ((10, 5),)
    check_estimate(folder, client, "named", rates=rates)
    check_estimate(folder, client, "bound", rates=rates)
    check_estimate(folder, client, "cached", rates=rates)
    check_estimate(folder, client, conf="tcache:false", rates=rates)
    check_estimate(folder, client, conf="tcache_max:1024,oversize_threshold:40960", rates=rates)


def check_leak(folder, client):
    said = run(folder, client, "leak", conf="prof_leak:true,prof_final:true,lg_prof_sample:12,"
               "prof_prefix:out")
    found = re.search(r"<jemalloc>: Leak approximation summary: ~(\d+) bytes, ~(\d+) objects, "
                      r">= (\d+) contexts", said)
    expect(found, f"no leak report: {said}")
    if found:
        near_by(int(found[1]), 4000 * LEAKING, spread_of(4000 * LEAKING, LEAKING, 4096) + 20000,
                weight_of(LEAKING, 4096), "bytes leaked")
    files = list(folder.glob("out.*.0.f.heap"))
    expect(len(files) == 1, f"one final profile: {files}")
    profile = Profile(files[0])
    ours = set(Symbols(LIBRARY).names) - set(known[CLIENT].names)
    first = {names[0] for names, *_ in profile.stacks if names}
    expect(not first & ours, f"{pathlib.Path(client).name}: Mallow's own functions come first: {first & ours}")
    near(profile.live("leaking"), 4000 * LEAKING, LEAKING, 4096, "leaking")
    expect(profile.live("not_leaking") == 0, "not_leaking")
    run(folder, client, "leak", conf="prof_leak:true,prof_leak_error:true,lg_prof_sample:12", status=1)
    said = run(folder, client, "leak", conf="prof_leak_error:true,prof_final:true,lg_prof_sample:12,"
               "prof_prefix:error", status=1)
    expect("Leak approximation summary" in said and "Exiting with error code" in said, f"no leaks: {said}")
    run(folder, client, "leak", conf="prof_leak_error:true,lg_prof_sample:12")
    for asked, status in (("prof_leak:true", 0), ("prof_leak_error:true", 1)):
        said = run(folder, client, "leak", conf=f"prof:false,{asked},prof_final:true,lg_prof_sample:12,"
                   "lg_prof_interval:12,prof_gdump:true,prof_prefix:alone", status=status)
        expect("Leak approximation summary" in said, f"{asked} without prof: {said}")
    names = sorted(path.name.split(".")[-2] for path in folder.glob("alone.*"))
    expect(names == ["f", "f"], f"without prof no other profiles are written: {names}")
    run(folder, client, "leak", conf="prof:false,prof_leak_error:true,prof_prefix:none")


def check_copies(folder):
    """Of two copies in a process the one that serves nobody does not write over the other's profile."""
    copy = shutil.copy(LIBRARY, folder / "libcopy.so")
    run(folder, CLIENT, "leak", conf="prof_final:true,lg_prof_sample:12,prof_prefix:two", beside=copy)
    near(Profile(*folder.glob("two.*")).live("leaking"), 4000 * LEAKING, LEAKING, 4096, "leaking beside a copy")


def check_files(folder):
    run(folder, CLIENT, "leak", conf="lg_prof_interval:20,prof_prefix:i,lg_prof_sample:12")
    count = len(list(folder.glob("i.*.i*.heap")))
    expect(8 <= count <= 25, f"16 MiB in steps of one: {count} profiles")
    run(folder, CLIENT, "leak", conf="lg_prof_interval:12,prof_prefix:s,lg_prof_sample:18")
    count = len(list(folder.glob("s.*.i*.heap")))
    expect(count >= 20, f"16 MiB by samples that stand for 256 KiB each: {count} profiles")
    run(folder, CLIENT, "leak", conf="prof_gdump:true,prof_prefix:u,lg_prof_sample:12")
    expect(list(folder.glob("u.*.0.u0.heap")), "a profile at a peak")
    run(folder, CLIENT, "leak", conf="prof_prefix:n,lg_prof_sample:12")
    expect(not list(folder.glob("n.*")), "no profile that nothing asks for")
    run(folder, CLIENT, "peaks", conf="prof_prefix:p,lg_prof_sample:12")
    names = sorted(path.name.split(".", 2)[2] for path in folder.glob("p.*"))
    expect(names == ["0.u0.heap", "1.u1.heap", "2.u2.heap"], f"prof.gdump, on and off: {names}")


def check_signal(folder):
    os.environ["MALLOW_CONF"] = "prof_signal:12"
    run(folder, CLIENT, "signal", conf="prof:false,prof_prefix:s,lg_prof_sample:10")
    del os.environ["MALLOW_CONF"]
    files = list(folder.glob("s.*.m0.heap"))
    expect(len(files) == 1, f"a profile by signal: {files}")
    profile = Profile(files[0])
    expect(profile.live("leaking") == 0, "before the first signal")
    # A thread follows when it looks at the clock: some of the first blocks may be missing.
    size = 768 if MODE == "secure" else 640
    expect(0.6 < profile.live("signals") / (4000 * size) < 1.2,
           f"between the signals: {profile.live('signals'):.0f}")


def check_handler(folder, client):
    """A handler that turns the profile on and off, in the middle of malloc and free."""
    run(folder, client, "handler", conf="lg_prof_sample:10")
    expect(Profile(folder / "handler.heap").live("handler") == 0, "all was freed")


def check_controls(folder):
    said = run(folder, CLIENT, "controls", conf="prof_active:false,lg_prof_sample:10,lg_prof_interval:40,prof_prefix:c")
    expect(said.count("cannot be written") == 2, f"what could not be written is told of: {said}")
    profile = Profile(folder / "controls.heap")
    size = counts(777, 896)
    near(profile.live("controls"), 4000 * size, size, 1024, "while it was on")
    expect(profile.live("leaking") == 0, "before it was on")
    expect(not Profile(folder / "reset.heap").stacks, "prof.reset forgets all")
    expect(not Profile(folder / "thread_off.heap").stacks, "thread.prof.active")
    expect(list(folder.glob("c.*.m*.heap")), "a dump without a name")


def check_settings(folder):
    """What prof_bt_max and prof_thread_active_init change, each against a run without."""
    def profile_with(conf, name):
        run(folder, CLIENT, "leak", conf=f"prof_final:true,lg_prof_sample:10,prof_prefix:{name},{conf}")
        return Profile(next(folder.glob(f"{name}.*.f.heap")))

    def longest(profile):
        return max((len(names) for names, *_ in profile.stacks), default=0)

    plain = profile_with("", "plain")
    expect(longest(plain) > 4, f"call stacks are as long as they are: {longest(plain)}")
    for most in (1, 3):
        cut = profile_with(f"prof_bt_max:{most}", f"cut{most}")
        expect(longest(cut) == most, f"prof_bt_max:{most}: {longest(cut)} frames")
        bytes_cut, bytes_plain = (sum(stack[2] for stack in p.stacks) for p in (cut, plain))
        expect(0.7 < bytes_cut / bytes_plain < 1.4, f"and the bytes stay: {bytes_cut:.0f}, {bytes_plain:.0f}")
    expect(plain.live("leaking") > 0, "threads take samples from their start")
    expect(not plain.is_for_pprof, "profiles are jemalloc's")
    os.environ["MALLOW_CONF"] = "prof_format:pprof"
    other = profile_with("", "pprof")
    del os.environ["MALLOW_CONF"]
    bytes_other = sum(stack[2] for stack in other.stacks)
    expect(other.is_for_pprof and 0.7 < bytes_other / bytes_plain < 1.4,
           f"prof_format:pprof: {bytes_other:.0f}, {bytes_plain:.0f}")
    run(folder, CLIENT, "leak", conf="prof_final:true,prof_prefix:space,prof_pid_namespace:true")
    space = os.stat("/proc/self/ns/pid").st_ino
    expect(list(folder.glob(f"space.{space}.*.0.f.heap")), f"prof_pid_namespace: {list(folder.glob('space*'))}")
    off = profile_with("prof_thread_active_init:false", "off")
    expect(not off.stacks, f"prof_thread_active_init:false: {off.stacks[:1]}")


def check_counted(folder):
    for rate in (12, 16, 40):
        run(folder, CLIENT, "counted", conf=f"lg_prof_sample:{rate}")


def check_json(folder):
    """malloc_stats_print tells in JSON what mallctl does of profiles."""
    text = run(folder, CLIENT, "controls", conf="prof_active:false,lg_prof_sample:13,lg_prof_interval:40,"
                                                "stats_print:true,stats_print_opts:J")
    found = json.loads(text[text.index('{'):text.rindex('}') + 1])["jemalloc"]
    expect(found["config"]["prof"] is True, f"config.prof is {found['config']['prof']}")
    expect(found.get("prof", {}).keys() == {"thread_active_init", "active", "gdump", "interval", "lg_sample"},
           f"the object prof is {found.get('prof')}")
    print("ok   json" if not failures else "     json")


def check_fork(folder, client):
    run(folder, client, "fork", conf="lg_prof_sample:12")
    expect(Profile(folder / "child.heap").live("leaking") == 0, "the child freed all")
    near(Profile(folder / "parent.heap").live("leaking"), 4000 * LEAKING, LEAKING, 4096, "the parent holds all")


def check_module(folder):
    run(folder, CLIENT, "module", MODULE, conf="lg_prof_sample:10")
    profile = Profile(folder / "module.heap")
    size = counts(500, 512)
    near(profile.live("module_get"), 4000 * size, size, 1024, "the module")
    expect(Profile(folder / "unloaded.heap").live("modules") > 0, "after it was unloaded")


def check_jeprof(folder):
    """The top five of jeprof are those that allocate most."""
    run(folder, CLIENT, "estimate", "20", conf="prof_accum:true,lg_prof_sample:14")
    done = subprocess.run(["jeprof", "--text", "--cum", "--alloc_space", CLIENT,
                           str(folder / "estimate.heap")], capture_output=True, text=True, timeout=300)
    expect(done.returncode == 0, f"jeprof: {done.stderr}")
    names = [line.split()[-1] for line in done.stdout.splitlines() if "%" in line]
    ours = [name for name in names if name in work() or name in ("many_sizes", "grown_blocks")]
    expect(ours[:2] == ["grown_blocks", "many_sizes"] or ours[0] == "grown_blocks",
           f"jeprof names {names[:8]}")
    expect(set(ours[:5]) == {"grown_blocks", "many_sizes", "one_at_a_time", "large_blocks",
                             "medium_blocks"}, f"jeprof names {ours}")


def check_blocks(folder, rate):
    run(folder, CLIENT, "blocks", "fast" if MODE == "fast" else "exact", conf=f"lg_prof_sample:{rate}")
    run(folder, CLIENT, "threads", conf=f"lg_prof_sample:{rate}")


def check_explicit(folder, client):
    """Every block that can be one is a sample."""
    run(folder, client, "explicit", MODE, conf="lg_prof_sample:0,prof_accum:true")
    profile = Profile(folder / "explicit.heap")
    held = 112 + 5120 + 53248
    expect(profile.live("direct_blocks") == profile.allocated("direct_blocks") == held,
           f"blocks of an explicit arena: {profile.live('direct_blocks'):.0f} of {held}")
    for name in ("direct_resized", "blocks_of_reset"):
        expect(profile.allocated(name) > 3 * 10**6, f"{name}: {profile.allocated(name):.0f}")
    expect(profile.allocated("uncached_blocks") > 10**6, "blocks that pass by the cache are")
    for name in ("uncached_blocks", "counted_blocks", "direct_resized", "blocks_of_reset"):
        expect(profile.live(name) == 0, f"{name} holds {profile.live(name):.0f} bytes")


def check_overflow(folder):
    for size in ("24", "5001", "70001"):
        said = run(folder, CLIENT, "overflow", size, conf="lg_prof_sample:0", status=-6)
        expect("overflow of" in said, f"an overflow of {size} bytes is found: {said}")


def in_folder(check, *arguments):
    with tempfile.TemporaryDirectory() as name:
        before = len(failures)
        check(pathlib.Path(name), *arguments)
        label = " ".join([check.__name__[6:], *(pathlib.Path(a).name for a in arguments)])
        print("ok  " if len(failures) == before else "FAIL", label)


def check_probes():
    """What tracers look for, and the counters by which they say that they listen."""
    text = subprocess.run(["readelf", "-nSW", LIBRARY], capture_output=True, text=True).stdout
    sections = {name: range(int(start, 16), int(start, 16) + int(size, 16)) for name, start, size in
                re.findall(r"\] (\S+) +\w+ +([0-9a-f]{16}) [0-9a-f]+ ([0-9a-f]+) ", text)}
    found = sorted(re.findall(r"Provider: (\w+)\s+Name: (\w+)\s+Location: (\w+), Base: (\w+), "
                              r"Semaphore: (\w+)\s+Arguments: (.*)", text))
    expect([probe[:2] for probe in found] == [("otel_memory", "alloc"), ("otel_memory", "free")],
           f"probes: {found}")
    expect([arguments.count("8@") for *_, arguments in found] == [3, 1], f"arguments: {found}")
    places = [[int(address, 16) for address in probe[2:5]] for probe in found]
    for location, base, listeners in places:
        expect(location in sections.get(".text", ()), f"a probe at {location:#x}: {sections}")
        expect(base == sections.get(".stapsdt.base", range(1)).start, f"moved from {base:#x}: {sections}")
        expect({listeners, listeners + 1} <= set(sections.get(".probes", ())),
               f"a counter of two bytes at {listeners:#x}: {sections}")
    expect(len({listeners for *_, listeners in places}) == 2, f"each has its counter: {found}")
    print("ok   probes" if not failures else "     probes")


def main():
    check_probes()
    for client in (CLIENT, STATIC):
        in_folder(check_estimate, client)
        in_folder(check_replaced, client)
        in_folder(check_leak, client)
        in_folder(check_direct, client)
        in_folder(check_fork, client)
        in_folder(check_explicit, client)
        in_folder(check_handler, client)
    in_folder(check_thinned, CLIENT)
    if MODE != "fast":
        in_folder(check_overflow)
    in_folder(check_exchanged)
    in_folder(check_resized)
    in_folder(check_copies)
    in_folder(check_files)
    in_folder(check_signal)
    in_folder(check_controls)
    in_folder(check_settings)
    in_folder(check_json)
    in_folder(check_counted)
    in_folder(check_module)
    for rate in ("0", "6", "12"):
        in_folder(check_blocks, rate)
    if shutil.which("jeprof"):
        in_folder(check_jeprof)
    else:
        print("skipped: jeprof is not installed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
