# SPDX-License-Identifier: MIT
"""What Mallow wants to reach, beside what a run measured: one line a target."""

import dataclasses

from .units import is_memory, number

SMALL = ["pair/16", "pair/64", "pair/256", "pair/1024", "live/lifo-64", "live/fifo-64",
         "live/random-64", "live/lifo-mixed", "live/fifo-mixed", "live/random-mixed"]
MIDDLE = ["large/32KiB", "large/256KiB", "large/1MiB", "large/4MiB"]


@dataclasses.dataclass
class Line:
    target: str
    measured: float
    limit: float
    unit: str = ""

    def text(self):
        met = "yes" if self.measured <= self.limit else "**no**"
        unit = f" {self.unit}" if self.unit else ""
        return f"| {self.target} | {number(self.measured)}{unit} | {number(self.limit)}{unit} | {met} |"


class Figures:
    """The medians of a run, and the best of the peers (all but Mallow's own builds)."""

    def __init__(self, run, records, means):
        self.peers = [n for n, a in run.config["allocators"].items() if not a["ours"]]
        self.ours = next((n for n, a in run.config["allocators"].items() if a["ours"]), None)
        self.medians = {(r["row"], r["allocator"]): r["median"] for r in records}
        self.means = means

    def best(self, row):
        there = [self.medians[row, n] for n in self.peers if (row, n) in self.medians]
        return min(there) if there else None

    def mine(self, row):
        return self.medians.get((row, self.ours))

    def mean_against_best(self, column):
        peers = [v for n in self.peers if (v := self.means.get(n, {}).get(column))]
        mine = self.means.get(self.ours, {}).get(column)
        return mine / min(peers) if mine and peers else None

    def worst_against_best(self, rows):
        ratios = [self.mine(r) / self.best(r) for r in rows if self.mine(r) and self.best(r)]
        return max(ratios) if ratios else None

    def against(self, row, other):
        base = self.medians.get((row, other))
        return self.mine(row) / base if base and self.mine(row) is not None else None


def lines(run, records, means):
    f = Figures(run, records, means)
    timed = list(dict.fromkeys(r["row"] for r in records
                               if r["counted"] and not is_memory(r["unit"])))
    vsz, vsz_glibc = f.mine("startup/vsz"), f.medians.get(("startup/vsz", "glibc"))
    found = [
        Line("time, all rows: mean to the best peer's mean", f.mean_against_best("time"), 0.95),
        Line("time, real programs: the same", f.mean_against_best("time, programs"), 0.97),
        Line("time, worst row, to the best peer of the row", f.worst_against_best(timed), 1.05),
        Line("peak RSS: mean to glibc's", means.get(f.ours, {}).get("peak RSS"), 1.0),
        Line("small pairs and 1,000 live: worst row, to the best peer", f.worst_against_best(SMALL), 0.9),
        Line("freed by another thread, to snmalloc", f.against("remote/64", "snmalloc"), 1.0),
        Line("the same: growth of resident memory", f.mine("remote/grown"), 8, "MiB"),
        Line("pairs of 32 KiB to 4 MiB: worst, to the best peer", f.worst_against_best(MIDDLE), 1.1),
        Line("pair of 32 MiB, to gperftools", f.against("large/32MiB", "gperftools"), 2.0),
        Line("realloc growth to 64 MiB, to mallocng", f.against("realloc/grow", "mallocng"), 1.5),
        Line("start of a trivial program, to glibc", f.against("startup/exec", "glibc"), 1.05),
        Line("private dirty memory after one malloc", f.mine("startup/dirty"), 120, "KiB"),
        Line("its address space above glibc's", vsz - vsz_glibc if vsz and vsz_glibc else None, 16, "MiB"),
        Line("kept of 140 MiB after 12 s, rare calls", f.mine("kept/active-12s"), 8, "MiB"),
        Line("kept of 140 MiB after 12 s, no call", f.mine("kept/idle-12s"), 8, "MiB"),
        Line("1,000 threads, small live sets: RSS to the best peer",
             f.worst_against_best(["threads/rss"]), 0.8),
        Line("holes refilled: RSS to glibc", f.against("holes/rss", "glibc"), 1.0),
    ]
    return [line for line in found if line.measured is not None]


def table(run, records, means):
    found = lines(run, records, means)
    if not found:
        return ""
    return ("| target | measured | at most | met |\n|---|--:|--:|---|\n" +
            "".join(line.text() + "\n" for line in found))
