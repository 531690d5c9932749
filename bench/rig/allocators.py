# SPDX-License-Identifier: MIT
"""Which allocators are measured, and where their libraries are. What they are called, and by which
files they are known, comes from the table that the command uses."""

import dataclasses
import glob
import hashlib
import json
import os
import platform
import re
import shutil
import tomllib

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

BASELINE = "glibc"

OURS = {"mallow": "libmallow.so", "mallow-secure": "libmallow-secure.so"}
# Ours with MALLOC_CONF, to see what that costs: measured only where they are named.
PROFILED = "mallow-prof"
SET = {PROFILED: ("libmallow.so", "prof:true")}
# The table of the command, of its recorder, and of this.
TABLE = os.path.join(ROOT, "crates", "mallow-process", "allocators.toml")
with open(TABLE, "rb") as _file:
    KNOWN = tomllib.load(_file)["allocator"]
# What `make peers` builds (crates/peers/build), in the order of the columns.
BUILT = [peer["name"] for peer in sorted((peer for entry in KNOWN for peer in entry.get("peers", [])),
                                         key=lambda peer: peer["column"])]
PEERS_FOLDER = os.path.join(ROOT, "build", "peers")
# The system's: their file. Those whose name is also in BUILT stand in where that is not built.
# tbbmalloc is preloaded through its proxy, which is what exports malloc.
# Where releases differ, it is the name of the oldest: the column is of that version.
INSTALLED = {entry["installed"]: ([entry["debian"]] if isinstance(entry["debian"], dict)
                                  else entry["debian"])[0]["file"]
             for entry in KNOWN if "installed" in entry}
SCUDO = "/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.scudo_standalone-*.so"
# musl's allocator cannot be preloaded into a glibc program: the workloads are linked with musl.
MUSL = "mallocng"
# Those with which the short form is done in five minutes.
SHORT = [BASELINE, "mallow", "mallow-secure", "jemalloc", "mimalloc2", "mimalloc3", "snmalloc",
         "gperftools"]
# What the user has set must not change what is measured.
NOT_INHERITED = ("LD_PRELOAD", "MALLOC_CONF", "MALLOW_CONF")
LIBRARY_FOLDERS = ["/usr/local/lib", "/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib"]


# Far from the front, or slow: measured in few rounds.
SELDOM = [MUSL] + [name for entry in KNOWN if entry.get("slow")
                   for name in [entry["name"], *(peer["name"] for peer in entry.get("peers", []))]]


class Unusable(Exception):
    """A sentence for the user."""


@dataclasses.dataclass
class Allocator:
    name: str
    path: str  # "" is the C library's own
    is_ours: bool = False
    version: str = ""
    is_musl: bool = False  # programs have to be linked with musl
    copy: str = ""  # what is preloaded: a copy of `path`
    conf: str = ""  # MALLOC_CONF

    def runs_in(self, number, every):
        """Whether it takes part in a round; the slow ones do in one of `every`."""
        return number % every == 0 or self.name not in SELDOM

    def make_copy(self, folder):
        """Copies the library. Where a file's pages lie in physical memory can change the speed of
        its code twofold on a virtual machine, so each round preloads a new copy."""
        if self.path:
            self.copy = os.path.join(folder, self.name + "-" + os.path.basename(self.path))
            if os.path.exists(self.copy):
                os.remove(self.copy)
            shutil.copyfile(self.path, self.copy)
            # Pages of a file that are not on the disk yet count as dirty in who maps them.
            with open(self.copy, "rb") as copy:
                os.fsync(copy.fileno())

    def environment(self):
        kept = {k: v for k, v in os.environ.items() if k not in NOT_INHERITED}
        if self.path:
            kept["LD_PRELOAD"] = self.copy or self.path
        if self.conf:
            kept["MALLOC_CONF"] = self.conf
        return kept

    def fingerprint(self):
        if not self.path:
            return "none"
        with open(self.path, "rb") as library:
            return hashlib.sha256(library.read()).hexdigest()[:16]

    def serves(self, path):
        """Whether `path`, the file that holds malloc in a started process, is this allocator."""
        if self.is_musl:
            return "musl" in path
        if not self.path:
            return os.path.basename(path).startswith("libc.so")
        return os.path.realpath(path) == os.path.realpath(self.copy or self.path)


def find_library(soname):
    for pattern in LIBRARY_FOLDERS:
        for path in sorted(glob.glob(os.path.join(pattern, soname))):
            return path
    return None


def scudo():
    """The newest of the LLVM releases that are installed, for this machine."""
    found = [(float(match[1]), path) for path in glob.glob(SCUDO)
             if f"-{platform.machine()}." in path and (match := re.search(r"/llvm-(\d+)/", path))]
    if not found:
        return None
    release, path = max(found)
    return Allocator("scudo", path, version=f"scudo of LLVM {release:.0f}")


def built_peers():
    try:
        with open(os.path.join(PEERS_FOLDER, "peers.json")) as file:
            there = json.load(file)
    except OSError:
        return []
    return [Allocator(name, os.path.join(PEERS_FOLDER, there[name]["library"]),
                      version=there[name]["allocator"]) for name in BUILT if name in there]


def known(build):
    found = [Allocator(BASELINE, "", version=" ".join(platform.libc_ver()))]
    for name, file in OURS.items():
        path = os.path.join(os.path.abspath(build), file)
        if os.path.exists(path):
            found.append(Allocator(name, path, is_ours=True, version="this"))
    found += built_peers()
    for name, soname in INSTALLED.items():
        path = find_library(soname)
        if path and name not in [a.name for a in found]:
            found.append(Allocator(name, path, version=f"{name} of the system"))
    found += [a for a in [scudo()] if a]
    if shutil.which("musl-gcc"):
        found.append(Allocator(MUSL, "", version="musl of the system", is_musl=True))
    return found


def choose(wanted, build, default=None):
    """The known allocators, those given as NAME=LIB added; bare names narrow the choice, and where
    nothing is named, `default` does."""
    found = known(build)
    for name, (file, conf) in SET.items():
        path = os.path.join(os.path.abspath(build), file)
        if name in wanted and os.path.exists(path):
            found.append(Allocator(name, path, is_ours=True, version=f"this, with {conf}", conf=conf))
    if default and not any("=" not in item for item in wanted):
        found = [a for a in found if a.name in default]
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
