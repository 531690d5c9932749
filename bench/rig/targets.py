# SPDX-License-Identifier: MIT
"""What Mallow wants to reach, beside what a run measured: one line a target, judged by intervals."""

import dataclasses
import os
import re

from . import allocators
from .figures import FEWEST, Estimate, divide
from .units import number

SMALL_OBJECTS = ["fraction", "cubes", "nbody"]
THRIFTY = [f"{name}/peak-rss" for name in ("git", "node", "go", "sqlite")]
SECURE = "mallow-secure"
SECURE_PEERS = [name for entry in allocators.KNOWN if "secure" in entry.get("variant", "")
                for name in [entry["name"], *(peer["name"] for peer in entry.get("peers", []))]
                if name not in allocators.OURS]
# Of malloc and free together: those of the first design.
INSTRUCTIONS = {"pair 16": 46.6, "pair 64": 46.5, "pair 256": 46.6, "pair 1024": 50.3,
                "live 64": 45.2, "live 1024": 63.0}


@dataclasses.dataclass
class Line:
    target: str
    measured: Estimate
    limit: float
    unit: str = ""

    def text(self):
        unit = f" {self.unit}" if self.unit else ""
        return (f"| {self.target} | {number(self.measured.value)}{unit} | {between(self.measured)} | "
                f"{number(self.limit)}{unit} | {self.measured.judge(self.limit)} |")


@dataclasses.dataclass
class Worst:
    """None of the estimates above the limit: missed if one of them is so beyond doubt."""
    target: str
    measured: dict  # {name: Estimate}
    limit: float

    def text(self):
        name, worst = max(self.measured.items(), key=lambda item: item[1].value)
        verdicts = [e.judge(self.limit) for e in self.measured.values()]
        missed, met = verdicts.count("**missed**"), verdicts.count("met")
        verdict = "**missed**" if missed else "met" if met == len(verdicts) else "cannot be told"
        return (f"| {self.target} | {number(worst.value)} ({name}) | {between(worst)} | "
                f"{number(self.limit)} | {verdict}: {met} of {len(verdicts)} met, {missed} missed |")


def between(estimate):
    if estimate.low is None:
        return "?"
    return f"{number(estimate.low)}–{number(estimate.high)}"


def there(estimates):
    return {name: e for name, e in estimates.items() if e is not None}


def by_workload(figures, column, against):
    """{workload: what against(its rows) estimates}"""
    return there({w: against(rows) for w, rows in figures.workload_rows(column).items()})


def replacement_peaks(figures):
    """Peak of resident memory to that of the peer that is fastest in the range."""
    return there({row: figures.against(f"{row}/peak-rss", figures.ours, figures.best_peer(row))
                  for row in figures.rows if row.startswith("replace/") and figures.rows[row].is_time})


def to_secure_peers(figures, rows):
    """Mean of the secure build to that of each secure build of others, over the rows of both."""
    return there({peer: figures.mean_against([row for row in rows if (row.name, peer) in figures.value],
                                             SECURE, peer)
                  for peer in figures.peers if peer in SECURE_PEERS})


def of_secure(figures, mallow):
    f, time, programs = figures, figures.columns["time"], figures.columns["time, programs"]
    peaks = [row for row in f.columns["peak RSS"] if row.kind == "program"]

    def to_fast(rows):
        return there({row.name: f.against(row.name, SECURE, mallow) for row in rows})

    return [
        Worst("secure: time of each workload, to fast",
              by_workload(f, "time", lambda rows: f.mean_against(rows, SECURE, mallow)), 1.25),
        Worst("secure: time of each row, to fast", to_fast(time), 1.40),
        Line("secure: real programs, mean time to fast", f.mean_against(programs, SECURE, mallow),
             1.05),
        Worst("secure: time of each real program, to fast", to_fast(programs), 1.05),
        Worst("secure: peak RSS of each real program, to fast", to_fast(peaks), 1.10),
        Line("secure: mean time to glibc", f.mean_estimate(time, SECURE), 0.75),
        Worst("secure: mean time to that of each secure peer", to_secure_peers(f, time), 1.0),
    ]


