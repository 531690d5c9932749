#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Shows the effect of each setting of MALLOC_CONF that has one, in a program of its own.

  run.py MODE LIBRARY CLIENT STATIC_CLIENT LINKED_CLIENT

LIBRARY is preloaded into CLIENT, which is not linked with it. STATIC_CLIENT is linked with the
archive, LINKED_CLIENT with the library; both have a malloc_conf of their own. Every row runs the client twice, without the setting and
with it, and the two must differ as told.
"""

import json
import os
import signal
import subprocess
import sys


def run(program, *arguments, **environment):
    """What the program printed, and its standard error; the signal's name if one ended it."""
    clean = {name: value for name, value in os.environ.items()
             if name not in ("MALLOC_CONF", "MALLOW_CONF")}
    done = subprocess.run([program, *arguments], env={**clean, **environment}, text=True,
                          capture_output=True, timeout=120)
    if done.returncode < 0:
        return signal.Signals(-done.returncode).name, done.stderr
    return done.stdout.strip(), done.stderr


def at_most(most):
    return f"at most {most}", lambda value: int(value) <= most


def at_least(least):
    return f"at least {least}", lambda value: int(value) >= least


def between(least, most):
    return f"{least} to {most}", lambda value: least <= int(value) <= most


def is_text(text):
    return repr(text), lambda value: value == text


def is_not(text):
    return f"not {text!r}", lambda value: value != text


ANYTHING = ("anything", lambda value: True)


