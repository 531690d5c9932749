#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Mallow and every other allocator of this machine on the fault suite, the probes and the layout.

  compare.py [--build DIR] [--runs N] [--times N] [--publish] [NAME ...]

Writes DIR/faults/cases.md (each case and each allocator) and DIR/faults/results.json. --publish puts
the summary into docs/hardening.md, between its markers. NAME: only these allocators are run, and what
results.json has of others is kept.

A case counts as caught where each of N runs (--times, 3) was ended by a signal or a sentence, as
missed where none was; between the two it varies. Needs `make faults`, which builds the programs.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE), str(HERE / "suite"), str(HERE / "layout"), str(ROOT / "bench")]
import ending  # noqa: E402
import layout  # noqa: E402
import suite  # noqa: E402
from rig import allocators as rig  # noqa: E402

THREATS = HERE / "threats.txt"
DOCUMENT = ROOT / "docs" / "hardening.md"
OURS = {"fast": "libmallow.so", "secure": "libmallow-secure.so", "debug": "libmallow-debug.so"}
# Those that mean to notice faults have columns of their own in the document.
SECURE_PEERS = ("hardened", "hardened-light", "scudo", "snmalloc-checks", "mimalloc3-secure",
                "glibc-check")
# Some allocators never come back from a fault, which is not to have noticed it.
HANGS_AFTER_S = 5
CHECKING_GLIBC = "libc_malloc_debug.so.0"
WEAKNESSES = {
    122: "heap overflow", 123: "write what where", 124: "underwrite", 125: "read out of bounds",
    126: "over-read", 127: "under-read", 128: "size wraps round", 129: "unchecked index",
    130: "declared length believed", 131: "size computed wrongly", 401: "leak", 415: "double free",
    416: "use after free", 590: "free of what is not the heap's", 761: "free inside a block",
    762: "release of another kind", 763: "release of a bad pointer", 787: "write out of bounds",
    788: "access behind the end", 789: "excessive size", 825: "expired pointer",
}

Allocator = collections.namedtuple("Allocator", "name version library settings")


def known(build):
    found = [Allocator(name, "this", str(build / file), {}) for name, file in OURS.items()]
    for peer in rig.known(str(build)):
        if not peer.is_ours and not peer.is_musl:
            found.append(Allocator(peer.name, peer.version, peer.path, {}))
        if peer.name == rig.BASELINE:
            found.append(Allocator("glibc-check", f"{peer.version} with malloc.check=3", CHECKING_GLIBC,
                                   {"GLIBC_TUNABLES": "glibc.malloc.check=3"}))
    return found


def one_word(words):
    """What several runs of one case come to."""
    if all(word in suite.CAUGHT for word in words):
        return "caught"
    if any(word in suite.CAUGHT for word in words):
        return "varies"
    return next(word for word in ("hung", "damaged", "absent", "missed") if word in words)


def run_cases(allocator, cases, program, times):
    env = ending.environment(allocator.library, allocator.settings)
    jobs = [(case, turn) for case in cases for turn in range(times)]
    words = ending.run_all(jobs, lambda job: suite.outcome(job[0], program, env, HANGS_AFTER_S)[0])
    return [one_word(words[i * times:(i + 1) * times]) for i in range(len(cases))]


def probe_word(name, program, env, times):
    """An attacker may try again: one success is enough."""
    words = set()
    for _ in range(times):
        end = ending.run([str(program), name], env, HANGS_AFTER_S)
        words.add("reached" if end.out.startswith("reached") else
                  "missed" if end.code in (0, None) else "stopped")
    return next(word for word in ("reached", "missed", "stopped") if word in words)


def run_probes(allocator, names, program, times):
    env = ending.environment(allocator.library, allocator.settings)
    return ending.run_all(names, lambda name: probe_word(name, program, env, times))


def measure(allocator, cases, probes, arguments, programs):
    env = ending.environment(allocator.library, allocator.settings)
    distances = layout.measure(str(programs / "fault-layout"), env, arguments.runs)
    return {
        "version": allocator.version,
        "cases": run_cases(allocator, cases, programs / "fault-suite", arguments.times),
        "alarms": [family for family, _ in suite.correct_programs(programs / "fault-suite", env)],
        "probes": run_probes(allocator, probes, programs / "fault-probes", arguments.times),
        "layout": {name: (*layout.bits(values), layout.best_guess(values))
                   for name, values in distances.items()},
    }


def kept_results(path, cases, probes):
    """What an earlier run found, if it was of the same cases and probes."""
    old = json.loads(path.read_text()) if path.exists() else {}
    is_same = old.get("cases") == [suite.name_of(case) for case in cases] and old["probes"] == probes
    return old["results"] if is_same else {}


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    return lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]


def share(words, chosen):
    """Caught of all, for the cases chosen."""
    chosen = list(chosen)
    return f"{sum(words[i] == 'caught' for i in chosen)}/{len(chosen)}"


def read_threats(cases):
    threats = []
    for line in THREATS.read_text().splitlines():
        if line and not line.startswith("#"):
            threat, mechanism, cost, faults = (part.strip() for part in line.split("|"))
            threats.append((threat, mechanism, cost, faults.split()))
    named = [fault for threat in threats for fault in threat[3]]
    if sorted(named) != sorted({case.fault for case in cases}):
        odd = set(named) ^ {case.fault for case in cases} or "a fault that stands there twice"
        sys.exit(f"{THREATS}: each fault of cases.txt stands in one line; not so {odd}")
    return threats


