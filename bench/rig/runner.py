# SPDX-License-Identifier: MIT
"""Runs workloads under allocators, interleaved, and keeps every sample on disk.

Order: round by round, workload by workload, and inside of it allocator after allocator, starting
with another one each round; so a slow minute of the machine hits all of them. Each sample is
appended to samples.jsonl as soon as it is there: an interrupted run is resumed from that file.

The first round is made whole, whatever it takes. From then on nothing is begun that would end after
the budget, judged by what it took the last time; so three rounds of everything come before the many
rounds of what is quick, and those before the repetition of what is noisy.
"""

import datetime
import json
import os
import platform
import resource
import shlex
import subprocess
import sys
import tempfile
import time

from . import allocators, disturbance, programs, workloads
from .figures import FEWEST, is_noisy
from .units import is_memory

OUT = os.path.join(workloads.HERE, "out")
# What a run may take if its first round does not take longer. `make bench` builds the peers and counts
# instructions before, and is to end within two hours.
BUDGET_S = {"short": 240, "quick": 2700, "whole": 4500}
# The slow allocators take part in one round of so many.
SELDOM_EVERY = {"short": 1, "quick": 100, "whole": 3}
# Repeats of a noisy workload, as a multiple of its rounds.
MOST_ROUNDS = 3


class Unusable(Exception):
    """A sentence for the user."""


def machine():
    model = platform.machine()
    try:
        with open("/proc/cpuinfo") as info:
            for line in info:
                if line.startswith("model name"):
                    model = line.split(":", 1)[1].strip()
                    break
        with open("/sys/kernel/mm/transparent_hugepage/enabled") as setting:
            huge_pages = setting.read().split("[")[1].split("]")[0]
    except (OSError, IndexError):
        huge_pages = "unknown"
    return {"cpu": model, "cpus": len(os.sched_getaffinity(0)), "kernel": platform.release(),
            "libc": " ".join(platform.libc_ver()), "huge_pages": huge_pages}


def built(library_folder):
    """What was measured: the commit of the tree, and the compilers."""
    commit = first_line(["git", "-C", allocators.ROOT, "describe", "--always", "--dirty=, with changes"])
    library = "cc"
    try:
        with open(os.path.join(library_folder, "CMakeCache.txt")) as cache:
            found = [line.split("=", 1)[1].strip() for line in cache
                     if line.startswith("CMAKE_C_COMPILER:")]
            library = found[0] if found else library
    except OSError:
        pass
    return {"commit": commit, "library": first_line([library, "--version"]),
            "workloads": first_line([os.environ.get("CC", "cc"), "--version"])}


