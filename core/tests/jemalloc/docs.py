#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that docs/jemalloc.md has a true row for each name.

  docs.py

Every name of ctl.def and stats_json.def and every option of conf.def is in exactly one row; an option has an effect in
the document if it has a target in the source, an option or KEPT; what is "refused" is in neither table; every row names a
test.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
STATUSES = {"full", "accepted without effect", "refused"}


def rows_of(section):
    """(names, status, tests) of each row of the section's table."""
    text = (ROOT / "docs/jemalloc.md").read_text()
    body = text.split(f"\n## {section}\n")[1].split("\n## ")[0]
    for line in body.splitlines():
        if line.startswith("| `"):
            names, status, _, tests = (cell.strip() for cell in line.strip("|").split("|"))
            yield re.findall(r"`([^`]+)`", names), status, tests


def check_section(section, known, problems):
    """`known`: name -> the status that it must have, or None."""
    seen = set()
    for names, status, tests in rows_of(section):
        if status not in STATUSES:
            problems.append(f"{names[0]}: '{status}' is no status")
        if not tests:
            problems.append(f"{names[0]}: no test")
        for name in names:
            if name in seen:
                problems.append(f"{name}: twice")
            seen.add(name)
            if (name in known) == (status == "refused"):
                problems.append(f"{name}: '{status}', but the source says otherwise")
            if known.get(name) not in (None, status):
                problems.append(f"{name}: '{status}' and not '{known[name]}'")
    problems += [f"{name}: no row" for name in sorted(set(known) - seen)]


# Where the lines of a level of stats_json.def stand among the names.
PLACES = {"TOTAL": "", "WORKER": "background_thread.", "ARENA": "arenas.<i>.",
          "SMALL": "arenas.<i>.small.", "LARGE": "arenas.<i>.large.", "BIN": "arenas.<i>.bins.<j>.",
          "LEXTENT": "arenas.<i>.lextents.<j>.", "EXTENT": "arenas.<i>.extents.<j>."}


def figure_names(source):
    for level, name in re.findall(r"^([A-Z]+)(?:_HIDDEN)?\((\w+), ",
                                  (source / "insight/stats_json.def").read_text(), re.M):
        yield f"stats.{PLACES[level]}{name}"


def main():
    source = ROOT / "core/src"
    names = re.findall(r'^CTL\(.*"([^"]+)"\)$', (source / "insight/ctl.def").read_text(), re.M)
    names += figure_names(source)
    options = {}
    for name, rest in re.findall(r"^CONF_\w+\((\w+)(.*)\)$",
                                 (source / "settings/conf.def").read_text(), re.M):
        has_effect = "OPTION_" in rest or "KEPT" in rest
        options[name] = "full" if has_effect else "accepted without effect"
    problems = []
    check_section("Names of mallctl", dict.fromkeys(names + ["opt.<option>"]), problems)
    check_section("Settings", options, problems)
    for problem in problems:
        print(problem)
    print(f"{len(names)} names, {len(options)} options, {len(problems)} problems")
    return 1 if problems or len(names) < 120 or len(options) < 80 else 0


if __name__ == "__main__":
    sys.exit(main())
