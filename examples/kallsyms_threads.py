#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Ten threads (2 outer x 5 inner) read a large text file line by line.

Each inner thread opens /proc/kallsyms for itself and makes every line a string of its own: file
buffers and many small strings from many threads at once. Prints the seconds it took.

    python3 examples/kallsyms_threads.py [FILE]
    mallow compare -- python3 examples/kallsyms_threads.py
"""

import sys
import threading
import time

OUTER = 2
INNER = 5

# A kernel without symbols, or one that hides them, leaves /proc/kallsyms empty or short: then
# another large text has to do, and in the end a source file of Python's own library. A text that is
# shorter than a usual kallsyms is read as many times as it takes to come to as many lines.
USUAL_LINES = 100_000
ENOUGH_LINES = 10_000
CANDIDATES = ["/proc/kallsyms", "/usr/share/dict/words", "/var/lib/dpkg/available"]


def count_lines(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return sum(1 for _ in file)
    except OSError:
        return 0


def choose_text():
    """A text of this machine and the number of its lines."""
    for path in CANDIDATES:
        lines = count_lines(path)
        if lines >= ENOUGH_LINES:
            return path, lines
    import _pydecimal

    return _pydecimal.__file__, count_lines(_pydecimal.__file__)


def read_lines(path, rounds):
    for _ in range(rounds):
        with open(path, encoding="utf-8", errors="replace") as file:
            for _line in file:
                pass


def run_threads(count, target, *args):
    threads = [threading.Thread(target=target, args=args) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main():
    if len(sys.argv) > 1:
        path, lines = sys.argv[1], count_lines(sys.argv[1])
    else:
        path, lines = choose_text()
    if lines == 0:
        sys.exit(f"{path} cannot be read or is empty")
    rounds = max(1, USUAL_LINES // lines)

    start = time.perf_counter()
    run_threads(OUTER, run_threads, INNER, read_lines, path, rounds)
    elapsed = time.perf_counter() - start
    print(f"{elapsed:.3f} s: {OUTER * INNER} threads read {path} ({lines} lines, {rounds} times)")


if __name__ == "__main__":
    main()
