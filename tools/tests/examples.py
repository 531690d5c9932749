#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `make run` says in the end is what the runs prove; its program works."""

import importlib.machinery
import importlib.util
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.dont_write_bytecode = True
LOADER = importlib.machinery.SourceFileLoader("examples_run", str(ROOT / "examples/run"))
example = importlib.util.module_from_spec(importlib.util.spec_from_loader("examples_run", LOADER))
LOADER.exec_module(example)


def result(**verdicts):
    """As `mallow compare --export-json` writes it: {allocator: (verdict, ratio)}."""
    entries = [{"allocator": "glibc", "is_baseline": True, "time": None, "runs": [{}] * 10}]
    for name, (verdict, ratio) in verdicts.items():
        entries.append({"allocator": name, "is_baseline": False, "runs": [{}] * 10,
                        "time": {"verdict": verdict, "ratio": ratio}})
    return {"conditions": [{"entries": entries}]}


class Sentence(unittest.TestCase):
    def test_the_fastest_is_named_if_it_is_proven(self):
        said = example.sentence(result(mallow=("less", 0.25), jemalloc=("inconclusive", 0.1),
                                       mimalloc=("less", 0.3)), "the cache")
        self.assertEqual(said, "For the cache the choice matters: under mallow it takes 0.25 of the time that it "
                               "takes under glibc; mimalloc is faster too.")
        said = example.sentence(result(mallow=("less", 0.7), jemalloc=("less", 0.5), tcmalloc=("less", 0.6)), "it")
        self.assertIn("under jemalloc it takes 0.50", said)
        self.assertTrue(said.endswith("; mallow and tcmalloc are faster too."), said)

    def test_what_is_not_proven_is_not_said(self):
        said = example.sentence(result(mallow=("inconclusive", 0.5), jemalloc=("more", 2)), "the readers")
        self.assertEqual(said, "For the readers it was not shown to matter: none is faster than glibc as far "
                               "as 10 runs can tell, so keep glibc.")

    def test_what_is_proven_not_to_matter(self):
        said = example.sentence(result(mallow=("no_difference", 1.0), jemalloc=("more", 1.2)), "the readers")
        self.assertEqual(said, "For the readers it does not matter: none is faster than glibc, so keep glibc.")


class Program(unittest.TestCase):
    @unittest.skipUnless(shutil.which("cc"), "no C compiler")
    def test_the_cache_compiles_without_a_warning_and_ends_well(self):
        with tempfile.TemporaryDirectory() as scratch:
            subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", ROOT / "examples/cache.c",
                            "-o", f"{scratch}/cache"], check=True)
            done = subprocess.run([f"{scratch}/cache"], capture_output=True, text=True, check=True)
            self.assertRegex(done.stdout, r"^\d+ entries replaced by each of 2 threads\n$")


if __name__ == "__main__":
    unittest.main(verbosity=0)
