#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that docs/jemalloc.md has a true row for each name.

  docs.py

Every name of names.txt, which has those of jemalloc, is in a row of its table. Every name of ctl.def and stats_json.def and every option of conf.def is in exactly one row; an option has an effect in
the document if it has a target in the source, an option or KEPT; what is "refused" is in neither table.

The last cell of a row has the letters of its tests. Each name of a row is in the text of one of them, and each of them has
one of the names. Tests that go through a whole table name nothing: where there is no other, the cell says "T alone".
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
STATUSES = {"full", "accepted without effect", "refused"}


TEXT = (ROOT / "docs/jemalloc.md").read_text()


def rows_of(section):
    """(names, status, tests) of each row of the section's table."""
    body = TEXT.split(f"\n## {section}\n")[1].split("\n## ")[0]
    for line in body.splitlines():
        if line.startswith("| `"):
            names, status, _, tests = (cell.strip() for cell in line.strip("|").split("|"))
            yield re.findall(r"`([^`]+)`", names), status, tests


def check_symbols(problems):
    for names, status, _ in rows_of("Functions and symbols"):
        if status not in STATUSES:
            problems.append(f"{names[0]}: '{status}' is no status")


def check_section(section, known, problems):
    """`known`: name -> the status that it must have, or None."""
    seen = set()
    for names, status, _ in rows_of(section):
        if status not in STATUSES:
            problems.append(f"{names[0]}: '{status}' is no status")
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


def words_of_slots(source):
    """<hpa> and the like -> the words that they stand for, "a|b|c"."""
    words = {name: "".join(re.findall('"([^"]*)"', text)) for name, text in
             re.findall(r'#define (WORDS_\w+)((?:[\s\\]+"[^"]*")+)', (source / "insight/stats_json.h").read_text())}
    slots = re.findall(r'{"(<\w+>)", (WORDS_\w+)}', (source / "insight/ctl_stats.c").read_text())
    return {slot: words[name] for slot, name in slots}


SLOTS = words_of_slots(ROOT / "core/src")


def row_matches(row, name):
    """<hpa> and the like of a row stand for one of their words, <i> for any part of a name; another <name> at its end,
    if it is the only one, for all that follow."""
    pieces = re.split(r"(<[^>]+>)", row)
    any_part = ".+" if len(pieces) == 3 and pieces[2] == "" else "[^.]+"
    pattern = (f"(?:{SLOTS[piece]})" if piece in SLOTS else any_part if piece.startswith("<") else re.escape(piece)
               for piece in pieces)
    return re.fullmatch("".join(pattern), name)


# --- Tests -------------------------------------------------------------------------------------

# Tests that go through all names of a section.
OF_WHOLE_TABLES = {"Settings": "P", "Names of mallctl": "T"}


def texts_of_letters():
    """Letter -> the text of the files that the document names before it."""
    legend = TEXT.split("\nThe tests: ")[1].split("\n\n")[0]
    return {letter: "".join((ROOT / path).read_text() for path in re.findall("`([^`]+)`", paths))
            for paths, letter in re.findall(r"((?:`[^`]+`,?\s+)+)\(([A-Z])\b", legend)}


def text_of_test(test, letters):
    """Of a letter, or of a program in backquotes; None if there is no such test."""
    case = ROOT / f"core/tests/interpose/cases/{test.strip('`')}.sh"
    return case.read_text() if test.startswith("`") and case.exists() else letters.get(test)


def is_named(name, section, text):
    """Whether a test has the name, or in quotes the part of it that stands behind a number."""
    def pattern(part):
        return re.sub("<[^>]+>", r"(?:%\\w+|\\w+)", part).replace(".", r"\.")

    if section == "Settings":
        return re.search(rf"(?<![\w.]){name}:|\bopt\.{name}\b", text) is not None
    if section == "Functions and symbols":
        return re.search(rf"\b(?:mw_)?{name}\b", text) is not None
    parts = [name[match.end():] for match in re.finditer(r"<[ij]>\.", name)]
    quoted = "".join(rf"|([\"']){pattern(part)}\{number}" for number, part in enumerate(parts, 1))
    return re.search(rf"(?<![\w.]){pattern(name)}(?![\w.]){quoted}", text) is not None


