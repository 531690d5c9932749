#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Shows that a program reads /etc/malloc.conf, as a link and as a file, and /etc/mallow.conf.

  system.py CLIENT     linked with the library, and with a malloc_conf of its own

Each run is in a namespace where a folder of ours lies at /etc. Ends with 77 where there can be none.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
INSIDE = 'mount --bind "$0" /etc && exec "$@"'

# What lies in /etc ("->": where a link leads to), what the environment has, what is asked for, the answer.
ROWS = [
    ({}, {}, "opt.dirty_decay_ms", "4711"),
    ({"malloc.conf": "->dirty_decay_ms:1"}, {}, "opt.dirty_decay_ms", "1"),
    ({"malloc.conf": "->dirty_decay_ms:1"}, {}, "opt.narenas", "3"),
    ({"malloc.conf": "narenas:5\ndirty_decay_ms:2\n"}, {}, "opt.dirty_decay_ms", "2"),
    ({"malloc.conf": "narenas:5\ndirty_decay_ms:2\n"}, {}, "opt.narenas", "5"),
    ({"malloc.conf": "->dirty_decay_ms:1"}, {"MALLOC_CONF": "dirty_decay_ms:3"}, "opt.dirty_decay_ms", "3"),
    ({"malloc.conf": "->dirty_decay_ms:1", "mallow.conf": "# Mallow's own\ndirty_decay_ms:4\n"},
     {"MALLOC_CONF": "dirty_decay_ms:3"}, "opt.dirty_decay_ms", "4"),
    ({"mallow.conf": "dirty_decay_ms:4\n"}, {"MALLOW_CONF": "dirty_decay_ms:5"}, "opt.dirty_decay_ms", "5"),
]


def run(options, folder, *command, **environment):
    clean = {name: value for name, value in os.environ.items()
             if name not in ("MALLOC_CONF", "MALLOW_CONF")}
    return subprocess.run(["unshare", "-m", *options, "sh", "-c", INSIDE, folder, *command], text=True,
                          capture_output=True, env={**clean, **environment}, timeout=60)


def options_that_work(folder):
    """Of unshare, for root or for others; None if a folder cannot be mounted with any."""
    if shutil.which("unshare"):
        for options in ([], ["-r"]):
            if run(options, folder, "true").returncode == 0:
                return options
    return None


def fill(folder, files):
    """What the loader needs, and `files`."""
    for file in pathlib.Path("/etc").glob("ld*"):
        if file.is_file():
            shutil.copy(file, folder)
    for name, text in files.items():
        path = pathlib.Path(folder, name)
        if text.startswith("->"):
            path.symlink_to(text[2:])
        else:
            path.write_text(text)


def main():
    client = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        fill(folder, {})
        options = options_that_work(folder)
    if options is None:
        print("skipped: no folder can be mounted at /etc here")
        return SKIPPED
    failed = 0
    for files, environment, asked, wanted in ROWS:
        with tempfile.TemporaryDirectory() as folder:
            fill(folder, files)
            done = run(options, folder, client, asked, **environment)
        is_good = (done.returncode, done.stdout.strip(), done.stderr) == (0, wanted, "")
        failed += not is_good
        found = "" if is_good else f", not {done.stdout!r} {done.stderr}"
        print(f"{'ok  ' if is_good else 'FAIL'} {files} {environment}: {asked} is {wanted}{found}")
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
