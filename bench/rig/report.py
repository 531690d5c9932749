# SPDX-License-Identifier: MIT
"""Turns the samples of a run into a summary: results.json, results.csv, and Markdown tables."""

import csv
import json
import math
import os
import statistics

from . import allocators, page, readme, targets
from .runner import FEWEST, NOISY, OUT, quartiles, spread
from .units import is_memory, number

HERE = os.path.dirname(OUT)

CSV_FIELDS = ["row", "kind", "allocator", "unit", "n", "median", "q1", "q3", "best", "counted",
              "noisy", "ratio_to_glibc", "ratio_to_best_peer"]


def print_list(found, chosen):
    for allocator in found:
        print(f"{allocator.name:17} {allocator.version:32} {allocator.path or '(no preload)'}")
    print("workloads:", " ".join(w.name for w in chosen))


def counted_in_means(run, row):
    """CPU time repeats what the wall clock says; address space costs nothing by itself."""
    return not row.endswith(("/cpu", "/vsz")) and row.split("/")[0] not in run.uncounted()


def summarise(run):
    """One record for each row and allocator, rows in the order in which they first appeared."""
    values, units, kinds = {}, {}, {}
    programs = run.program_names()
    for sample in run.samples:
        for row, (value, unit) in sample.get("rows", {}).items():
            values.setdefault(row, {}).setdefault(sample["allocator"], []).append(value)
            units[row] = unit
            kinds[row] = "program" if sample["workload"] in programs else "workload"
    ours = {name for name, a in run.config["allocators"].items() if a["ours"]}
    records = []
    for row, cells in values.items():
        medians = {name: statistics.median(v) for name, v in cells.items()}
        best_peer = min((m for n, m in medians.items() if n not in ours), default=None)
        for name, samples in cells.items():
            low, high = quartiles(samples)
            records.append({
                "row": row, "kind": kinds[row], "allocator": name, "unit": units[row],
                "n": len(samples), "median": medians[name], "q1": low, "q3": high,
                "best": min(samples), "counted": counted_in_means(run, row),
                "noisy": (not is_memory(units[row])
                          and (spread(samples) > NOISY or len(samples) < FEWEST)),
                "ratio_to_glibc": ratio(medians[name], medians.get(allocators.BASELINE), units[row]),
                "ratio_to_best_peer": ratio(medians[name], best_peer, units[row]),
            })
    return records


# Column of the summary, and which records it is the geometric mean of.
MEANS = {
    "time": lambda r: not is_memory(r["unit"]),
    "time, workloads": lambda r: not is_memory(r["unit"]) and r["kind"] == "workload",
    "time, programs": lambda r: not is_memory(r["unit"]) and r["kind"] == "program",
    "CPU, programs": lambda r: r["row"].endswith("/cpu") and r["kind"] == "program",
    "peak RSS": lambda r: r["row"].endswith("/peak-rss"),
    "average RSS": lambda r: r["row"].endswith("/average-rss"),
    "all memory": lambda r: is_memory(r["unit"]),
}


def means(records):
    """{allocator: {column: geometric mean to glibc, None without such rows}}. An allocator without a
    column's rows in most cases (musl's with programs) has no mean there."""
    found = {}
    for column, wanted in MEANS.items():
        chosen = [r for r in records if r["ratio_to_glibc"] and wanted(r)
                  and (r["counted"] or column.startswith("CPU"))]
        rows = len({r["row"] for r in chosen})
        for name in dict.fromkeys(r["allocator"] for r in records):
            ratios = [r["ratio_to_glibc"] for r in chosen if r["allocator"] == name]
            whole = len(ratios) > 0.8 * rows
            found.setdefault(name, {})[column] = geometric_mean(ratios) if whole else None
    return found


def ratio(value, base, unit):
    """None where there is nothing to divide by. Growths of memory below 1 MiB are all alike: whether
    a few pages were there before is chance."""
    if base is None:
        return None
    if unit == "MiB":
        value, base = max(value, 1.0), max(base, 1.0)
    return round(value / base, 4) if base > 0 and value > 0 else None


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
            line.append(number(cell["median"]) + ("~" if cell["noisy"] else "") if cell else "–")
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
        there = [cells[row, name] for row in rows if (row, name) in cells]
        mean = geometric_mean([r["ratio_to_glibc"] for r in there
                               if r["ratio_to_glibc"] and r["counted"]])
        line.append(f"{mean:.2f}" if mean else "–")
    return line + (["", ""] if focus else [])


