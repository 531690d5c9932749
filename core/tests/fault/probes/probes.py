#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the exploit probes against one build of Mallow and compares with probes.txt.

  probes.py MODE LIBRARY PROBES [NAME ...]     NAME: only these
  probes.py --record MODE LIBRARY PROBES       writes what the build does into probes.txt

Fails where a probe ends otherwise than probes.txt says, better or worse; where chance has a part in
it, in more than one run of ten.
"""

import collections
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import ending  # noqa: E402

TABLE = HERE / "probes.txt"
# What each word of the table allows.
ALLOWED = {"reached": ("reached",), "stopped": ("stopped",), "missed": ("missed",),
           "foiled": ("stopped", "missed"), "varies": ("reached", "stopped", "missed")}

Probe = collections.namedtuple("Probe", "name expected line")


def read_probes(path=TABLE):
    probes = []
    for number, words in ending.rows(path):
        if len(words) != 4 or any(word not in ALLOWED for word in words[1:]):
            sys.exit(f"{path}:{number + 1}: want a name and for each of fast, secure, debug one of "
                     + ", ".join(ALLOWED))
        probes.append(Probe(words[0], dict(zip(ending.MODES, words[1:])), number))
    return probes


def outcome(name, program, env):
    """(word, sentence). The word is reached, stopped, missed or hung."""
    end = ending.run([str(program), name], env)
    if end.code == 2:
        sys.exit(f"{name}: {end.errors.strip()}")
    if end.code is None:
        return "hung", "did not end"
    if end.out.startswith("reached"):
        return "reached", end.out.strip()
    if end.code != 0:
        return "stopped", end.sentence()
    return "missed", ""


def word_for(ends):
    """The narrowest word of the table that allows all of `ends`."""
    return min((word for word, allowed in ALLOWED.items() if ends <= set(allowed)),
               key=lambda word: len(ALLOWED[word]))


def problem(expected, word, sentence):
    if word not in ALLOWED[expected]:
        return f"expected {expected}"
    if word == "stopped" and not re.match(r"mallow: .*[^.]$|SIGSEGV$|SIGBUS$|SIGILL$", sentence):
        return "no sentence of Mallow's"
    return None


def check(probe, mode, program, env):
    """(word, sentence, problem)."""
    return ending.checked(lambda: outcome(probe.name, program, env),
                          lambda *seen: problem(probe.expected[mode], *seen))


def main():
    is_recording, mode, env, program, names = ending.arguments(__doc__)
    probes = [probe for probe in read_probes() if not names or probe.name in names]
    listed = ending.run([program, "--list"], env).out.split()
    if not names and sorted(listed) != sorted(probe.name for probe in probes):
        sys.exit(f"probes.txt and `{program} --list` do not name the same probes")
    if is_recording:
        jobs = [probe for probe in probes for _ in range(ending.RECORD_TIMES)]
        seen = collections.defaultdict(set)
        for probe, (word, _) in zip(jobs, ending.run_all(
                jobs, lambda job: outcome(job.name, program, env))):
            seen[probe.line].add(word)
        ends = {line: word_for(words) for line, words in seen.items()}
        ending.rewrite(TABLE, 1 + ending.MODES.index(mode), ends)
        return 0

    results = ending.run_all(probes, lambda probe: check(probe, mode, program, env))
    for probe, (word, sentence, wrong) in zip(probes, results):
        print(f"{'FAIL' if wrong else 'ok  '} {probe.name}: {word}: "
              f"{wrong + ': ' if wrong else ''}{sentence}")
    failed = sum(wrong is not None for _, _, wrong in results)
    counts = collections.Counter(word for word, *_ in results)
    print(f"{len(probes)} probes: " + ", ".join(f"{n} {word}" for word, n in counts.items())
          + f"; {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
