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
    """As `mallow compare --export-json` writes it: {allocator: (verdict, ratio)}; the interval is a tenth to each side."""
    entries = [{"allocator": "glibc", "is_baseline": True, "time": None, "runs": [{}] * 10}]
    for name, (verdict, ratio) in verdicts.items():
        entries.append({"allocator": name, "is_baseline": False, "runs": [{}] * 10,
                        "time": {"verdict": verdict, "ratio": ratio,
                                 "interval": {"low": ratio * 0.9, "high": ratio * 1.1}}})
    return {"conditions": [{"entries": entries}]}


class Sentence(unittest.TestCase):
    def test_what_is_faster_is_named_with_its_interval(self):
        said = example.sentence(result(mallow=("less", 0.3), jemalloc=("inconclusive", 0.1),
                                       mimalloc=("less", 0.2)), "the cache")
        self.assertEqual(said, "For the cache the choice matters: with glibc's time as 1, it takes 0.18 to 0.22 under "
                               "mimalloc and 0.27 to 0.33 under mallow.")
        said = example.sentence(result(mallow=("less", 0.3), jemalloc=("more", 1.1)), "it")
        self.assertTrue(said.endswith("it takes 0.27 to 0.33 under mallow, and jemalloc is slower."), said)
        said = example.sentence(result(mallow=("less", 0.7), jemalloc=("less", 0.5), tcmalloc=("less", 0.6)), "it")
        self.assertIn("it takes 0.45 to 0.55 under jemalloc, 0.54 to 0.66 under tcmalloc and 0.63", said)

    def test_what_is_not_proven_is_not_said(self):
        said = example.sentence(result(mallow=("inconclusive", 0.5), jemalloc=("no_difference", 1)), "the readers")
        self.assertEqual(said, "For the readers no other was shown in 10 runs to be faster than glibc, so keep glibc.")
        said = example.sentence(result(mallow=("inconclusive", 0.5), jemalloc=("more", 2)), "the readers")
        self.assertIn("to be faster than glibc, and jemalloc is slower, so keep", said)

    def test_what_is_slower_matters(self):
        said = example.sentence(result(mallow=("no_difference", 1.0), jemalloc=("more", 1.2), mimalloc=("more", 1.3)),
                                "the readers")
        self.assertEqual(said, "For the readers no other is faster than glibc, and jemalloc and mimalloc are slower, "
                               "so keep glibc.")

    def test_what_is_proven_not_to_matter(self):
        said = example.sentence(result(mallow=("no_difference", 1.0)), "the readers")
        self.assertEqual(said, "For the readers the choice does not matter: no other is faster or slower than glibc, "
                               "so keep glibc.")


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
