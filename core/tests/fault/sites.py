#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the fault injection and checks that it visited every place that calls the kernel for memory.

  sites.py MODE PROGRAM [ARGUMENT...]

PROGRAM is injection.c, not position-independent and without inlining, so that each call of one of
the os_ functions in the source is one call instruction, and the return addresses that the program
prints ("site A B C", innermost first) name it. Exit code 1: a call was never made, but for those of
ELSEWHERE.
"""

import re
import subprocess
import sys

# The functions of os/os.h that end in a memory system call.
TARGETS = "map|map_aligned|unmap|purge|purge_lazy|remap|protect"
# What the program's calls do not come to, by build, and why: function -> how many calls.
OTHERWISE_SET = {
    "meta_map_huge": 3,  # metadata_thp, whose failures lead to where there is none
    "leaf_make": 2,  # the same
    "os_map_aligned": 1,  # a kernel that gives address space, and then refuses to open it
}
KEEPS_STACKS = OTHERWISE_SET | {
    "known_rows_map": 2,  # only the debug build and profiles walk stacks
    "store_map": 2,  # only the debug build and profiles keep call stacks
}
ELSEWHERE = {
    "fast": KEEPS_STACKS,
    # Blocks that are large enough to be moved have guards here, and are moved with these. What undoes half of a
    # pool is for failures that the fast build is given.
    "secure": KEEPS_STACKS | {"fence_try_remap": 1, "pages_move_out": 3, "pool_make": 1},
}
CALL = re.compile(rf"\s(?:callq?|bl)\s+[0-9a-f]+ <os_({TARGETS})(?:\.\w+)*>")
FUNCTION = re.compile(r"^[0-9a-f]+ <([^>]+)>:$")
ADDRESS = re.compile(r"^\s*([0-9a-f]+):\t")


def calls_in(program):
    """Return address -> (function, os function) of every call in the program."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", program], check=True,
                          capture_output=True, text=True).stdout
    calls, function, pending = {}, "", None
    for line in text.splitlines():
        opened, address = FUNCTION.match(line), ADDRESS.match(line)
        if address and pending:
            calls[int(address.group(1), 16)] = pending
            pending = None
        if opened:
            function = opened.group(1)
        called = CALL.search(line)
        if called:
            pending = (function, "os_" + called.group(1))
    return calls


def main():
    mode, program, *arguments = sys.argv[1:]
    run = subprocess.run([program, *arguments], capture_output=True, text=True)
    visited = set()
    for line in run.stdout.splitlines():
        if line.startswith("site "):
            visited |= {int(field, 16) for field in line.split()[1:]}
        else:
            print(line)
    sys.stderr.write(run.stderr)
    if run.returncode != 0:
        return run.returncode
    calls = calls_in(program)
    missed = 0
    elsewhere = dict(ELSEWHERE[mode])
    for address, (function, name) in sorted(calls.items()):
        state = "visited"
        if address not in visited:
            state = "left out" if elsewhere.get(function, 0) > 0 else "MISSED"
            elsewhere[function] = elsewhere.get(function, 0) - 1
            missed += state == "MISSED"
        print(f"{state:8} {name} in {function}")
    print(f"{len(calls)} call sites, {missed} missed")
    return 1 if missed or not calls else 0


if __name__ == "__main__":
    sys.exit(main())