def summary_rows(results, cases):
    for name, found in sorted(results.items(), key=lambda item: -item[1]["cases"].count("caught")):
        words = found["cases"]
        damaged = words.count("damaged") + words.count("hung")
        yield [name if found["version"] != "this" else f"**mallow, {name}**",
               "" if found["version"] == "this" else found["version"], words.count("caught"),
               f"{100 * words.count('caught') / len(cases):.1f} %", words.count("varies"),
               damaged, found["probes"].count("reached"), len(found["alarms"])]


def better_than_secure(results, cases):
    """The cases that a peer always catches and the secure build does not."""
    rows = []
    for i, case in enumerate(cases):
        peers = [name for name, found in results.items()
                 if found["version"] != "this" and found["cases"][i] == "caught"]
        if peers and results["secure"]["cases"][i] != "caught":
            rows.append((suite.name_of(case), results["secure"]["cases"][i], ", ".join(peers)))
    return rows


def summary(results, cases, probes, arguments):
    columns = [name for name in (*OURS, *SECURE_PEERS) if name in results]
    lines = [f"{len(cases)} cases, {arguments.times} runs of each, and {len(probes)} probes. *Varies*: "
             "caught in some runs. *Damage*: the program went on and saw another's memory changed or read, "
             "or never ended. "
             "*Alarms*: correct programs, one for each of six families, that were ended.", ""]
    lines += table(["allocator", "version", "caught", "", "varies", "damage", "probes that reach their goal",
                    "alarms"], summary_rows(results, cases))
    lines += ["", "### By threat", ""]
    rows = []
    for threat, mechanism, cost, faults in read_threats(cases):
        chosen = [i for i, case in enumerate(cases) if case.fault in faults]
        rows.append([threat, mechanism, cost, ", ".join(f"`{fault}`" for fault in faults)]
                    + [share(results[name]["cases"], chosen) for name in columns])
    lines += table(["threat", "what secure does", "cost", "tests", *columns], rows)
    lines += ["", "### By weakness", ""]
    rows = []
    for cwe in sorted({case.cwe for case in cases}):
        chosen = [i for i, case in enumerate(cases) if case.cwe == cwe]
        rows.append([f"CWE-{cwe} {WEAKNESSES[cwe]}"]
                    + [share(results[name]["cases"], chosen) for name in columns])
    lines += table(["weakness", *columns], rows)
    lines += ["", "### Exploits", "", "The probes that reach their goal in at least one of "
              f"{arguments.times} tries.", ""]
    rows = [[f"`{probe}`"] + [results[name]["probes"][i] for name in columns]
            for i, probe in enumerate(probes)]
    lines += table(["probe", *columns], rows)
    lines += ["", "### Places of blocks", "",
              f"Bits of collision entropy over {arguments.runs} runs, and how often the best guess is "
              "right; `>`: no two runs were the same.", ""]
    shown = [name for name in (*columns, "glibc") if name in results]
    rows = [[f"`{distance}`"] + [f"{results[name]['layout'][distance][0]} "
                                 f"({100 * results[name]['layout'][distance][2]:.0f} %)" for name in shown]
            for distance in results[shown[0]]["layout"]]
    lines += table(["distance", *shown], rows)
    if "secure" in results:
        lines += ["", "### What another allocator catches and secure does not", ""]
        rows = better_than_secure(results, cases)
        lines += table(["case", "secure", "caught by"], rows) if rows else ["Nothing."]
    return "\n".join(lines)


def publish(text):
    before, after = "<!-- measured: begin -->\n", "<!-- measured: end -->"
    old = DOCUMENT.read_text()
    found = re.search(re.escape(before) + ".*" + re.escape(after), old, re.S)
    if not found:
        sys.exit(f"{DOCUMENT} has no markers")
    DOCUMENT.write_text(old[:found.start()] + before + "\n" + text + "\n\n" + after + old[found.end():])


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--publish", action="store_true")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    programs = arguments.build / "core" / "tests"
    if not (programs / "fault-suite").exists():
        sys.exit(f"{programs} has no fault-suite: run `make faults`")
    cases = suite.read_cases()
    read_threats(cases)
    probes = ending.run([str(programs / "fault-probes"), "--list"], dict(os.environ)).out.split()
    there = known(arguments.build.resolve())
    unknown = set(arguments.names) - {allocator.name for allocator in there}
    if unknown:
        sys.exit(f"not here: {', '.join(unknown)}; known: {', '.join(a.name for a in there)}")
    out = arguments.build / "faults"
    out.mkdir(exist_ok=True)
    results = kept_results(out / "results.json", cases, probes) if arguments.names else {}
    for allocator in there:
        if not arguments.names or allocator.name in arguments.names:
            print(f"{allocator.name} ...", end=" ", flush=True)
            results[allocator.name] = found = measure(allocator, cases, probes, arguments, programs)
            print(f"{found['cases'].count('caught')} of {len(cases)} caught, "
                  f"{found['probes'].count('reached')} of {len(probes)} probes reach their goal, "
                  f"{len(found['alarms'])} alarms", flush=True)
            (out / "results.json").write_text(json.dumps(
                {"cases": [suite.name_of(case) for case in cases], "probes": probes, "results": results}))
    results = {a.name: results[a.name] for a in there if a.name in results}
    rows = [[f"CWE-{case.cwe} {suite.name_of(case)}"] + [found["cases"][i] for found in results.values()]
            for i, case in enumerate(cases)]
    (out / "cases.md").write_text("\n".join(table(["case", *results], rows)) + "\n")
    text = summary(results, cases, probes, arguments)
    (out / "summary.md").write_text(text + "\n")
    print(f"{out / 'cases.md'}, {out / 'summary.md'}")
    if arguments.publish:
        publish(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
