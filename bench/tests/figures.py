#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The figures of the rig (rig/figures.py, rig/targets.py, rig/readme.py), from samples made by hand."""

import os
import sys
import unittest
from types import SimpleNamespace as Stub
from unittest import mock
from xml.etree import ElementTree

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from rig import chart, programs, readme, report, runner, targets  # noqa: E402
from rig.figures import Estimate, Figures, interval, is_noisy  # noqa: E402


class MadeRun:
    """Stands for runner.Run: `rounds` is [{allocator: {row: (value, unit)}}] of each workload."""

    left_out = []

    def __init__(self, rounds_of, ours=("mallow",)):
        names = list(dict.fromkeys(n for rounds in rounds_of.values() for r in rounds for n in r))
        self.config = {"allocators": {n: {"ours": n in ours, "version": n} for n in names},
                       "machine": {"cpu": "", "cpus": 2, "kernel": "", "libc": "", "huge_pages": ""},
                       "started": "20260102-030405"}
        self.samples = [{"workload": workload, "allocator": name, "round": number,
                         "rows": {row: list(cell) for row, cell in rows.items()}}
                        for workload, rounds in rounds_of.items()
                        for number, there in enumerate(rounds) for name, rows in there.items()]

    def program_names(self):
        return {"sqlite"}

    def uncounted(self):
        return set()

    def disturbed_share(self):
        return 0.0


def steady(cells, rounds=5):
    """The same figures in each round: {allocator: {row: nanoseconds}}."""
    return [{n: {row: (v, "ns") for row, v in rows.items()} for n, rows in cells.items()}] * rounds


class Means(unittest.TestCase):
    def test_a_workload_of_many_rows_weighs_as_much_as_one_of_few(self):
        many = {f"many/{i}": 100 for i in range(10)}
        figures = Figures(MadeRun({
            "many": steady({"glibc": many, "mallow": {row: 25 for row in many}}),
            "single": steady({"glibc": {"single/row": 100}, "mallow": {"single/row": 400}})}))
        self.assertAlmostEqual(figures.means()["mallow"]["time"], 1.0)

    def test_runs_with_rows_of_one_name_are_one_workload(self):
        figures = Figures(MadeRun({
            "replace-a": steady({"glibc": {"replace/a": 1}, "mallow": {"replace/a": 4}}),
            "replace-b": steady({"glibc": {"replace/b": 1}, "mallow": {"replace/b": 1}}),
            "pair": steady({"glibc": {"pair/64": 1}, "mallow": {"pair/64": 0.5}})}))
        self.assertEqual(set(figures.workload_rows("time")), {"replace", "pair"})
        self.assertAlmostEqual(figures.means()["mallow"]["time"], 1.0)

    def test_an_allocator_without_most_rows_has_no_mean(self):
        figures = Figures(MadeRun({
            "a": steady({"glibc": {"a/x": 1}, "mallow": {"a/x": 1}, "musl": {"a/x": 1}}),
            "b": steady({"glibc": {"b/x": 1}, "mallow": {"b/x": 1}})}))
        self.assertIsNone(figures.means()["musl"]["time"])

    def test_processor_time_and_address_space_are_not_counted(self):
        cells = {"glibc": {"a/x": 1, "a/cpu": 1}, "mallow": {"a/x": 2, "a/cpu": 9}}
        figures = Figures(MadeRun({"a": steady(cells)}))
        self.assertAlmostEqual(figures.means()["mallow"]["time"], 2.0)


class Intervals(unittest.TestCase):
    def noisy(self, ours, glibc):
        rounds = [{"mallow": {"a/x": (v, "ns")}, "glibc": {"a/x": (g, "ns")}} for v, g in zip(ours, glibc)]
        return Figures(MadeRun({"a": rounds}))

    def test_a_slow_minute_hits_both_and_widens_nothing(self):
        found = self.noisy([20, 40, 20, 60, 20], [10, 20, 10, 30, 10]).against("a/x", "mallow", "glibc")
        self.assertEqual((found.low, found.high), (2, 2))

    def test_noise_of_one_alone_widens(self):
        found = self.noisy([9, 10, 11, 12, 8], [10] * 5).against("a/x", "mallow", "glibc")
        self.assertEqual((found.value, found.low), (0.8, 0.8))
        self.assertGreater(found.high, 0.85)

    def test_memory_is_the_median_and_a_time_the_least(self):
        rounds = [{"glibc": {"a/x": (v, "ns"), "a/peak-rss": (v, "MiB")}} for v in (12, 10, 15)]
        figures = Figures(MadeRun({"a": rounds}))
        self.assertEqual((figures.value["a/x", "glibc"], figures.value["a/peak-rss", "glibc"]), (10, 12))

    def test_a_time_that_was_seen_twice_is_not_noisy(self):
        self.assertFalse(is_noisy([10, 30, 10.5, 20]))
        self.assertTrue(is_noisy([10, 12, 12, 12]))
        self.assertTrue(is_noisy([10, 10]))  # too few

    def test_it_holds_the_ratio_and_lies_within_what_was_seen(self):
        found = self.noisy([9, 10, 14], [10, 10, 10]).against("a/x", "mallow", "glibc")
        self.assertTrue(0.9 <= found.low <= found.value <= found.high <= 1.4)

    def test_two_rounds_are_too_few_for_a_row(self):
        found = self.noisy([9, 11], [10, 10]).against("a/x", "mallow", "glibc")
        self.assertEqual((found.value, found.low), (0.9, None))

    def test_a_mean_of_what_was_run_twice_is_not_told(self):
        figures = self.noisy([9, 11], [10, 10])
        self.assertIsNone(figures.mean_against_best(figures.columns["time"], "mallow").low)

    def test_a_result_that_is_missing_gives_none(self):
        self.assertEqual(interval([1, None, 2]), (None, None))


