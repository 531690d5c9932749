#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds the instructions of malloc and free on the hit path to the figures of figures.txt.

  check.py MODE LIBRARY COMPILER            77: not on this machine
  check.py --record MODE LIBRARY COMPILER   prints the lines for figures.txt

They are counted, not timed: by callgrind, with the program of bench/instructions. Counted are the functions of the hit
path alone: how often it is left chance and the clock have a say in. What is off costs nothing: with profiles that are built in and not active, a pair is the same number of instructions.
"""

import importlib.machinery
import importlib.util
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BENCH = HERE.parents[2] / "bench" / "instructions"
CASES = [("pair", 16), ("pair", 64), ("pair", 1024), ("pair", 2000), ("pair", 40000), ("live", 64)]
# What the two end in where that is no slow path.
OF_MALLOC, OF_FREE = {"alloc_medium"}, {"free_listed"}
OFF = ["", "prof:true,prof_active:false", "stats_interval:-1,background_thread:false"]
# Instructions. A list ends a little earlier or later from run to run; one more on the path is 1.0.
TOLERANCE = 0.4
PAIRS = 20_000


class Preloaded:
    """What bench/instructions asks of an allocator."""

    def __init__(self, library, settings):
        self.name, self.library, self.settings = "mallow", library, settings

    def environment(self):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("MALLO")}
        return {**clean, "LD_PRELOAD": self.library, "MALLOC_CONF": self.settings,
                "MALLOW_CONF": "guard_sample:0"}  # blocks that chance chooses are not the hit path

    def serves(self, file):
        return os.path.realpath(file) == os.path.realpath(self.library)


def bench():
    """The script bench/instructions, as a module."""
    loader = importlib.machinery.SourceFileLoader("instructions", str(BENCH))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("instructions", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


COUNT = bench()


def own_cost(profile):
    """The instructions of the functions that `drive` calls, without those of the slow paths: (malloc, free)."""
    costs, called, inside, of, is_call = {}, set(), "", "", False
    for line in profile:
        if line.startswith("fn="):
            inside = line[3:].strip()
        elif line.startswith("cfn="):
            of = line[4:].strip()
            called |= {of} if inside == "drive" else set()
        elif line.startswith("calls="):
            is_call = True
        elif line[0].isdigit() or line[0] in "+-*":
            costs[inside] = costs.get(inside, 0) + (0 if is_call else int(line.split()[1]))
            is_call = False
    of_free = {name for name in called if COUNT.IS_FREE.search(name)}
    assert len(called) == 2 and len(of_free) == 1, f"drive calls {called}"
    return tuple(sum(costs.get(name, 0) for name in names)
                 for names in (called - of_free | OF_MALLOC, of_free | OF_FREE))


def own_cost_per_call(binary, folder, allocator, case):
    """Start and end of the program are in the count of N pairs and in that of 2 N."""
    costs = []
    for pairs in (PAIRS, 2 * PAIRS):
        COUNT.count(binary, folder, allocator, case, pairs)
        with open(os.path.join(folder, "callgrind.out")) as profile:
            costs.append(own_cost(profile))
    return tuple((twice - once) / PAIRS for once, twice in zip(*costs))


def recorded(mode, compiler):
    lines = (line.split() for line in (HERE / "figures.txt").read_text().splitlines()
             if line and not line.startswith("#"))
    return {(pattern, int(size)): (float(malloc), float(free))
            for of, built_by, pattern, size, malloc, free in lines if (of, built_by) == (mode, compiler)}


def why_not(figures, is_recording):
    if platform.machine() != "x86_64":
        return "the figures are those of x86-64"
    if shutil.which("valgrind") is None:
        return "there is no valgrind"
    if not figures and not is_recording:
        return "figures.txt has none of this compiler"
    return None


def main():
    is_recording = sys.argv[1] == "--record"
    mode, library, compiler = sys.argv[1 + is_recording:]
    figures = recorded(mode, compiler)
    reason = why_not(figures, is_recording)
    if reason:
        print(f"skipped: {reason}")
        return 77
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            binary = COUNT.build(folder)
        except subprocess.CalledProcessError:
            print("skipped: the program cannot be compiled here")
            return 77
        for settings in OFF[:1] if is_recording else OFF:
            for case in CASES if not settings else CASES[1:2]:
                malloc, free = own_cost_per_call(binary, folder, Preloaded(library, settings), case)
                if is_recording:
                    print(mode, compiler, *case, round(malloc, 1), round(free, 1))
                    continue
                most = figures[case]
                is_good = malloc <= most[0] + TOLERANCE and free <= most[1] + TOLERANCE
                failed += not is_good
                print(f"{'ok  ' if is_good else 'FAIL'} {case[0]} {case[1]} {settings or 'as it is'}: malloc "
                      f"{malloc:.1f} of {most[0]}, free {free:.1f} of {most[1]}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
