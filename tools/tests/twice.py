#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/twice finds six lines that stand twice, however they are indented, and nothing that says less."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CHECK = Path(__file__).resolve().parent.parent / "twice"


def passages(**files):
    """What the check says of files with these lines."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        source = root / "crates/some/src"
        source.mkdir(parents=True)
        for name, lines in files.items():
            (source / f"{name}.rs").write_text("\n".join(lines) + "\n")
        ran = subprocess.run([CHECK, root], capture_output=True, text=True, check=False)
        assert ran.returncode == (0 if ", 0 passages" in ran.stdout else 1), ran
        return [line.replace("crates/some/src/", "") for line in ran.stdout.splitlines()[:-1]]


def calls(*numbers):
    return [f"call_{number}();" for number in numbers]


class Twice(unittest.TestCase):
    def test_six_lines_are_found(self):
        six = calls(*range(6))
        self.assertEqual(["6 lines: a.rs:1, b.rs:2"], passages(a=six, b=["fn f() {", *six]))
        self.assertEqual(["6 lines: a.rs:1, a.rs:8"], passages(a=[*six, "// other", *six]))
        spread = ["    " + line + "\n" for line in six]
        self.assertEqual(["6 lines: a.rs:1, b.rs:1"], passages(a=six, b=spread))
        braces = [*calls(*range(4)), "}", "}"]
        self.assertEqual(["6 lines: a.rs:1, b.rs:1"], passages(a=braces, b=braces))
        attribute = [*calls(*range(3)), "/// Says.", "#[arg(last = true)]", "}"]
        self.assertEqual(["6 lines: a.rs:1, b.rs:1"], passages(a=attribute, b=attribute))

    def test_a_longer_passage_is_told_once(self):
        nine = calls(*range(9))
        self.assertEqual(["9 lines: a.rs:1, b.rs:1, c.rs:1"], passages(a=nine, b=nine, c=nine))
        # What stands at more places is a passage of its own.
        self.assertIn("6 lines: a.rs:3, b.rs:3, c.rs:1", passages(a=nine, b=nine, c=nine[2:8]))

    def test_what_says_less_is_not(self):
        for lines in (calls(*range(5)), [*calls(*range(3)), "}", "}", "}"],
                      [*calls(*range(3)), "// a comment", "#[test]", "} else {"],
                      ["use one::{", *[f"    name_{number}," for number in range(6)], "};"],
                      [f"use some::name_{number};" for number in range(6)]):
            self.assertEqual([], passages(a=lines, b=lines), lines)
        self.assertEqual([], passages(a=calls(*range(6)), b=calls(0, 1, 2, 7, 3, 4, 5)))

    def test_a_line_that_is_repeated_is_no_passage_until_there_are_twelve(self):
        self.assertEqual([], passages(a=calls(*[0] * 11)))
        self.assertEqual(1, len(passages(a=calls(*[0] * 12))))

    def test_without_files_it_fails(self):
        with tempfile.TemporaryDirectory() as scratch:
            self.assertEqual(1, subprocess.run([CHECK, scratch], capture_output=True, check=False).returncode)


if __name__ == "__main__":
    sys.exit(unittest.main())
