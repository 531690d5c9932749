# SPDX-License-Identifier: MIT
"""Turns the samples of a run into a summary: results.json, results.csv, and Markdown tables."""

import csv
import datetime
import json
import math
import os

from . import allocators, chart, page, readme, targets
from .figures import FEWEST, MEANS, NOISY, Figures, is_noisy, quartiles
from .runner import OUT
from .units import is_memory, number

HERE = os.path.dirname(OUT)
# A loss: what lies further than this above the best peer.
LOSS = 1.05

CSV_FIELDS = ["row", "workload", "kind", "allocator", "unit", "n", "value", "q1", "q3", "least",
              "counted", "noisy", "ratio_to_glibc", "ratio_to_best_peer", "ratio_to_best_peer_low",
              "ratio_to_best_peer_high"]


def print_list(found, chosen):
    for allocator in found:
        print(f"{allocator.name:17} {allocator.version:32} {allocator.path or '(no preload)'}")
    print("workloads:", " ".join(w.name for w in chosen))


def summarise(figures):
    """One record for each row and allocator, rows in the order in which they first appeared."""
    records = []
    for row in figures.rows.values():
        for name in figures.names:
            rounds = figures.rounds_of.get((row.name, name))
            if rounds is None:
                continue
            samples = list(rounds.values())
            low, high = quartiles(samples)
            to_glibc = figures.against(row.name, name, allocators.BASELINE)
            to_best = figures.against_best(row.name, name)
            records.append({
                "row": row.name, "workload": row.workload, "kind": row.kind, "allocator": name,
                "unit": row.unit, "n": len(samples), "value": figures.value[row.name, name],
                "q1": low, "q3": high, "least": min(samples), "counted": row.counted,
                "noisy": row.is_time and is_noisy(samples),
                "ratio_to_glibc": to_glibc and round(to_glibc.value, 4),
                "ratio_to_best_peer": to_best and round(to_best.value, 4),
                "ratio_to_best_peer_low": to_best and rounded(to_best.low),
                "ratio_to_best_peer_high": to_best and rounded(to_best.high),
            })
    return records


def rounded(value):
    return None if value is None else round(value, 4)


def markdown(figures, records, wanted):
    """A table of the records for which wanted(unit) holds; `~` marks a noisy cell, and the last
    columns are those of the first of our libraries."""
    names, focus = figures.names, figures.ours
    cells = {(r["row"], r["allocator"]): r for r in records if wanted(r["unit"])}
    rows = list(dict.fromkeys(row for row, _ in cells))
    if not rows:
        return ""
    title = ["row", "unit", *names]
    if focus:
        title += [f"{focus} / glibc", f"{focus} / best peer"]
    lines = ["| " + " | ".join(title) + " |", "|---|---|" + "--:|" * (len(title) - 2)]
    for row in rows:
        there = {n: cells[row, n] for n in names if (row, n) in cells}
        line = [row, next(iter(there.values()))["unit"]]
        for name in names:
            line.append(shown(there[name]) if name in there else "–")
        if focus:
            for key in ("ratio_to_glibc", "ratio_to_best_peer"):
                value = there[focus][key] if focus in there else None
                line.append(f"{value:.2f}" if value is not None else "–")
        lines.append("| " + " | ".join(line) + " |")
    return "\n".join(lines) + "\n"


def shown(record):
    return number(record["value"]) + ("~" if record["noisy"] else "")


