#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The one table of allocators, and what the benchmarks and `make peers` make of it."""

import importlib.machinery
import importlib.util
import pathlib
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


class Table(unittest.TestCase):
    def test_it_names_each_peer_that_is_built_and_no_other(self):
        self.assertEqual(sorted(allocators.BUILT), sorted(peer.name for peer in peers.PEERS))
        self.assertEqual(allocators.BUILT[:3], ["snmalloc", "mimalloc2", "mimalloc3"])

    def test_no_two_peers_share_a_column(self):
        columns = [peer["column"] for entry in allocators.KNOWN for peer in entry.get("peers", [])]
        self.assertEqual(len(columns), len(set(columns)))

    def test_an_installed_file_is_of_its_allocator(self):
        for entry in allocators.KNOWN:
            if "installed" in entry:
                self.assertIn(entry["installed"]["file"].split(".so")[0], entry["stems"])
                self.assertIn("debian", entry)

    def test_hardened_builds_are_measured_seldom(self):
        self.assertLessEqual({"hardened", "scudo", "mimalloc3-secure"}, set(allocators.SELDOM))
        self.assertFalse({"mallow-secure", "jemalloc", "mimalloc2"} & set(allocators.SELDOM))


if __name__ == "__main__":
    unittest.main()
