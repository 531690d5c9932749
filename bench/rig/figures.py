# SPDX-License-Identifier: MIT
"""What the samples of a run say: one value for each row and allocator, ratios of values, means of
ratios, and how sure each of them is.

The value of a time is the least of the rounds, for all that others do on the machine makes it longer,
by up to a half where they share a processor's core, and nothing makes it shorter. That of memory is the
median. Who has fewer rounds than others (the slow allocators) has the greater least.

A workload is what stands before the slash of a row's name. A mean weighs workloads equally: first the
geometric mean of the rows of each workload, then that of the workloads.

How sure: rounds are drawn anew from those of the run, again and again, and each figure is computed
from what was drawn; the interval holds 95 % of the results. All allocators of a round are drawn
together, because a slow minute of the machine hits all of them. One round fewer is drawn than there
are, which makes up for what a few rounds do not show of their spread. With three rounds the interval of
a single row is no more than the range of what was seen, and misses the truth one time in four.
"""

import dataclasses
import math
import random
import statistics

from . import allocators
from .units import is_memory

REPLICAS = 400
OUTSIDE = 0.025  # of the results, at each end
# A time whose least two rounds lie further apart than this part of it is noisy, and so is one of fewer
# rounds than it takes to tell; such a one has no interval.
NOISY = 0.10
FEWEST = 3


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    unit: str
    kind: str  # "workload" or "program"
    run_name: str  # of the workload or program, as it was started
    counted: bool  # in means

    @property
    def workload(self):
        return self.name.split("/")[0]

    @property
    def is_time(self):
        return not is_memory(self.unit)


@dataclasses.dataclass(frozen=True)
class Estimate:
    value: float
    low: float = None  # None: too few rounds to tell
    high: float = None

    def judge(self, limit):
        if self.low is None:
            return "cannot be told"
        return "met" if self.high <= limit else "**missed**" if self.low > limit else "cannot be told"


# Column of the summary, and which rows it is the mean of.
MEANS = {
    "time": lambda row: row.is_time and row.counted,
    "time, workloads": lambda row: row.is_time and row.counted and row.kind == "workload",
    "time, programs": lambda row: row.is_time and row.counted and row.kind == "program",
    "CPU, programs": lambda row: row.name.endswith("/cpu") and row.kind == "program",
    "peak RSS": lambda row: row.name.endswith("/peak-rss") and row.counted,
    "average RSS": lambda row: row.name.endswith("/average-rss") and row.counted,
    "all memory": lambda row: not row.is_time and row.counted,
}


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def middle(values):
    """The median of few values."""
    values = sorted(values)
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


def quartiles(values):
    if len(values) < 2:
        return values[0], values[0]
    cuts = statistics.quantiles(values, n=4, method="inclusive")
    return cuts[0], cuts[2]


def value_of(rounds, unit):
    """What the values of some rounds say together."""
    return middle(rounds) if is_memory(unit) else min(rounds)


def is_noisy(times):
    if len(times) < FEWEST:
        return True
    least, second = sorted(times)[:2]
    return second - least > NOISY * least


def ratio(value, base, unit):
    """None where there is nothing to divide by. Memory below 1 MiB is all alike: whether a few pages
    were there before is chance."""
    if value is None or base is None:
        return None
    if unit == "MiB":
        value, base = max(value, 1.0), max(base, 1.0)
    return value / base if base > 0 and value > 0 else None


