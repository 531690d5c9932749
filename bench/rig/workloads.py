# SPDX-License-Identifier: MIT
"""The workloads: what is run, how often, and how it is built."""

import dataclasses
import os
import subprocess

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCES = os.path.join(HERE, "workloads")
OURS = "mallow"
COMPILE = ["-std=c17", "-O2", "-Wall", "-Wextra", "-pthread"]


class Unusable(Exception):
    """A sentence for the user."""


@dataclasses.dataclass
class Workload:
    name: str
    rounds_short: int
    rounds_full: int
    program: str = ""
    arguments: tuple = ()
    sleeps: bool = False  # uses no CPU for most of its time: all allocators may run at once
    timeout_s: float = 120
    # {allocator: {environment variable: value}}; OURS stands for Mallow's builds.
    settings: dict = dataclasses.field(default_factory=dict)
    has_musl: bool = True

    def runs_under(self, allocator):
        return self.has_musl or not allocator.is_musl

    def environment(self, allocator):
        told = self.settings.get(OURS if allocator.is_ours else allocator.name, {})
        return {**allocator.environment(), **told}

    def source(self):
        return os.path.join(SOURCES, (self.program or self.name) + ".c")

    def binary(self, folder, musl=False):
        return os.path.join(folder, (self.program or self.name) + ("-musl" if musl else ""))

    def command(self, folder, short, musl=False):
        return [self.binary(folder, musl), "short" if short else "full", *self.arguments]


def replacements():
    """Each range in a process of its own, for its peak of resident memory."""
    ranges = [("8-512B", "first", 1), ("8-512B", "first", 2),
              ("512B-32KiB", "first", 1), ("512B-32KiB", "first", 2), ("512B-32KiB", "first", 8),
              ("4-128KiB", "first", 1), ("4-128KiB", "first", 2), ("4-128KiB", "first", 8),
              ("32-512KiB", "first", 1), ("32-512KiB", "first", 2), ("32-512KiB", "pages", 1),
              ("512KiB-8MiB", "first", 1), ("512KiB-8MiB", "pages", 1),
              ("5-25MiB", "first", 1), ("5-25MiB", "pages", 1),
              ("8B-1MiB", "first", 1), ("8B-1MiB", "first", 2)]
    for name, written, threads in ranges:
        full = f"replace-{name}" + ("-pages" if written == "pages" else "") + (
            f"-{threads}-threads" if threads > 1 else "")
        yield Workload(full, 2, 9, program="replace", arguments=(name, written, str(threads)))


def few():
    for live, low, high, threads in (("1", "4", "128", "1"), ("16", "4", "128", "1"), ("16", "64", "512", "1"),
                                     ("64", "4", "128", "1"), ("16", "4", "128", "8")):
        full = f"few-{live}-of-{low}-{high}KiB" + (f"-{threads}-threads" if threads != "1" else "")
        yield Workload(full, 2, 9, program="few", arguments=(live, low, high, threads))


def buffers():
    for how, count, low, high, threads in (("grow", "8", "256", "32768", "1"), ("grow", "8", "256", "32768", "2"),
                                           ("grow", "4", "64", "4096", "1"), ("resize", "4", "16", "40", "1"),
                                           ("resize", "64", "16", "128", "1"), ("resize", "16", "128", "1024", "8")):
        full = f"buffers-{how}-{count}-of-{low}-{high}KiB" + (f"-{threads}-threads" if threads != "1" else "")
        yield Workload(full, 2, 9, program="buffers", arguments=(how, count, low, high, threads))


QUICK_DECAY = {OURS: {"MALLOW_CONF": "dirty_decay_ms:1000"},
               "jemalloc": {"MALLOC_CONF": "dirty_decay_ms:1000"}}
OWN_THREAD = {OURS: {"MALLOW_CONF": "purge_thread:true"},
              "jemalloc": {"MALLOC_CONF": "background_thread:true"}}

QUICK_DECAY_OF_OWN_THREAD = {
    OURS: {"MALLOW_CONF": "purge_thread:true,dirty_decay_ms:1000"},
    "jemalloc": {"MALLOC_CONF": "background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0"}}

