#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A crate holds what its sources include: what lies outside its folder is not in its .crate file."""

import os
import re
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# With concat! the folder is what its first word says.
INCLUDED = re.compile(r'include(?:_str|_bytes)?!\(\s*(?:concat!\(\s*)?"([^"]+)"|#\[path = "([^"]+)"\]')
BEYOND = re.compile(r'CARGO_MANIFEST_DIR"\)\s*,\s*"(/\.\.[^"]*)"|CARGO_MANIFEST_DIR"\)\)\s*\.join\("(\.\.[^"]*)"')


def packed(crate):
    """The sources that its .crate file holds, tests too: who has that file may run them."""
    package = tomllib.loads((crate / "Cargo.toml").read_text())["package"]
    tops = [top.strip("/") for top in package.get("include", [])]
    never = {top.strip("/") for top in package.get("exclude", [])} | {"target"}
    for file in sorted(crate.rglob("*.rs")):
        top = file.relative_to(crate).parts[0]
        if top not in never and (not tops or top in tops):
            yield file


def left_out(crate):
    """What the packed sources of a crate name that lies elsewhere. What a link in the crate leads to is
    packed with it."""
    found = []
    for file in packed(crate):
        text = file.read_text()
        where = file.relative_to(crate.parent)
        for match in INCLUDED.finditer(text):
            named = Path(os.path.normpath(file.parent / (match[1] or match[2])))
            exists = named.exists() or any(named.parent.glob(f"{named.name}*"))
            if not named.is_relative_to(crate) or not exists:
                found.append(f"{where}: {match[0]}")
        found += [f"{where}: {match[1] or match[2]}" for match in BEYOND.finditer(text)]
    return found


class Crates(unittest.TestCase):
    def test_nothing_is_included_from_outside(self):
        members = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["members"]
        self.assertGreater(len(members), 10)
        self.assertEqual([], [line for member in members for line in left_out(ROOT / member)])

    def test_what_lies_outside_is_found(self):
        with tempfile.TemporaryDirectory() as scratch:
            crate = Path(scratch, "crates/tried")
            (crate / "src").mkdir(parents=True)
            (crate / "tests").mkdir()
            Path(scratch, "elsewhere").mkdir()
            for file in crate / "src/here.txt", Path(scratch, "elsewhere/there-1.txt"):
                file.touch()
            (crate / "linked").symlink_to("../../elsewhere")
            (crate / "Cargo.toml").write_text('[package]\nexclude = ["/tests"]\n')
            for text, is_good in (
                    ('include_str!("here.txt")', True),
                    ('include_str!("gone.txt")', False),
                    ('include_bytes!("../../../elsewhere/there-1.txt")', False),
                    ('include_str!(concat!("../linked/there-", $n))', True),
                    ('#[cfg(test)]\nmod tests {\ninclude_str!(concat!("../../../elsewhere/there-", $n))}', False),
                    ('#[path = "../../../elsewhere/there.rs"]', False),
                    ('concat!(env!("CARGO_MANIFEST_DIR"), "/../elsewhere")', False),
                    ('Path::new(env!("CARGO_MANIFEST_DIR")).join("../../elsewhere")', False)):
                (crate / "src/lib.rs").write_text(text)
                self.assertEqual(is_good, left_out(crate) == [], text)
                # What is not packed may name what it wants.
                (crate / "src/lib.rs").rename(crate / "tests/lib.rs")
                self.assertEqual([], left_out(crate), text)

    def test_each_says_what_a_registry_asks_for(self):
        members = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["members"]
        for member in members:
            package = tomllib.loads((ROOT / member / "Cargo.toml").read_text())["package"]
            for key in "description", "license", "readme", "rust-version", "version", "categories":
                self.assertTrue(package.get(key), f"{member}: {key}")


if __name__ == "__main__":
    sys.exit(unittest.main())
