# SPDX-License-Identifier: MIT
"""The real programs: scripts of bench/programs, timed from outside, with their memory over time.

Each process of a program that the script names as served is asked, from inside, which file its
malloc comes from (the witness of the interposition tests); a sample without that proof is thrown
away as a failure.
"""

import dataclasses
import os
import re
import shutil
import signal
import subprocess
import threading

from . import allocators

SCRIPTS = os.path.join(allocators.ROOT, "bench", "programs")
LAUNCHER = os.path.join(SCRIPTS, "launch.c")
WITNESS = os.path.join(allocators.ROOT, "core", "tests", "interpose", "witness.c")
HEADER = re.compile(r"^# (needs|serves|counted|musl): *(.*?) *$", re.MULTILINE)
SKIPPED = 77
# Of the resident memory of the process tree.
SAMPLE_EVERY_S = 0.02
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") / 1024


class Unusable(Exception):
    """A sentence for the user."""


@dataclasses.dataclass
class Program:
    name: str
    needs: list
    serves: list  # beginnings of file names
    counted: bool
    has_musl: bool
    rounds_short: int = 1
    rounds_full: int = 7
    sleeps: bool = False
    timeout_s: float = 120

    @classmethod
    def read(cls, file):
        with open(os.path.join(SCRIPTS, file)) as script:
            header = dict(HEADER.findall(script.read()))
        return cls(file[:-len(".sh")], header.get("needs", "").split(),
                   header.get("serves", "").split(), header.get("counted") != "no", "musl" in header)

    def runs_under(self, allocator):
        return self.has_musl or not allocator.is_musl

    def missing(self):
        return [command for command in self.needs if not shutil.which(command)]

    def folder(self, binaries):
        return os.path.join(binaries, "programs", self.name)

    def prepare(self, binaries):
        """Makes the input; returns the reason why the program cannot run here, if so."""
        missing = self.missing()
        if missing:
            return f"no {' '.join(missing)} here"
        folder = self.folder(binaries)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        build_tools(binaries)
        done = subprocess.run(["sh", self.script(), "prepare"], cwd=folder, text=True,
                              env=environment(self, binaries, None), timeout=300,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace")
        if done.returncode == 0:
            return None
        last = (done.stdout.strip().splitlines() or ["no message"])[-1]
        return last.removeprefix("skip ") if done.returncode == SKIPPED else f"prepare failed: {last}"

    def script(self):
        return os.path.join(SCRIPTS, self.name + ".sh")


def all_programs():
    return [Program.read(file) for file in sorted(os.listdir(SCRIPTS))
            if file.endswith(".sh") and file != "lib.sh"]


def build_tools(binaries):
    """The launcher and the witness."""
    compiler = os.environ.get("CC", "cc")
    for source, result, flags in [(WITNESS, "witness.so", ["-shared", "-fPIC"]),
                                  (LAUNCHER, "launch", [])]:
        path = os.path.join(binaries, result)
        if not os.path.exists(path) or os.path.getmtime(path) < os.path.getmtime(source):
            subprocess.run([compiler, *flags, "-O1", source, "-o", path, "-ldl"], check=True)


def environment(program, binaries, allocator):
    folder = program.folder(binaries)
    kept = {k: v for k, v in os.environ.items() if k not in allocators.NOT_INHERITED}
    notes = os.path.join(folder, "witness-notes")
    open(notes, "w").close()
    os.chmod(notes, 0o666)
    kept.update(PROGRAMS=SCRIPTS, ROOT=allocators.ROOT, WORK=folder,
                WITNESS=os.path.join(binaries, "witness.so"), WITNESS_NOTES=notes,
                PRELOAD=(allocator and (allocator.copy or allocator.path)) or "",
                MUSL="1" if allocator and allocator.is_musl else "")
    if allocator and allocator.conf:
        kept["MALLOC_CONF"] = allocator.conf
    return kept


class MemorySampler(threading.Thread):
    """Anonymous resident memory of a process and all below it, over time."""

    def __init__(self, root):
        super().__init__(daemon=True)
        self.root, self.sum_kib, self.count, self.most_kib = root, 0.0, 0, 0.0
        self.over = threading.Event()

    def run(self):
        while not self.over.wait(SAMPLE_EVERY_S):
            kib = sum(self.anonymous_kib(pid) for pid in self.tree(self.root))
            if kib:
                self.sum_kib += kib
                self.count += 1
                self.most_kib = max(self.most_kib, kib)

    def tree(self, pid):
        try:
            with open(f"/proc/{pid}/task/{pid}/children") as children:
                below = [int(child) for child in children.read().split()]
        except OSError:
            below = []
        return [pid] + [p for child in below for p in self.tree(child)]

    @staticmethod
    def anonymous_kib(pid):
        try:
            with open(f"/proc/{pid}/statm") as statm:
                fields = statm.read().split()
            return (int(fields[1]) - int(fields[2])) * PAGE_KIB
        except (OSError, IndexError, ValueError):
            return 0.0


def unserved(program, allocator, notes):
    """What is wrong with who served the processes; None if nothing is."""
    if allocator.is_musl:
        return None
    with open(notes) as lines:
        seen = [line.rstrip("\n").split("\t") for line in lines]
    wanted = [(os.path.basename(path), file) for path, _, file in seen
              if any(os.path.basename(path).startswith(name) for name in program.serves)]
    if not wanted:
        return "no process of it was seen"
    foreign = [f"{name} by {file}" for name, file in wanted if not allocator.serves(file)]
    return f"malloc is served otherwise: {foreign[0]}" if foreign else None


def measure(program, allocator, binaries):
    """One run: {"rows": …, "cpu_s": …} or {"error": …}."""
    folder = program.folder(binaries)
    given = environment(program, binaries, allocator)
    errors, usage = os.path.join(folder, "errors"), os.path.join(folder, "usage")
    command = [os.path.join(binaries, "launch"), usage, "sh", program.script(), "run"]
    with open(errors, "w") as error_file:
        process = subprocess.Popen(command, cwd=folder, env=given, text=True, stderr=error_file,
                                   stdout=subprocess.PIPE, start_new_session=True)
        sampler = MemorySampler(process.pid)
        sampler.start()
        killer = threading.Timer(program.timeout_s, os.killpg, (process.pid, signal.SIGKILL))
        killer.start()
        out = process.stdout.read()
        process.wait()
        killer.cancel()
        sampler.over.set()
        sampler.join()
    if process.returncode != 0:
        with open(errors, errors="replace") as text:
            last = (text.read().strip().splitlines() or ["no message"])[-1]
        return {"error": f"{program.name} ended with {process.returncode}: {last}"}
    wrong = unserved(program, allocator, given["WITNESS_NOTES"])
    if wrong:
        return {"error": f"{program.name}: {wrong}"}
    own = re.search(r"^time (\S+)$", out, re.MULTILINE)
    with open(usage) as figures:
        seconds, cpu_s, peak_kib = map(float, figures.read().split())
    rows = {f"{program.name}/time": [float(own[1]) if own else seconds, "s"],
            f"{program.name}/cpu": [cpu_s, "s"],
            f"{program.name}/peak-rss": [peak_kib / 1024, "MiB"]}
    if sampler.count > 3:
        rows[f"{program.name}/average-rss"] = [sampler.sum_kib / sampler.count / 1024, "MiB"]
    return {"rows": rows, "cpu_s": cpu_s}