# setting, what the client shows, without the setting, with it
ROWS = [
    ("narenas:1", "narenas", at_least(2), is_text("1")),
    ("narenas:5", "narenas", at_most(2), is_text("5")),
    ("dirty_decay_ms:0", "resident", at_least(60), at_most(40)),
    ("dirty_decay_ms:200", "resident", at_least(60), at_most(40)),
    ("dirty_decay_ms:200,muzzy_decay_ms:-1", "lazy", at_most(0), at_least(30)),
    ("background_thread:true", "threads", is_text("1"), is_text("2")),
    ("background_thread:true,max_background_threads:1,narenas:9", "threads_of_nine", is_text("9"),
     is_text("10")),
    ("background_thread:true,max_background_threads:1,dirty_decay_ms:200", "resident_at_rest",
     at_least(60), at_most(40)),
    ("dirty_decay_ms:200,background_thread:true", "resident_at_rest", at_least(60), at_most(40)),
    ("dirty_decay_ms:0,retain:false", "address_space", at_least(100), at_most(90)),
    ("zero_realloc:alloc", "zero_realloc", is_text("null"), is_text("block")),
    ("zero_realloc:abort", "zero_realloc", is_text("null"), is_text("SIGABRT")),
    ("xmalloc:true", "out_of_memory", is_text("null"), is_text("SIGABRT")),
    ("abort_conf:true,nonsense:1", "", is_text(""), is_text("SIGABRT")),
    ("zero:true", "fill", is_not("00 33"), ("'00 ..'", lambda value: value.startswith("00"))),
    ("junk:true", "fill", is_not("a5 5a"), is_text("a5 5a")),
    ("junk:alloc", "fill", is_not("a5 33"), ("'a5 ..'", lambda value: value.startswith("a5"))),
    ("junk:free", "fill", is_not("5a"), ("'.. 5a'", lambda value: value.endswith("5a"))),
    ("junk:true", "zeros_of_arena", is_text("00 00"), is_text("00 00")),
    ("zero:true", "fill_of_grown", ANYTHING, is_text("00 00 00 00")),
    ("junk:true", "fill_of_grown", ANYTHING, is_text("a5 a5 a5 a5")),
    ("junk:alloc,zero:true", "zeros_of_arena", is_text("00 00"), is_text("00 00")),
    ("tcache:false", "thread.tcache.enabled", is_text("1"), is_text("0")),
    ("tcache:false", "opt.tcache", is_text("1"), is_text("0")),
    ("prof_leak:true", "opt.prof", is_text("0"), is_text("1")),
    ("prof_leak_error:true", "opt.prof", is_text("0"), is_text("0")),
    ("prof_leak_error:true,prof_final:true,prof_prefix:/dev/null/x", "opt.prof", is_text("0"), is_text("1")),
    ("tcache_max:2000", "thread.tcache.max", is_text("32768"), at_most(2048)),
    ("tcache_max:2000", "arenas.tcache_max", is_text("32768"), at_most(2048)),
    ("tcache_max:2000", "opt.tcache_max", is_text("32768"), is_text("2000")),
    ("lg_tcache_max:11", "thread.tcache.max", is_text("32768"), at_most(2304)),
    ("lg_tcache_max:11", "opt.tcache_max", is_text("32768"), is_text("2048")),
    ("lg_tcache_max:18", "opt.lg_tcache_max", is_text("15"), is_text("18")),
    ("narenas_ratio:3", "opt.narenas_ratio", is_text("65536"), is_text("196608")),
    ("oversize_threshold:4194304", "opt.oversize_threshold", is_text("0"), is_text("4194304")),
    ("max_background_threads:7", "max_background_threads", is_text("4"), is_text("7")),
    ("max_background_threads:7", "opt.max_background_threads", is_text("4"), is_text("7")),
    ("max_background_threads:2", "most_background_threads", is_text("4"), is_text("2")),
    ("max_background_threads:7", "most_background_threads", is_text("4"), is_text("7")),
    ("slab_sizes:1-5000:1", "slabs_for:50", at_most(70), at_least(100)),
    ("slab_sizes:1-5000:1", "slabs_for:900", at_most(300), at_least(2000)),
    ("slab_sizes:1-5000:1", "slabs_for:3000", at_most(1300), at_least(9000)),
    ("slab_sizes:1-5000:60", "slabs_for:900", at_least(90), at_most(60)),
    ("slab_sizes:1-5000:200", "slabs_for:3000", at_least(200), at_most(180)),
    ("slab_sizes:1-800:1|4000-5000:1", "slabs_for:3000", at_most(1300), at_most(1300)),
    ("slab_sizes:1-5000:3,slab_sizes:2000-2100:2", "arenas.bin.0.slab_size", at_least(16384),
     is_text("12288")),
    ("slab_sizes:1-5000:3,slab_sizes:16-16:2", "arenas.bin.0.slab_size", at_least(16384),
     is_text("8192")),
    ("slab_sizes:16-16:3,slab_sizes:default", "arenas.bin.0.slab_size", at_least(16384),
     at_least(16384)),
    ("slab_sizes:16-16:3,narenas:1", "text:opt.slab_sizes", is_text(""), is_text("16-16:3")),
    ("stats_interval:1000", "opt.stats_interval", is_text("-1"), is_text("1000")),
    ("stats_interval_opts:maagz", "text:opt.stats_interval_opts", is_text(""), is_text("mag")),
    ("stats_print_opts:Jx", "text:opt.stats_print_opts", is_text(""), is_text("Jx")),
    ("tcache_nslots_small_min:9", "opt.tcache_nslots_small_min", is_text("4"), is_text("9")),
    ("tcache_nslots_small_max:9", "opt.tcache_nslots_small_max", is_text("64"), is_text("9")),
    ("tcache_nslots_large:9", "opt.tcache_nslots_large", is_text("64"), is_text("9")),
    ("lg_tcache_nslots_mul:2", "opt.lg_tcache_nslots_mul", is_text("0"), is_text("2")),
    ("thp:never", "text:opt.thp", is_text("default"), is_text("never")),
    ("thp:always", "text:opt.thp", is_text("default"), is_text("always")),
    ("percpu_arena:percpu", "text:opt.percpu_arena", is_text("disabled"), is_text("percpu")),
    ("percpu_arena:phycpu", "text:opt.percpu_arena", is_text("disabled"), is_text("phycpu")),
    ("metadata_thp:always", "text:opt.metadata_thp", is_text("disabled"), is_text("always")),
    ("metadata_thp:auto", "text:opt.metadata_thp", is_text("disabled"), is_text("auto")),
    ("tcache_ncached_max:16-64:9|3000-4000:2", "text:opt.tcache_ncached_max", is_text(""),
     is_text("16-64:9|3000-4000:2")),
]