def first_line(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    except OSError:
        return "unknown"
    lines = done.stdout.splitlines() if done.returncode == 0 else []
    return lines[0] if lines else "unknown"


class Run:
    def __init__(self, folder, config, found, chosen):
        self.folder, self.config = folder, config
        self.allocators, self.workloads = found, chosen
        self.samples, self.left_out = [], []
        self.took_s = {}  # by workload and allocator, the last time
        self.place = {name: number for number, name in enumerate(config["workloads"])}
        self.warm = set()  # programs that ran once
        self.started = time.monotonic()

    @classmethod
    def start(cls, options, found, chosen):
        config = {
            "schema": "mallow-bench/1",
            "form": "short" if options.short else "quick" if options.quick else "whole",
            "short": options.short or options.quick,
            "rounds": options.rounds,
            "machine": machine(),
            "built": built(options.build),
            "allocators": {a.name: {"path": a.path, "sha256": a.fingerprint(), "ours": a.is_ours,
                                    "version": a.version}
                           for a in found},
            "workloads": [w.name for w in chosen],
        }
        if options.resume:
            run = cls.load(options.resume)
            found = [a for a in found if a.name in run.config["allocators"]]
            there = {a.name: config["allocators"][a.name] for a in found}
            if run.config["allocators"] != there:
                raise Unusable("the allocators are not those of the interrupted run; start a new one")
        else:
            run = (cls.interrupted(config) if options.go_on else None) or cls.create(config)
        command = shlex.join(["bench/run", *sys.argv[1:]])
        commands = run.config.setdefault("commands", [])
        if command not in commands:
            commands.append(command)
        run.save()
        run.allocators = found
        run.workloads = workloads.choose(run.config["workloads"], programs.all_programs())
        run.budget_s = options.budget or BUDGET_S[run.config["form"]]
        return run

    @classmethod
    def create(cls, config):
        config["started"] = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        run = cls(os.path.join(OUT, config["started"]), config, [], [])
        os.makedirs(run.folder, exist_ok=True)
        return run

    def save(self):
        with open(os.path.join(self.folder, "run.json"), "w") as file:
            json.dump(self.config, file, indent=1)

    @classmethod
    def interrupted(cls, config):
        """The latest run, if it has not ended and would be the same today."""
        try:
            run = cls.load("latest")
        except Unusable:
            return None
        has_ended = os.path.exists(os.path.join(run.folder, "results.json"))
        same = all(run.config.get(key) == config[key]
                   for key in ("form", "rounds", "machine", "allocators", "workloads"))
        return run if same and not has_ended else None

    @classmethod
    def load(cls, name):
        folder = os.path.abspath(name)  # allocators are preloaded from other folders
        if name == "latest":
            there = sorted(os.listdir(OUT)) if os.path.isdir(OUT) else []
            there = [d for d in there if os.path.exists(os.path.join(OUT, d, "run.json"))]
            if not there:
                raise Unusable("there is no run to resume")
            folder = os.path.join(OUT, there[-1])
        try:
            with open(os.path.join(folder, "run.json")) as file:
                config = json.load(file)
        except OSError:
            raise Unusable(f"{folder} holds no run")
        run = cls(folder, config, [], [])
        try:
            with open(os.path.join(folder, "samples.jsonl")) as file:
                run.samples = [json.loads(line) for line in file if line.endswith("\n")]
        except OSError:
            pass
        for sample in run.samples:
            run.took_s[sample["workload"], sample["allocator"]] = sample.get("took_s", 0)
        # The time that it was interrupted for does not count.
        run.started -= max((sample.get("at_s", 0) for sample in run.samples), default=0)
        return run

    def binaries(self):
        return os.path.join(OUT, "bin")

    def prepare(self):
        """Builds the workloads and makes the input of the programs; what cannot run is left out."""
        own = [w for w in self.workloads if isinstance(w, workloads.Workload)]
        for musl in sorted({a.is_musl for a in self.allocators}):
            workloads.build(own, self.binaries(), musl)
        for program in [w for w in self.workloads if w not in own]:
            self.say(f"prepares {program.name}")
            reason = program.prepare(self.binaries())
            if reason:
                self.left_out.append(f"{program.name}: {reason}")
                self.workloads.remove(program)
                print(f"bench/run: goes on without {program.name}: {reason}", file=sys.stderr)

    def verify_allocators(self):
        """One start of each, so that a preload that fails is known before anything is timed. (Each
        sample is verified again: the program itself says which file its malloc and free are in.)"""
        own = [w for w in self.workloads if isinstance(w, workloads.Workload)]
        if not own:
            return
        first = min(own, key=lambda w: w.sleeps)
        for allocator in self.allocators:
            sample = self.collect(first, allocator, self.spawn(first, allocator))
            if "error" in sample:
                print(f"bench/run: {allocator.name}: {sample['error']}", file=sys.stderr)

    def measure(self):
        # Beside the results, and not below /tmp: programs that give up their privileges read them.
        with tempfile.TemporaryDirectory(dir=self.folder) as self.copies:
            os.chmod(self.copies, 0o755)
            self.run_rounds()
            self.repeat_noisy()
        self.say("")

    def elapsed_s(self):
        return time.monotonic() - self.started

    def has_time_for(self, workload, number):
        took = [self.took_s.get((workload.name, a.name), 0) for a in self.taking_part(workload, number)]
        expected = max(took, default=0) if workload.sleeps else sum(took)
        return self.elapsed_s() + expected < self.budget_s

    def run_rounds(self):
        for number in range(max(self.rounds(w) for w in self.workloads)):
            for workload in self.workloads:
                if number < self.rounds(workload) and (number == 0 or
                                                       self.has_time_for(workload, number)):
                    self.run_round(workload, number)

    def rounds(self, workload):
        if self.config["rounds"]:
            return self.config["rounds"]
        return workload.rounds_short if self.config["form"] == "short" else workload.rounds_full

    def repeat_noisy(self):
        """Whole workloads are repeated, for all allocators, to stay interleaved."""
        repeated = True
        while repeated:
            repeated = False
            for workload in self.workloads:
                done = 1 + max((s["round"] for s in self.samples if s["workload"] == workload.name),
                               default=0)
                if (done < MOST_ROUNDS * self.rounds(workload) and self.has_time_for(workload, done)
                        and self.noisy_cells(workload)):
                    self.run_round(workload, done)
                    repeated = True

    def noisy_cells(self, workload):
        cells = {}
        for sample in self.samples:
            if sample["workload"] == workload.name:
                for row, (value, unit) in sample.get("rows", {}).items():
                    if not is_memory(unit):
                        cells.setdefault((row, sample["allocator"]), []).append(value)
        return [cell for cell, values in cells.items()
                if len(values) >= FEWEST and is_noisy(values)]

    def taking_part(self, workload, number):
        """The allocators in the order of this round, without those that have had it. Another begins
        each workload too: what is first pays for cold caches, and many rows have one round only."""
        there = {s["allocator"] for s in self.samples
                 if s["workload"] == workload.name and s["round"] == number}
        turn = (number + self.place[workload.name]) % len(self.allocators)
        every = SELDOM_EVERY[self.config["form"]]
        return [a for a in self.allocators[turn:] + self.allocators[:turn]
                if a.name not in there and a.runs_in(number, every) and workload.runs_under(a)]

    def run_round(self, workload, number):
        order = self.taking_part(workload, number)
        self.say(f"{self.elapsed_s() / 60:.0f} min, round {number + 1}: {workload.name}")
        for allocator in order:
            allocator.make_copy(self.copies)
        begin = self.elapsed_s()
        if workload.sleeps:
            started = [(a, self.spawn(workload, a)) for a in order]
            for allocator, process in started:
                sample = self.collect(workload, allocator, process)
                self.keep(workload, allocator, number, sample, begin)
        else:
            for allocator in order:
                begin = self.elapsed_s()
                sample = self.undisturbed(workload, allocator)
                self.keep(workload, allocator, number, sample, begin)

    def undisturbed(self, workload, allocator):
        """A sample; a second one where the machine did other work meanwhile, as long as that is the
        exception."""
        sample = self.take(workload, allocator)
        if sample["disturbed"] and self.disturbed_share() < disturbance.HOPELESS:
            again = self.take(workload, allocator)
            if "error" not in again and not again["disturbed"]:
                return again
        return sample

    def take(self, workload, allocator):
        watch = disturbance.Watch()
        if isinstance(workload, workloads.Workload):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            sample = self.collect(workload, allocator, self.spawn(workload, allocator))
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        else:
            sample = self.measure_program(workload, allocator)
            cpu_s = sample.pop("cpu_s", 0.0)
        sample["cpu_s"] = round(cpu_s, 3)
        others = watch.others(cpu_s)
        sample["disturbed"] = others is not None and others > disturbance.MOST_OTHERS
        return sample

    def measure_program(self, program, allocator):
        """The first run of a program reads its files from the disk and is not counted: else the
        allocator whose turn is first would pay for all."""
        if program.name not in self.warm:
            self.warm.add(program.name)
            programs.measure(program, allocator, self.binaries())
        return programs.measure(program, allocator, self.binaries())

    def disturbed_share(self):
        marks = [s["disturbed"] for s in self.samples if "disturbed" in s]
        return sum(marks) / len(marks) if len(marks) > 20 else 0.0

    def program_names(self):
        return {p.name for p in programs.all_programs()}

    def uncounted(self):
        return {p.name for p in programs.all_programs() if not p.counted}

    def spawn(self, workload, allocator):
        return subprocess.Popen(workload.command(self.binaries(), self.config["short"],
                                                 allocator.is_musl),
                                env=workload.environment(allocator), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def collect(self, workload, allocator, process):
        sample = {}
        try:
            out, err = process.communicate(timeout=workload.timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            sample["error"] = f"{workload.name} did not end within {workload.timeout_s:.0f} s"
            return sample
        lines = [line.split() for line in out.splitlines()]
        servers = [words[1] for words in lines if words[0] == "served-by"]
        rows = {words[0]: [float(words[1]), words[2]] for words in lines if len(words) == 3}
        failed = rows.pop("failed", None)
        served = bool(servers) and all(allocator.serves(s) for s in servers)
        if process.returncode != 0:
            last = failed[1] if failed else (err.strip().splitlines() or ["no message"])[-1]
            after = f" (after {list(rows)[-1]})" if rows else ""
            sample["error"] = f"{workload.name} ended with {process.returncode}{after}: {last}"
        elif not served:
            sample["error"] = f"the preload did not take effect: malloc is served by {servers}"
        if served:
            sample["rows"] = rows
        return sample

    def keep(self, workload, allocator, number, sample, begin):
        now = self.elapsed_s()
        self.took_s[workload.name, allocator.name] = now - begin
        sample = {"workload": workload.name, "allocator": allocator.name, "round": number,
                  "at_s": round(now, 1), "took_s": round(now - begin, 2), **sample}
        self.samples.append(sample)
        with open(os.path.join(self.folder, "samples.jsonl"), "a") as file:
            file.write(json.dumps(sample) + "\n")

    @staticmethod
    def say(text):
        if sys.stderr.isatty():
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
