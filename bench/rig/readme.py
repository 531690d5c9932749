# SPDX-License-Identifier: MIT
"""What of a run is shown first: the means and the losses that stand in the project's README.md, each
between two marks, and the chosen rows at the top of RESULTS.md."""

import os
import re
import textwrap

from .figures import NOISY

ALLOCATORS = {"mallow": "Mallow", "mallow-secure": "secure", "glibc": "", "snmalloc": "",
              "mimalloc3": "", "rpmalloc": "", "jemalloc": "", "gperftools": "gperftools"}

# What a line says, and the rows that it shows.
LINES = {
    "pair of 64 B": ["pair/64"],
    "1,000 live, 64 B, LIFO / FIFO / random": ["live/lifo-64", "live/fifo-64", "live/random-64"],
    "1,000 live, 16–1,024 B, random": ["live/random-mixed"],
    "100,000 of 16–128 B, then all freed: LIFO / FIFO / random":
        ["batch/lifo", "batch/fifo", "batch/random"],
    "freed by another thread, 64 B": ["remote/64"],
    "pair of 32 KiB": ["large/32KiB"],
    "pair of 256 KiB": ["large/256KiB"],
    "pair of 4 MiB": ["large/4MiB"],
    "pair of 32 MiB": ["large/32MiB"],
    "realloc × 1.5 to 64 MiB, untouched / filled, ms":
        ["realloc/grow", "realloc/fill"],
    "aligned blocks replaced at random: 64 B / 4 KiB / 2 MiB":
        ["aligned/64", "aligned/4KiB", "aligned/2MiB"],
    "server simulation, two threads": ["larson/2-lanes"],
    "blocks that threads exchange, 8–512 B: two threads / eight":
        ["exchange/8-512B-2-threads", "exchange/8-512B-8-threads"],
    "the same, 0.5–32 KiB": ["exchange/512B-32KiB-2-threads", "exchange/512B-32KiB-8-threads"],
    "request of a server with sessions, µs: two workers / eight":
        ["sessions/2-workers", "sessions/8-workers"],
    "blocks replaced at random: 8–512 B / 0.5–32 KiB / 4–128 KiB":
        ["replace/8-512B", "replace/512B-32KiB", "replace/4-128KiB"],
    "the same, 32–512 KiB: first byte written / every page":
        ["replace/32-512KiB", "replace/32-512KiB-pages"],
    "the same, 8 B–1 MiB: one thread / two": ["replace/8B-1MiB", "replace/8B-1MiB-2-threads"],
    "the same, every page written, µs: 0.5–8 MiB / 5–25 MiB":
        ["replace/512KiB-8MiB-pages", "replace/5-25MiB-pages"],
    "start of a trivial program, µs": ["startup/exec"],
    "private dirty memory after one malloc, KiB": ["startup/dirty"],
    "MiB kept 12 s after 140 MiB were freed, rare calls / none":
        ["kept/active-12s", "kept/idle-12s"],
    "1,000 threads: 100 small blocks each / 50 replaced over and over, MiB":
        ["threads/rss", "crowd/1000-rss"],
    "holes: 90 % of 1 M blocks freed, other sizes asked, MiB": ["holes/rss"],
    "ten generations of other sizes, 90 % freed after each: peak, MiB": ["aging/peak"],
}

# What a column of README.md's table says, and the column of figures.MEANS that it shows.
MEANS = {
    "time, all workloads": "time",
    "processor time, real programs": "CPU, programs",
    "peak RSS": "peak RSS",
    "average RSS": "average RSS",
}

# Within this of the best of its row, a figure is taken for as good.
CLOSE = 1.02

# From these on, a workload's time and a program's peak are told as lost.
LOST_TIME, LOST_PEAK = 1.25, 1.05

BEGIN, END = "<!-- from bench/run --publish -->\n", "<!-- until here -->\n"
BEGIN_LOST = "<!-- losses, from bench/run --publish -->\n"


def short(value):
    """Two digits that matter, and all of those before the point."""
    if value >= 9.95:
        return f"{value:,.0f}"
    return f"{value:.2g}"


def bold(values, is_worse):
    """The names whose figures are bold: the best and what is as good, if every other one is worse
    beyond doubt. `values` is {name: value}; is_worse(name, best name) tells."""
    if not values:
        return set()
    best = min(values, key=values.get)
    leaders = {n for n, value in values.items() if value <= values[best] * CLOSE}
    return leaders if all(is_worse(n, best) for n in values if n not in leaders) else set()


def is_beyond_doubt(estimate):
    return estimate is not None and estimate.low is not None and estimate.low > 1


def row_cells(figures, records, row, names):
    """{name: what stands in the table}"""
    there = {n: records[row, n] for n in names if (row, n) in records}
    leaders = bold({n: r["value"] for n, r in there.items()},
                   lambda name, best: is_beyond_doubt(figures.against(row, name, best)))
    cells = {}
    for name, record in there.items():
        text = short(record["value"]) + ("~" if record["noisy"] else "")
        cells[name] = f"**{text}**" if name in leaders else text
    return cells


