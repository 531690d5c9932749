#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks what a built shared library shows to the dynamic linker.

  check.py LIBRARY            compare, exit 1 on a difference
  check.py --write LIBRARY    take the library's exported names as the new exported.txt
  check.py --prefix=je_ LIBRARY   one whose jemalloc names have a prefix: exported are the names of
                              prefixed.txt with that before them, and of exported.txt those of mw_

  exported names    exactly those of exported.txt
  undefined names   only those of undefined.txt, and each of them, unless weak, is exported by
                    every libc that is installed here, so that one object serves them all
  TLS               initial-exec only, so that no access to it calls the dynamic linker

What else keeps the library alone (no DT_NEEDED, the size of the TLS) is in tools/check-library.
"""

import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
LIBCS = {
    "glibc": ["/lib/x86_64-linux-gnu/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6",
              "/lib64/libc.so.6", "/usr/aarch64-linux-gnu/lib/libc.so.6"],
    "musl": ["/lib/ld-musl-x86_64.so.1", "/lib/ld-musl-aarch64.so.1"],
}
# What guards stacks on aarch64 is in the loader of glibc, which is there wherever its libc is.
GLIBC_LOADER = "ld-linux-aarch64.so.1"


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def lines_of(name):
    text = (HERE / name).read_text()
    return [line.split("#")[0].strip() for line in text.splitlines() if line.split("#")[0].strip()]


def symbols(library, *options):
    """Pairs of type letter and name, versions cut off."""
    found = []
    for line in output("nm", "-D", *options, str(library)).splitlines():
        fields = line.split()
        found.append((fields[-2], fields[-1].split("@")[0]))
    return found


def check_exported(library, prefix):
    expected = lines_of("exported.txt")
    problems = []
    if expected != sorted(expected):
        problems.append("exported.txt is not sorted (LC_ALL=C)")
    if prefix:
        expected = [name for name in expected if name.startswith("mw_")]
        expected += [prefix + name for name in lines_of("prefixed.txt")]
    found = {name for _, name in symbols(library, "--defined-only")}
    problems += [f"not exported: {name}" for name in sorted(set(expected) - found)]
    problems += [f"exported, but not in exported.txt: {name}" for name in sorted(found - set(expected))]
    return problems


def same_machine(library, libc):
    machines = [re.search(r"Machine:\s*(.*)", output("readelf", "-hW", str(path))).group(1)
                for path in (library, libc)]
    return machines[0] == machines[1]


def check_undefined(library):
    allowed = dict((line.split() + [""])[:2] for line in lines_of("undefined.txt"))
    undefined = symbols(library, "--undefined-only")
    problems = []
    for kind, name in undefined:
        weak = kind in "wv"
        if name not in allowed:
            problems.append(f"undefined, but not in undefined.txt: {name}")
        elif not weak and allowed[name] == "weak":
            problems.append(f"a strong reference to {name}, which undefined.txt allows only weak")
    for libc, paths in LIBCS.items():
        for path in map(pathlib.Path, paths):
            if not path.exists() or not same_machine(library, path):
                continue
            loaders = (path.parent / GLIBC_LOADER, pathlib.Path("/lib") / GLIBC_LOADER)
            files = [path, *(loader for loader in loaders if libc == "glibc" and loader.exists()
                             and same_machine(library, loader))]
            exported = {name for file in files for _, name in symbols(file, "--defined-only")}
            problems += [f"{libc} ({path}) does not export {name}"
                         for kind, name in undefined if kind not in "wv" and name not in exported]
            break
    return problems


def check_tls_model(library):
    relocations = output("readelf", "-rW", str(library))
    return [f"a {kind} relocation: its TLS is not initial-exec"
            for kind in ("DTPMOD", "TLSDESC") if kind in relocations]


def main():
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    if len(arguments) != 1:
        sys.exit(__doc__)
    library = pathlib.Path(arguments[0])
    if "--write" in sys.argv:
        names = sorted({name for _, name in symbols(library, "--defined-only")})
        (HERE / "exported.txt").write_text("\n".join(names) + "\n")
        return 0
    prefix = next((argument[9:] for argument in sys.argv if argument.startswith("--prefix=")), "")
    problems = check_exported(library, prefix) + check_undefined(library) + check_tls_model(library)
    for problem in problems:
        print(f"{library.name}: {problem}")
    print(f"{library.name}: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