class Verdicts(unittest.TestCase):
    def test_only_an_interval_on_one_side_decides(self):
        self.assertEqual(Estimate(1.0, 0.9, 1.1).judge(1.1), "met")
        self.assertEqual(Estimate(1.0, 0.9, 1.1).judge(0.8), "**missed**")
        self.assertEqual(Estimate(1.0, 0.9, 1.1).judge(1.0), "cannot be told")
        self.assertEqual(Estimate(1.0).judge(2.0), "cannot be told")

    def test_the_worst_line_is_missed_only_beyond_doubt(self):
        doubtful, sure = Estimate(1.4, 1.0, 1.8), Estimate(1.3, 1.28, 1.32)
        self.assertIn("| **missed**: 0 of 2", targets.Worst("t", {"a": doubtful, "b": sure}, 1.25).text())
        self.assertIn("| cannot be told: 0 of 1", targets.Worst("t", {"a": doubtful}, 1.25).text())

    def test_peak_of_a_range_is_judged_by_its_fastest_peer(self):
        cells = {"glibc": {"replace/a": (9, "ns"), "replace/a/peak-rss": (10, "MiB")},
                 "fast": {"replace/a": (5, "ns"), "replace/a/peak-rss": (40, "MiB")},
                 "mallow": {"replace/a": (5, "ns"), "replace/a/peak-rss": (20, "MiB")}}
        found = targets.replacement_peaks(Figures(MadeRun({"replace-a": [cells] * 3})))
        self.assertEqual(found["replace/a"].value, 0.5)


    def test_secure_is_judged_by_fast_by_glibc_and_by_secure_peers(self):
        row = {"glibc": 10, "mallow": 5, "mallow-secure": 7.5, "snmalloc": 1, "scudo": 9, "hardened": 7}
        program = {"glibc": 10, "mallow": 10, "mallow-secure": 10.4, "snmalloc": 1, "scudo": 20}
        peak = {"glibc": 10, "mallow": 10, "mallow-secure": 11.5, "scudo": 10}

        pair = {n: {"pair/64": (v, "ns")} for n, v in row.items()}
        sqlite = {n: {"sqlite/time": (v, "s")} for n, v in program.items()}
        for name, value in peak.items():
            sqlite[name]["sqlite/peak-rss"] = (value, "MiB")
        figures = Figures(MadeRun({"pair": [pair] * 3, "sqlite": [sqlite] * 3},
                                  ours=("mallow", "mallow-secure")))
        found = {line.target: line for line in targets.of_secure(figures, "mallow")}
        self.assertIn("1.50 (pair/64)", found["secure: time of each row, to fast"].text())
        self.assertIn("**missed**: 1 of 2", found["secure: time of each row, to fast"].text())
        self.assertIn("| met: 1 of 1", found["secure: time of each real program, to fast"].text())
        self.assertIn("| **missed**: 0 of 1", found["secure: peak RSS of each real program, to fast"].text())
        peers = found["secure: mean time to that of each secure peer"]
        # Each by the rows that it has; who is not secure is no measure.
        self.assertEqual(set(peers.measured), {"scudo", "hardened"})
        self.assertAlmostEqual(peers.measured["hardened"].value, 7.5 / 7)
        self.assertIn("**missed**: 1 of 2", peers.text())