def mean_cells(figures, column, names):
    rows = figures.columns[column]
    means = {n: v for n in names if (v := figures.mean(rows, n)) is not None}
    leaders = bold(means, lambda name, best: is_beyond_doubt(figures.mean_against(rows, name, best)))
    cells = {}
    for name, value in means.items():
        text = f"{value:.2f}" + ("~" if is_noisy(figures.mean_estimate(rows, name)) else "")
        cells[name] = f"**{text}**" if name in leaders else text
    return cells


def is_noisy(estimate):
    return estimate.low is None or estimate.high - estimate.low > NOISY * estimate.value


def line(title, cells, names):
    """`cells` has {name: text} for each row that the line shows."""
    return f"| {title} | " + " | ".join(
        " / ".join(row.get(name, "–") for row in cells) for name in names) + " |"


def chosen(run):
    """{allocator: how it is called in a table}, of those of the run that are shown."""
    there = run.config["allocators"]
    return {n: title or there[n].get("version", n) for n, title in ALLOCATORS.items() if n in there}


def table(run, figures, records):
    """The chosen rows."""
    names = chosen(run)
    found = {(r["row"], r["allocator"]): r for r in records}
    lines = ["| | " + " | ".join(names.values()) + " |", "|---|" + "--:|" * len(names)]
    for title, rows in LINES.items():
        cells = [row_cells(figures, found, row, names) for row in rows]
        if any(cells):
            lines.append(line(title, cells, names))
    return "\n".join(lines) + "\n"


def means_table(run, figures):
    """The means, an allocator a line."""
    names = chosen(run)
    cells = [mean_cells(figures, column, names) for column in MEANS.values()]
    lines = ["| geometric mean, glibc = 1 | " + " | ".join(MEANS) + " |", "|---|" + "--:|" * len(MEANS)]
    for name, title in names.items():
        lines.append(f"| {title} | " + " | ".join(column.get(name, "–") for column in cells) + " |")
    return "\n".join(lines) + "\n"


def lost_time(figures, names):
    """[(ratio, workload, peer)]: Mallow's time to that of the best of `names`, the worst first."""
    found = []
    for workload, rows in figures.workload_rows("time").items():
        mine = figures.mean(rows, figures.ours)
        means = {n: v for n in names if (v := figures.mean(rows, n)) is not None}
        if mine is None or not means:
            continue
        best = min(means, key=means.get)
        found.append((mine / means[best], workload, best))
    return sorted((loss for loss in found if loss[0] > LOST_TIME), reverse=True)


def lost_peaks(figures):
    """[(ratio, program)]: the peaks of real programs to glibc's, the worst first."""
    found = []
    for row in figures.rows.values():
        if row.kind == "program" and row.name.endswith("/peak-rss"):
            estimate = figures.against(row.name, figures.ours, "glibc")
            if estimate is not None and estimate.value > LOST_PEAK:
                found.append((estimate.value, row.workload))
    return sorted(found, reverse=True)


def losses(run, figures):
    """What the means hide, and of how much they are the mean; "" without our library."""
    if figures.ours is None:
        return ""
    titles = chosen(run)
    peers = [n for n in titles if n in figures.peers]
    times = [f"{name} {value:.2g} ({titles[best]})" for value, name, best in lost_time(figures, peers)]
    peaks = [f"{name} {value:.2f}" for value, name in lost_peaks(figures)]
    rows = figures.columns["time"]
    programs = {row.workload for row in rows if row.kind == "program"}
    text = (f"Means over {len({row.workload for row in rows})} workloads, {len(programs)} of them real "
            "programs, each weighing the same. Bold is the best of its column where that is beyond doubt; `~` "
            "marks what varied by more than a tenth, or ran less than three times. What Mallow lost:")
    lost = [f"- time, above {LOST_TIME} of the best of the others in the table: "
            f"{', '.join(times) or 'none'};",
            f"- peak memory of real programs, above {LOST_PEAK} of glibc's: {', '.join(peaks) or 'none'}."]
    wrapped = [textwrap.fill(part, 110, subsequent_indent=indent, break_on_hyphens=False)
               for part, indent in ((text, ""), *((part, "  ") for part in lost))]
    return f"{wrapped[0]}\n\n{wrapped[1]}\n{wrapped[2]}\n"


def fill(text, new, begin=BEGIN):
    """`text` with `new` between the marks; an error if it has none."""
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(END), re.DOTALL)
    filled, count = pattern.subn(lambda _: begin + new + END, text)
    if count != 1:
        raise ValueError(f"README.md must have {begin.strip()} and {END.strip()} once")
    return filled


def publish(run, figures, root):
    path = os.path.join(root, "README.md")
    with open(path) as file:
        text = fill(file.read(), means_table(run, figures))
    with open(path, "w") as file:
        file.write(fill(text, losses(run, figures), BEGIN_LOST))
