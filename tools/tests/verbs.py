#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/crates finds a verb that names another, by whatever name it comes to it, and a crate that is too large."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CHECK = Path(__file__).resolve().parent.parent / "crates"
MANIFEST = '[package]\nname = "mallow-cli"\n'
TESTS = "#[cfg(test)]\nmod tests {\n    %s\n}\n"


def problems(text, beside=100):
    """What the check says of a verb with this text, beside two crates of so many lines."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        source = root / "crates/mallow-cli/src"
        for place in "left/src", "right/tests":
            (root / "crates" / place).mkdir(parents=True)
            (root / "crates" / place / "lines.rs").write_text("//\n" * beside)
        for name in "one", "two":
            (source / "verbs" / name).mkdir(parents=True)
            (source / "verbs" / name / "mod.rs").write_text("pub fn main() {}\n")
        (root / "Cargo.toml").write_text('[workspace]\nmembers = ["crates/mallow-cli"]\n')
        (source.parent / "Cargo.toml").write_text(MANIFEST)
        (source / "verbs/mod.rs").write_text("pub mod one;\npub mod two;\n")
        (source / "cli.rs").write_text("use crate::verbs::{one, two};\nuse crate::verbs;\n")
        (source / "output.rs").write_text("")
        (source / "verbs/one/mod.rs").write_text(text)
        ran = subprocess.run([CHECK, root], capture_output=True, text=True, check=False)
        assert ran.returncode == (0 if ", 0 problems" in ran.stdout else 1), ran
        return ran.stdout.splitlines()[:-1]


class Verbs(unittest.TestCase):
    def test_another_verb_is_found(self):
        for text in ("use crate::verbs::two;", "use super::two::main;", "use super::{two, one};",
                     "use crate::verbs as v;\nfn f() { v::two::main() }", "use crate::verbs::*;",
                     "use crate::verbs::{self as v};", "use crate::{verbs::*};", "use super::*;", "fn f() { super::two::main() }",
                     TESTS % "" + "use crate::verbs::two;"):
            self.assertEqual(1, len(problems(text)), text)

    def test_what_is_allowed_is_not(self):
        for text in ("", "use crate::output;", "// crate::verbs::two\n", 'const A: &str = "crate::verbs::two";',
                     TESTS % "use super::*;", "fn f(&self) { self.two() }"):
            self.assertEqual([], problems(text), text)

    def test_a_crate_of_half_of_the_lines_is_found(self):
        # The other files of the command have five.
        for lines, expected in (14, []), (15, ["50.0%"]), (115, ["85.7%"]):
            found = problems("//\n" * lines, beside=10)
            self.assertEqual(expected, [problem.split()[2] for problem in found], (lines, found))
            self.assertEqual(["mallow-cli"] * len(found), [problem.split()[0] for problem in found])
        self.assertEqual(1, len(problems("", beside=0)))


if __name__ == "__main__":
    sys.exit(unittest.main())
