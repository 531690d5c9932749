# SPDX-License-Identifier: MIT
"""The picture of a run for README.md: for each allocator its mean time and mean peak memory, glibc = 1,
as bars with intervals. An SVG without script that follows the reader's choice of light or dark."""

from .allocators import BASELINE

# What a panel says, and the column of figures.MEANS that it shows.
PANELS = {"time": "time", "peak memory": "peak RSS"}

LABEL_WIDTH, PANEL_WIDTH, GAP, ROW_HEIGHT, TOP, BAR_HEIGHT = 130, 250, 70, 22, 46, 14
LONGEST = 2.0  # bars that are longer show a gap, and say their value

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600 }
.bar { fill: #9aa5b1 }
.ours { fill: #0a7d4f }
.value { stroke: #fff; stroke-width: 3; paint-order: stroke }
.cut { stroke: #fff; stroke-width: 3 }
.interval { stroke: #1f2328; stroke-width: 1.5 }
.one { stroke: #59636e; stroke-dasharray: 3 3 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .bar { fill: #6b7683 }
  .ours { fill: #3fb984 }
  .value, .cut { stroke: #0d1117 }
  .interval { stroke: #e6edf3 }
  .one { stroke: #9198a1 }
}
"""


def across(value):
    """How far from its panel's left edge a value lies, in pixels."""
    return min(value, LONGEST) / LONGEST * PANEL_WIDTH


def bar(estimate, name_class, x, y):
    middle = y + BAR_HEIGHT / 2
    parts = [f'<rect class="{name_class}" x="{x}" y="{y}" width="{across(estimate.value):.1f}" '
             f'height="{BAR_HEIGHT}" rx="2"/>']
    end = across(estimate.value)
    if estimate.low is not None and estimate.value <= LONGEST:
        low, high = across(estimate.low), across(estimate.high)
        parts.append(f'<path class="interval" d="M{x + low:.1f} {middle}H{x + high:.1f}"/>')
        end = max(end, high)
    if estimate.value > LONGEST:
        parts.append(f'<path class="cut" d="M{x + end - 18:.1f} {y + BAR_HEIGHT + 1}l6 -{BAR_HEIGHT + 2}"/>')
    parts.append(f'<text class="value" x="{x + end + 6:.1f}" y="{y + 12}">{estimate.value:.2f}</text>')
    return parts


def svg(run, figures):
    """The picture; None if no allocator has all means."""
    found = {name: [figures.mean_estimate(figures.columns[column], name) for column in PANELS.values()]
             for name in figures.names}
    found = {name: estimates for name, estimates in found.items() if None not in estimates}
    if not found:
        return None
    names = sorted(found, key=lambda name: found[name][0].value)
    left = [LABEL_WIDTH + number * (PANEL_WIDTH + GAP) for number in range(len(PANELS))]
    width, height = left[-1] + PANEL_WIDTH + GAP, TOP + ROW_HEIGHT * len(names) + 8
    said = "; ".join(f"{name} {' and '.join(f'{e.value:.2f}' for e in found[name])}" for name in names)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
             f'aria-label="{" and ".join(PANELS)} to {BASELINE}: {said}"><style>{STYLE}</style>']
    for x, title in zip(left, PANELS):
        one = x + across(1)
        parts.append(f'<text class="title" x="{x}" y="18">{title}, {BASELINE} = 1, less is better</text>'
                     f'<path class="one" d="M{one} {TOP - 12}V{height - 6}"/>')
    for number, name in enumerate(names):
        y = TOP + ROW_HEIGHT * number
        name_class = "ours" if run.config["allocators"][name]["ours"] else "bar"
        parts.append(f'<text x="0" y="{y + 12}">{name}</text>')
        for x, estimate in zip(left, found[name]):
            parts += bar(estimate, name_class, x, y)
    return "\n".join(parts) + "\n</svg>\n"
