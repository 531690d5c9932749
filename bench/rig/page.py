# SPDX-License-Identifier: MIT
"""The results as one HTML page without anything from outside: means, a scatter of time against
memory, and a heat map of the ratios to the best allocator of each row."""

import html as text
import math

from .units import is_memory

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 1500px; padding: 0 1em;
       color: #222; background: #fff }
h1 { font-size: 1.6em } h2 { font-size: 1.2em; margin-top: 2em }
table { border-collapse: collapse; font-size: 12.5px; font-variant-numeric: tabular-nums }
th, td { padding: 2px 7px; text-align: right; white-space: nowrap }
th { font-weight: 600 } td:first-child, th:first-child, .left { text-align: left }
thead th { position: sticky; top: 0; background: #fff; vertical-align: bottom }
thead th.name { writing-mode: vertical-rl; transform: rotate(180deg); text-align: left; height: 9em }
.scroll { overflow-x: auto } .ours { color: #05c } .noisy { opacity: .55 }
.legend span { padding: 2px 9px; margin-right: 3px; font-size: 12px }
svg text { font: 12px system-ui, sans-serif } p { max-width: 60em }
"""
# Ratio to the best of the row up to which a cell has this background.
COLOURS = [(1.05, "#b7e1b0"), (1.25, "#e3f2c9"), (1.6, "#fdf3c0"), (2.5, "#fcd7a6"), (5, "#f6b09a"),
           (math.inf, "#e88a8a")]


def html(run, records, means, opening):
    names = [n for n in run.config["allocators"] if any(r["allocator"] == n for r in records)]
    ours = {n for n in names if run.config["allocators"][n]["ours"]}
    time = [r for r in records if not is_memory(r["unit"])]
    memory = [r for r in records if is_memory(r["unit"])]
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>Mallow: benchmarks</title>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<style>{STYLE}</style><h1>Mallow beside other allocators</h1>",
        f"<p>{text.escape(opening.replace('`', ''))}</p>",
        "<h2>Geometric means over workloads (glibc = 1, smaller is better)</h2>",
        means_table(run, means, ours),
        "<h2>Time against memory</h2>",
        "<p>Each point is an allocator: the geometric mean of its times and of its peaks of resident "
        "memory. Down and to the left is better.</p>", scatter(means, ours),
        "<h2>Time: ratio to the best of each row</h2>", legend(), heat_map(time, names, ours),
        "<h2>Memory: ratio to the best of each row</h2>", legend(), heat_map(memory, names, ours),
    ]
    return "\n".join(parts) + "\n</html>\n"


def means_table(run, means, ours):
    columns = list(next(iter(means.values()), {}))
    head = "".join(f"<th>{text.escape(column)}</th>" for column in columns)
    lines = ["<div class='scroll'><table><thead><tr><th>allocator</th><th class='left'>version</th>"
             f"{head}</tr></thead>"]
    for name in sorted(means, key=lambda n: means[n]["time"] or math.inf):
        cells = "".join(f"<td>{value:.2f}</td>" if (value := means[name][c]) else "<td>–</td>"
                        for c in columns)
        version = text.escape(run.config["allocators"][name].get("version", ""))
        lines.append(f"<tr><td{mark(name, ours)}>{name}</td><td class='left'>{version}</td>{cells}</tr>")
    return "\n".join(lines) + "</table></div>"


def mark(name, ours):
    return " class='ours'" if name in ours else ""


def legend():
    parts, low = [], "best"
    for limit, colour in COLOURS:
        label = f"{low} to {limit:g}" if limit < math.inf else f"above {low}"
        parts.append(f"<span style='background:{colour}'>{label}</span>")
        low = f"{limit:g}"
    return "<p class='legend'>" + "".join(parts) + " pale: noisy</p>"


def colour_of(ratio):
    return next(colour for limit, colour in COLOURS if ratio <= limit)


def heat_map(records, names, ours):
    cells = {(r["row"], r["allocator"]): r for r in records}
    head = "".join(f"<th class='name{' ours' if n in ours else ''}'>{n}</th>" for n in names)
    lines = [f"<div class='scroll'><table><thead><tr><th>row</th><th>best</th>{head}</tr></thead>"]
    for row in dict.fromkeys(r["row"] for r in records):
        there = [cells[row, n] for n in names if (row, n) in cells]
        best = min(r["value"] for r in there)
        unit = there[0]["unit"]
        tds = "".join(heat_cell(cells.get((row, n)), best) for n in names)
        lines.append(f"<tr><td>{row}</td><td>{best:.3g} {unit}</td>{tds}</tr>")
    return "\n".join(lines) + "</table></div>"


def heat_cell(record, best):
    if record is None:
        return "<td>–</td>"
    hint = (f"{record['allocator']}, {record['row']}: {record['value']:.4g} {record['unit']}, "
            f"quartiles {record['q1']:.4g} to {record['q3']:.4g}, {record['n']} runs")
    faint = " class='noisy'" if record["noisy"] else ""
    if best <= 0:
        return f"<td{faint} title='{hint}'>{record['value']:.2g}</td>"
    ratio = record["value"] / best
    shown = f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"
    return f"<td{faint} style='background:{colour_of(ratio)}' title='{hint}'>{shown}</td>"


class Axis:
    """A logarithmic axis over the values, with ticks at round numbers."""

    TICKS = [0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 7, 10, 15, 20]

    def __init__(self, values, start, end):
        self.low, self.high = min(values) / 1.12, max(values) * 1.12
        self.start, self.end = start, end

    def at(self, value):
        part = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + part * (self.end - self.start)

    def ticks(self):
        return [t for t in self.TICKS if self.low < t < self.high]


def scatter(means, ours):
    points = {n: (m["time"], m["peak RSS"]) for n, m in means.items() if m["time"] and m["peak RSS"]}
    if len(points) < 2:
        return "<p>Too few allocators for a picture.</p>"
    width, height, left, bottom = 900, 520, 60, 45
    x = Axis([p[0] for p in points.values()], left, width - 110)
    y = Axis([p[1] for p in points.values()], height - bottom, 10)
    parts = [f"<svg viewBox='0 0 {width} {height}' width='{width}' role='img' "
             "aria-label='time against memory'>"]
    for t in x.ticks():
        parts.append(f"<line x1='{x.at(t):.1f}' x2='{x.at(t):.1f}' y1='10' y2='{height - bottom}' "
                     f"stroke='#e4e4e4'/><text x='{x.at(t):.1f}' y='{height - bottom + 18}' "
                     f"text-anchor='middle'>{t:g}</text>")
    for t in y.ticks():
        parts.append(f"<line y1='{y.at(t):.1f}' y2='{y.at(t):.1f}' x1='{left}' x2='{width - 110}' "
                     f"stroke='#e4e4e4'/><text y='{y.at(t) + 4:.1f}' x='{left - 8}' "
                     f"text-anchor='end'>{t:g}</text>")
    parts.append(f"<text x='{width / 2}' y='{height - 6}' text-anchor='middle'>time (glibc = 1)</text>"
                 f"<text transform='translate(14,{height / 2}) rotate(-90)' text-anchor='middle'>"
                 "peak resident memory (glibc = 1)</text>")
    parts += [point(name, x.at(a), y.at(b), shift, ours)
              for name, (a, b), shift in spread_labels(points, x, y)]
    return "\n".join(parts) + "</svg>"


def spread_labels(points, x, y):
    """Labels from top to bottom, each moved below what it would lie upon: other points, and the
    labels before it."""
    taken = [(n, x.at(px) - 6, x.at(px) + 6, y.at(py)) for n, (px, py) in points.items()]
    for name, place in sorted(points.items(), key=lambda item: y.at(item[1][1])):
        left, wanted = x.at(place[0]), y.at(place[1])
        right, shown = left + label_width(name), wanted
        for owner, other_left, other_right, other_y in sorted(taken, key=lambda t: t[3]):
            if owner != name and left < other_right and other_left < right and abs(shown - other_y) < 13:
                shown = other_y + 13
        taken.append(("", left, right, shown))
        yield name, place, shown - wanted


def label_width(name):
    return 16 + 7 * len(name)


def point(name, px, py, shift, ours):
    colour = "#0055cc" if name in ours else "#777"
    line = (f"<line x1='{px:.1f}' y1='{py:.1f}' x2='{px + 11:.1f}' y2='{py + shift:.1f}' "
            "stroke='#bbb'/>" if shift > 2 else "")
    return (f"{line}<circle cx='{px:.1f}' cy='{py:.1f}' r='5' fill='{colour}'/>"
            f"<text x='{px + 12:.1f}' y='{py + shift + 4:.1f}' fill='{colour}'>{name}</text>")
