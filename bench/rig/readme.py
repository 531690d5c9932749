# SPDX-License-Identifier: MIT
"""The table of results in the project's README.md, between two marks: chosen rows of a run."""

import os
import re

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
    "live blocks replaced at random: 16 B–4 KiB / 1–32 KiB / 16–128 KiB":
        ["mixed/16B-4KiB", "mixed/1-32KiB", "mixed/16-128KiB"],
    "5–25 MiB replaced at random, every page written, µs": ["huge/touched"],
    "start of a trivial program, µs": ["startup/exec"],
    "private dirty memory after one malloc, KiB": ["startup/dirty"],
    "MiB kept 12 s after 140 MiB were freed, rare calls / none":
        ["kept/active-12s", "kept/idle-12s"],
    "1,000 threads: 100 small blocks each / 50 replaced over and over, MiB":
        ["threads/rss", "crowd/1000-rss"],
    "holes: 90 % of 1 M blocks freed, other sizes asked, MiB": ["holes/rss"],
    "ten generations of other sizes, 90 % freed after each: peak, MiB": ["aging/peak"],
}

# The same for geometric means.
MEANS = {
    "all rows, geometric mean to glibc: time / peak RSS": ["time", "peak RSS"],
    "real programs alone: processor time": ["CPU, programs"],
}

# Within this of the best of its row, a figure is bold.
CLOSE = 1.02

BEGIN, END = "<!-- from bench/run --publish -->\n", "<!-- until here -->\n"


def short(value):
    """Two digits that matter, and all of those before the point."""
    if value is None:
        return "–"
    if value >= 9.95:
        return f"{value:,.0f}"
    return f"{value:.2g}"


def line(title, figures, text):
    """`figures` has a list for each row: a value for each allocator, None where there is none."""
    best = [min((v for v in row if v is not None), default=None) for row in figures]
    cells = []
    for values in zip(*figures):
        shown = [f"**{text(v)}**" if v is not None and v <= b * CLOSE else text(v)
                 for v, b in zip(values, best)]
        cells.append(" / ".join(shown))
    return f"| {title} | " + " | ".join(cells) + " |"


def table(run, records, means):
    there = [n for n in ALLOCATORS if n in run.config["allocators"]]
    medians = {(r["row"], r["allocator"]): r["median"] for r in records}
    versions = {n: run.config["allocators"][n].get("version", n) for n in there}
    lines = ["| | " + " | ".join(ALLOCATORS[n] or versions[n] for n in there) + " |",
             "|---|" + "--:|" * len(there)]
    for title, rows in LINES.items():
        lines.append(line(title, [[medians.get((row, n)) for n in there] for row in rows], short))
    for title, columns in MEANS.items():
        figures = [[means.get(n, {}).get(column) for n in there] for column in columns]
        lines.append(line(title, figures, lambda v: f"{v:.2f}" if v is not None else "–"))
    return "\n".join(lines) + "\n"


def fill(text, new):
    """`text` with `new` between the marks; an error if it has none."""
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    filled, count = pattern.subn(lambda _: BEGIN + new + END, text)
    if count != 1:
        raise ValueError(f"README.md must have {BEGIN.strip()} and {END.strip()} once")
    return filled


def publish(run, records, means, root):
    path = os.path.join(root, "README.md")
    with open(path) as file:
        text = fill(file.read(), table(run, records, means))
    with open(path, "w") as file:
        file.write(text)
