# SPDX-License-Identifier: MIT
"""Runs Python's own tests and prints the outcome of each, sorted: python_tests.py MODULE[:PATTERN] ...

With a pattern, a regular expression, only the tests whose id has a match run. Some of them wait for a time in which
something must have happened: one that fails is repeated alone, and named on stderr if it passes then.
"""

import os
import re
import sys
import types
import unittest

TRIES = 3


class Outcomes(unittest.TestResult):
    """Remembers one word per test."""

    def __init__(self):
        super().__init__()
        self.words = {}

    def note(self, test, word):
        self.words[test.id()] = word

    def addSuccess(self, test):
        self.words.setdefault(test.id(), "ok")

    def addSkip(self, test, reason):
        self.note(test, "skipped")

    def addExpectedFailure(self, test, err):
        self.note(test, "expected failure")

    def addUnexpectedSuccess(self, test):
        self.note(test, "unexpected success")

    def addFailure(self, test, err):
        self.note(test, "FAILED")
        print(self._exc_info_to_string(err, test), file=sys.stderr)

    addError = addFailure

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.addFailure(test, err)


def multiprocessing_fork():
    """Python's tests of multiprocessing, as test.test_multiprocessing_fork has them (not all
    installations do)."""
    from test import _test_multiprocessing

    module = types.ModuleType("multiprocessing_fork")
    sys.modules[module.__name__] = module
    _test_multiprocessing.install_tests_in_module_dict(vars(module), "fork")
    module.setUpModule()
    return unittest.defaultTestLoader.loadTestsFromModule(module)


def load(name):
    if name == "multiprocessing_fork":
        return multiprocessing_fork()
    return unittest.defaultTestLoader.loadTestsFromName(f"test.{name}")


def flatten(suite):
    for entry in suite:
        if isinstance(entry, unittest.TestSuite):
            yield from flatten(entry)
        else:
            yield entry


def passes_again(test):
    """Whether it passes in one of some more tries."""
    for _ in range(TRIES):
        again = Outcomes()
        unittest.TestSuite([test]).run(again)
        if again.words.get(test.id()) == "ok":
            print(f"flaky: {test.id()} failed, and passed when it was repeated", file=sys.stderr)
            return True
    return False


def main():
    outcomes = Outcomes()
    for argument in sys.argv[1:]:
        module, _, pattern = argument.partition(":")
        chosen = [test for test in flatten(load(module)) if re.search(pattern, test.id())]
        suite = unittest.TestSuite(chosen)
        # Tests print on their own; only the outcomes are the result.
        real_stdout = os.dup(1)
        os.dup2(2, 1)
        suite.run(outcomes)
        for test in chosen:
            if outcomes.words.get(test.id()) == "FAILED" and passes_again(test):
                outcomes.words[test.id()] = "ok"
        sys.stdout.flush()
        os.dup2(real_stdout, 1)
        os.close(real_stdout)
    for name in sorted(outcomes.words):
        print(name, outcomes.words[name])
    print(outcomes.testsRun, "tests")


if __name__ == "__main__":
    main()
