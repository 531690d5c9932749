#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds mallctl to the types of names.txt: the length of a name's type is taken, others are EINVAL.

  types.py     with the library preloaded, and prof:true, without which names of profiles are not there; without
               guards, between which a block may be of no arena

What cannot be read or written is EPERM, what jemalloc has and Mallow has not is ENOENT.
"""

import ctypes
import errno
import pathlib
import sys

LENGTHS = {"bool": 1, "unsigned": 4, "uint32_t": 4}  # all others have 8
NEVER_RIGHT = 3  # no type is so long

process = ctypes.CDLL(None)
process.malloc.restype = ctypes.c_void_p
process.mallctl.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t),
                            ctypes.c_void_p, ctypes.c_size_t]

BLOCK = ctypes.c_void_p(process.malloc(ctypes.c_size_t(100)))
ARENA_NAME = ctypes.create_string_buffer(32)  # who reads that of an arena hands in where it goes


def typed_names():
    """(name, type or None, what may be done with it) of each name of mallctl, numbers put in."""
    for line in (pathlib.Path(__file__).parent / "names.txt").read_text().splitlines():
        kind, _, rest = line.partition(" ")
        name, _, of_type = rest.partition(" ")
        if kind == "option" and of_type:
            yield f"opt.{name}", of_type, "r-"
        elif kind == "name":
            name = name.replace("<i>", "0").replace("<j>", "0")
            of_type, _, access = of_type.rpartition(" ")
            yield name, of_type or None, access


def read(name, length):
    """The error, and the length that is told."""
    old = (ctypes.c_void_p * 2)(ctypes.addressof(ARENA_NAME), None)
    told = ctypes.c_size_t(length)
    argument = (ctypes.byref(BLOCK), 8) if name == "arenas.lookup" else (None, 0)
    return process.mallctl(name.encode(), old, ctypes.byref(told), *argument), told.value


def write(name):
    new = ctypes.create_string_buffer(16)
    return process.mallctl(name.encode(), None, None, new, NEVER_RIGHT)


def expected(name, of_type, access, act, is_right):
    """The error of reading ("r") or writing ("w"), with the right length or another."""
    if of_type is None:
        return errno.ENOENT
    if name == "stats.mutexes.reset":  # looks at no value, in jemalloc neither
        return 0
    if act not in access:
        return errno.EPERM
    return 0 if is_right and of_type != "struct" else errno.EINVAL


def problems_of(name, of_type, access):
    own = LENGTHS.get(of_type, 8)
    for length in (1, 4, 8, 16):
        error, told = read(name, length)
        wanted = expected(name, of_type, access, "r", length == own)
        if error != wanted:
            yield f"{name} ({of_type}) read with {length} bytes: {error}, not {wanted}"
        elif error == 0 and told != length:
            yield f"{name} ({of_type}) tells {told} bytes, not {length}"
    error, wanted = write(name), expected(name, of_type, access, "w", False)
    if error != wanted:
        yield f"{name} ({of_type}) written with {NEVER_RIGHT} bytes: {error}, not {wanted}"


def main():
    names = list(typed_names())
    problems = [problem for name in names for problem in problems_of(*name)]
    for problem in problems:
        print(problem)
    print(f"{len(names)} names, {len(problems)} problems")
    return 0 if len(names) >= 400 and not problems else 1


if __name__ == "__main__":
    sys.exit(main())
