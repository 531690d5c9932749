#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""With the option seed the debug build lays blocks out as the seed says: two runs without address
randomization have all distances of layout.c alike, and with another seed they are others. Other builds say that they
take none; under secure no two runs are alike.

  seed.py LAYOUT MODE=LIBRARY ...

Exits with 77 where the system lets nobody switch address randomization off.
"""

import ctypes
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import ending  # noqa: E402

ADDR_NO_RANDOMIZE = 0x40000
SEEDS = (1, 2, 999999999999999)
RUNS = 4
# A thread that the machine holds up for 50 ms takes less at once afterwards: then its blocks lie elsewhere.
TRIES = 5
REFUSAL = "mallow: seed has no effect: the debug build alone takes one\n"


def layouts(program, mode, library, seed):
    """What layout.c prints in some runs. No block lies on pages of its own: these are taken in turn."""
    env = ending.environment(library, {"MALLOW_CONF": f"seed:{seed},guard_first:0"})
    ends = [ending.run([program], env) for _ in range(RUNS)]
    for end in ends:
        if end.code != 0 or end.errors != ("" if mode == "debug" else REFUSAL):
            sys.exit(f"{mode}, seed {seed}: exit code {end.code}: {end.errors.strip()}")
    return {tuple(end.out.splitlines()) for end in ends}


def undisturbed_layouts(program, library, seed):
    for _ in range(TRIES):
        seen = layouts(program, "debug", library, seed)
        if len(seen) == 1:
            break
    return seen


def main():
    program, *items = sys.argv[1:]
    libraries = dict(item.split("=", 1) for item in items)
    # For the programs that are started from here; -1: the kernel refused.
    if ctypes.CDLL(None).personality(ADDR_NO_RANDOMIZE) == -1:
        print("skipped: address randomization cannot be switched off here")
        return 77
    by_seed = [undisturbed_layouts(program, libraries["debug"], seed) for seed in SEEDS]
    for seed, seen in zip(SEEDS, by_seed):
        print(f"seed {seed}: {', '.join(min(seen))}")
        if len(seen) != 1:
            sys.exit(f"seed {seed}: {len(seen)} layouts in {RUNS} runs: {sorted(seen)}")
    if len(set.union(*by_seed)) != len(SEEDS):
        sys.exit("two seeds have one layout")
    for mode in libraries.keys() - {"debug"}:
        seen = layouts(program, mode, libraries[mode], SEEDS[0])
        if mode == "secure" and len(seen) != RUNS:
            sys.exit(f"secure: a seed decides where blocks lie: {sorted(seen)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
