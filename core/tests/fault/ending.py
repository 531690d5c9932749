# SPDX-License-Identifier: MIT
"""How a program ends under an allocator: what the checks of suite/, probes/ and places/ share."""

import concurrent.futures
import itertools
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys

TIME_LIMIT_S = 60
# What the user has set must not change what is tested.
NOT_INHERITED = ("LD_PRELOAD", "MALLOC_CONF", "MALLOW_CONF", "MALLOC_CHECK_", "GLIBC_TUNABLES")
OPERATORS = "libstdc++.so.6"
MODES = ("fast", "secure", "debug")
RECORD_TIMES = 10
RUNS = 20  # of a program that has ended otherwise, of which so many may
MAY_DIFFER = 3

# The programs die by the hundred: no core file of any.
resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


class Ending:
    """`code` is the exit code, below 0 a signal, None if the program had to be killed."""

    def __init__(self, code, out, errors):
        self.code, self.out, self.errors = code, out, errors

    def is_by_signal(self):
        return self.code is not None and self.code < 0

    def sentence(self):
        """The first line on standard error, or the signal."""
        if self.errors.strip():
            return self.errors.strip().splitlines()[0]
        return signal.Signals(-self.code).name if self.is_by_signal() else f"exit code {self.code}"


def environment(library, settings=None):
    """`library`: a path, several with colons, or "" for the C library's own allocator. Where none
    of them has the operators of C++, the standard library's stand in, which call malloc."""
    kept = {k: v for k, v in os.environ.items() if k not in NOT_INHERITED}
    preload = [path for path in library.split(":") if path]
    if not any(has_operators(path) for path in preload):
        preload.append(OPERATORS)
    return dict(kept, LD_PRELOAD=":".join(preload), **(settings or {}))


def has_operators(path):
    try:
        with open(path, "rb") as file:
            return b"_ZdlPvmSt11align_val_t" in file.read()
    except OSError:
        return False


def run(command, env, limit_s=TIME_LIMIT_S):
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, errors="replace",
                              timeout=limit_s, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as late:
        text = [part.decode(errors="replace") if part else "" for part in (late.stdout, late.stderr)]
        return Ending(None, *text)
    return Ending(done.returncode, done.stdout, done.stderr)


def run_all(jobs, function):
    """function(job) for each job, as many at a time as there are processors; in the jobs' order."""
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(function, jobs))


def checked(outcome, problem):
    """(word, sentence, problem) of a program: what `outcome()` says, and what `problem` finds wrong with its
    word and sentence. Where chance has a part in it, MAY_DIFFER runs of RUNS may end otherwise."""
    word, sentence = outcome()
    wrong = problem(word, sentence)
    more = (problem(*outcome()) is not None for _ in range(RUNS - 1))
    differ = itertools.accumulate(more, initial=1)  # a run for each that is looked at
    if wrong and word != "hung" and all(count <= MAY_DIFFER for count in differ):
        wrong = None
    return word, sentence, wrong


def arguments(usage):
    """Of `[--record] MODE LIBRARY PROGRAM [NAME ...]`: whether to record, the mode, the environment under the
    library, the program, the names."""
    is_recording = sys.argv[1:2] == ["--record"]
    words = sys.argv[1 + is_recording:]
    if len(words) < 3 or words[0] not in MODES:
        sys.exit(usage)
    mode, library, program, *names = words
    return is_recording, mode, environment(str(pathlib.Path(library).resolve(strict=True))), program, names


def rows(path):
    """(line number, words) of a table of words."""
    for number, line in enumerate(path.read_text().splitlines()):
        words = line.split()
        if words and not words[0].startswith("#"):
            yield number, words


def rewrite(path, column, words):
    """Puts `words` (line number to word) into a column of a table of words, aligned as it was."""
    lines = path.read_text().splitlines()
    for number, word in words.items():
        place = list(re.finditer(r"\S+ *", lines[number]))[column]
        width = place.end() - place.start()
        lines[number] = (lines[number][:place.start()] + word.ljust(width)
                         + lines[number][place.end():]).rstrip()
    path.write_text("\n".join(lines) + "\n")