class Figures:
    def __init__(self, run):
        known = run.config["allocators"]
        self.rounds_of = {}  # {(row name, allocator): {round: value}}
        self.rows = {}
        programs, uncounted = run.program_names(), run.uncounted()
        for sample in run.samples:
            for name, (value, unit) in sample.get("rows", {}).items():
                self.rounds_of.setdefault((name, sample["allocator"]), {})[sample["round"]] = value
                if name not in self.rows:
                    kind = "program" if sample["workload"] in programs else "workload"
                    # The CPU time of a row repeats what the wall clock says, and address space costs
                    # nothing by itself.
                    counted = (not name.endswith(("/cpu", "/vsz"))
                               and name.split("/")[0] not in uncounted)
                    self.rows[name] = Row(name, unit, kind, sample["workload"], counted)
        self.names = [n for n in known if any(n == name for _, name in self.rounds_of)]
        self.peers = [n for n in self.names if not known[n]["ours"]]
        self.ours = next((n for n in self.names if known[n]["ours"]), None)
        self.library = known[self.ours].get("path", "") if self.ours else ""
        self.value = {cell: value_of(rounds.values(), self.rows[cell[0]].unit)
                      for cell, rounds in self.rounds_of.items()}
        self.replicas = list(self.draw())
        self.columns = {column: [r for r in self.rows.values() if wanted(r)]
                        for column, wanted in MEANS.items()}

    def draw(self):
        """Values as they could have come out, REPLICAS times."""
        generator = random.Random(1)
        cells = {}  # {run name: [(cell, {round: value})]}
        for cell, rounds in self.rounds_of.items():
            cells.setdefault(self.rows[cell[0]].run_name, []).append((cell, rounds))
        rounds_there = {name: sorted({n for _, rounds in there for n in rounds})
                        for name, there in cells.items()}
        for _ in range(REPLICAS):
            drawn_values = {}
            for name, there in cells.items():
                rounds = rounds_there[name]
                drawn = generator.choices(rounds, k=max(1, len(rounds) - 1))
                for cell, values in there:
                    # The slow allocators miss most rounds.
                    chosen = [values[n] for n in drawn if n in values]
                    drawn_values[cell] = (value_of(chosen, self.rows[cell[0]].unit) if chosen
                                          else self.value[cell])
            yield drawn_values

    def estimate(self, statistic, known=True):
        """What statistic(values) is; an interval where `known` and where each drawing has one."""
        value = statistic(self.value)
        if value is None:
            return None
        found = [statistic(values) for values in self.replicas] if known else [None]
        return Estimate(value, *interval(found))

    def rounds(self, row, *names):
        """The fewest rounds that one of the allocators has in the row."""
        return min(len(self.rounds_of.get((row, name), ())) for name in names)

    def best_peer(self, row, values=None):
        """The name of the best of all but Mallow's own builds."""
        values = values or self.value
        there = [n for n in self.peers if (row, n) in values]
        return min(there, key=lambda n: values[row, n], default=None)

    def against(self, row, name, other):
        """Ratio of the values of two allocators in one row."""
        if row not in self.rows or (row, name) not in self.value or (row, other) not in self.value:
            return None
        unit = self.rows[row].unit
        return self.estimate(lambda m: ratio(m[row, name], m[row, other], unit),
                             self.rounds(row, name, other) >= FEWEST)

    def against_best(self, row, name):
        """The same to the best peer, whichever that is in a drawing."""
        best = self.best_peer(row)
        if best is None or (row, name) not in self.value:
            return None
        peers, unit = [(row, n) for n in self.peers if (row, n) in self.value], self.rows[row].unit
        return self.estimate(lambda m: ratio(m[row, name], min(m[p] for p in peers), unit),
                             self.rounds(row, name, best) >= FEWEST)

    def figure(self, row, name):
        """A value itself."""
        if (row, name) not in self.value:
            return None
        return self.estimate(lambda m: m[row, name], self.rounds(row, name) >= FEWEST)

    def mean(self, rows, name, values=None):
        """Mean ratio to glibc over workloads; None for an allocator without most of the rows (musl's
        with programs)."""
        values = values or self.value
        by_workload, present, there = {}, 0, 0
        for row in rows:
            base = values.get((row.name, allocators.BASELINE))
            if base is None:
                continue
            there += 1
            found = ratio(values.get((row.name, name)), base, row.unit)
            if found is not None:
                present += 1
                by_workload.setdefault(row.workload, []).append(math.log(found))
        if not present or present <= 0.8 * there:
            return None
        return math.exp(statistics.fmean(statistics.fmean(logs) for logs in by_workload.values()))

    def mean_estimate(self, rows, name):
        return self.estimate(lambda m: self.mean(rows, name, m), self.are_repeated(rows))

    def mean_against(self, rows, name, other):
        def statistic(values):
            return divide(self.mean(rows, name, values), self.mean(rows, other, values))
        return self.estimate(statistic, self.are_repeated(rows))

    def mean_against_best(self, rows, name):
        def statistic(values):
            peers = [v for n in self.peers if (v := self.mean(rows, n, values)) is not None]
            return divide(self.mean(rows, name, values), min(peers, default=None))
        return self.estimate(statistic, self.are_repeated(rows))

    def are_repeated(self, rows):
        """Whether a mean of these rows can have an interval: none rests on one round, and half of them
        on enough. The rounds of the first of our allocators count: slow ones miss some."""
        counts = sorted(len(rounds) for row in rows
                        if (rounds := self.rounds_of.get((row.name, self.ours))))
        return bool(counts) and counts[0] > 1 and counts[len(counts) // 2] >= FEWEST

    def best_peer_of(self, rows):
        means = {n: v for n in self.peers if (v := self.mean(rows, n)) is not None}
        return min(means, key=means.get, default=None)

    def means(self):
        """{allocator: {column: mean to glibc, None without most of its rows}}"""
        return {name: {column: self.mean(rows, name) for column, rows in self.columns.items()}
                for name in self.names}

    def workload_rows(self, column):
        """{workload: its rows that count in the column}"""
        found = {}
        for row in self.columns[column]:
            found.setdefault(row.workload, []).append(row)
        return found


def divide(value, base):
    return value / base if value is not None and base else None


def interval(results):
    """(low, high), or (None, None) where a drawing gave nothing."""
    if not results or None in results:
        return None, None
    results = sorted(results)
    outside = int(len(results) * OUTSIDE)
    return results[outside], results[-1 - outside]
