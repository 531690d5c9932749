#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/crates finds a verb that names another, by whatever name it comes to it, a crate that is too large or needs one
that stands after it, and a circle of modules."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CHECK = Path(__file__).resolve().parent.parent / "crates"
MANIFEST = '[package]\nname = "mallow-cli"\n'
TESTS = "#[cfg(test)]\nmod tests {\n    %s\n}\n"


def said(root):
    """The problems that the check tells of a tree."""
    ran = subprocess.run([CHECK, root], capture_output=True, text=True, check=False)
    assert ran.returncode == (0 if ", 0 problems" in ran.stdout else 1), ran
    return ran.stdout.splitlines()[:-1]


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
        return said(root)


def problems_of_crates(files):
    """What the check says of the crates `low` and `high`, in this order, with these files, beside two others."""
    tree = {"Cargo.toml": '[workspace]\nmembers = ["crates/low", "crates/high"]\n'}
    for name in "low", "high":
        tree |= {f"crates/{name}/Cargo.toml": "", f"crates/{name}/src/lib.rs": "//\n"}
    for name in "left", "right":
        tree[f"crates/{name}/lines.rs"] = "//\n" * 100
    with tempfile.TemporaryDirectory() as scratch:
        for name, text in (tree | files).items():
            file = Path(scratch, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return said(scratch)


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


class Crates(unittest.TestCase):
    def test_a_crate_that_needs_a_later_one_is_found(self):
        shared = ('[workspace]\nmembers = ["crates/low", "crates/high"]\n'
                  '[workspace.dependencies]\nhigh = { path = "crates/high" }\n')
        for text, is_good in (
                ('[dependencies]\nhigh = { path = "../high" }\n', False),
                ('[dependencies]\nhigh = { workspace = true }\n', False),
                ('[build-dependencies]\nhigh = { path = "../high" }\n', False),
                ('[target."cfg(unix)".dependencies]\nhigh = { path = "../high" }\n', False),
                ('[dev-dependencies]\nhigh = { path = "../high" }\n', True),
                ('[dependencies]\nother = "1"\n', True)):
            expected = [] if is_good else ["crates/low depends on high, which stands after it"]
            found = problems_of_crates({"Cargo.toml": shared, "crates/low/Cargo.toml": text})
            self.assertEqual(expected, found, text)
        earlier = '[dependencies]\nlow = { path = "../low" }\n'
        self.assertEqual([], problems_of_crates({"crates/high/Cargo.toml": earlier}))

    def test_a_circle_of_modules_is_found(self):
        first = "use crate::two::f;\n"
        for modules, expected in (
                ({"one": first, "two": "use super::one::g;\n"}, "one -> two -> one"),
                ({"one": first, "two": "use crate::{three::g};\n", "three": "fn f() { crate::one::g() }\n"},
                 "one -> two -> three -> one"),
                ({"one": first, "two": ""}, None),
                ({"one": first, "two": "// crate::one\n" + TESTS % "use crate::one::g;"}, None),
                # A module and what lies below it are one, beside others of the same parent.
                ({"one/mod": "", "one/left": first, "one/right": "", "two": "use crate::one::right::g;\n"},
                 "one -> two -> one"),
                ({"one/mod": "", "one/left": "", "one/right": "use super::left::f;\n",
                  "one/left/low": "use crate::one::right::g;\n"}, "one::left -> one::right -> one::left"),
                ({"one/mod": "", "one/left": first, "one/right": "", "two": "use crate::three::f;\n",
                  "three": "fn f() { crate::one::right::g() }\n"}, "one -> two -> three -> one"),
                # A parent and what is its own may need each other.
                ({"one/mod": "use crate::one::inner::f;\n", "one/inner": "use super::g;\n"}, None),
                # So may what is compiled for tests alone.
                ({"one/mod": "#[cfg(test)]\n#[rustfmt::skip]\npub(crate) mod tried;\n", "one/tried": first,
                  "two": "use super::one::g;\n"}, None)):
            found = problems_of_crates({f"crates/low/src/{name}.rs": text for name, text in modules.items()})
            self.assertEqual([f"crates/low: a circle: {expected}"] if expected else [], found, modules)


if __name__ == "__main__":
    sys.exit(unittest.main())
