"""This tree's build compared with that of another revision, in every case of the comparison with others. Called by
bench/builds.sh, which makes both builds; prints a table. Exit status 1 if a case is slower than --least allows, or has no
right result.

Each build runs in a process of its own, with the Python of its own revision (peer.py), on the same CPU. The two take
turns. A case is measured in several such pairs of processes, since where memory happens to be favours one build for as
long as a process lives; a case that looks slower is measured again, and all its rounds count.
"""

import argparse
import dataclasses
import json
import pathlib
import statistics
import sys
import tempfile

import numpy as np

import cases
import pages
import peer
import report

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from engine.turns import medians, paired, quartiles, take_turns  # noqa: E402
from engine.ways import Way  # noqa: E402

MIN_ROUNDS = 3
EFFORT = {  # pairs of processes, rounds in each, seconds of each
    "quick": (2, 8, 1.0),
    "normal": (4, 15, 2.0),
}
REST = 0.1  # as in run.py


def measure_pair(case, options, effort, times):
    """Adds the rounds of one pair of processes to {build: [seconds]}; returns the difference of the two results, 0 if they have the
    same bits. ValueError, with the reason, if there are none."""
    held = {"FOVEA_ISA": options.isa or "avx2"} if options.isa or case.tier == "avx2" else {}
    ways, notes = {}, []
    try:
        for name, build in options.builds.items():
            ways[name] = Way("fovea", *peer.arguments("fovea", case.threads, folder=build["folder"],
                                                      environment={**build["environment"], **held}))
        found = {name: way.ask("choose", title=case.title) for name, way in ways.items()}
        notes = [note for one in found.values() for note in one["notes"]]
        if not all(one["label"] for one in found.values()):
            raise ValueError("; ".join(notes) or "not a case of both builds")
        with tempfile.TemporaryDirectory() as folder:
            old, new = (peer.output(way, folder) for way in ways.values())
        rest = REST if case.threads > 1 else 0
        # The clock of the wall is noisier, and most of its turns is rest.
        count = int(effort[2] * (3 if rest else 1) / sum(one["cost"] + rest for one in found.values()))
        rounds = max(MIN_ROUNDS, min(options.rounds or effort[1], count))
        for name, some in take_turns(ways, rounds, lambda name: ways[name].ask("take"), rest).items():
            times[name] += some
        return 0 if old.tobytes() == new.tobytes() else float(np.max(np.abs(old - new)))
    finally:
        for way in ways.values():
            way.close()


def ratios(times):
    return paired(times, "base")["tree"]


def measure(case, options):
    """({build: [seconds]}, the difference of results)"""
    times, effort = {"base": [], "tree": []}, EFFORT["quick" if options.quick else "normal"]
    differences = [measure_pair(case, options, effort, times) for _ in range(effort[0])]
    if statistics.median(ratios(times)) < options.least:
        effort = EFFORT["normal"]
        differences += [measure_pair(case, options, effort, times) for _ in range(effort[0])]
    return times, differences[0]


def row(case, times, difference, least):
    ratio, (low, high) = statistics.median(ratios(times)), quartiles(ratios(times))
    base, tree = (report.rate(case, medians(times)[name]) for name in ("base", "tree"))
    bits = f"differs by {difference:.0e}" if difference else "same bits"
    mark = "   SLOWER" if ratio < least else ""
    return f"{case.title:34} {base[0]:9.4g} {tree[0]:9.4g} {tree[1]:5} {ratio:7.3f}  ({low:.3f}-{high:.3f})  {bits}{mark}"


def select(options):
    """The cases that match; each only once where they differ in what Fovea is compared with, or in the tier it is held to."""
    chosen = {}
    for tier in cases.TIERS:
        for case in cases.select(options.case, tier):
            held = "avx2" if case.tier == "avx2" and not options.isa else "best"
            chosen.setdefault(dataclasses.replace(case, title="", target=0.0, own_target=0.0, against=(), tier=held), case)
    return list(chosen.values())


def run(chosen, options):
    slower, skipped, failed = 0, 0, 0
    print(f"{pages.cpu_name()}; base {options.base}; ratio: speed of the tree by speed of the base")
    print(f"{'':34} {'base':>9} {'tree':>9} {'':5} {'ratio':>7}  (quartiles)")
    for case in chosen:
        try:
            times, difference = measure(case, options)
        except RuntimeError as error:
            failed += 1
            print(f"{case.title:34} FAILED: {error}", flush=True)
        except ValueError as problem:
            skipped += 1
            print(f"{case.title:34} SKIPPED: {problem}", flush=True)
        else:
            slower += statistics.median(ratios(times)) < options.least
            print(row(case, times, difference, options.least), flush=True)
    print(f"{len(chosen) - skipped - failed} cases measured, {slower} below {options.least:g}; {failed} FAILED, {skipped} SKIPPED")
    return int(bool(slower or failed))


def main():
    parser = argparse.ArgumentParser(prog="bench/builds.sh BASE", description=__doc__.split(" Called")[0])
    parser.add_argument("--builds", required=True, type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--base", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--case", default="*", metavar="GLOB", help="cases whose title matches")
    parser.add_argument("--isa", metavar="NAME", help="hold both builds to a tier: scalar, avx2, avx512")
    parser.add_argument("--rounds", type=int, metavar="N", help="most rounds of each pair of processes (15; 8 with --quick)")
    parser.add_argument("--quick", action="store_true", help="fewer of all: under 3 minutes")
    parser.add_argument("--least", type=float, default=0.98, metavar="RATIO", help="a case below is marked (0.98)")
    parser.add_argument("--list", action="store_true", help="the titles of the cases")
    options = parser.parse_args()
    chosen = select(options)
    if not chosen:
        print(f"no case matches {options.case}; --list has them", file=sys.stderr)
        return 2
    if options.list:
        print(*(case.title for case in chosen), sep="\n")
        return 0
    return run(chosen, options)


if __name__ == "__main__":
    sys.exit(main())
