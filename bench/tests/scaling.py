#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Figures and tables of bench/scaling, from a result made by hand."""

import importlib.machinery
import importlib.util
import os
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "scaling")
loader = importlib.machinery.SourceFileLoader("scaling", SCRIPT)
scaling = importlib.util.module_from_spec(importlib.util.spec_from_loader("scaling", loader))
loader.exec_module(scaling)


def sample(ns):
    return {"wall_ns": ns, "cpu_ns": ns, "peak_mib": 1}


RESULT = {"rows": {"pairs": {"glibc": {1: [sample(20.0), sample(10.0)], 16: [sample(30.0)]},
                             "mine": {1: [sample(5.0)], 16: [None]}},
                   "begun": {"glibc": {1: [sample(1.0)], 16: [sample(1.0)]}, "mine": {1: [sample(2.0)], 16: []}},
                   "missed": {"glibc": {1: []}, "mine": {1: []}}}}


class Scaling(unittest.TestCase):
    def test_the_least_counts_and_what_took_too_long_has_none(self):
        self.assertEqual(scaling.figures(RESULT)["pairs"], {"glibc": {1: 10.0, 16: 30.0}, "mine": {1: 5.0}})

    def test_what_not_all_were_asked_is_left_out(self):
        self.assertEqual(scaling.figures(RESULT)["begun"], {"glibc": {1: 1.0}, "mine": {1: 2.0}})
        self.assertEqual(list(scaling.figures(RESULT)), ["pairs", "begun"])

    def test_who_took_too_long_has_no_mean(self):
        result = {"rows": {"a": {"glibc": {1: [sample(10.0)], 2: [sample(8.0)]}, "mallow": {1: [sample(5.0)], 2: [None]}},
                           "b": {"glibc": {1: [sample(8.0)], 2: [sample(8.0)]},
                                 "mallow": {1: [sample(1.0)], 2: [sample(2.0)]}}}}
        means = scaling.means(scaling.figures(result))
        self.assertEqual(list(means["mallow"]), [1])
        self.assertAlmostEqual(means["mallow"][1], 0.25)
        self.assertEqual(means["glibc"], {1: 1.0, 2: 1.0})

    def test_table_has_a_line_for_each_allocator(self):
        lines = scaling.table("pairs", scaling.figures(RESULT)["pairs"]).splitlines()
        self.assertEqual(lines[0], "| pairs | 1 | 16 |")
        self.assertEqual(lines[2:], ["| glibc | 10 | 30 |", "| mine | 5 | – |"])

    def test_every_row_is_a_pattern(self):
        for row in scaling.ROWS:
            order, *_, count, low, high = scaling.arguments(row, 4, 100)
            self.assertIn(order, ["random", "phases", "grow", "build", "exchange", "ring", "brief"])
            self.assertEqual(count, "100")
            self.assertLessEqual(int(low), int(high))


if __name__ == "__main__":
    unittest.main()
