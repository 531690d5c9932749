#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Guarded blocks of the fast and the secure build (guard_sample): each fault of sampled.c is told, with the
stacks of the block, and what is no fault is left alone.

  sampled.py MODE LIBRARY PROGRAM
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import ending  # noqa: E402

EVERY = "guard_sample:1"

# name: (kind, sentence, whether the free is known); a block lies at either end of its pages by chance.
FAULTS = {
    "read_after_free": ("read-after-free", r"read after free: byte 5 of 0x\w+ \(48 bytes, ", True),
    "write_after_free": ("write-after-free",
                         r"write after free: byte 20000 of 0x\w+ \(30000 bytes, ", True),
    "read_long_after_free": ("read-after-free", r"read after free: byte 47 of 0x\w+ \(48 ", True),
    "use_after_realloc": ("write-after-free", r"write after free: byte 99 of 0x\w+ \(100 ", True),
    "use_of_dead_thread": ("read-after-free", r"read after free: byte 0 of 0x\w+ \(40 ", True),
    "read_behind_page": ("out-of-bounds", r"overflow of .*: read of byte 0 behind it", False),
    "write_in_front_of_page": ("out-of-bounds",
                               r"underflow of .*: write of byte 1 in front of it", False),
    "read_far_behind": ("out-of-bounds",
                        r"overflow of .*\(100 bytes, .*: read of byte \d+ behind it", False),
    "write_behind": ("overflow", r"overflow of .*\(41 bytes, .*: byte 0 behind it is 0x0", False),
    "write_behind_then_realloc": ("overflow", r"overflow of .*: byte 1 behind it is 0x0", False),
    "write_behind_then_look": ("overflow", r"overflow of .*: byte 2 behind it is 0x0", False),
    "write_behind_shrunk": ("overflow", r"overflow of .*\(10000 bytes, .*: byte 0 behind", False),
    "write_behind_aligned": ("overflow", r"overflow of .*\(100 bytes, .*: byte 0 behind", False),
    "write_behind_calloc": ("overflow", r"overflow of .*\(25 bytes, .*: byte 0 behind", False),
    "write_to_zero_size": ("overflow", r"overflow of .*\(0 bytes, .*: byte 0 behind", False),
    "double_free": ("double-free",
                    r"double free of 0x\w+ \(40 bytes, allocated by thread \d+, freed by thread "
                    r"\d+\)$", True),
    "double_free_by_thread": ("double-free", r"double free of 0x\w+ \(40 bytes, ", True),
    "double_free_in_child": ("double-free", r"double free of 0x\w+ \(40 bytes, ", True),
    "free_inside": ("interior-free",
                    r"free of 0x\w+, which is 16 bytes inside a block of 100 bytes ", False),
    "free_misaligned": ("misaligned-free", r"free of .*, which is 3 bytes inside a block", False),
    "free_of_guard": ("interior-free", r"free of .*, which is 0 bytes behind a block", False),
    "realloc_of_freed": ("double-free", r"realloc of 0x\w+ \(40 bytes, .*, which is free$", True),
    "size_of_freed": ("double-free", r"malloc_usable_size of .*, which is free$", True),
}

# name: (settings, the signal that ends it)
OTHERS = {
    "crash": (EVERY, signal.SIGSEGV),
    "sent": (EVERY, signal.SIGSEGV),
    "later_handler": (EVERY, 0),
    "clean": (EVERY, 0),
    "shrunk": (EVERY, 0),
    "figures": (EVERY, 0),
    "sizes": (EVERY, 0),
    "rate": ("guard_sample:100", 0),
    "full": (EVERY + ",guard_slots:16", 0),
    "off": ("guard_sample:0", 0),
}
# There a block of no bytes is an address without access.
NOT_OF_SECURE = ("write_to_zero_size",)
MORE_SETTINGS = {
    "clean": ["guard_sample:3,guard_slots:1", "guard_sample:20,prof:true,lg_prof_sample:10",
              EVERY + ",junk:true", EVERY + ",zero:true"],
    "rate": ["guard_sample:100,prof:true,lg_prof_sample:12"],
    "off": ["", "guard_slots:64"],
}


def run(program, words, settings, library, report=None):
    env = {k: v for k, v in os.environ.items() if k not in ending.NOT_INHERITED}
    env["MALLOW_CONF"] = settings
    if library:
        env["LD_PRELOAD"] = library
    if report:
        env["MALLOW_FAULT_REPORT"] = report
    return subprocess.run([program, *words], env=env, capture_output=True, text=True, timeout=300)


def names(report):
    """The first word of each line, and of the stacks the second."""
    found = {}
    for line in report.splitlines():
        words = line.split(" ")
        key = " ".join(words[:2]) if words[0] == "stack" else words[0]
        found.setdefault(key, words[1:])
    return found


def problem_of_fault(program, library, words, expected):
    kind, sentence, is_freed = expected
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report")
        done = run(program, words, EVERY, library, path)
        report = open(path).read() if os.path.exists(path) else ""
    said = [line.removeprefix("mallow: ") for line in done.stderr.splitlines()
            if line.startswith("mallow: ")]
    if done.returncode != -signal.SIGABRT:
        return f"ended with {done.returncode}: {done.stdout}{done.stderr}"
    if len(said) != 1 or not re.match(sentence, said[0]):
        return f"said {said}, not {sentence!r}"
    found = names(report)
    if found.get("kind") != [kind] or report.count("\nend\n") != 1:
        return f"a report of {found.get('kind')}, not {kind}: {report}"
    wanted = ["stack now", "stack allocated"] + ["stack freed"] * is_freed
    missing = [stack for stack in wanted if len(found.get(stack, [])) < 4]
    if missing or ("stack freed" in found) != is_freed:
        return f"stacks: {missing} are missing or short in {report}"
    return None


def problem(program, library, name, settings, ends_by):
    done = run(program, [name], settings, library)
    if done.returncode != -ends_by or done.stderr:
        return f"ended with {done.returncode}: {done.stdout}{done.stderr}"
    return None


def main():
    mode, library, program = sys.argv[1:]
    if mode == "secure":
        for name in NOT_OF_SECURE:
            FAULTS.pop(name)
        OTHERS["unasked"] = ("", 0)
        MORE_SETTINGS["off"] = []
    failed = 0

    def tell(name, wrong):
        nonlocal failed
        failed += wrong is not None
        print(f"{'FAIL' if wrong else 'ok  '} {name}{': ' + wrong if wrong else ''}", flush=True)

    for name, expected in FAULTS.items():
        for _ in range(3):  # both ends of the pages
            wrong = problem_of_fault(program, library, [name], expected)
            if wrong:
                break
        tell(name, wrong)
    # The allocator is a module here, and not preloaded.
    tell("earlier_handler", problem_of_fault(program, "", ["earlier_handler", library],
                                             FAULTS["read_after_free"]))
    for name, (settings, ends_by) in OTHERS.items():
        for each in [settings, *MORE_SETTINGS.get(name, [])]:
            tell(f"{name} {each}", problem(program, library, name, each, ends_by))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
