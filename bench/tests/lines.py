#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Table and picture of a database under many clients (rig/lines.py), from a result made by hand."""

import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
from xml.etree import ElementTree

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from rig import lines  # noqa: E402


def entry(name, scale, is_baseline=False, **versus):
    def metric(value):
        return {"median": value * scale}
    return {"allocator": name, "is_baseline": is_baseline, "user_s": metric(1), "system_s": metric(0.5),
            "peak_rss": metric(64 << 20), "average_rss": None,
            "values": [{"name": "tps", "metric": metric(1000)}, {"name": "p99 ms", "metric": None}],
            "time": None, "cpu": None, "memory": None, **versus}


RESULT = {
    "machine": {"cpu": "a", "usable_cpus": 2, "kernel": "6"}, "settings": {"rounds_made": 9},
    "conditions": [
        {"environment": {"CLIENTS": clients},
         "entries": [entry("glibc", 1, True), entry("mine", 0.5, time={"verdict": "less", "ratio": 0.5},
                                                    memory={"verdict": "inconclusive", "ratio": 0.9})]}
        for clients in ("1", "16")]}


class Percentile(unittest.TestCase):
    def test_it_is_of_all_logs_of_the_load(self):
        script = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "database")
        loader = importlib.machinery.SourceFileLoader("database", script)
        database = importlib.util.module_from_spec(importlib.util.spec_from_loader("database", loader))
        loader.exec_module(database)
        with tempfile.TemporaryDirectory() as folder:
            for log, times in (("log.7", range(1000, 1500)), ("log.7.1", [*range(1500, 1990), *[90000] * 10])):
                with open(os.path.join(folder, log), "w", encoding="utf-8") as file:
                    file.writelines(f"0 {number} {time} 0 1700000000 5\n" for number, time in enumerate(times))
            said = subprocess.run(["/bin/sh", "-c", database.PostgreSQL(folder).percentile()], check=True,
                                  capture_output=True, text=True).stdout
        self.assertEqual(said, "99th percentile: 1.989\n")


class Lines(unittest.TestCase):
    def test_table_has_medians_and_verdicts(self):
        rows = lines.table(RESULT).splitlines()
        self.assertEqual(rows[0], "| clients | allocator | tps | CPU of the server, s | peak RSS, MiB | time | CPU | memory |")
        self.assertEqual(rows[2], "| 1 | glibc | 1000 | 1.5 | 64 | – | – | – |")
        self.assertEqual(rows[5], "| 16 | mine | 500 | 0.75 | 32 | 0.50 less | ? | 0.90 ~ |")

    def test_picture_has_a_line_for_each_allocator_in_each_panel(self):
        picture = ElementTree.fromstring(lines.svg(RESULT))
        paths = [path for path in picture.iter("{http://www.w3.org/2000/svg}path") if len(path)]
        self.assertEqual(len(paths), 3 * 2)

    def test_a_logarithmic_axis_has_marks_between_least_and_greatest(self):
        marks, place = lines.logarithmic([10, 30, 90])
        self.assertEqual([round(mark) for mark in marks], [10, 20, 50])
        self.assertAlmostEqual(place(10), 0)
        self.assertGreater(place(90), 0.99)
        marks, _ = lines.logarithmic([10, 300000])
        self.assertEqual([round(mark) for mark in marks], [10, 100, 1000, 10000, 100000])

    def test_a_page_is_changed_between_its_marks_only(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "database.md")
            text = "before\n<!-- mariadb -->\nold\n<!-- until here -->\nafter\n"
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            for _ in range(2):
                lines.publish(RESULT, "mariadb", folder)
            with open(path, encoding="utf-8") as file:
                written = file.read()
            self.assertTrue(written.startswith("before\n<!-- mariadb -->\na, 2 CPUs"))
            self.assertTrue(written.endswith("<!-- until here -->\nafter\n"))
            self.assertNotIn("old", written)


if __name__ == "__main__":
    unittest.main()
