# SPDX-License-Identifier: MIT
"""Figures over the number of threads or clients, as a picture with a line for each allocator (an SVG without
script that follows the reader's choice of light or dark); and what `mallow compare --matrix CLIENTS=...` measured
of a database, as such a picture and as a table."""

import math
import os
import re
from xml.sax.saxutils import escape

MIB = 1 << 20
PANEL_WIDTH, PANEL_HEIGHT, GAP, LEFT, TOP, COLUMNS = 300, 170, 80, 60, 40, 2
LEGEND_COLUMNS, LEGEND_WIDTH = 5, 130
COLOURS = ["#8c959f", "#0a7d4f", "#b35900", "#0969da", "#8250df", "#cf222e", "#c9a100", "#56b4e9",
           "#e377c2", "#8c564b", "#7fbf00"]
MARKS_MOST = 6

STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600; font-size: 13px }
.grid { stroke: #d0d7de }
path { fill: none; stroke-width: 1.8 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .grid { stroke: #3d444d }
}
"""


def panels(result):
    """Title -> allocator -> clients -> value; what nothing was measured of is left out."""
    found = {}

    def add(title, allocator, clients, metric, scale=1.0):
        if metric:
            found.setdefault(title, {}).setdefault(allocator, {})[clients] = metric["median"] / scale

    for condition in result["conditions"]:
        clients = int(condition["environment"]["CLIENTS"])
        for entry in condition["entries"]:
            name = entry["allocator"]
            for value in entry.get("values", []):
                add(value["name"], name, clients, value["metric"])
            cpu = entry["user_s"] and {"median": entry["user_s"]["median"] + entry["system_s"]["median"]}
            add("CPU of the server, s", name, clients, cpu)
            add("peak RSS, MiB", name, clients, entry["peak_rss"], MIB)
            add("average RSS, MiB", name, clients, entry["average_rss"], MIB)
    return found


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def versus(entry, key):
    known = entry.get(key)
    if entry["is_baseline"]:
        return "–"
    if not known:
        return "?"
    word = {"less": "less", "more": "more", "no_difference": "same", "inconclusive": "~"}[known["verdict"]]
    return f"{known['ratio']:.2f} {word}"


def table(result):
    """Markdown: medians, and the verdicts of `compare` (ratio to the first allocator; ~ is inconclusive)."""
    titles = panels(result)
    head = ["clients", "allocator", *titles, "time", "CPU", "memory"]
    rows = [head, ["--:", "---"] + ["--:"] * len(titles) + ["---"] * 3]
    for condition in result["conditions"]:
        clients = int(condition["environment"]["CLIENTS"])
        for entry in condition["entries"]:
            name = entry["allocator"]
            values = [titles[title].get(name, {}).get(clients) for title in titles]
            rows.append([str(clients), name, *("–" if value is None else number(value) for value in values),
                         *(versus(entry, key) for key in ("time", "cpu", "memory"))])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def linear(values):
    """The marks of an axis from 0 to the greatest value, and how high on it a value lies (0 to 1)."""
    highest = max(values) or 1.0
    return [0, highest / 2, highest], lambda value: value / highest


def logarithmic(values):
    """The same from the least value to the greatest, with marks at 1, 2 and 5 times powers of ten, or at these alone."""
    low, high = math.log(min(values)), math.log(max(values) * 1.01)
    decades = range(math.floor(low / math.log(10)), math.ceil(high / math.log(10)) + 1)
    for steps in ((1, 2, 5), (1,)):
        marks = [step * 10.0 ** decade for decade in decades for step in steps
                 if low <= math.log(step * 10.0 ** decade) <= high]
        if len(marks) <= MARKS_MOST:
            break
    return marks, lambda value: (math.log(value) - low) / (high - low)


def panel(title, by_allocator, names, axis, left, top):
    counts = sorted({count for values in by_allocator.values() for count in values})
    marks, place = axis([value for values in by_allocator.values() for value in values.values()])

    def x(count):
        return left + (counts.index(count) / max(len(counts) - 1, 1)) * PANEL_WIDTH

    def y(value):
        return top + PANEL_HEIGHT - place(value) * PANEL_HEIGHT

    parts = [f'<text class="title" x="{left}" y="{top - 12}">{escape(title)}</text>']
    for mark in marks:
        at = y(mark)
        parts.append(f'<line class="grid" x1="{left}" x2="{left + PANEL_WIDTH}" y1="{at:.1f}" y2="{at:.1f}"/>'
                     f'<text x="{left - 6}" y="{at + 4:.1f}" text-anchor="end">{number(mark)}</text>')
    for count in counts:
        parts.append(f'<text x="{x(count):.1f}" y="{top + PANEL_HEIGHT + 18}" text-anchor="middle">{count}</text>')
    for name, values in by_allocator.items():
        points = " L".join(f"{x(count):.1f} {y(value):.1f}" for count, value in sorted(values.items()))
        parts.append(f'<path stroke="{colour(names, name)}" d="M{points}"><title>{name}</title></path>')
    return parts


def colour(names, name):
    return COLOURS[names.index(name) % len(COLOURS)]


def picture(found, names, over, axis=linear):
    """An SVG of panels (title -> allocator -> count -> value); `over` says what is counted."""
    rows = (len(found) + COLUMNS - 1) // COLUMNS
    legend_rows = (len(names) + LEGEND_COLUMNS - 1) // LEGEND_COLUMNS
    first = 10 + 20 * legend_rows
    width = LEFT + COLUMNS * (PANEL_WIDTH + GAP)
    height = first + rows * (PANEL_HEIGHT + TOP + 34)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
             f'aria-label="{escape(", ".join(found))} over the number of {over}, by allocator"><style>{STYLE}</style>']
    for place, name in enumerate(names):
        left, top = LEFT + place % LEGEND_COLUMNS * LEGEND_WIDTH, 12 + place // LEGEND_COLUMNS * 20
        parts.append(f'<path stroke="{colour(names, name)}" d="M{left} {top}h22"/>'
                     f'<text x="{left + 28}" y="{top + 4}">{name}</text>')
    for place, (title, values) in enumerate(found.items()):
        left = LEFT + place % COLUMNS * (PANEL_WIDTH + GAP)
        top = first + TOP + place // COLUMNS * (PANEL_HEIGHT + TOP + 34)
        parts += panel(title, values, names, axis, left, top)
    return "\n".join(parts) + "\n</svg>\n"


def svg(result):
    names = [entry["allocator"] for entry in result["conditions"][0]["entries"]]
    return picture(panels(result), names, "clients")


def put_between(path, mark, said):
    """Puts `said` between the two marks of a page."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    marks = re.compile(f"(<!-- {mark} -->\n).*?(<!-- until here -->)", re.DOTALL)
    text, count = marks.subn(lambda found: f"{found[1]}{said}\n{found[2]}", text)
    assert count == 1, f"{path} has no marks for {mark}"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def publish(result, name, docs):
    """Writes the picture, and puts the table between the two marks of docs/database.md."""
    with open(os.path.join(docs, f"database-{name}.svg"), "w", encoding="utf-8") as file:
        file.write(svg(result))
    machine = result["machine"]
    said = (f"{machine['cpu']}, {machine['usable_cpus']} CPUs, Linux {machine['kernel']}; medians of up to "
            f"{result['settings']['rounds_made']} runs.")
    put_between(os.path.join(docs, "database.md"), name, f"{said}\n\n{table(result)}")