def means_table(run, records):
    """One line an allocator, in the order of their mean time."""
    found = means(records)
    lines = ["| | version | " + " | ".join(MEANS) + " |", "|---|---|" + "--:|" * len(MEANS)]
    for name in sorted(found, key=lambda n: found[n]["time"] or math.inf):
        cells = [f"{v:.2f}" if (v := found[name][column]) else "–" for column in MEANS]
        version = run.config["allocators"][name].get("version", "")
        lines.append(f"| {name} | {version} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def losses(run, records, limit=1.05):
    """What the first of our libraries loses: rows above `limit` of the best peer, worst first."""
    focus = next((n for n, a in run.config["allocators"].items() if a["ours"]), None)
    mine = [r for r in records if r["allocator"] == focus and r["ratio_to_best_peer"]]
    lost = sorted((r for r in mine if r["ratio_to_best_peer"] > limit),
                  key=lambda r: -r["ratio_to_best_peer"])
    if not mine:
        return ""
    lines = [f"{focus} is within {limit:.2f} of the best other allocator in {len(mine) - len(lost)} of "
             f"{len(mine)} rows. The others:\n", "| row | unit | " + focus + " | best other | ratio |",
             "|---|---|--:|--:|--:|"]
    for r in lost:
        others = [o for o in records if o["row"] == r["row"]
                  and not run.config["allocators"][o["allocator"]]["ours"]]
        best = min(others, key=lambda o: o["median"])
        lines.append(f"| {r['row']} | {r['unit']} | {number(r['median'])}{'~' if r['noisy'] else ''} | "
                     f"{number(best['median'])}{'~' if best['noisy'] else ''} {best['allocator']} | "
                     f"{r['ratio_to_best_peer']:.2f} |")
    return "\n".join(lines) + "\n"


def failures(run):
    """The errors of a run, each once, and what could not run at all."""
    found = dict.fromkeys(f"{s['allocator']}: {s['error']}" for s in run.samples if "error" in s)
    return list(found)


def opening(run, records):
    facts = run.config["machine"]
    counts = [r["n"] for r in records]
    share = run.disturbed_share()
    text = (f"{facts['cpu']}, {facts['cpus']} CPUs, Linux {facts['kernel']}, {facts['libc']}, "
            f"transparent huge pages: {facts['huge_pages']}. Medians of {min(counts, default=0)} to "
            f"{max(counts, default=0)} runs; `~`: quartiles more than {NOISY:.0%} of the median "
            f"apart, or fewer than {FEWEST} runs; best peer: the best of all but Mallow's own builds.\n")
    if share > 0.05:
        text += (f"\nDuring {share:.0%} of the samples other programs used more than a quarter of a "
                 "CPU: differences of less than that prove nothing.\n")
    return text


def whole_text(run, records):
    text = (opening(run, records) +
            "\n### Geometric means, glibc = 1\n\n" + means_table(run, records) +
            "\n### Targets\n\n" + targets.table(run, records, means(records)) +
            "\n### What Mallow loses\n\n" + losses(run, records) +
            "\n### Time\n\n" + markdown(run, records, lambda row, unit: not is_memory(unit)) +
            "\n### Memory\n\n" + markdown(run, records, lambda row, unit: is_memory(unit)))
    troubles = failures(run) + [f"left out: {reason}" for reason in run.left_out]
    if troubles:
        text += "\n### Failures\n\n" + "".join(f"- {line}\n" for line in troubles)
    return text


def put(folder, name, text):
    with open(os.path.join(folder, name), "w") as file:
        file.write(text)


def write(run, publish=False):
    records = summarise(run)
    text = whole_text(run, records)
    page_text = page.html(run, records, means(records), opening(run, records))
    put(run.folder, "results.json", json.dumps(
        {**run.config, "means": means(records), "results": records, "failures": failures(run),
         "left_out": run.left_out, "disturbed": run.disturbed_share()}, indent=1))
    with open(os.path.join(run.folder, "results.csv"), "w", newline="") as file:
        table = csv.DictWriter(file, CSV_FIELDS)
        table.writeheader()
        table.writerows(records)
    put(run.folder, "results.md", text)
    put(run.folder, "report.html", page_text)
    if publish:
        put(HERE, "RESULTS.md", published(run, text))
        put(HERE, "report.html", page_text)
        readme.publish(run, records, means(records), os.path.dirname(HERE))
    print(text)
    print(f"Samples, results.csv, results.json, report.html and this table: "
          f"{os.path.relpath(run.folder)}")
    # A peer that fails is a result, and stands in the report; Mallow must not.
    return 1 if any(name.split(":")[0] in allocators.OURS for name in failures(run)) else 0


def published(run, text):
    """RESULTS.md: the tables, and the instruction counts where bench/instructions has left them."""
    counts = os.path.join(OUT, "instructions.md")
    commands = " and ".join(f"`{command}`" for command in run.config.get("commands", ["bench/run"]))
    text = (f"# Results\n\nMeasured by {commands}; what the rows mean and how far to trust them is said in "
            "README.md.\n\n" + text)
    if os.path.exists(counts):
        with open(counts) as file:
            text += "\n### Instructions\n\n" + file.read()
    return text
