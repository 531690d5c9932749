#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks what malloc_stats_print writes: JSON that parses, with the members of jemalloc's, whose sums hold.

  stats_json.py PROGRAM     PROGRAM OPTIONS writes it, with the library preloaded
"""

import itertools
import json
import pathlib
import re
import subprocess
import sys

MUTEX = {"num_ops", "num_wait", "num_spin_acq", "num_owner_switch", "total_wait_time",
         "max_wait_time", "max_num_thds"}
GLOBAL_MUTEXES = {"background_thread", "max_per_bg_thd", "ctl", "prof", "prof_thds_data", "prof_dump",
                  "prof_recent_alloc", "prof_recent_dump", "prof_stats"}
ARENA_MUTEXES = {"large", "extent_avail", "extents_dirty", "extents_muzzy", "extents_retained", "extents_pinned",
                 "decay_dirty", "decay_muzzy", "base", "tcache_list", "hpa_shard", "hpa_shard_grow", "hpa_sec"}
CONFIG = {"cache_oblivious", "debug", "fill", "lazy_lock", "malloc_conf", "opt_safety_checks", "prof", "prof_libgcc",
          "prof_libunwind", "prof_frameptr", "stats", "utrace", "xmalloc"}
SIZES = {"narenas", "dirty_decay_ms", "muzzy_decay_ms", "quantum", "page", "hugepage", "tcache_max", "nbins", "nhbins",
         "bin", "nlextents", "lextent"}
SMALL_OR_LARGE = {"allocated", "nmalloc", "ndalloc", "nrequests", "nfills", "nflushes"}
SLABS = {"npageslabs_nonhuge", "nactive_nonhuge", "ndirty_nonhuge", "nretained_nonhuge", "npageslabs_huge",
         "nactive_huge", "ndirty_huge"}
HUGE_PAGES = {"sec_bytes", "sec_hits", "sec_misses", "sec_dalloc_noflush", "sec_dalloc_flush", "sec_overfills",
              "npageslabs", "nactive", "ndirty", "npurge_passes", "npurges", "nhugifies", "nhugify_failures",
              "ndehugifies", "slabs", "full_slabs", "empty_slabs", "nonfull_slabs"}
# The objects of each list.
SIZES_OF = {"bin": {"size", "nregs", "slab_size", "nshards"}, "lextent": {"size"}}
PARTS_OF = {"bins": {"nmalloc", "ndalloc", "curregs", "nrequests", "nfills", "nflushes", "nreslabs", "curslabs",
                     "nonfull_slabs", "mutex"},
            "lextents": {"curlextents"},
            "extents": {"ndirty", "nmuzzy", "nretained", "npinned", "dirty_bytes", "muzzy_bytes", "retained_bytes",
                        "pinned_bytes"}}
# How jemalloc writes an option of a type; others are numbers. A ratio is a decimal text.
JSON_OF_TYPE = {"bool": bool, "const char *": str, "uint32_t": str}
NAMES = pathlib.Path(__file__).parents[1] / "jemalloc/names.txt"
TOTALS = {"allocated", "active", "metadata", "metadata_edata", "metadata_rtree", "metadata_thp", "resident", "mapped", "retained",
          "pinned", "zero_reallocs", "huge_pages", "mappings", "background_thread", "mutexes"}
ARENA = {"nthreads", "uptime_ns", "dss", "dirty_decay_ms", "muzzy_decay_ms", "pactive", "pdirty",
         "pmuzzy", "dirty_npurge", "dirty_nmadvise", "dirty_purged", "muzzy_npurge",
         "muzzy_nmadvise", "muzzy_purged", "small", "large", "mapped", "retained", "base", "internal",
         "metadata_edata", "metadata_rtree", "metadata_thp", "tcache_bytes", "tcache_stashed_bytes", "resident", "abandoned_vm",
         "extent_avail", "pinned", "sec_bytes", "mutexes", "bins", "lextents", "extents", "hpa_shard"}
NOT_SUMS = {"uptime_ns", "dss", "dirty_decay_ms", "muzzy_decay_ms", "name", "max_wait_time",
            "max_num_thds"}
# A bin's slabs are counted in full-grown ones, rounded up.
ROUNDED = {"curslabs", "nonfull_slabs"}
KEPT_BYTES = 6 * (20000 // 2 * 1500 + 30 * 40000 + 30 * 29 // 2 * 10000 + (20 << 20))


def run(options):
    return subprocess.run([sys.argv[1], options], check=True, capture_output=True, text=True)


def require(condition, what):
    if not condition:
        sys.exit(f"stats_json: {what}")


def added(values, path):
    """The sum of several objects of one form."""
    first = values[0]
    if isinstance(first, dict):
        return {key: added([value[key] for value in values], path + [key])
                for key in first if key not in NOT_SUMS | ROUNDED}
    if isinstance(first, list):
        return [added(list(parts), path) for parts in zip(*values)]
    return sum(values)


def without(value):
    if isinstance(value, dict):
        return {key: without(inner) for key, inner in value.items() if key not in NOT_SUMS | ROUNDED}
    return [without(inner) for inner in value] if isinstance(value, list) else value


def require_members(found, expected, what):
    require(set(found) == expected, f"{what}: {set(found) ^ expected}")


def check_mutexes(found, expected):
    require_members(found, expected, "mutexes")
    for name, mutex in found.items():
        require_members(mutex, MUTEX, f"the counters of {name}")


def check_lists(found, members):
    """Each object of each list has its members."""
    for key, expected in members.items():
        require(found[key], f"{key} has nothing")
        for one in found[key]:
            require_members(one, expected, key)


def check_huge_pages(shard):
    require_members(shard, HUGE_PAGES, "hpa_shard")
    for slabs in [shard["slabs"], shard["full_slabs"], shard["empty_slabs"], *shard["nonfull_slabs"]]:
        require_members(slabs, SLABS, "slabs of hpa_shard")
    require(len(shard["nonfull_slabs"]) == 64, "lists of hpa_shard")


def check_options_told(told):
    """Every option that jemalloc tells of, written as there."""
    typed = [line.split(" ", 2)[1:] for line in NAMES.read_text().splitlines()
             if line.startswith("option ") and line.count(" ") > 1]
    require(len(typed) > 70, f"options with a type: {len(typed)}")
    for source in ("global_var", "symlink", "env_var"):
        require(isinstance(told[source], str), f"opt has no {source}")
    for name, of_type in typed:
        require(name in told, f"opt has no {name}")
        wanted = JSON_OF_TYPE.get(of_type, int)
        require(type(told[name]) is wanted, f"opt.{name} is {told[name]!r}, not a {wanted.__name__}")


def check_arena(arena, sizes, name):
    require_members(set(arena) - {"name"}, ARENA, name)
    require(("name" in arena) == (name != "merged"), f"{name}: the name of an arena")
    check_lists(arena, PARTS_OF)
    for part in ("small", "large"):
        require_members(arena[part], SMALL_OR_LARGE, f"{name}: {part}")
    check_huge_pages(arena["hpa_shard"])
    for one in arena["bins"]:
        require_members(one["mutex"], MUTEX, f"{name}: the mutex of a bin")
    bins, large = arena["bins"], arena["lextents"]
    require(len(bins) == sizes["nbins"] and len(large) == sizes["nlextents"], "lengths")
    small = sum(one["curregs"] * of["size"] for one, of in zip(bins, sizes["bin"]))
    require(small == arena["small"]["allocated"], f"{name}: bins {small}, {arena['small']}")
    for total in ("nmalloc", "ndalloc", "nrequests", "nfills", "nflushes"):
        require(sum(one[total] for one in bins) == arena["small"][total], f"{name}: {total}")
    for one, of in zip(bins, sizes["bin"]):
        require(one["curregs"] <= one["curslabs"] * of["nregs"], f"{name}: slabs of {of}")
        require(one["nonfull_slabs"] <= one["curslabs"], f"{name}: nonfull slabs of {of}")
    bounds = sum(one["curlextents"] * of["size"] for one, of in zip(large, sizes["lextent"]))
    require(arena["large"]["allocated"] <= bounds, f"{name}: large {arena['large']} {bounds}")
    dirty = sum(one["dirty_bytes"] for one in arena["extents"])
    require(dirty == arena["pdirty"] * sizes["page"], f"{name}: dirty {dirty} {arena['pdirty']}")
    retained = sum(one["retained_bytes"] for one in arena["extents"])
    require(retained == arena["retained"], f"{name}: retained")
    check_mutexes(arena["mutexes"], ARENA_MUTEXES)


def check_all():
    whole = json.loads(run("J").stdout)
    require(set(whole) == {"jemalloc"}, "one object")
    jemalloc = whole["jemalloc"]
    require(set(jemalloc) == {"version", "config", "system", "opt", "arenas", "stats", "stats.arenas"},
            f"keys {set(jemalloc)}")
    sizes, totals, arenas = jemalloc["arenas"], jemalloc["stats"], jemalloc["stats.arenas"]
    require_members(totals, TOTALS, "stats")
    require_members(totals["background_thread"], {"num_threads", "num_runs", "run_interval"}, "background_thread")
    require_members(jemalloc["config"], CONFIG, "config")
    require_members(sizes, SIZES, "arenas")
    check_lists(sizes, SIZES_OF)
    require(jemalloc["system"]["thp_mode"] in ("always", "madvise", "never", "not supported"), "thp_mode")
    check_options_told(jemalloc["opt"])
    check_mutexes(totals["mutexes"], GLOBAL_MUTEXES)
    merged = arenas["merged"]
    numbers = [int(name) for name in arenas if name != "merged"]
    numbered = [arenas[str(number)] for number in numbers]
    require(0 in numbers and max(numbers) < sizes["narenas"], f"arenas {numbers}")
    for name, arena in arenas.items():
        check_arena(arena, sizes, name)
    require(added(numbered, []) == without(merged), "merged is not the sum of the arenas")
    for one in merged["bins"]:
        require(one["nmalloc"] - one["ndalloc"] == one["curregs"], f"merged bin {one}")
    large = merged["large"]
    # Blocks that are large for their alignment are counted with the first.
    require(large["nmalloc"] - large["ndalloc"]
            == sum(one["curlextents"] for one in merged["lextents"]), "large blocks")
    allocated = merged["small"]["allocated"] + large["allocated"]
    require(totals["allocated"] == allocated, f"allocated {totals['allocated']}, not {allocated}")
    require(KEPT_BYTES <= allocated <= KEPT_BYTES * 1.3, f"{allocated} bytes, kept {KEPT_BYTES}")
    require(totals["active"] == merged["pactive"] * sizes["page"], "active")
    require(totals["allocated"] <= totals["active"] <= totals["resident"] <= totals["mapped"],
            f"{totals}")
    require(sum(one["mutex"]["num_ops"] for one in merged["bins"]) > 0, "the lock of the pool")
    require(merged["mutexes"]["extents_dirty"]["num_ops"] > 0, "the lock of the arena")


def check_without_memory():
    """The figures of all arenas, told as those of the first."""
    jemalloc = json.loads(run("poor:J").stdout)["jemalloc"]
    totals, arenas = jemalloc["stats"], jemalloc["stats.arenas"]
    require(set(arenas) == {"merged", "0"}, f"arenas without memory: {set(arenas)}")
    require(jemalloc["arenas"]["narenas"] >= 1, "how many there are")
    for name, arena in arenas.items():
        check_arena(arena, jemalloc["arenas"], name)
    require(without(arenas["0"]) == without(arenas["merged"]), "the first arena has all")
    require(KEPT_BYTES <= totals["allocated"] <= KEPT_BYTES * 1.3, f"{totals['allocated']} bytes")
    for one in arenas["merged"]["bins"]:
        require(one["nmalloc"] - one["ndalloc"] == one["curregs"], f"bin without memory {one}")
    require("Allocated: " in run("poor:-").stdout, "text without memory")


def check_options():
    """Each letter leaves out its part and nothing else."""
    for letter, path in (("b", "bins"), ("l", "lextents"), ("e", "extents"), ("x", "mutexes"),
                         ("h", "hpa_shard")):
        jemalloc = json.loads(run("Ja" + letter).stdout)["jemalloc"]
        require(set(jemalloc["stats.arenas"]["merged"]) == ARENA - {path}, f"option {letter}")
        require({"bin", "lextent"} <= set(jemalloc["arenas"]), f"sizes with option {letter}")
    jemalloc = json.loads(run("Jg").stdout)["jemalloc"]
    require(set(jemalloc) == {"stats", "stats.arenas"}, "option g")
    jemalloc = json.loads(run("Jm").stdout)["jemalloc"]
    require("merged" not in jemalloc["stats.arenas"] and "0" in jemalloc["stats.arenas"], "option m")
    jemalloc = json.loads(run("Ja").stdout)["jemalloc"]
    require(set(jemalloc["stats.arenas"]) == {"merged"}, "option a")
    require("stats.arenas" not in json.loads(run("Jam").stdout)["jemalloc"], "options a and m")
    # That of destroyed arenas, of which nothing is kept, is left out anyway.
    without, all_of_them = (json.loads(run(letters).stdout)["jemalloc"] for letters in ("Jd", "J"))
    require(set(without["stats.arenas"]) == set(all_of_them["stats.arenas"]) >= {"merged", "0"}
            and "destroyed" not in without["stats.arenas"], "option d")
    require(set(without) == set(all_of_them), "option d leaves the rest")


# Lines of the text, as jemalloc 5.3 writes them.
TEXT_LINES = [
    r"Hugepage size: \d+",
    r"Allocated: \d+, active: \d+, metadata: \d+ \(n_thp \d+, edata \d+, rtree \d+\), resident: \d+, mapped: \d+, "
    r"retained: \d+",
    r"Count of realloc\(non-null-ptr, 0\) calls: \d+",
    r"Background threads: \d+, num_runs: \d+, run_interval: \d+ ns",
    r'name: "auto_0"',
    r'dss allocation precedence: "N/A"',
    r'dss allocation precedence: "disabled"',
    r"decaying:  time       npages       sweeps     madvises       purged",
    r"   dirty:   N/A( +\d+){4}",
    r"   muzzy: +\d+( +\d+){4}",
    r" +allocated +nmalloc +\(#/sec\) +ndalloc +\(#/sec\) +nrequests +\(#/sec\) +nfill +\(#/sec\) +nflush +\(#/sec\)",
    r" +n_lock_ops \(#/sec\) +n_waiting \(#/sec\) +n_spin_acq \(#/sec\) +n_owner_switch \(#/sec\) +total_wait_ns"
    r" +\(#/sec\) +max_wait_ns +max_n_thds",
    *(rf"{name}( +\d+){{12}}" for name in sorted(GLOBAL_MUTEXES | ARENA_MUTEXES)),
    *(rf"{name}: +\d+" for name in (
        "active", "mapped", "retained", "base", "internal", "metadata_edata", "metadata_rtree", "metadata_thp",
        "tcache_bytes", "tcache_stashed_bytes", "resident", "abandoned_vm", "extent_avail"))]


def rows_of_table(lines, title):
    """The fields of each row; there are as many as columns."""
    at = next(number for number, line in enumerate(lines) if re.match(rf"{title}: +size ind ", line))
    columns = lines[at].split()[1:]
    rows = [line.split() for line in itertools.takewhile(lambda line: line.startswith(" "), lines[at + 1:])
            if line.strip() != "---"]
    require(rows, f"rows of {title}")
    for row in rows:
        require(len(row) == len(columns), f"{title}: {row} under {columns}")
    return rows


def check_tables(lines):
    """Those of all arenas together; what adds up does, rates apart."""
    sums = {line.split(":")[0]: [int(number) for number in line.split()[1:]]
            for line in lines if re.fullmatch(r"(small|large|total):( +\d+){11}", line)}
    require(set(sums) == {"small", "large", "total"}, f"sums of the text: {sums}")
    for column in (0, 1, 3, 5, 7, 9):
        parts = sums["small"][column] + sums["large"][column]
        require(sums["total"][column] == parts, f"the total of column {column}: {sums}")
    bins = sum(int(row[2]) for row in rows_of_table(lines, "bins"))
    require(bins == sums["small"][0], f"bins of the text have {bins} bytes, not {sums['small'][0]}")
    rows_of_table(lines, "large")
    rows_of_table(lines, "extents")


def check_text():
    lines = run("-").stdout.splitlines()
    require(lines[0] == "___ Begin jemalloc statistics ___", "the first line of the text")
    require(lines[-1] == "--- End jemalloc statistics ---", "the last line of the text")
    for pattern in TEXT_LINES:
        require(any(re.fullmatch(pattern, line) for line in lines), f"{pattern} in the text")
    merged, first = lines.index("Merged arenas stats:"), lines.index("arenas[0]:")
    check_tables(lines[merged:first])
    without_locks = run("x").stdout.splitlines()
    require(not any("n_lock_ops" in line for line in without_locks), "option x in the text")
    check_tables(without_locks[without_locks.index("Merged arenas stats:"):without_locks.index("arenas[0]:")])
    require(run("message").stdout == "", "malloc_message gets the text")


check_all()
check_without_memory()
check_options()
check_text()
