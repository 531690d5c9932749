#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How well an attacker can guess where blocks lie (heap feng shui), over many runs of layout.c.

  layout.py [--runs N] LAYOUT NAME=LIBRARY ...     LIBRARY may be empty: the C library's own allocator

For each distance it prints how often the best guess is right, and the bits of collision entropy:
-log2 of the probability that two runs have the same distance. That is 0 where a distance is always
the same and counts a byte of true randomness as 8 bits; N runs show up to 2 log2(N) - 1 bits, and
where no two were the same, ">" stands in front. Fails where a program does not run, and where the secure
build is more easily guessed than LEAST_BITS says.
"""

import argparse
import collections
import math
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import ending  # noqa: E402


# Of the secure build, well below what is measured (docs/hardening.md): what chance does in 300 runs is no
# matter.
LEAST_BITS = {"next-small": 5, "next-medium": 3, "next-page": 3, "next-large": 12, "again-small": 5,
              "again-page": 3, "again-large": 12, "small-to-page": 7, "small-to-large": 12,
              "small-to-libc": 12, "large-to-libc": 12}


def bits(values):
    """(text, number): the collision entropy of what was seen."""
    pairs = len(values) * (len(values) - 1) // 2
    same = sum(count * (count - 1) // 2 for count in collections.Counter(values).values())
    if same == 0:
        return f">{math.log2(pairs):.1f}", math.log2(pairs)
    value = math.log2(pairs / same)
    return f"{abs(value):.1f}", value


def best_guess(values):
    return collections.Counter(values).most_common(1)[0][1] / len(values)


def measure(program, env, runs):
    """Each distance's name to its values over the runs."""
    def once(_):
        end = ending.run([program], env)
        if end.code != 0:
            sys.exit(f"{program}: {end.sentence()}")
        return [line.split() for line in end.out.splitlines()]

    distances = collections.defaultdict(list)
    for lines in ending.run_all(range(runs), once):
        for name, value in lines:
            distances[name].append(int(value))
    return dict(distances)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("program")
    parser.add_argument("allocators", nargs="+")
    arguments = parser.parse_args()
    if arguments.runs < 2:
        sys.exit("--runs must be at least 2")
    measured = {}
    for item in arguments.allocators:
        name, _, library = item.partition("=")
        measured[name] = measure(arguments.program, ending.environment(library), arguments.runs)
    print(f"{arguments.runs} runs: bits of entropy (how often the best guess is right)")
    print(f"{'distance':<16}" + "".join(f"{name:>22}" for name in measured))
    for distance in next(iter(measured.values())):
        cells = [f"{bits(found[distance])[0]} ({100 * best_guess(found[distance]):.1f} %)"
                 for found in measured.values()]
        print(f"{distance:<16}" + "".join(f"{cell:>22}" for cell in cells))
    guessed = [f"{distance} has {bits(found)[1]:.1f} bits, and at least {LEAST_BITS[distance]} are asked for"
               for distance, found in measured.get("secure", {}).items()
               if bits(found)[1] < LEAST_BITS[distance]]
    print("".join(f"secure is easily guessed: {line}\n" for line in guessed), end="")
    return 1 if guessed else 0


if __name__ == "__main__":
    sys.exit(main())
