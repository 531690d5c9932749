#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Misuse at hard places (places.c), in programs of four kinds: each prints its sentence and aborts.

  places.py LIBRARY ARCHIVE PLACES SOURCE

PLACES, built from SOURCE, is run with LIBRARY preloaded. With ARCHIVE, SOURCE is linked statically;
where there is a musl-gcc, it is also built for musl, once for LIBRARY and once with ARCHIVE.
"""

import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import ending  # noqa: E402

FLAGS = ["-std=c17", "-D_GNU_SOURCE", "-O1", "-fno-builtin", "-pthread"]
# By chance the signal hits another instruction each time.
TIMES = {"signal-handler": 10, "abort-handler-among-threads": 3}


def build(words):
    """None, or what the compiler said."""
    done = subprocess.run(words, capture_output=True, text=True)
    return done.stderr if done.returncode != 0 else None


def programs(library, archive, program, source, folder):
    """(kind, path, library to preload), or (kind, None, why it cannot be had)."""
    yield "preloaded", program, library
    trial = folder / "trial.c"
    trial.write_text("int main(void) { return 0; }\n")
    for kind, compiler, link in (("static", "cc", [archive]), ("static musl", "musl-gcc", [archive]),
                                 ("preloaded musl", "musl-gcc", [])):
        static = ["-static"] if link else []
        if not shutil.which(compiler):
            yield kind, None, f"there is no {compiler}"
        elif build([compiler, *static, "-o", str(folder / "trial"), str(trial)]):
            yield kind, None, f"{compiler} links no program of this kind here"
        else:
            path = str(folder / kind.replace(" ", "-"))
            wrong = build([compiler, *FLAGS, *static, "-o", path, source, *link])
            if wrong:
                sys.exit(f"{kind}: {wrong}")
            yield kind, path, "" if link else library


def problem(end):
    if end.code is None:
        return "hangs"
    if end.code != -signal.SIGABRT:
        return f"ended with {end.code}, not by SIGABRT: {end.errors.strip()!r}"
    # The debug build says below its sentence who called, allocated and freed: those lines are indented.
    lines = [line for line in end.errors.splitlines() if not re.match(r"    +\S", line)]
    if not lines:
        return "no sentence"
    odd = [line for line in lines if not re.fullmatch(r"mallow: (double )?free of 0x[0-9a-f]+.*[^.]", line)]
    return f"not its sentence: {odd[0]!r}" if odd else None


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    library, archive, program, source = sys.argv[1:]
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        for kind, path, preload in programs(library, archive, program, source, pathlib.Path(name)):
            if path is None:
                print(f"skip {kind}: {preload}")
                continue
            env = {k: v for k, v in ending.environment(preload).items() if k != "LD_PRELOAD"}
            if preload:
                env["LD_PRELOAD"] = preload
            for place in ending.run([path, "--list"], env).out.split():
                ends = [ending.run([path, place], env) for _ in range(TIMES.get(place, 1))]
                wrong = next((problem(end) for end in ends if problem(end)), None)
                failed += wrong is not None
                print(f"{'FAIL' if wrong else 'ok  '} {kind}: {place}: {wrong or ends[0].sentence()}")
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