def means_table(run, figures):
    """One line an allocator, in the order of their mean time."""
    found = figures.means()
    lines = ["| | version | " + " | ".join(MEANS) + " |", "|---|---|" + "--:|" * len(MEANS)]
    for name in sorted(found, key=lambda n: found[n]["time"] or math.inf):
        cells = [f"{v:.2f}" if (v := found[name][column]) else "–" for column in MEANS]
        version = run.config["allocators"][name].get("version", "")
        lines.append(f"| {name} | {version} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def by_workload(figures):
    """Each workload's mean time beside that of the peer that is best in it, the worst first."""
    lines, focus = [], figures.ours
    for workload, rows in figures.workload_rows("time").items() if focus else ():
        estimate = figures.mean_against_best(rows, focus)
        if estimate is None:
            continue
        best = figures.best_peer_of(rows)
        lines.append((estimate.value, f"| {workload} | {len(rows)} | {figures.mean(rows, focus):.2f} | "
                                      f"{figures.mean(rows, best):.2f} {best} | {estimate.value:.2f} | "
                                      f"{targets.between(estimate)} |\n"))
    title = (f"| workload | rows | {focus} (glibc = 1) | best peer | ratio | interval |\n"
             "|---|--:|--:|--:|--:|--:|\n")
    return title + "".join(line for _, line in sorted(lines, reverse=True)) if lines else ""


def losses(figures, records):
    """What the first of our libraries loses: rows above LOSS of the best peer, worst first."""
    focus = figures.ours
    mine = [r for r in records if r["allocator"] == focus and r["ratio_to_best_peer"]]
    if not mine:
        return ""
    lost = sorted((r for r in mine if r["ratio_to_best_peer"] > LOSS),
                  key=lambda r: -r["ratio_to_best_peer"])
    sure = sum((r["ratio_to_best_peer_low"] or 0) > LOSS for r in lost)
    cells = {(r["row"], r["allocator"]): r for r in records}
    lines = [f"{focus} is within {LOSS:.2f} of the best other allocator in {len(mine) - len(lost)} of "
             f"{len(mine)} rows, and beyond doubt above it in {sure}. Those above:\n",
             "| row | unit | " + focus + " | best other | ratio | interval |",
             "|---|---|--:|--:|--:|--:|"]
    for r in lost:
        best = figures.best_peer(r["row"])
        low, high = r["ratio_to_best_peer_low"], r["ratio_to_best_peer_high"]
        between = "?" if low is None else f"{number(low)}–{number(high)}"
        lines.append(f"| {r['row']} | {r['unit']} | {shown(r)} | {shown(cells[r['row'], best])} {best} | "
                     f"{r['ratio_to_best_peer']:.2f} | {between} |")
    return "\n".join(lines) + "\n"


def failures(run):
    """The errors of a run, each once, and what could not run at all."""
    found = dict.fromkeys(f"{s['allocator']}: {s['error']}" for s in run.samples if "error" in s)
    return list(found)


def opening(run, records):
    facts, built = run.config["machine"], run.config.get("built", {})
    counts = [r["n"] for r in records]
    share = run.disturbed_share()
    text = (f"Run of {started(run)}, commit {built.get('commit', 'unknown')}; library built by "
            f"{built.get('library', 'an unknown compiler')}, workloads by "
            f"{built.get('workloads', 'an unknown compiler')}. "
            f"{facts['cpu']}, {facts['cpus']} CPUs, Linux {facts['kernel']}, {facts['libc']}, "
            f"transparent huge pages: {facts['huge_pages']}. {min(counts, default=0)} to "
            f"{max(counts, default=0)} runs, of times the least, of memory the median; `~`: the least two "
            f"times more than {NOISY:.0%} apart, or fewer than {FEWEST} runs; best peer: the best of all but Mallow's own builds; "
            "interval: 95 %, by drawing the rounds anew (`?`: too few rounds).\n")
    if share > 0.05:
        text += (f"\nDuring {share:.0%} of the samples other programs used more than a quarter of a "
                 "CPU: differences of less than that prove nothing.\n")
    return text


def started(run):
    try:
        return datetime.datetime.strptime(run.config.get("started", ""), "%Y%m%d-%H%M%S").strftime(
            "%Y-%m-%d, %H:%M")
    except ValueError:
        return "an unknown date"


def whole_text(run, figures, records):
    text = (opening(run, records) +
            "\n### Geometric means over workloads, glibc = 1\n\n" + means_table(run, figures) +
            "\n### Chosen rows\n\nNanoseconds a call or a pair unless said; **bold**: the best beyond "
            "doubt.\n\n" + readme.table(run, figures, records) +
            "\n### Targets\n\n" + targets.table(figures) +
            "\n### Time by workload\n\n" + by_workload(figures) +
            "\n### What Mallow loses\n\n" + losses(figures, records) +
            "\n### Time\n\n" + markdown(figures, records, lambda unit: not is_memory(unit)) +
            "\n### Memory\n\n" + markdown(figures, records, is_memory))
    troubles = failures(run) + [f"left out: {reason}" for reason in run.left_out]
    if troubles:
        text += "\n### Failures\n\n" + "".join(f"- {line}\n" for line in troubles)
    return text


def put(folder, name, text):
    with open(os.path.join(folder, name), "w") as file:
        file.write(text)


def write(run, publish=False):
    figures = Figures(run)
    records = summarise(figures)
    means = figures.means()
    text = whole_text(run, figures, records)
    page_text = page.html(run, records, means, opening(run, records))
    put(run.folder, "results.json", json.dumps(
        {**run.config, "means": means, "results": records, "failures": failures(run),
         "left_out": run.left_out, "disturbed": run.disturbed_share()}, indent=1))
    with open(os.path.join(run.folder, "results.csv"), "w", newline="") as file:
        table = csv.DictWriter(file, CSV_FIELDS)
        table.writeheader()
        table.writerows(records)
    put(run.folder, "results.md", text)
    put(run.folder, "report.html", page_text)
    picture = chart.svg(run, figures)
    if picture:
        put(run.folder, "chart.svg", picture)
    if publish:
        put(HERE, "RESULTS.md", published(run, figures, text))
        put(HERE, "report.html", page_text)
        readme.publish(run, figures, os.path.dirname(HERE))
        if picture:
            put(HERE, "chart.svg", picture)
    print(text)
    print(f"Samples, results.csv, results.json, report.html and this table: "
          f"{os.path.relpath(run.folder)}")
    # A peer that fails is a result, and stands in the report; Mallow must not.
    return 1 if any(name.split(":")[0] in allocators.OURS for name in failures(run)) else 0


def published(run, figures, text):
    """RESULTS.md: the tables, and the instruction counts where bench/instructions has left them."""
    counts = targets.counted(figures.library)
    commands = " and ".join(f"`{command}`" for command in run.config.get("commands", ["bench/run"]))
    text = (f"# Results\n\nMeasured by {commands}; what the rows mean and how far to trust them is said in "
            "README.md.\n\n" + text)
    return text + ("\n### Instructions\n\n" + counts if counts else "")
