#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests what core/tests/interpose/run prints of a case, and how Python's own tests are repeated."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
INTERPOSE = ROOT / "core" / "tests" / "interpose"


def loaded(name, file):
    loader = importlib.machinery.SourceFileLoader(name, str(INTERPOSE / file))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


runner = loaded("interpose_run", "run")
python_tests = loaded("python_tests", "programs/python_tests.py")


class TestCases(unittest.TestCase):
    def printed(self, script, jobs=1):
        """What the runner prints of a case without a preload, and what it counts."""
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as shown:
            path = pathlib.Path(folder, "it.sh")
            path.write_text(f"# kind: direct\n{script}\n")
            library = types.SimpleNamespace(mode="fast", shared="", static=None)
            self.case = runner.Case(path)
            counts = runner.run_cases([self.case], [library], None, folder, jobs)
        return shown.getvalue(), counts

    def test_what_a_case_repeats_is_shown(self):
        shown, counts = self.printed("echo 'flaky: a part' >&2; echo 'other: a part' >&2")
        self.assertRegex(shown, r"\Aflaky: a part\nok: it \(fast\) \d+\.\d s\n\Z")
        self.assertEqual(counts, {"ok": 1})

    def test_only_a_verdict_begins_with_fail(self):
        shown, counts = self.printed("echo 'FAIL: in vain' >&2; exit 1")
        self.assertEqual(shown, "FAIL: it (fast): direct run: exit status 1\n    FAIL: in vain\n    \n")
        self.assertEqual(counts, {"FAIL": 1})

    def test_a_case_has_patience(self):
        self.printed("# timeout: 60", jobs=2)
        self.assertEqual((self.case.long, self.case.timeout), (60, 600))
        self.printed("# timeout: 900")
        self.assertEqual((self.case.long, self.case.timeout), (900, 900))


class TestPython(unittest.TestCase):
    def outcomes(self, failures):
        """What is printed of a test that fails so often at first, and of one that passes."""
        program = f"""
import python_tests, sys, unittest
class It(unittest.TestCase):
    failures = {failures}
    @classmethod
    def setUpClass(cls):
        cls.is_set_up = True
    @classmethod
    def tearDownClass(cls):
        cls.is_set_up = False
    def test_late(self):
        self.assertTrue(self.is_set_up)
        It.failures -= 1
        self.assertLess(It.failures, 0)
    def test_well(self):
        pass
python_tests.load = lambda name: unittest.defaultTestLoader.loadTestsFromTestCase(It)
sys.argv = ["", "it"]
python_tests.main()
"""
        done = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, check=True,
                              env={**os.environ, "PYTHONPATH": str(INTERPOSE / "programs")})
        return done.stdout, [line for line in done.stderr.splitlines() if line.startswith("flaky: ")]

    def test_one_that_fails_is_repeated_and_named(self):
        well = "__main__.It.test_late ok\n__main__.It.test_well ok\n2 tests\n"
        named = ["flaky: __main__.It.test_late failed, and passed when it was repeated"]
        for failures, expected in ((0, (well, [])), (1, (well, named)), (3, (well, named)),
                                   (4, (well.replace("late ok", "late FAILED"), []))):
            self.assertEqual(self.outcomes(failures), expected, failures)


if __name__ == "__main__":
    unittest.main()