def rows_of_cpus(cpus):
    """`cpus`: as many as Mallow counts."""
    def each_cpu(threads_of_core):
        """What is shown where threads that begin on a CPU have its arena."""
        shown = sorted(os.sched_getaffinity(0))[:4]
        places = (cpus + threads_of_core - 1) // threads_of_core
        return "1 " * len(shown) + f"of {len({cpu % places for cpu in shown})}"

    own, of_core = each_cpu(1), each_cpu(2)
    return [
        ("percpu_arena:percpu", "arenas_of_cpus", is_not(own), is_text(own)),
        ("percpu_arena:percpu,narenas:1", "arenas_of_cpus", is_not(own), is_text(own)),
        ("percpu_arena:percpu,narenas:63", "opt.narenas", is_text(str(cpus)), at_least(63)),
        ("percpu_arena:phycpu", "arenas_of_cpus", is_not(of_core), is_text(of_core)),
        ("percpu_arena:phycpu", "opt.narenas", is_text(str(cpus)), is_text(str((cpus + 1) // 2))),
        # Of sixteen threads each has an arena of its own, while there are as many.
        ("narenas_ratio:3", "narenas", is_text(str(min(cpus, 16))), is_text(str(min(3 * cpus, 16)))),
        ("narenas_ratio:0.125", "narenas", is_text(str(min(cpus, 16))),
         is_text(str(max(1, min((cpus + 4) // 8, 16))))),
    ]


# What lies in lists is what is free only in the fast build; in the others blocks wait before they are, and
# large ones have guards.
ROWS_OF_FAST = [
    ("junk:true", "fill_of_freed", is_text("33 33"), is_text("5a 5a")),
    ("junk:free", "fill_of_freed", is_text("33 33"), is_text("5a 5a")),
    ("tcache:false", "in_lists:3000", at_least(20), is_text("0")),
    ("tcache:false", "in_lists:16", at_least(8), is_text("0")),
    ("tcache_max:2048", "in_lists:3000", at_least(20), is_text("0")),
    ("tcache_max:2048", "in_lists:2000", at_least(20), at_least(20)),
    ("tcache_max:0", "in_lists:16", at_least(8), is_text("0")),
    ("lg_tcache_max:11", "in_lists:3000", at_least(20), is_text("0")),
    ("tcache_nslots_small_max:4", "in_lists:3000", at_least(20), at_most(4)),
    ("tcache_nslots_small_max:400,tcache_nslots_small_min:400", "in_lists:3000", at_most(69),
     at_least(70)),
    ("lg_tcache_nslots_mul:-7", "in_lists:10000", at_least(20), at_most(4)),
    ("lg_tcache_nslots_mul:-7,tcache_nslots_small_min:12", "in_lists:10000", at_least(20),
     between(5, 12)),
    ("tcache_ncached_max:1-3000:3|20000-30000:4", "in_lists:3000", at_least(20), at_most(3)),
    ("tcache_ncached_max:3000-3000:400|16-2000:1", "in_lists:3000", at_most(69), at_least(70)),
    ("tcache_ncached_max:3000-4000:0", "in_lists:3000", at_least(20), is_text("0")),
    ("tcache_ncached_max:3000-4000:0", "in_lists:10000", at_least(20), at_least(20)),
    ("tcache_nslots_large:2", "in_lists:20000", at_least(16), at_most(2)),
    ("tcache_nslots_large:0", "in_lists:20000", at_least(16), is_text("0")),
    ("oversize_threshold:4194304", "arena_of_large", is_text("shared shared shared"),
     is_text("shared oversize oversize")),
    ("oversize_threshold:1000,tcache:false", "arena_of_large", is_text("shared shared shared"),
     is_text("shared shared shared")),
    ("oversize_threshold:100000,tcache:false", "arena_of_large", is_text("shared shared shared"),
     is_text("oversize oversize oversize")),
    ("oversize_threshold:65536", "resident", at_least(60), at_most(40)),
]

# Where the kernel tells: its flags of a mapping.
ROWS_OF_HUGE_PAGES = [
    ("thp:never", "huge_pages", is_text("."), is_text("refused.")),
    ("thp:always", "huge_pages", is_text("."), is_text("wanted.")),
    ("metadata_thp:always", "huge_metadata", is_text("."), is_text("asked told .")),
    ("metadata_thp:auto", "huge_metadata", is_text("."), is_text("asked told .")),
    ("thp:never", "huge_metadata", is_text("."), is_text(".")),
]

# In debug every block is filled and checked, whatever is set.
FILLED_ANYWAY = {"debug"}

# In secure what is free is zero, whatever is set.
ROWS_OF_SECURE = {
    "junk:true": ("fill", is_not("a5 00"), is_text("a5 00")),
    "junk:free": ("fill", is_not("a5 00"), ("'.. 00'", lambda value: value.endswith("00"))),
}

# In debug a large block loses its memory when it is freed, and what is in the quarantine keeps it: there
# slots show when free memory goes.
BLOCKS_OF_DEBUG = "20000"


def check_row(row, mode, library, client):
    setting, shows, (without_words, without), (with_words, with_) = row
    arguments = [shows]
    environment = {"LD_PRELOAD": library}
    if mode == "secure":  # a guarded block cannot be read when it is free
        environment["MALLOW_CONF"] = "guard_sample:0"
    if mode == "debug":
        arguments.append(BLOCKS_OF_DEBUG)
        environment["MALLOW_CONF"] = "quarantine:0,guard_first:0,guard_sample:0"
    plain, _ = run(client, *arguments, **environment)
    set_, errors = run(client, *arguments, **environment, MALLOC_CONF=setting)
    if not without(plain):
        return f"without it {shows} is {plain}, not {without_words}"
    if not with_(set_):
        return f"{shows} is {set_}, not {with_words} {errors}"
    return None


BEGIN = "___ Begin jemalloc statistics ___"


def statistics(library, client):
    """What is printed, and how often. The client allocates 400 MB."""
    def churn(conf):
        output, errors = run(client, "churn", LD_PRELOAD=library, MALLOC_CONF=conf)
        return errors if output == "done" else output + errors

    yield "stats_interval is off by default", churn("stats_interval_opts:J"), ""
    often = churn("stats_interval:20000000").count(BEGIN)
    yield f"stats_interval prints as often as it says ({often})", str(15 <= often <= 24), "True"
    for conf in ("narenas:1", "tcache:false", "oversize_threshold:65536", "tcache_max:1000"):
        often = churn(f"stats_interval:20000000,{conf}").count(BEGIN)
        yield f"and with {conf} ({often})", str(15 <= often <= 24), "True"
    text = churn("stats_interval:100000000,stats_interval_opts:gmablxeh")
    yield ("stats_interval_opts leaves parts out",
           str("Allocated: " in text and "Page size" not in text and "Merged" not in text), "True")
    text = churn("stats_interval:200000000,stats_interval_opts:J").strip()
    decoder, ends, objects = json.JSONDecoder(), 0, []
    while ends < len(text):
        value, ends = decoder.raw_decode(text, ends)
        objects.append(value["jemalloc"]["opt"]["stats_interval"])
        ends += len(text[ends:]) - len(text[ends:].lstrip())
    yield "stats_interval_opts asks for JSON", str(set(objects)), "{200000000}"
    text = churn("stats_print:true,stats_print_opts:Jmabxleh,prof_prefix:a\"b")
    value = json.loads(text)["jemalloc"]
    yield "stats_print_opts asks for JSON", value["opt"]["stats_print_opts"], "Jmabxleh"
    yield "a name that ends strings does not end them", value["opt"]["prof_prefix"], "a?b"
    yield ("JSON tells where settings come from", value["opt"]["env_var"],
           "stats_print:true,stats_print_opts:Jmabxleh,prof_prefix:a?b")


def tells_of_huge_pages():
    with open("/proc/self/smaps", encoding="utf-8") as smaps:
        tells = "VmFlags:" in smaps.read()
    return tells and os.path.exists("/sys/kernel/mm/transparent_hugepage")


def sources(library, client, static_client, linked_client):
    """Which source wins, in whole programs."""
    yield ("MALLOW_CONF wins over MALLOC_CONF",
           run(client, "dirty_decay_ms", LD_PRELOAD=library, MALLOC_CONF="dirty_decay_ms:1",
               MALLOW_CONF="dirty_decay_ms:2")[0], "2")
    yield ("malloc_conf of a linked program", run(linked_client, "dirty_decay_ms")[0], "4711")
    yield ("malloc_conf of a static program", run(static_client, "dirty_decay_ms")[0], "4711")
    yield ("narenas of a static program", run(static_client, "narenas")[0], "3")
    yield ("MALLOC_CONF wins over malloc_conf",
           run(static_client, "dirty_decay_ms", MALLOC_CONF="dirty_decay_ms:1")[0], "1")
    plain = int(run(client, "opt.narenas", LD_PRELOAD=library)[0])
    yield ("narenas_ratio multiplies the CPUs",
           run(client, "opt.narenas", LD_PRELOAD=library, MALLOC_CONF="narenas_ratio:3")[0],
           str(min(3 * plain, 64)))
    yield ("narenas_ratio may be a fraction",
           run(client, "opt.narenas", LD_PRELOAD=library, MALLOC_CONF="narenas_ratio:1.5")[0],
           str(min(int(1.5 * plain + 0.5), 64)))
    yield ("narenas wins over narenas_ratio",
           run(client, "opt.narenas", LD_PRELOAD=library, MALLOC_CONF="narenas:2,narenas_ratio:3")[0],
           "2")
    errors = run(static_client, "narenas", MALLOC_CONF="stats_print:true,stats_print_opts:Jmabxleh")[1]
    yield ("JSON tells of malloc_conf", json.loads(errors)["jemalloc"]["opt"]["global_var"],
           "dirty_decay_ms:4711,narenas:3")
    yield from statistics(library, client)
    errors = run(client, "", LD_PRELOAD=library, MALLOC_CONF="stats_print:true")[1]
    yield "stats_print prints at the end", str(len(errors) > 100), "True"
    errors = run(client, "", LD_PRELOAD=library, MALLOC_CONF="confirm_conf:true,hpa:true,thp:never")[1]
    yield ("confirm_conf names what has no effect",
           str("-- Set conf value: hpa:true (accepted without effect)\n" in errors), "True")
    yield ("and only that", str("-- Set conf value: thp:never\n" in errors), "True")
    output, errors = run(client, "zero_realloc", LD_PRELOAD=library,
                         MALLOC_CONF="abort_conf:true,cache_oblivious:true,dss:disabled")
    yield "abort_conf lets a program live with what has no effect", output, "null"
    yield ("and tells of it, but not of what holds anyway", errors,
           "<jemalloc>: Conf value without effect: cache_oblivious:true\n")
    yield "without settings nothing is printed", run(client, "", LD_PRELOAD=library)[1], ""


def main():
    mode, library, *clients = sys.argv[1:]
    failed = 0
    cpus = int(run(clients[0], "opt.narenas", LD_PRELOAD=library)[0])
    rows = ROWS + rows_of_cpus(cpus) + (ROWS_OF_FAST if mode == "fast" else [])
    if tells_of_huge_pages():
        rows += ROWS_OF_HUGE_PAGES
    else:
        print("skipped: the kernel does not tell of huge pages")
    for row in rows:
        if row[1] == "fill" and mode in FILLED_ANYWAY:
            continue
        if mode == "secure" and row[0] in ROWS_OF_SECURE:
            row = (row[0], *ROWS_OF_SECURE[row[0]])
        wrong = check_row(row, mode, library, clients[0])
        failed += wrong is not None
        print(f"{'FAIL' if wrong else 'ok  '} {row[0]}{': ' + wrong if wrong else ''}", flush=True)
    for what, found, expected in sources(library, *clients):
        failed += found != expected
        print(f"{'ok  ' if found == expected else 'FAIL'} {what}: {found!r}", flush=True)
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
