#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""short.py [--build DIR]: do bench/top, bench/serve and bench/scaling still measure what they say?

Each runs in its short form, and has to end well and to print its figures; how large these are is no matter. Closes with
N passed, N failed, N skipped.
"""

import argparse
import os
import re
import subprocess
import sys

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(BENCH)
# Nobody waits longer for what hangs.
MOST_S = 600

PRINTS = {
    "top": r"^10 processes that sleep, .*: [\d.]+ % of a core .* RSS [\d.]+ MiB$",
    "serve": r"(?s)^pairs a second of CPU: [\d.]+ M alone, .*^20 of 20 heaps read: .* RSS [\d.]+ MiB$",
    "scaling": r"(?s)^\| pairs of 64 B \| 1 \| 2 \|$.*^\| glibc \| [\d.]+ \| [\d.]+ \|$.*^\| mallow \| [\d.]+ \| [\d.]+ \|$",
}


def outcome(name, words):
    """passed, failed or skipped, and why."""
    needed = words[-1] if name != "scaling" else os.path.join(words[-1], "libmallow.so")
    if not os.path.exists(needed):
        return "skipped", f"{os.path.relpath(needed, ROOT)} is not built"
    try:
        done = subprocess.run([os.path.join(BENCH, name), "--short", *words], capture_output=True, text=True,
                              timeout=MOST_S)
    except subprocess.TimeoutExpired:
        return "failed", f"it has not ended after {MOST_S} s"
    if done.returncode != 0 or not re.search(PRINTS[name], done.stdout, re.MULTILINE):
        return "failed", f"exit code {done.returncode}: {done.stdout}{done.stderr}"
    return "passed", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    build = os.path.abspath(parser.parse_args().build)
    target = os.environ.get("CARGO_TARGET_DIR") or os.path.join(ROOT, "target")
    commands = [os.path.join(target, profile, "mallow") for profile in ("release", "debug")]
    mallow = next(filter(os.path.exists, commands), commands[-1])
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for name in PRINTS:
        words = ["--build", build] if name == "scaling" else ["--mallow", mallow]
        result, why = outcome(name, words)
        counts[result] += 1
        word = {"passed": "ok", "failed": "FAIL", "skipped": "skip"}[result]
        print(f"{word}: bench/{name} --short{': ' if why else ''}{why}", flush=True)
    print(", ".join(f"{count} {result}" for result, count in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
