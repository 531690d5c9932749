# SPDX-License-Identifier: MIT
"""Which allocators are measured, and where their libraries are."""

import dataclasses
import glob
import hashlib
import os
import shutil

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

BASELINE = "glibc"

# Debian's libraries, in the order of the columns. tbbmalloc is preloaded through its proxy, which
# is what exports malloc.
INSTALLED = {
    "jemalloc": "libjemalloc.so.2",
    "mimalloc": "libmimalloc.so.2",
    "tcmalloc": "libtcmalloc_minimal.so.4",
    "tbbmalloc": "libtbbmalloc_proxy.so.2",
}
OURS = {"mallow": "libmallow.so", "mallow-secure": "libmallow-secure.so"}
LIBRARY_FOLDERS = ["/usr/local/lib", "/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib"]


class Unusable(Exception):
    """A sentence for the user."""


@dataclasses.dataclass
class Allocator:
    name: str
    path: str  # "" is the C library's own
    is_ours: bool = False
    copy: str = ""  # what is preloaded: a copy of `path`

    def make_copy(self, folder):
        """Copies the library. Where a file's pages lie in physical memory can change the speed of
        its code twofold on a virtual machine, so each round preloads a new copy."""
        if self.path:
            self.copy = os.path.join(folder, self.name + "-" + os.path.basename(self.path))
            if os.path.exists(self.copy):
                os.remove(self.copy)
            shutil.copyfile(self.path, self.copy)

    def environment(self):
        kept = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "MALLOC_CONF")}
        if self.path:
            kept["LD_PRELOAD"] = self.copy or self.path
        return kept

    def fingerprint(self):
        if not self.path:
            return "none"
        with open(self.path, "rb") as library:
            return hashlib.sha256(library.read()).hexdigest()[:16]

    def serves(self, path):
        """Whether `path`, the file that holds malloc in a started process, is this allocator."""
        if not self.path:
            return os.path.basename(path).startswith("libc.so")
        return os.path.realpath(path) == os.path.realpath(self.copy or self.path)


def find_library(soname):
    for pattern in LIBRARY_FOLDERS:
        for path in sorted(glob.glob(os.path.join(pattern, soname))):
            return path
    return None


def known(build):
    found = [Allocator(BASELINE, "")]
    for name, file in OURS.items():
        path = os.path.join(os.path.abspath(build), file)
        if os.path.exists(path):
            found.append(Allocator(name, path, is_ours=True))
    for name, soname in INSTALLED.items():
        path = find_library(soname)
        if path:
            found.append(Allocator(name, path))
    return found


def choose(wanted, build):
    """The known allocators, those given as NAME=LIB added; bare names narrow the choice."""
    found = known(build)
    names = []
    for item in wanted:
        name, equals, path = item.partition("=")
        names.append(name)
        if not equals:
            continue
        if not os.path.exists(path):
            raise Unusable(f"there is no library {path}")
        found = [a for a in found if a.name != name]
        ours = name.startswith("mallow")
        found.insert(1 if ours else len(found), Allocator(name, os.path.abspath(path), ours))
    if any("=" not in item for item in wanted):
        missing = [n for n in names if n not in [a.name for a in found]]
        if missing:
            raise Unusable(f"unknown or not installed: {', '.join(missing)}; "
                           f"known here: {', '.join(a.name for a in found)}")
        found = [a for a in found if a.name in names]
    return found
