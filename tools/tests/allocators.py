#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The one table of allocators, and what the benchmarks and `make peers` make of it."""

import importlib.machinery
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
sys.dont_write_bytecode = True

from rig import allocators  # noqa: E402

LOADER = importlib.machinery.SourceFileLoader("peers", str(ROOT / "crates" / "peers" / "build"))
peers = importlib.util.module_from_spec(importlib.util.spec_from_loader("peers", LOADER))
sys.modules["peers"] = peers
LOADER.exec_module(peers)


def brought(entry):
    """What distributions bring: a table each, or a list by releases."""
    sides = [entry[key] for key in ("debian", "alpine") if key in entry]
    return [package for side in sides for package in (side if isinstance(side, list) else [side])]


def of_bookworm(side):
    """The release for which the set-up names its packages; the last entry is that of all that no other names."""
    entries = side if isinstance(side, list) else [side]
    return next((entry for entry in entries if "bookworm" in entry.get("releases", [])), entries[-1])


class Table(unittest.TestCase):
    def test_it_names_each_peer_that_is_built_and_no_other(self):
        self.assertEqual(sorted(allocators.BUILT), sorted(peer.name for peer in peers.PEERS))
        self.assertEqual(allocators.BUILT[:3], ["snmalloc", "mimalloc2", "mimalloc3"])

    def test_no_two_peers_share_a_column(self):
        columns = [peer["column"] for entry in allocators.KNOWN for peer in entry.get("peers", [])]
        self.assertEqual(len(columns), len(set(columns)))

    def test_the_set_up_asks_for_what_the_table_names(self):
        known = {of_bookworm(entry["debian"])["file"]: entry for entry in allocators.KNOWN
                 if "file" in of_bookworm(entry.get("debian", {}))}
        calls = re.findall(r"^    want_allocator (\S+) (\S+) (\S+) (\S+)$", (ROOT / "tools/setup").read_text(), re.M)
        self.assertGreater(len(calls), 3)
        for file, package, alpine_file, alpine_package in calls:
            self.assertEqual(package, of_bookworm(known[file]["debian"])["package"])
            alpine = known[file].get("alpine", {"file": "-", "package": "-"})
            self.assertEqual((alpine_file, alpine_package), (alpine["file"], alpine["package"]))

    def test_an_installed_file_is_of_its_allocator(self):
        for entry in allocators.KNOWN:
            if "installed" in entry:
                self.assertIn("file", of_bookworm(entry["debian"]))

    def test_a_package_has_a_file_of_its_allocator(self):
        for entry in allocators.KNOWN:
            for package in brought(entry):
                if "file" in package:
                    self.assertIn(package["file"].split(".so")[0], entry["stems"])

    @unittest.skipUnless(shutil.which("dpkg-query"), "no dpkg here")
    def test_debian_s_packages_have_what_the_table_says(self):
        for entry in allocators.KNOWN:
            for package in brought(entry):
                listed = subprocess.run(["dpkg-query", "-L", package["package"]], text=True,
                                        capture_output=True).stdout
                if listed:
                    names = {os.path.basename(line) for line in listed.splitlines()}
                    stems = {name.split(".so")[0] for name in names if ".so" in name}
                    self.assertTrue(stems & set(entry["stems"]), package)
                    if "file" in package:
                        self.assertIn(package["file"], names)

    def test_hardened_builds_are_measured_seldom(self):
        self.assertLessEqual({"hardened", "scudo", "mimalloc3-secure"}, set(allocators.SELDOM))
        self.assertFalse({"mallow-secure", "jemalloc", "mimalloc2"} & set(allocators.SELDOM))


if __name__ == "__main__":
    unittest.main()