def lines(figures):
    f, mallow, glibc = figures, figures.ours, allocators.BASELINE
    time, programs = f.columns["time"], f.columns["time, programs"]
    times = there({row.name: f.against_best(row.name, mallow) for row in time})
    found = [
        Line("time, mean over workloads, to the best peer's mean",
             f.mean_against_best(time, mallow), 0.90),
        Worst("time, each workload, to its best peer",
              by_workload(f, "time", lambda rows: f.mean_against_best(rows, mallow)), 1.25),
        Worst("time, each row, to its best peer", times, 1.6),
        Line("peak RSS, mean over workloads, to glibc's", f.mean_estimate(f.columns["peak RSS"], mallow),
             1.0),
        Worst("random replacement, time of each range, to its best peer",
              {n: e for n, e in times.items() if n.startswith("replace/")}, 1.15),
        Worst("random replacement, peak RSS, to that of the range's fastest peer",
              replacement_peaks(f), 1.10),
        Worst("programs of small objects, time, to the best peer",
              {w: e for w, e in by_workload(
                  f, "time", lambda rows: f.mean_against_best(rows, mallow)).items()
               if w in SMALL_OBJECTS}, 1.0),
        Line("freed by another thread, to the best peer", f.against_best("remote/64", mallow), 1.1),
        Line("the same: growth of resident memory", f.figure("remote/grown", mallow), 8, "MiB"),
        Line("realloc growth to 64 MiB, to the best peer", f.against_best("realloc/grow", mallow), 1.0),
        Line("fifty threads that burst in turns and sleep: kept after the decay time",
             f.figure("sleepers/turns-10s-rest", mallow), 16, "MiB"),
        Line("the same, all at once", f.figure("sleepers/together-1s-rest", mallow), 16, "MiB"),
        Line("140 MiB freed, then no call, with purge_thread: kept after 12 s",
             f.figure("kept/thread-12s", mallow), 8, "MiB"),
        Worst("real programs that must stay thrifty: peak RSS to glibc's",
              there({row: f.against(row, mallow, glibc) for row in THRIFTY}), 1.03),
        Line("start of a trivial program, to glibc", f.against("startup/exec", mallow, glibc), 1.08),
        Line("private dirty memory after one malloc", f.figure("startup/dirty", mallow), 120, "KiB"),
        Line("1,000 threads, each with 100 small blocks: RSS to glibc's",
             f.against("threads/rss", mallow, glibc), 1.0),
    ]
    if SECURE in f.names and SECURE != mallow:
        found += of_secure(f, mallow)
    if (profiled := allocators.PROFILED) in f.names and profiled != mallow:
        found += [
            Line("profiles at the default rate: time, mean over workloads and programs, to without",
                 f.mean_against(time, profiled, mallow), 1.01),
            Line("the same: real programs", f.mean_against(programs, profiled, mallow), 1.01),
        ]
    found.append(Worst("instructions of malloc and free, to those of the first design",
                       instructions(f.library), 1.0))
    return [line for line in found if line.measured]


def counted(library):
    """What bench/instructions has written, if that is of this library and not of one before it."""
    path = os.path.join(allocators.ROOT, "bench", "out", "instructions.md")
    try:
        if os.path.getmtime(path) < os.path.getmtime(library):
            return ""
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def instructions(library):
    """Ratios of what was counted of Mallow; counts are exact."""
    cells = [[cell.strip() for cell in line.strip().strip("|").split("|")]
             for line in counted(library).splitlines()]
    title = next((line for line in cells if line[0] == "case"), [])
    if "mallow" not in title:
        return {}
    at, found = title.index("mallow"), {}
    for line in cells:
        count = re.search(r"= ([\d.]+)", line[at]) if len(line) == len(title) else None
        if line[0] in INSTRUCTIONS and count:
            value = round(divide(float(count[1]), INSTRUCTIONS[line[0]]), 2)
            found[line[0]] = Estimate(value, value, value)
    return found


def table(figures):
    if figures.ours is None:
        return ""
    found = lines(figures)
    return ("\"Missed\": the whole interval lies above the limit; \"met\": at or below it; else, and with "
            f"fewer than {FEWEST} rounds, it cannot be told.\n\n"
            "| target | measured | interval | at most | |\n|---|--:|--:|--:|---|\n" +
            "".join(line.text() + "\n" for line in found)) if found else ""
