#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the misuse programs against one build and compares with the first line of their sources.

  run.py MODE LIBRARY PROGRAM_DIR SOURCE...

MODE is fast, secure or debug; LIBRARY is preloaded. The first line of a source reads
  // expect: secure=abort "double free" fast=any debug=abort "double free"
  abort "TEXT"   ends by SIGABRT, with one sentence "mallow: ..." that contains TEXT
  trap           ends by SIGSEGV: an access to pages without access
  ok             exit code 0 and no sentence
  any            whatever happens, as long as it ends
"""

import os
import pathlib
import re
import signal
import subprocess
import sys

TIME_LIMIT_S = 60


def expectation(source, mode):
    first = source.read_text().splitlines()[0]
    found = dict((name, (kind, text)) for name, kind, text in
                 re.findall(r'(\w+)=(abort|trap|ok|any)(?: "([^"]*)")?', first))
    if not first.startswith("// expect: ") or mode not in found:
        sys.exit(f"{source}: the first line names no expectation for {mode}")
    kind, text = found[mode]
    if kind == "abort" and not text:
        sys.exit(f"{source}: abort needs a sentence")
    return kind, text


def environment_of(source, mode, library):
    """The secure build guards one small block of 5000, and tells of its misuse by other sentences, or not at all: here
    it guards one of very many. With none at all it would not tell of traps. A program that has settings of its own
    adds this one where it matters."""
    environment = dict(os.environ, LD_PRELOAD=str(library))
    if mode == "secure" and "MALLOW_CONF" not in source.read_text():
        environment["MALLOW_CONF"] = "guard_sample:1000000000"
    return environment


def run(program, environment):
    try:
        done = subprocess.run([program], env=environment, capture_output=True, text=True,
                              errors="replace", timeout=TIME_LIMIT_S)
    except subprocess.TimeoutExpired:
        return None, "", "did not end"
    sentences = [line for line in done.stderr.splitlines() if line.startswith("mallow: ")]
    return done.returncode, sentences, done.stderr.strip()


def problem(kind, text, code, sentences, errors):
    """None if what happened is what was expected."""
    if code is None:
        return "did not end"
    if kind == "abort":
        if code != -signal.SIGABRT:
            return f"ended with {code}, not by SIGABRT: {errors!r}"
        if not sentences:
            return f"no sentence: {errors!r}"
        if not all(text in sentence for sentence in sentences):
            return f"{text!r} is not in {sentences!r}"
        if any(not re.match(r"mallow: [a-z].*[^.]$", sentence) for sentence in sentences):
            return f"not one lower-case sentence: {sentences!r}"
    if kind == "trap" and code != -signal.SIGSEGV:
        return f"ended with {code}, not by SIGSEGV: {errors!r}"
    if kind == "ok" and (code != 0 or sentences):
        return f"ended with {code}: {errors!r}"
    return None


def main():
    mode, library, directory = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    sources = [pathlib.Path(name) for name in sys.argv[4:]]
    if not library.exists() or not sources:
        sys.exit(__doc__)
    failed = 0
    for source in sorted(sources):
        kind, text = expectation(source, mode)
        environment = environment_of(source, mode, library)
        code, sentences, errors = run(directory / f"misuse_{source.stem}", environment)
        wrong = problem(kind, text, code, sentences, errors)
        failed += wrong is not None
        print(f"{'FAIL' if wrong else 'ok  '} {source.stem}: "
              f"{wrong or (sentences[0] if sentences else f'exit code {code}')}")
    print(f"{len(sources)} programs, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