class Table(unittest.TestCase):
    def test_bold_needs_that_all_others_are_worse_beyond_doubt(self):
        values = {"a": 1.0, "b": 1.01, "c": 1.5}
        self.assertEqual(readme.bold(values, lambda name, best: True), {"a", "b"})
        self.assertEqual(readme.bold(values, lambda name, best: False), set())

    def test_a_noisy_figure_keeps_its_mark(self):
        rounds = [{"glibc": {"pair/64": (10, "ns")}, "mallow": {"pair/64": (v, "ns")}} for v in (2, 4, 8)]
        run = MadeRun({"pair": rounds})
        figures = Figures(run)
        text = readme.table(run, figures, report.summarise(figures))
        self.assertIn("| pair of 64 B | **2~** | 10 |", text)
        self.assertNotIn("1,000 live", text)  # what was not measured has no line

    def test_losses_are_told_beside_the_best_of_the_table(self):
        pairs = {"glibc": {"pair/64": (8, "ns")}, "mallow": {"pair/64": (8, "ns")},
                 "snmalloc": {"pair/64": (4, "ns")}, "unshown": {"pair/64": (1, "ns")}}
        near = {"glibc": {"huge/a": (8, "ns")}, "mallow": {"huge/a": (9, "ns")}}
        program = {"glibc": {"sqlite/peak-rss": (10, "MiB")}, "mallow": {"sqlite/peak-rss": (12, "MiB")},
                   "unshown": {"sqlite/peak-rss": (1, "MiB")}}
        run = MadeRun({"pair": [pairs] * 3, "huge": [near] * 3, "sqlite": [program] * 3})
        text = readme.losses(run, Figures(run))
        self.assertIn(": pair 2 (snmalloc);\n", text)
        self.assertIn(": sqlite 1.20.\n", text)
        filled = readme.fill(f"{readme.BEGIN_LOST}old\n{readme.END}", text, readme.BEGIN_LOST)
        self.assertEqual(filled, f"{readme.BEGIN_LOST}{text}{readme.END}")

    def test_means_stand_an_allocator_a_line(self):
        cells = {"glibc": {"pair/64": (8, "ns"), "pair/peak-rss": (2, "MiB")},
                 "mallow": {"pair/64": (4, "ns"), "pair/peak-rss": (3, "MiB")}}
        run = MadeRun({"pair": [cells] * 3})
        figures = Figures(run)
        self.assertIn("| Mallow | **0.50** | – | 1.50 | – |\n", readme.means_table(run, figures))
        picture = ElementTree.fromstring(chart.svg(run, figures))
        lengths = [float(bar.get("width")) for bar in picture.iter("{http://www.w3.org/2000/svg}rect")]
        self.assertEqual(lengths, [62.5, 187.5, 125, 125])  # Mallow is the faster one, and so the first
        self.assertIn("mallow 0.50 and 1.50", picture.get("aria-label"))

    def test_results_say_when_and_of_which_commit(self):
        run = MadeRun({"pair": steady({"glibc": {"pair/64": 1}, "mallow": {"pair/64": 1}})})
        run.config["built"] = {"commit": "abc123", "library": "gcc 1", "workloads": "gcc 2"}
        figures = Figures(run)
        text = report.whole_text(run, figures, report.summarise(figures))
        self.assertIn("Run of 2026-01-02, 03:04, commit abc123; library built by gcc 1", text)

    def test_what_begins_changes_with_the_workload_and_with_the_round(self):
        # With one round the first two in the list ran with cold caches in every row.
        shown = [Stub(name=n, runs_in=lambda *_: True) for n in ("glibc", "mallow", "other")]
        chosen = [Stub(name=n, runs_under=lambda _: True) for n in ("git", "lua", "z3")]
        run = runner.Run("", {"form": "quick", "workloads": [w.name for w in chosen]}, shown, chosen)
        orders = {(w.name, number): [a.name for a in run.taking_part(w, number)]
                  for w in chosen for number in range(3)}
        for name in ("git", "lua", "z3"):
            self.assertEqual({orders[name, n][0] for n in range(3)}, {"glibc", "mallow", "other"})
        for number in range(3):
            self.assertEqual({orders[w.name, number][0] for w in chosen}, {"glibc", "mallow", "other"})
        self.assertEqual(orders["lua", 0], ["mallow", "other", "glibc"])

    def test_the_first_run_of_a_program_is_not_counted(self):
        run = runner.Run("", {"form": "quick", "workloads": ["lua"]}, [], [])
        seen = []
        with mock.patch.object(programs, "measure", lambda *_: seen.append(1) or {"run": len(seen)}):
            counted = [run.measure_program(Stub(name="lua"), Stub(name="glibc")) for _ in range(2)]
        self.assertEqual([sample["run"] for sample in counted], [2, 3])


if __name__ == "__main__":
    unittest.main()
