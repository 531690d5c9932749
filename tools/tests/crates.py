#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A crate holds what its sources include: what lies outside its folder is not in its .crate file."""

import re
import sys
import tomllib
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
INCLUDED = re.compile(r'include(?:_str|_bytes)?!\(\s*"([^"]+)"\s*\)|#\[path = "([^"]+)"\]')
BEYOND = re.compile(r'CARGO_MANIFEST_DIR"\)\s*,\s*"(/\.\.[^"]*)"')


def without_tests(text):
    return re.split(r"^#\[cfg\(test\)\]\s*\nmod tests", text, maxsplit=1, flags=re.M)[0]


def left_out(crate):
    """What the sources of a crate name that lies elsewhere; its tests run in the checkout alone."""
    found = []
    for file in sorted(crate.rglob("*.rs")):
        inside = file.relative_to(crate).parts
        if {"tests", "tests.rs", "target"} & set(inside):
            continue
        text = without_tests(file.read_text())
        for match in INCLUDED.finditer(text):
            named = (file.parent / (match[1] or match[2])).resolve()
            if not named.is_relative_to(crate) or not named.exists():
                found.append(f"{file.relative_to(crate.parent)}: {match[0]}")
        found += [f"{file.relative_to(crate.parent)}: {match[1]}" for match in BEYOND.finditer(text)]
    return found


class Crates(unittest.TestCase):
    def test_nothing_is_included_from_outside(self):
        members = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["members"]
        self.assertGreater(len(members), 10)
        self.assertEqual([], [line for member in members for line in left_out(ROOT / member)])

    def test_each_says_what_a_registry_asks_for(self):
        members = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["members"]
        for member in members:
            package = tomllib.loads((ROOT / member / "Cargo.toml").read_text())["package"]
            for key in "description", "license", "rust-version", "version", "categories":
                self.assertTrue(package.get(key), f"{member}: {key}")


if __name__ == "__main__":
    sys.exit(unittest.main())
