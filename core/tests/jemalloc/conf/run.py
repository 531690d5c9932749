#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Shows the effect of each setting of MALLOC_CONF that has one, in a program of its own.

  run.py MODE LIBRARY CLIENT STATIC_CLIENT LINKED_CLIENT

LIBRARY is preloaded into CLIENT, which is not linked with it. STATIC_CLIENT is linked with the
archive, LINKED_CLIENT with the library; both have a malloc_conf of their own. Every row runs the client twice, without the setting and
with it, and the two must differ as told.
"""

import os
import signal
import subprocess
import sys


def run(program, *arguments, **environment):
    """What the program printed, and its standard error; the signal's name if one ended it."""
    clean = {name: value for name, value in os.environ.items()
             if name not in ("MALLOC_CONF", "MALLOW_CONF")}
    done = subprocess.run([program, *arguments], env={**clean, **environment}, text=True,
                          capture_output=True, timeout=120)
    if done.returncode < 0:
        return signal.Signals(-done.returncode).name, done.stderr
    return done.stdout.strip(), done.stderr


def at_most(most):
    return f"at most {most}", lambda value: int(value) <= most


def at_least(least):
    return f"at least {least}", lambda value: int(value) >= least


def is_text(text):
    return repr(text), lambda value: value == text


def is_not(text):
    return f"not {text!r}", lambda value: value != text


# setting, what the client shows, without the setting, with it
ROWS = [
    ("narenas:1", "narenas", at_least(2), is_text("1")),
    ("narenas:5", "narenas", at_most(2), is_text("5")),
    ("dirty_decay_ms:0", "resident", at_least(60), at_most(40)),
    ("dirty_decay_ms:200", "resident", at_least(60), at_most(40)),
    ("dirty_decay_ms:200,muzzy_decay_ms:-1", "lazy", at_most(0), at_least(30)),
    ("background_thread:true", "threads", is_text("1"), is_text("2")),
    ("dirty_decay_ms:200,background_thread:true", "resident_at_rest", at_least(60), at_most(40)),
    ("dirty_decay_ms:0,retain:false", "address_space", at_least(100), at_most(90)),
    ("zero_realloc:alloc", "zero_realloc", is_text("null"), is_text("block")),
    ("zero_realloc:abort", "zero_realloc", is_text("null"), is_text("SIGABRT")),
    ("xmalloc:true", "out_of_memory", is_text("null"), is_text("SIGABRT")),
    ("abort_conf:true,nonsense:1", "", is_text(""), is_text("SIGABRT")),
    ("zero:true", "fill", is_not("00 33"), ("'00 ..'", lambda value: value.startswith("00"))),
    ("junk:true", "fill", is_not("a5 5a"), is_text("a5 5a")),
    ("junk:alloc", "fill", is_not("a5 33"), ("'a5 ..'", lambda value: value.startswith("a5"))),
    ("junk:free", "fill", is_not("5a"), ("'.. 5a'", lambda value: value.endswith("5a"))),
]

# In debug every block is filled and checked, whatever is set.
FILLED_ANYWAY = {"debug"}

# In secure what is free is zero, whatever is set.
ROWS_OF_SECURE = {
    "junk:true": ("fill", is_not("a5 00"), is_text("a5 00")),
    "junk:free": ("fill", is_not("a5 00"), ("'.. 00'", lambda value: value.endswith("00"))),
}

# In debug a large block loses its memory when it is freed, and what is in the quarantine keeps it: there
# slots show when free memory goes.
BLOCKS_OF_DEBUG = "20000"


def check_row(row, mode, library, client):
    setting, shows, (without_words, without), (with_words, with_) = row
    arguments = [shows]
    environment = {"LD_PRELOAD": library}
    if mode == "debug":
        arguments.append(BLOCKS_OF_DEBUG)
        environment["MALLOW_CONF"] = "quarantine:0,guard_first:0,guard_sample:0"
    plain, _ = run(client, *arguments, **environment)
    set_, errors = run(client, *arguments, **environment, MALLOC_CONF=setting)
    if not without(plain):
        return f"without it {shows} is {plain}, not {without_words}"
    if not with_(set_):
        return f"{shows} is {set_}, not {with_words} {errors}"
    return None


def sources(library, client, static_client, linked_client):
    """Which source wins, in whole programs."""
    yield ("MALLOW_CONF wins over MALLOC_CONF",
           run(client, "dirty_decay_ms", LD_PRELOAD=library, MALLOC_CONF="dirty_decay_ms:1",
               MALLOW_CONF="dirty_decay_ms:2")[0], "2")
    yield ("malloc_conf of a linked program", run(linked_client, "dirty_decay_ms")[0], "4711")
    yield ("malloc_conf of a static program", run(static_client, "dirty_decay_ms")[0], "4711")
    yield ("narenas of a static program", run(static_client, "narenas")[0], "3")
    yield ("MALLOC_CONF wins over malloc_conf",
           run(static_client, "dirty_decay_ms", MALLOC_CONF="dirty_decay_ms:1")[0], "1")
    errors = run(client, "", LD_PRELOAD=library, MALLOC_CONF="stats_print:true")[1]
    yield "stats_print prints at the end", str(len(errors) > 100), "True"
    errors = run(client, "", LD_PRELOAD=library, MALLOC_CONF="confirm_conf:true,thp:never")[1]
    yield ("confirm_conf names what has no effect",
           str("-- Set conf value: thp:never (accepted without effect)" in errors), "True")
    yield "without settings nothing is printed", run(client, "", LD_PRELOAD=library)[1], ""


def main():
    mode, library, *clients = sys.argv[1:]
    failed = 0
    for row in ROWS:
        if row[1] == "fill" and mode in FILLED_ANYWAY:
            continue
        if mode == "secure" and row[0] in ROWS_OF_SECURE:
            row = (row[0], *ROWS_OF_SECURE[row[0]])
        wrong = check_row(row, mode, library, clients[0])
        failed += wrong is not None
        print(f"{'FAIL' if wrong else 'ok  '} {row[0]}{': ' + wrong if wrong else ''}", flush=True)
    for what, found, expected in sources(library, *clients):
        failed += found != expected
        print(f"{'ok  ' if found == expected else 'FAIL'} {what}: {found!r}", flush=True)
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