def problems_of_tests(row, section, letters):
    """What is wrong with the last cell of a row, in sentences."""
    names, status, cell = row
    of_table = OF_WHOLE_TABLES.get(section) if status != "refused" else None
    if cell == f"{of_table} alone":
        return []
    named, problems = set(), []
    for test in cell.split(", "):
        if test == of_table:
            continue
        text = text_of_test(test, letters)
        if text is None:
            problems.append(f"{names[0]}: there is no test '{test}'")
            continue
        # The list of exported names lacks those that are refused.
        wanted = (test, status) != ("X", "refused")
        found = {name for name in names if is_named(name, section, text) == wanted}
        if not found:
            problems.append(f"{names[0]}: {test} has no name of the row")
        named |= found
    return problems + [f"{name}: no test of '{cell}' has it" for name in names if name not in named]


def check_tests(problems):
    letters = texts_of_letters()
    for section in TABLES.values():
        for row in rows_of(section):
            problems += problems_of_tests(row, section, letters)


def check_the_check():
    """Cells that are wrong are found, and those that are right are not."""
    letters = {"F": 'READ("stats.arenas.%u.bins.%u.nfills"); sum("pmuzzy"); READ("arenas.page"); conf("zero:true")',
               "G": "nothing of the kind: nflushes page", "X": "mallocx"}
    names, settings, symbols = "Names of mallctl", "Settings", "Functions and symbols"
    right = [(["stats.arenas.<i>.bins.<j>.nfills"], names, "F, T"), (["arenas.page"], names, "F"),
             (["stats.arenas.<i>.pmuzzy", "arenas.page"], names, "F, T"), (["zero"], settings, "F, P"),
             (["arenas.nhbins"], names, "T alone"), (["utrace"], settings, "P alone"),
             (["mallocx"], symbols, "X"), (["smallocx"], symbols, "X")]
    wrong = [(["stats.arenas.<i>.bins.<j>.nflushes"], names, "F, T"), (["arenas.page"], names, "G"),
             (["arenas.page", "arenas.nhbins"], names, "F, T"), (["arenas.page"], names, "F, G"),
             (["arenas.nhbins"], names, "T"), (["arenas.nhbins"], names, "P alone"),
             (["arenas.nhbins"], names, ""), (["arenas.page"], names, "Q"),
             (["utrace"], settings, "P"), (["utrace"], settings, "F"), (["xallocx"], symbols, "X")]
    for name, is_one in (("nhugifies", True), ("nhugify_failures", True), ("nhugs", False)):
        if bool(row_matches("stats.arenas.<i>.hpa_shard.<hpa>", f"stats.arenas.<i>.hpa_shard.{name}")) != is_one:
            yield f"the check of names takes {name} to be {'no word' if is_one else 'a word'}"
    for is_right, rows in ((True, right), (False, wrong)):
        for of_row, section, cell in rows:
            status = "refused" if of_row == ["smallocx"] else "full"
            found = problems_of_tests((of_row, status, cell), section, letters)
            if (not found) != is_right:
                yield f"the check of tests takes {of_row} '{cell}' to be {'wrong' if is_right else 'right'}"


# --- Names of jemalloc --------------------------------------------------------------------------

def check_names_of_jemalloc(problems):
    """Each has a row; check_section sees to it that rows have a status, check_tests that they have tests."""
    count = 0
    rows = {kind: [row for names, _, _ in rows_of(section) for row in names]
            for kind, section in TABLES.items()}
    for line in (pathlib.Path(__file__).parent / "names.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            kind, name, *_ = line.split()  # what follows is its type
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
    check_tests(problems)
    problems += check_the_check()
    of_jemalloc = check_names_of_jemalloc(problems)
    for problem in problems:
        print(problem)
    print(f"{len(names)} names, {len(options)} options, {of_jemalloc} of jemalloc, {len(problems)} problems")
    is_whole = len(names) >= 120 and len(options) >= 80 and of_jemalloc >= 400
    return 0 if is_whole and not problems else 1


if __name__ == "__main__":
    sys.exit(main())
