# SPDX-License-Identifier: MIT
"""The allocator Mallow for Python programs.

    python -m mallow run script.py      runs a script on Mallow
    mallow.trim()                       gives free memory back to the system
    mallow.stats()                      what the heap of this process holds, by name

The command `mallow` is beside `python`; library() says where a build of the allocator lies.
"""

import ctypes
import pathlib

__version__ = "@VERSION@"
__all__ = ["is_active", "library", "stats", "trim", "version"]

_FOLDER = pathlib.Path(__file__).resolve().parent
_PROCESS = ctypes.CDLL(None)


class _Stat(ctypes.Structure):
    """struct mw_stat of mallow.h."""
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_uint64), ("type", ctypes.c_uint),
                ("unit", ctypes.c_char_p), ("help", ctypes.c_char_p)]


_VISITOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(_Stat))


def library(build="fast"):
    """The path of a build of the allocator, for LD_PRELOAD: "fast", "secure" or "debug"."""
    name = "libmallow.so" if build == "fast" else f"libmallow-{build}.so"
    path = _FOLDER / "lib" / name
    if not path.exists():
        raise ValueError(f"there is no build {build!r}: use fast, secure or debug")
    return str(path)


def is_active():
    """Whether this process runs on Mallow."""
    return hasattr(_PROCESS, "mw_version")


def version():
    """The version and the build that this process runs on, such as "0.1.0 fast"; None if on none."""
    if not is_active():
        return None
    _PROCESS.mw_version.restype = ctypes.c_char_p
    return _PROCESS.mw_version().decode()


def trim():
    """Has the allocator of this process, whichever it is, give free memory back to the system. True
    if it gave some back."""
    if not hasattr(_PROCESS, "malloc_trim"):
        return False
    _PROCESS.malloc_trim.argtypes = [ctypes.c_size_t]
    return bool(_PROCESS.malloc_trim(0))


def stats(prefix=""):
    """The figures of the heap whose names begin with `prefix`: {"allocated": 123, ...}."""
    if not is_active():
        raise RuntimeError("this process does not run on Mallow; start it with: "
                           "python -m mallow run SCRIPT")
    figures = {}

    def take(_context, stat):
        name = stat.contents.name.decode()
        if name.startswith(prefix):
            figures[name] = stat.contents.value

    _PROCESS.mw_stats_each.restype = ctypes.c_bool
    if not _PROCESS.mw_stats_each(_VISITOR(take), None):
        raise MemoryError("there is no memory to gather the figures in")
    return figures
