# SPDX-License-Identifier: MIT
"""What `mallow compare --matrix CLIENTS=...` measured of a database, as a table and as a picture with a line
for each allocator: an SVG without script that follows the reader's choice of light or dark."""

import os
import re

MIB = 1 << 20
PANEL_WIDTH, PANEL_HEIGHT, GAP, LEFT, TOP, COLUMNS = 300, 170, 70, 50, 40, 2
COLOURS = ["#6e7781", "#0a7d4f", "#b35900", "#0969da", "#8250df", "#cf222e", "#9a6700"]

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


def panel(title, by_allocator, names, left, top):
    clients = sorted({count for values in by_allocator.values() for count in values})
    highest = max(value for values in by_allocator.values() for value in values.values()) or 1.0

    def x(count):
        return left + (clients.index(count) / max(len(clients) - 1, 1)) * PANEL_WIDTH

    def y(value):
        return top + PANEL_HEIGHT - value / highest * PANEL_HEIGHT

    parts = [f'<text class="title" x="{left}" y="{top - 12}">{title}</text>']
    for part in (0, 0.5, 1):
        at = y(part * highest)
        parts.append(f'<line class="grid" x1="{left}" x2="{left + PANEL_WIDTH}" y1="{at:.1f}" y2="{at:.1f}"/>'
                     f'<text x="{left - 6}" y="{at + 4:.1f}" text-anchor="end">{number(part * highest)}</text>')
    for count in clients:
        parts.append(f'<text x="{x(count):.1f}" y="{top + PANEL_HEIGHT + 18}" text-anchor="middle">{count}</text>')
    for name, values in by_allocator.items():
        points = " L".join(f"{x(count):.1f} {y(value):.1f}" for count, value in sorted(values.items()))
        parts.append(f'<path stroke="{colour(names, name)}" d="M{points}"><title>{name}</title></path>')
    return parts


def colour(names, name):
    return COLOURS[names.index(name) % len(COLOURS)]


def svg(result):
    found = panels(result)
    names = [entry["allocator"] for entry in result["conditions"][0]["entries"]]
    rows = (len(found) + COLUMNS - 1) // COLUMNS
    width = LEFT + COLUMNS * (PANEL_WIDTH + GAP)
    height = 30 + rows * (PANEL_HEIGHT + TOP + 34)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
             f'aria-label="{", ".join(found)} over the number of clients, by allocator"><style>{STYLE}</style>']
    for number_, name in enumerate(names):
        at = LEFT + number_ * 110
        parts.append(f'<path stroke="{colour(names, name)}" d="M{at} 12h22"/><text x="{at + 28}" y="16">{name}</text>')
    for place, (title, values) in enumerate(found.items()):
        left = LEFT + place % COLUMNS * (PANEL_WIDTH + GAP)
        top = 30 + TOP + place // COLUMNS * (PANEL_HEIGHT + TOP + 34)
        parts += panel(title, values, names, left, top)
    return "\n".join(parts) + "\n</svg>\n"


def publish(result, name, docs):
    """Writes the picture, and puts the table between the two marks of docs/database.md."""
    with open(os.path.join(docs, f"database-{name}.svg"), "w", encoding="utf-8") as file:
        file.write(svg(result))
    path = os.path.join(docs, "database.md")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    machine = result["machine"]
    said = (f"{machine['cpu']}, {machine['usable_cpus']} CPUs, Linux {machine['kernel']}; medians of up to "
            f"{result['settings']['rounds_made']} runs.")
    mark = re.compile(f"(<!-- {name} -->\n).*?(<!-- until here -->)", re.DOTALL)
    text, count = mark.subn(lambda found: f"{found[1]}{said}\n\n{table(result)}\n{found[2]}", text)
    assert count == 1, f"{path} has no marks for {name}"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
