#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""valgrind knows the blocks of the debug build: each fault of memcheck.c is reported with the calls that
allocated and freed the block, and nothing is reported of a correct program.

  memcheck.py LIBRARY PROGRAM

Skipped where valgrind is not installed.
"""

import os
import re
import shutil
import subprocess
import sys

SKIPPED = 77
COMMAND = ["valgrind", "--leak-check=full", "--soname-synonyms=somalloc=nouserintercepts"]
BLOCK = r".*by 0x\w+: malloc .*by 0x\w+: main"

# What follows stands in the report in this order.
EXPECTED = {
    "clean": [r"ERROR SUMMARY: 0 errors"],
    "threads": [r"ERROR SUMMARY: 0 errors"],
    "read-behind": ["Invalid read of size 1", "is 1 bytes after a block of size 40 alloc'd" + BLOCK],
    "read-before": ["Invalid read of size 1", "is 3 bytes before a block of size 40 alloc'd" + BLOCK],
    "read-freed": ["Invalid read of size 1", "is 5 bytes inside a block of size 40 free'd",
                   "Block was alloc'd at" + BLOCK],
    "undefined": ["Conditional jump or move depends on uninitialised"],
    "undefined-after-realloc": ["Conditional jump or move depends on uninitialised"],
    "lost": ["1,234 bytes in 1 blocks are definitely lost" + BLOCK],
}


def problem(text, wanted):
    at = 0
    for pattern in wanted:
        found = re.compile(pattern, re.S).search(text, at)
        if not found:
            return f"no {pattern!r}"
        at = found.start()
    return None


def main():
    library, program = sys.argv[1:]
    if shutil.which("valgrind") is None:
        print("skipped: there is no valgrind")
        return SKIPPED
    failed = 0
    env = {k: v for k, v in os.environ.items() if k not in ("MALLOW_CONF", "MALLOC_CONF")}
    env["MALLOW_CONF"] = "guard_first:0,guard_sample:0,quarantine:65536"
    for fault, wanted in EXPECTED.items():
        done = subprocess.run([*COMMAND, program, fault], env=dict(env, LD_PRELOAD=library),
                              capture_output=True, text=True, timeout=300)
        wrong = problem(done.stderr, wanted)
        if wrong is None and done.returncode != 0:
            wrong = f"exit code {done.returncode}"
        print(f"{'FAIL' if wrong else 'ok  '} {fault}" + (f": {wrong}\n{done.stderr}" if wrong else ""))
        failed += wrong is not None
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
