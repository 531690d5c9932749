#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests how tools/test counts: a test that did not run must not count as passed, nor a test whose
program is missing as skipped."""

import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

sys.dont_write_bytecode = True
LOADER = importlib.machinery.SourceFileLoader(
    "tools_test", str(pathlib.Path(__file__).resolve().parent.parent / "test"))
tools_test = importlib.util.module_from_spec(importlib.util.spec_from_loader("tools_test", LOADER))
LOADER.exec_module(tools_test)
run_ctest = tools_test.run_ctest

CARGO = """
running 4 tests
test runs ... ok
test needs_go ... ok
test left_out ... ignored
test fails ... FAILED

successes:

---- needs_go stdout ----
skipped: go is not installed
skipped: nor is gccgo

---- runs stdout ----
a line of its own

successes:
    needs_go
    runs

failures:

---- fails stdout ----
skipped: not so
thread 'fails' panicked

failures:
    fails

test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

running 1 test
test alone ... ok

successes:

successes:
    alone

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
"""

CTEST = """<testsuite>
<testcase name="passes" status="run"/>
<testcase name="fails" status="fail"><failure message=""/></testcase>
<testcase name="off" status="disabled"><skipped message="Disabled"/></testcase>
<testcase name="says so" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase>
<testcase name="gone" status="notrun"><skipped message="Unable to find executable"/></testcase>
</testsuite>"""


class TestCounts(unittest.TestCase):
    def setUp(self):
        self.shown = io.StringIO()
        shown = contextlib.redirect_stdout(self.shown)
        shown.__enter__()
        self.addCleanup(shown.__exit__, None, None, None)

    def test_rust_tests_that_say_that_they_are_skipped(self):
        self.assertEqual(tools_test.count_cargo(CARGO.splitlines()), (2, 1, 2))
        self.assertEqual(self.shown.getvalue(), "skip: needs_go: go is not installed\n")

    def test_ctest_report(self):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as report:
            report.write(CTEST)
            report.flush()
            self.assertEqual(tools_test.count_ctest(report.name), (1, 2, 2))

    def test_what_passes_when_repeated_is_told_from_what_fails_again(self):
        failed = tools_test.cargo_failed(CARGO.splitlines())
        self.assertEqual(failed, ["fails"])
        end = ["error: 1 target failed:", "    `-p mallow-cli --test command`"]
        self.assertEqual(tools_test.cargo_targets_failed(end), [["-p", "mallow-cli", "--test", "command"]])
        recovered = tools_test.cargo_recovered
        self.assertEqual(recovered(failed, ["test fails ... ok"]), ["fails"])
        self.assertEqual(recovered(failed, ["test fails ... FAILED"]), [])
        self.assertEqual(recovered(failed, ["test fails ... ok", "test fails ... FAILED"]), [])
        self.assertEqual(recovered(failed * 2, ["test fails ... ok"]), [])
        self.assertEqual(recovered(failed * 2, ["test fails ... ok"] * 2), failed * 2)
        self.assertEqual(recovered(failed, []), [])

    def in_ci(self, name, *runs):
        """There `name` is done so often, with these results."""
        patch = unittest.mock.patch
        for change in (patch.dict(tools_test.os.environ, CI="true"), patch.object(tools_test, "flaky", []),
                       patch.object(tools_test, name, side_effect=runs)):
            change.start()
            self.addCleanup(change.stop)

    def test_a_command_that_failed_is_repeated(self):
        for status, again, counts in ((0, None, (1, 0, 0)), (77, None, (0, 0, 1)), (1, 0, (1, 0, 0)),
                                      (1, 1, (0, 1, 0)), (1, 77, (0, 1, 0))):
            statuses = [status] if again is None else [status, again]
            with self.subTest(statuses=statuses):
                self.in_ci("status_of", *statuses)
                self.assertEqual(tools_test.check("it", "it"), counts)
                self.assertEqual(tools_test.flaky, ["it"] if again == 0 else [])

    def runner(self, *ends, part=None):
        """What a runner counts that prints these lines, each time it is run."""
        self.in_ci("run_read", *((not failed, lines) for failed, *lines in ends))
        counts = tools_test.run_counted("all", "runner", part=part)
        return counts, tools_test.flaky, tools_test.run_read.call_args.args

    def test_a_runner_repeats_what_failed(self):
        first = (1, "FAIL: git (fast): exit status 1", "    FAIL: in vain", "FAIL: git (debug): no end", "ok: perl",
                 "7 passed, 2 failed, 3 skipped")
        flaky = ["git (fast)", "git (debug)"]
        again = self.runner(first, (0, "3 passed, 0 failed, 0 skipped"), part=tools_test.failed_cases)
        self.assertEqual(again, ((9, 0, 3), flaky, (tools_test.INTERPOSE, "git")))
        self.assertEqual(self.runner(first, (0, "9 passed, 0 failed, 3 skipped")), ((9, 0, 3), flaky, ("runner",)))
        for end in ((1, "8 passed, 1 failed, 3 skipped"), (0, "8 passed, 0 failed, 4 skipped"), (1, "it crashed")):
            self.assertEqual(self.runner(first, end)[:2], ((7, 2, 3), []), end)
        for end in ("1 passed, 0 failed, 2 skipped", "0 passed, 0 failed, 3 skipped"):
            self.assertEqual(self.runner(first, (0, end), part=tools_test.failed_cases)[:2], ((7, 2, 3), []), end)

    def test_a_runner_without_an_end_is_repeated_as_a_whole(self):
        again = self.runner((1, "FAIL: git (fast): no end"), (0, "9 passed, 0 failed"), part=tools_test.failed_cases)
        self.assertEqual(again, ((9, 0, 0), ["all"], ("runner",)))

    def test_what_a_runner_repeats_by_itself_is_named(self):
        line = tools_test.FLAKY_LINE.format("test_put")
        self.assertEqual(self.runner((0, line, f"    {line}", "1 passed, 0 failed"))[:2], ((1, 0, 0), ["test_put"]))

    def test_a_target_that_crashed_fails_beside_a_test_that_recovers(self):
        end = ["error: 2 targets failed:", "    `-p one --lib`", "    `-p other --lib`"]
        self.in_ci("cargo_test", (False, CARGO.splitlines() + end), (True, ["test fails ... ok"]), (False, []))
        self.assertEqual(tools_test.step_rust("2"), (4, 1, 2))  # clippy is one of them
        self.assertEqual(tools_test.flaky, ["fails"])

    def test_targets_without_a_result(self):
        unfinished, lines = tools_test.cargo_unfinished, CARGO.splitlines()
        one, other = "    `-p one --lib`", "    `-p other --lib`"
        self.assertEqual(unfinished(False, lines + [one]), 0)
        self.assertEqual(unfinished(False, lines + [one, other]), 1)
        self.assertEqual(unfinished(False, [one, other]), 2)
        self.assertEqual(unfinished(False, ["error: could not compile `one`"]), 1)
        self.assertEqual(unfinished(True, []), 0)

    def test_what_was_repeated_without_a_report_failed_again(self):
        before = tools_test.Counts(3, 1)
        self.in_ci("run_ctest", (before, ["fails"]), (tools_test.FAIL, None))
        self.assertEqual(tools_test.ctest("build", "2"), before)
        with tempfile.TemporaryDirectory() as root, unittest.mock.patch.multiple(
                tools_test, ROOT=pathlib.Path(root), run=lambda *_: False):
            self.assertEqual(run_ctest("build"), (tools_test.FAIL, None))

    def ended(self, text):
        """What is made of a step that ran beside another and printed this."""
        process = tools_test.subprocess.Popen(["true"])
        output = tempfile.TemporaryFile("w+")
        self.addCleanup(output.close)
        output.write(text)
        return tools_test.end("other", process, output)

    def test_a_step_beside_another_is_counted(self):
        row = "other          3 passed    1 failed    2 skipped      10 s, processors     9 s"
        counts, shown = self.ended(f"=== other\nok: it\n\n{row}\n3 passed, 1 failed, 2 skipped\n")
        self.assertEqual((counts, shown), ((3, 1, 2), f"{row}, beside others"))
        self.assertEqual(self.shown.getvalue(), "=== other\nok: it\n")
        line = tools_test.FLAKY_LINE.format("git (fast)")
        with unittest.mock.patch.object(tools_test, "flaky", []):
            self.ended(f"{line}\n\n{row}\npassed only when repeated: git (fast)\n4 passed, 0 failed, 2 skipped\n")
            self.assertEqual(tools_test.flaky, ["git (fast)"])
        for text in ("", "no step other\n", "1 passed, 0 failed, 0 skipped\n"):
            self.assertEqual(self.ended(text)[0], tools_test.FAIL, text)

    def test_steps_run_in_order_and_others_beside_them(self):
        ran = []
        steps = {name: lambda _, name=name: ran.append(name) or tools_test.PASS for name in "abcd"}
        begin = lambda step, _: ran.append(f"begin {step}") or step
        end = lambda step: (ran.append(f"end {step}") or tools_test.FAIL, f"row of {step}")
        with unittest.mock.patch.multiple(tools_test, STEPS=steps, BESIDE={"a": ("c", "d")}, begin=begin,
                                          end=lambda *step: end("".join(step))):
            total, summary = tools_test.run_steps(["a", "b", "c", "d"], "2")
            self.assertEqual(ran, ["begin c", "begin d", "a", "b", "end c", "end d"])
            self.assertEqual((total, len(summary), summary[2:]), ((2, 2, 0), 4, ["row of c", "row of d"]))
            ran.clear()
            self.assertEqual(tools_test.run_steps(["c"], "2")[0], tools_test.PASS)
            self.assertEqual(ran, ["c"])

    def test_a_warning_of_clippy_fails(self):
        lines = ["   Compiling it v0.1.0", "warning: unused variable: `a`",
                 "warning: `it` (lib test) generated 2 warnings (1 duplicate)"]
        self.assertEqual(tools_test.check_lints(lines), tools_test.FAIL)
        self.assertEqual(tools_test.check_lints(["test a_test ... ok"]), tools_test.PASS)

    def test_steps_beside_others_are_steps(self):
        for first, others in tools_test.BESIDE.items():
            self.assertLessEqual({first, *others}, set(tools_test.STEPS))

    def test_style_must_be_checked_in_ci(self):
        with unittest.mock.patch.dict(tools_test.os.environ, CI="true"):
            self.assertEqual(tools_test.skip_style("style", "no tool"), tools_test.FAIL)
        with unittest.mock.patch.dict(tools_test.os.environ, CI=""):
            self.assertEqual(tools_test.skip_style("style", "no tool"), tools_test.SKIP)


if __name__ == "__main__":
    unittest.main()
