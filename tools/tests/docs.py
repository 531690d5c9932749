#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The documentation holds together: no link is dead, each page stands in the book once, and what pages
name of the source is there."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
sys.dont_write_bytecode = True

LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^()\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.S)
# A name in backticks that begins with a folder of the source.
NAMED = re.compile(r"`((?:bench|core|crates|docs|examples|packaging|tools|\.github)/[\w./*-]*[\w*/-])`")
MADE = ("bench/out", "bench/report.html")
# What they say was true when it was written.
OF_ITS_TIME = {"CHANGELOG.md", "docs/experiments.md", "bench/RESULTS.md"}


def pages(root=ROOT):
    """Every page of the project, but not what is built or brought."""
    left_out = {"build", "target", "vendor", "dist", ".git", ".rust", ".tools", "out"}
    return sorted(page for page in root.rglob("*.md")
                  if not left_out & {part for part in page.relative_to(root).parts[:-1]}
                  and not page.relative_to(root).parts[0].startswith("build"))


def anchors(page):
    """The names of a page's headings, as mdBook and GitHub make them."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.S),
                              re.M):
        text = re.sub(r"[^\w\- ]", "", heading.strip().lower())
        found.add(text.replace(" ", "-"))
    return found


def dead_links(page, root=ROOT):
    """Links of a page that lead nowhere; those of the book may not lead out of it either."""
    text = CODE.sub("", page.read_text())
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        name = str(file.relative_to(root)) if file.is_relative_to(root) else str(file)
        if not file.exists():
            yield f"{target}: there is no {name}"
        elif page.parent == root / "docs" and not file.is_relative_to(root / "docs"):
            yield f"{target}: not a page of the site; name the file in backticks"
        elif anchor and file.suffix == ".md" and anchor not in anchors(file):
            yield f"{target}: no such heading in {name}"


def missing_files(page, root=ROOT):
    """Files of the source that a page names and that are not there."""
    for name in NAMED.findall(page.read_text()):
        if name.startswith(MADE) or "NAME" in name:
            continue
        if not any(True for _ in root.glob(name.rstrip("/"))):
            yield f"`{name}`: there is none"


def table(text, head):
    """The rows of the table whose first line begins so, each by the names of its columns."""
    block = text[text.index(head):].split("\n\n")[0].split("<!--")[0]
    names, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]]
                       for line in block.strip().split("\n"))
    return [dict(zip(names, row)) for row in rows]


class Pages(unittest.TestCase):
    def test_no_link_is_dead(self):
        self.assertEqual([f"{page.relative_to(ROOT)}: {problem}"
                          for page in pages() for problem in dead_links(page)], [])

    def test_each_file_that_is_named_exists(self):
        self.assertEqual([f"{page.relative_to(ROOT)}: {problem}" for page in pages()
                          if str(page.relative_to(ROOT)) not in OF_ITS_TIME
                          for problem in missing_files(page)], [])

    def test_the_book_has_each_page_once(self):
        order = LINK.findall((DOCS / "SUMMARY.md").read_text())
        there = {page.name for page in DOCS.glob("*.md")} - {"SUMMARY.md"}
        self.assertEqual(sorted(order), sorted(there))

    def test_each_page_begins_with_its_title(self):
        for page in DOCS.glob("*.md"):
            self.assertTrue(page.read_text().startswith("# "), page.name)

    def test_the_front_page_has_the_figures_of_the_results(self):
        columns = ("time", "CPU, programs", "peak RSS", "average RSS")
        results = table((ROOT / "bench/RESULTS.md").read_text(), "| | version | time |")
        wanted = {row[""]: [row[name] for name in columns] for row in results}
        wanted.update({row["version"]: wanted[row[""]] for row in results})
        wanted.update(Mallow=wanted["mallow"], secure=wanted["mallow-secure"])
        shown = table((ROOT / "README.md").read_text(), "| geometric mean")
        self.assertGreater(len(shown), 5)
        for name, *figures in (row.values() for row in shown):
            self.assertEqual([figure.strip("*~") for figure in figures], wanted[name], name)

    def test_the_page_of_settings_is_what_the_table_says(self):
        done = subprocess.run([ROOT / "tools/options-docs", "--check"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


    def test_the_changelog_begins_with_the_version_of_the_source(self):
        version = re.search(r'MW_VERSION_STRING "([^"]+)"', (ROOT / "core/include/mallow.h").read_text())[1]
        first = re.search(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.M)[1]
        self.assertRegex(first, rf"^{re.escape(version)}(, not yet released| - \d{{4}}-\d\d-\d\d)$")


class Finds(unittest.TestCase):
    """What the tests above must find."""

    def problems(self, text, of=dead_links):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name).resolve()
            (root / "docs").mkdir()
            (root / "README.md").write_text("# Top\n")
            (root / "docs/other.md").write_text("# Other\n\n## What it costs\n")
            page = root / "docs/page.md"
            page.write_text(f"# Page\n\n{text}\n")
            return list(of(page, root))

    def test_what_is_right(self):
        for text in ("[a](other.md)", "[a](other.md#what-it-costs)", "[a](#page)", "![a](other.md)",
                     "[a](https://example.org/x)", "`[a](gone.md)`", "```\n[a](gone.md)\n```"):
            self.assertEqual(self.problems(text), [], text)

    def test_what_is_dead(self):
        for text in ("[a](gone.md)", "![a](gone.svg)", "[`a`](gone.md)", "[a](other.md#gone)",
                     "[a](#gone)", "[a](../README.md)"):
            self.assertEqual(len(self.problems(text)), 1, text)

    def test_what_is_not_there(self):
        self.assertEqual(self.problems("`docs/other.md`, `docs/*.md`", missing_files), [])
        self.assertEqual(len(self.problems("`docs/gone.md` `tools/gone`", missing_files)), 2)


if __name__ == "__main__":
    unittest.main(verbosity=0)
