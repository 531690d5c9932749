#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the fault suite against one build of Mallow and compares with cases.txt.

  suite.py MODE LIBRARY DRIVER [NAME ...]     NAME: only these faults
  suite.py --record MODE LIBRARY DRIVER       writes what the build does into cases.txt: each case is
                                            run several times

Fails where a case ends otherwise than cases.txt says, better or worse, or a correct program is
reported. Where chance has a part in it (a canary may be what was written over it), a case that has
ended otherwise must end as it says in 17 runs of 20. Fails too where cases.txt itself says that a build
catches a smaller share of the cases in every run than it did (LEAST).
"""

import collections
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import ending  # noqa: E402

CASES = HERE / "cases.txt"
FAMILIES = ("bounds", "use", "frees", "matching", "requests", "threads")
CAUGHT = ("caught", "refused")
# Caught in every run, so many cases of so many: what --record writes may lower that, but not unnoticed.
LEAST = {"secure": (274, 303), "debug": (295, 303)}

Case = collections.namedtuple("Case", "cwe fault entry size thread expected line")


def read_cases(path=CASES):
    cases = []
    for number, words in ending.rows(path):
        if len(words) != 8 or any(word not in ("caught", "missed", "varies") for word in words[5:]):
            sys.exit(f"{path}:{number + 1}: want cwe fault entry size thread and an outcome for each "
                     "of fast, secure, debug (caught, missed, varies)")
        cases.append(Case(int(words[0]), *words[1:5], dict(zip(ending.MODES, words[5:])), number))
    return cases


def name_of(case):
    return f"{case.fault} {case.entry} {case.size} {case.thread}"


def outcome(case, driver, env, limit_s=ending.TIME_LIMIT_S):
    """(word, sentence). The word is caught, refused, damaged, missed, absent or hung."""
    words = [str(driver), case.fault, case.entry, case.size, case.thread]
    end = ending.run(words, env, limit_s)
    if end.code == 2 or "usage:" in end.errors:
        sys.exit(f"{' '.join(words)}: {end.errors.strip()}")
    if end.code is None:
        return "hung", "did not end"
    if end.out.startswith("absent"):
        return "absent", end.out.strip()
    if end.code != 0 or end.errors.strip():
        return "caught", end.sentence()
    if end.out.startswith("refused"):
        return "refused", "refused"
    return ("damaged", end.out.strip()) if end.out.startswith("damaged") else ("missed", "")


def unsound(word, sentence):
    """What no build of Mallow may do, whatever is expected; None if all is well."""
    if word in ("hung", "absent"):
        return sentence
    if word == "caught" and not re.match(r"mallow: .*[^.]$|SIGSEGV$|SIGBUS$", sentence):
        return f"no sentence of Mallow's: {sentence!r}"
    return None


def problem(case, mode, word, sentence):
    """What is wrong with one run of a case; None if it is as cases.txt says."""
    expected = case.expected[mode]
    wrong = unsound(word, sentence)
    if wrong is None and expected != "varies" and (word in CAUGHT) != (expected == "caught"):
        wrong = f"expected {expected}"
    return wrong


def check(case, mode, driver, env):
    """(word, sentence, problem)."""
    return ending.checked(lambda: outcome(case, driver, env), lambda *seen: problem(case, mode, *seen))


def correct_programs(driver, env):
    """The families whose correct program was reported, with what was said."""
    reported = []
    for family in FAMILIES:
        end = ending.run([str(driver), "--correct", family], env)
        if end.code != 0 or end.errors.strip() or end.out.strip():
            reported.append((family, end.sentence()))
    return reported


def record(mode, cases, driver, env):
    jobs = [case for case in cases for _ in range(ending.RECORD_TIMES)]
    ends = collections.defaultdict(set)
    for case, (word, _) in zip(jobs, ending.run_all(jobs, lambda job: outcome(job, driver, env))):
        ends[case.line].add(word in CAUGHT)
    words = {line: "varies" if len(seen) == 2 else "caught" if True in seen else "missed"
             for line, seen in ends.items()}
    ending.rewrite(CASES, 5 + ending.MODES.index(mode), words)


def lost(mode, cases):
    """What is wrong if `cases`, all of them, hold a build to a smaller share than LEAST; else None."""
    least, of = LEAST.get(mode, (0, 1))
    certain = sum(case.expected[mode] == "caught" for case in cases)
    if certain * of >= least * len(cases):
        return None
    return (f"cases.txt has {certain} of {len(cases)} cases that {mode} catches in every run, "
            f"less than {least} of {of}")


def summary(cases, results):
    """A line for each weakness: how many of its cases are caught."""
    print(f"\n{'CWE':>5} {'cases':>6} {'caught':>7}  not caught")
    by_cwe = collections.defaultdict(list)
    for case, (word, *_) in zip(cases, results):
        by_cwe[case.cwe].append((case, word))
    for cwe, found in sorted(by_cwe.items()):
        missed = collections.Counter(case.fault for case, word in found if word not in CAUGHT)
        print(f"{cwe:>5} {len(found):>6} {sum(word in CAUGHT for _, word in found):>7}  "
              + ", ".join(f"{fault} {count}" for fault, count in missed.items()))
    caught = sum(word in CAUGHT for word, *_ in results)
    print(f"{len(cases)} cases, {caught} caught ({100 * caught / len(cases):.1f} %), "
          f"{sum(word == 'damaged' for word, *_ in results)} damaged")


def main():
    is_recording, mode, env, driver, names = ending.arguments(__doc__)
    cases = [case for case in read_cases() if not names or case.fault in names]
    if is_recording:
        record(mode, cases, driver, env)
        fewer = lost(mode, read_cases())
        if fewer:
            print(f"{fewer}: the test will fail")
        return 0

    results = ending.run_all(cases, lambda case: check(case, mode, driver, env))
    for case, (word, sentence, wrong) in zip(cases, results):
        print(f"{'FAIL' if wrong else 'ok  '} CWE-{case.cwe} {name_of(case)}: {word}: "
              f"{wrong + ': ' if wrong else ''}{sentence}")
    failed = sum(wrong is not None for _, _, wrong in results)
    for family, sentence in correct_programs(driver, env):
        failed += 1
        print(f"FAIL a correct program of the family {family} was reported: {sentence}")
    fewer = lost(mode, read_cases())
    if fewer:
        failed += 1
        print(f"FAIL {fewer}")
    summary(cases, results)
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
