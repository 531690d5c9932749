# SPDX-License-Identifier: MIT
"""Turns the samples of a run into a summary: results.json, results.csv, and Markdown tables."""

import csv
import json
import math
import os
import statistics

from . import allocators
from .runner import NOISY, is_memory, quartiles, spread

CSV_FIELDS = ["row", "allocator", "unit", "n", "median", "q1", "q3", "best", "noisy",
              "ratio_to_glibc", "ratio_to_best_peer"]


def print_list(found, chosen):
    for allocator in found:
        print(f"{allocator.name:17} {allocator.version:32} {allocator.path or '(no preload)'}")
    print("workloads:", " ".join(w.name for w in chosen))


def summarise(run):
    """One record for each row and allocator, rows in the order in which they first appeared."""
    values, units = {}, {}
    for sample in run.samples:
        for row, (value, unit) in sample.get("rows", {}).items():
            values.setdefault(row, {}).setdefault(sample["allocator"], []).append(value)
            units[row] = unit
    ours = {name for name, a in run.config["allocators"].items() if a["ours"]}
    records = []
    for row, cells in values.items():
        medians = {name: statistics.median(v) for name, v in cells.items()}
        glibc = medians.get(allocators.BASELINE)
        peers = [m for n, m in medians.items() if n not in ours and n != allocators.BASELINE]
        best_peer = min(peers, default=None)
        for name, samples in cells.items():
            low, high = quartiles(samples)
            noisy = not is_memory(units[row]) and spread(samples) > NOISY
            records.append({
                "row": row, "allocator": name, "unit": units[row], "n": len(samples),
                "median": medians[name], "q1": low, "q3": high, "best": min(samples),
                "noisy": noisy, "ratio_to_glibc": ratio(medians[name], glibc),
                "ratio_to_best_peer": ratio(medians[name], best_peer),
            })
    return records


def ratio(value, base):
    """None where the base is no quantity to divide by (a growth of nothing)."""
    return round(value / base, 4) if base is not None and base > 0 and value > 0 else None


def number(value):
    """Three digits that matter."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(digits, 2)}f}"


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(v) for v in values)) if values else None


def markdown(run, records, wanted):
    """A table of the rows for which wanted(row, unit) holds; `~` marks a noisy cell, and the last
    columns are those of the first of our libraries."""
    names = [n for n in run.config["allocators"] if any(r["allocator"] == n for r in records)]
    focus = next((n for n in names if run.config["allocators"][n]["ours"]), None)
    cells = {(r["row"], r["allocator"]): r for r in records if wanted(r["row"], r["unit"])}
    rows = list(dict.fromkeys(row for row, _ in cells))
    if not rows:
        return ""
    title = ["row", "unit", *names]
    if focus:
        title += [f"{focus} / glibc", f"{focus} / best peer"]
    lines = ["| " + " | ".join(title) + " |", "|---|---|" + "--:|" * (len(title) - 2)]
    for row in rows:
        there = {n: cells[row, n] for n in names if (row, n) in cells}
        unit = next(iter(there.values()))["unit"]
        line = [row, unit]
        for name in names:
            cell = there.get(name)
            line.append(number(cell["median"]) + ("~" if cell["noisy"] else "") if cell else "failed")
        if focus:
            for key in ("ratio_to_glibc", "ratio_to_best_peer"):
                value = there[focus][key] if focus in there else None
                line.append(f"{value:.2f}" if value is not None else "–")
        lines.append("| " + " | ".join(line) + " |")
    lines.append("| " + " | ".join(mean_line(names, focus, rows, cells)) + " |")
    return "\n".join(lines) + "\n"


def mean_line(names, focus, rows, cells):
    """Geometric mean over the rows, each normalised to glibc."""
    line = ["*geometric mean, glibc = 1*", ""]
    for name in names:
        ratios = [cells[row, name]["ratio_to_glibc"] for row in rows if (row, name) in cells]
        mean = geometric_mean([r for r in ratios if r])
        line.append(f"{mean:.2f}" if mean else "–")
    return line + (["", ""] if focus else [])


def failures(run):
    """The errors of a run, each once."""
    return list(dict.fromkeys(f"{s['allocator']}: {s['error']}" for s in run.samples if "error" in s))


def write(run):
    records = summarise(run)
    with open(os.path.join(run.folder, "results.json"), "w") as file:
        json.dump({**run.config, "results": records, "failures": failures(run)}, file, indent=1)
    with open(os.path.join(run.folder, "results.csv"), "w", newline="") as file:
        table = csv.DictWriter(file, CSV_FIELDS)
        table.writeheader()
        table.writerows(records)
    facts = run.config["machine"]
    text = (f"{facts['cpu']}, {facts['cpus']} CPUs, Linux {facts['kernel']}, {facts['libc']}, "
            f"transparent huge pages: {facts['huge_pages']}. Medians of "
            f"{min((r['n'] for r in records), default=0)} to "
            f"{max((r['n'] for r in records), default=0)} runs; "
            f"`~`: quartiles more than {NOISY:.0%} of the median apart.\n\n"
            "### Time\n\n" + markdown(run, records, lambda row, unit: not is_memory(unit)) +
            "\n### Memory\n\n" + markdown(run, records, lambda row, unit: is_memory(unit)))
    failed = failures(run)
    if failed:
        text += "\n### Failures\n\n" + "".join(f"- {line}\n" for line in failed)
    with open(os.path.join(run.folder, "results.md"), "w") as file:
        file.write(text)
    print(text)
    print(f"Samples, results.csv, results.json and this table: {os.path.relpath(run.folder)}")
    return 1 if failed else 0
