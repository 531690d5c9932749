#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that docs/jemalloc.md has a true row for each name.

  docs.py

Every name of names.txt, which has those of jemalloc, is in a row of its table. Every name of ctl.def and stats_json.def and every option of conf.def is in exactly one row; an option has an effect in
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


def check_symbols(problems):
    for names, status, tests in rows_of("Functions and symbols"):
        if status not in STATUSES or not tests:
            problems.append(f"{names[0]}: '{status}', test '{tests}'")


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


# The kinds of names.txt, and their tables.
TABLES = {"symbol": "Functions and symbols", "option": "Settings", "name": "Names of mallctl"}


def row_matches(row, name):
    """<i> of a row stands for one part of a name; <name> at its end, if it is the only one, for all that follow."""
    pieces = re.split(r"(<[^>]+>)", row)
    any_part = ".+" if len(pieces) == 3 and pieces[2] == "" else "[^.]+"
    pattern = (any_part if piece.startswith("<") else re.escape(piece) for piece in pieces)
    return re.fullmatch("".join(pattern), name)


def check_names_of_jemalloc(problems):
    """Each has a row; check_section sees to it that rows have a status and a test."""
    count = 0
    rows = {kind: [row for names, _, _ in rows_of(section) for row in names]
            for kind, section in TABLES.items()}
    for line in (pathlib.Path(__file__).parent / "names.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            kind, name = line.split()
            count += 1
            if not any(row_matches(row, name) for row in rows[kind]):
                problems.append(f"{name}: jemalloc has it, and there is no row")
    return count


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
    check_symbols(problems)
    of_jemalloc = check_names_of_jemalloc(problems)
    for problem in problems:
        print(problem)
    print(f"{len(names)} names, {len(options)} options, {of_jemalloc} of jemalloc, {len(problems)} problems")
    is_whole = len(names) >= 120 and len(options) >= 80 and of_jemalloc >= 400
    return 0 if is_whole and not problems else 1


if __name__ == "__main__":
    sys.exit(main())
