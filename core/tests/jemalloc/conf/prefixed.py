#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Shows that a build with a prefix reads, and names, the sources of that prefix.

  prefixed.py LIBRARY PREFIX
"""

import os
import subprocess
import sys

LOADS = "import ctypes, sys; getattr(ctypes.CDLL(sys.argv[1]), sys.argv[2] + 'malloc')(1)"


def told(library, prefix, **environment):
    """What confirm_conf says in a program that loads the library."""
    clean = {name: value for name, value in os.environ.items() if "MALLO" not in name}
    done = subprocess.run([sys.executable, "-c", LOADS, library, prefix], text=True, check=True,
                          capture_output=True, env={**clean, **environment})
    return done.stderr


def main():
    library, prefix = sys.argv[1:]
    variable = prefix.upper() + "MALLOC_CONF"
    text = told(library, prefix, **{variable: "confirm_conf:true"})
    failed = 0
    for sentence in (f"global variable {prefix}malloc_conf):",
                     f"symbolic link named /etc/{prefix}malloc.conf):",
                     f"value of the environment variable {variable}): \"confirm_conf:true\"\n",
                     f"global variable {prefix}malloc_conf_2_conf_harder):"):
        is_there = sentence in text
        failed += not is_there
        print(f"{'ok  ' if is_there else 'FAIL'} {sentence!r}")
    other = told(library, prefix, MALLOC_CONF="confirm_conf:true")
    failed += other != ""
    print(f"{'FAIL' if other else 'ok  '} MALLOC_CONF is not read {other!r}")
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
