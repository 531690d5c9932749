#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The leak check names each lost block, by the calls that allocated it, and no other.

  leaks.py LIBRARY PROGRAM
"""

import os
import subprocess
import sys
import tempfile

# In this order: the causes first.
EXPECTED = [(300000, 1, "direct"), (16800, 300, "direct"), (120, 3, "direct"), (32, 1, "direct"),
            (0, 2, "direct"), (16800, 300, "indirect"), (500, 1, "indirect")]
# By their numbers in that order: the two of each ring, and the node's next.
POINTS = [(2, 6), (4, 7), (6, 2)]


def main():
    library, program = sys.argv[1:]
    for words in ([program], [program, "thread"], [program, "signal"]):
        check(library, words, "tcache:true")
    check(library, [program], "tcache:false")  # tracked blocks lie among those that are not
    check_blind(library, [program, "refused"], "the kernel refuses process_vm_readv")
    check_blind(library, [program, "nothing"], "/proc/thread-self/maps cannot be read")


def check_blind(library, words, reason):
    """Where nothing can be looked through no block is called lost."""
    env = dict(os.environ, LD_PRELOAD=library, MALLOW_CONF="leak_check:true")
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=120)
    if done.returncode == 77:
        return
    said = [line for line in done.stderr.splitlines() if line.startswith("mallow: ")]
    if done.returncode != 0 or said != [f"mallow: leaks cannot be checked here: {reason}"]:
        sys.exit(f"{words}: exit code {done.returncode}, said {said}")


def check(library, words, of_jemalloc):
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report")
        env = dict(os.environ, LD_PRELOAD=library, MALLOW_CONF="leak_check:true",
                   MALLOC_CONF=of_jemalloc, MALLOW_FAULT_REPORT=report)
        done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=120)
        lines = open(report).read().splitlines() if os.path.exists(report) else []
    found = [(int(words[1]), int(words[2]), words[3]) for words in map(str.split, lines)
             if words[0] == "leak"]
    points = sorted((int(words[1]), int(words[2])) for words in map(str.split, lines)
                    if words[0] == "points")
    print(done.stderr)
    if done.returncode != 0 or found != EXPECTED:
        sys.exit(f"{words}: exit code {done.returncode}, found {found}, not {EXPECTED}")
    if points != POINTS:
        sys.exit(f"{words}: what points to what: {points}, not {POINTS}")
    if done.stderr.count(" blocks, which only leaked blocks point to, from") != 2:
        sys.exit(f"{words}: the words do not say which two leaks are indirect")
    if lines[0] != "mallow-fault 1" or lines[1] != "kind leak" or lines[-1] != "end":
        sys.exit(f"the report is not as docs/fault-report.md says: {lines[:2]}, {lines[-1]}")


if __name__ == "__main__":
    main()