# What is memory alone hardly varies, and needs few rounds.
ALL = [
    Workload("pair", 5, 15),
    Workload("live", 5, 15),
    Workload("batch", 2, 9),
    Workload("fraction", 2, 9),
    Workload("cubes", 2, 9),
    Workload("nbody", 2, 9),
    Workload("remote", 5, 15),
    Workload("messages-one-way", 2, 9, program="messages", arguments=("one-way",)),
    Workload("messages-both-ways", 2, 9, program="messages", arguments=("both-ways",)),
    Workload("migrate", 2, 9),
    *[Workload(f"exchange-{range_}-{threads}-threads", 2, 9, program="exchange", arguments=(range_, threads))
      for range_ in ("8-512B", "512B-32KiB") for threads in ("2", "8")],
    *[Workload(f"sessions-{workers}-workers", 2, 9, program="sessions", arguments=(workers,))
      for workers in ("2", "8")],
    Workload("sharing", 2, 9),
    Workload("large", 5, 15),
    Workload("huge", 2, 7),
    Workload("mixed", 5, 15),
    Workload("same", 5, 15),
    Workload("rounds", 5, 15),
    Workload("generations", 5, 15),
    Workload("maps", 3, 9),
    *few(),
    *[Workload(f"requests-{blocks}-of-{low}-{high}KiB", 2, 9, program="requests", arguments=(blocks, low, high))
      for blocks, low, high in (("5", "4", "128"), ("50", "4", "128"), ("5", "64", "512"), ("500", "1", "32"))],
    *replacements(),
    Workload("images", 2, 7),
    Workload("realloc", 3, 9),
    Workload("strings", 5, 15),
    *buffers(),
    Workload("vectors", 2, 9),
    Workload("calloc", 5, 15),
    Workload("calloc-sparse", 2, 7, program="cleared", arguments=("sparse",)),
    Workload("calloc-dense", 2, 7, program="cleared", arguments=("dense",)),
    Workload("aligned", 2, 9),
    Workload("larson", 5, 15),
    Workload("churn", 3, 9),
    Workload("startup", 3, 9, has_musl=False),  # the figure would be of musl's loader
    Workload("holes", 3, 5),
    Workload("aging", 2, 5),
    Workload("phases", 2, 9),
    Workload("bursts", 1, 3, sleeps=True, settings=QUICK_DECAY),
    Workload("threads", 3, 5),
    Workload("crowd", 2, 7),
    Workload("kept-idle", 1, 3, program="kept", arguments=("idle",), sleeps=True),
    Workload("kept-thread", 1, 3, program="kept", arguments=("thread",), sleeps=True,
             settings=OWN_THREAD),
    Workload("kept-active", 1, 3, program="kept", arguments=("active",), sleeps=True),
    Workload("sleepers-1s", 1, 3, program="sleepers", arguments=("turns", "1s"), sleeps=True,
             settings=QUICK_DECAY),
    Workload("sleepers-together-1s", 1, 3, program="sleepers", arguments=("together", "1s"), sleeps=True,
             settings=QUICK_DECAY),
    *[Workload(f"drained-{low}-{high}KiB", 1, 3, program="drained", arguments=(low, high), sleeps=True,
               settings=QUICK_DECAY_OF_OWN_THREAD) for low, high in (("1", "8"), ("1", "64"), ("16", "128"))],
    Workload("sleepers-10s", 1, 3, program="sleepers", arguments=("turns", "10s"), sleeps=True),
]


# The short form: the rows that the figures of the README are taken from.
SHORT = ["pair", "live", "remote", "large", "replace-8-512B", "replace-512B-32KiB", "replace-4-128KiB",
         "replace-32-512KiB-pages", "replace-8B-1MiB", "mixed", "realloc", "calloc", "larson", "churn",
         "startup", "holes", "threads", "kept-idle", "kept-active", "sleepers-1s"]


def choose(names, programs):
    """Workloads and programs by name; all of them without names."""
    known = ALL + programs
    missing = [n for n in names if n not in [w.name for w in known]]
    if missing:
        raise Unusable(f"no such workload: {', '.join(missing)}; "
                       f"there are: {', '.join(w.name for w in known)}")
    return [w for w in known if not names or w.name in names]


def build(chosen, folder, musl=False):
    """Compiles what is older than its source; one program serves every allocator but musl's."""
    os.makedirs(folder, exist_ok=True)
    compiler = "musl-gcc" if musl else os.environ.get("CC", "cc")
    header = os.path.join(SOURCES, "bench.h")
    for workload in chosen:
        source, binary = workload.source(), workload.binary(folder, musl)
        newest = max(os.path.getmtime(source), os.path.getmtime(header))
        if os.path.exists(binary) and os.path.getmtime(binary) > newest:
            continue
        done = subprocess.run([compiler, *COMPILE, source, "-o", binary], capture_output=True, text=True)
        if done.returncode != 0:
            raise Unusable(f"{compiler} cannot build {source}:\n{done.stderr}")
