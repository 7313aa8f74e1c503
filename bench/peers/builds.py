"""This tree's build beside that of another revision, in every case of the comparison with others. Called by
bench/builds.sh, which makes both builds; prints a table. Exit status 1 if a case is slower than --least allows, or has no
right result.

Each build runs in a process of its own, with the Python of its own revision (remote.py), on the same CPU. The two take
turns. A case is measured in several such pairs of processes, since where memory happens to lie favours one build for as
long as a process lives; a case that looks slower is measured again, and all its rounds count.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys

import numpy as np

import cases
import report
from remote import Remote
from run import cpu_fields, cpu_name
from turns import take_turns

HELD_TO = {"avx2": {"FOVEA_ISA": "avx2"}}
MIN_ROUNDS = 3
EFFORT = {  # pairs of processes, rounds in each, seconds of each
    "quick": (2, 8, 1.0),
    "normal": (4, 15, 2.0),
}


class Pair:
    """The two builds in new processes, ready for a case."""

    def __init__(self, case, builds, isa):
        environment = {**HELD_TO.get(case.tier, {}), **({"FOVEA_ISA": isa} if isa else {})}
        self.engines, self.notes = {}, []
        for name, build in builds.items():
            self.engines[name] = Remote("fovea", folder=build["folder"], threads=case.threads,
                                        environment={**build["environment"], **environment})
        self.contestants = {name: engine.choose(case, self.notes) for name, engine in self.engines.items()}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for engine in self.engines.values():
            engine.close()

    def difference(self):
        """Of the two results: None if they have the same bits."""
        old, new = (one.output() for one in self.contestants.values())
        return None if old.tobytes() == new.tobytes() else float(np.max(np.abs(old - new)))


class Figure:
    """What is known of a case."""

    def __init__(self):
        self.times = {"base": [], "tree": []}
        self.difference = None

    @property
    def ratios(self):
        return [base / tree for base, tree in zip(self.times["base"], self.times["tree"])]

    @property
    def ratio(self):
        return statistics.median(self.ratios)

    def row(self, case, least):
        low, _, high = statistics.quantiles(self.ratios, n=4)
        base, tree = (report.rate(case, statistics.median(self.times[name])) for name in ("base", "tree"))
        bits = "same bits" if self.difference is None else f"differs by {self.difference:.0e}"
        mark = "   SLOWER" if self.ratio < least else ""
        return (f"{case.title:34} {base[0]:9.4g} {tree[0]:9.4g} {tree[1]:5} {self.ratio:7.3f}  ({low:.3f}-{high:.3f})"
                f"  {bits}{mark}")


def measure(case, builds, options, effort, figure):
    """Adds rounds to a figure; returns why there are none, or None."""
    pairs, rounds, seconds = EFFORT[effort]
    for _ in range(pairs):
        with Pair(case, builds, options.isa) as pair:
            if None in pair.contestants.values():
                return "; ".join(pair.notes) or "not a case of both builds"
            if not figure.times["base"]:
                figure.difference = pair.difference()
            once = sum(one.cost() for one in pair.contestants.values())
            # The clock of the wall is noisier, and most of its turns is rest.
            count = max(MIN_ROUNDS, min(options.rounds or rounds, int(seconds * (3 if case.threads > 1 else 1) / once)))
            for name, found in take_turns(pair.contestants, count).items():
                figure.times[name] += found
    return None


def select(options):
    """The cases that match; each only once where they differ in what Fovea is compared with, or in the tier it is held to."""
    chosen = {}
    for tier in cases.TIERS:
        for case in cases.select(options.case, tier):
            chosen.setdefault((case.name, None if options.isa else case.tier == "avx2"), case)
    return list(chosen.values())


def run(chosen, builds, options):
    effort, slower, skipped, failed = "quick" if options.quick else "normal", 0, 0, 0
    print(f"{cpu_name(cpu_fields())}; base {options.base}; ratio: speed of the tree by speed of the base")
    print(f"{'':34} {'base':>9} {'tree':>9} {'':5} {'ratio':>7}  (quartiles)")
    for case in chosen:
        figure = Figure()
        try:
            problem = measure(case, builds, options, effort, figure)
            if not problem and figure.ratio < options.least:
                problem = measure(case, builds, options, "normal", figure)
        except RuntimeError as error:
            failed += 1
            print(f"{case.title:34} FAILED: {error}", flush=True)
            continue
        if problem:
            skipped += 1
            print(f"{case.title:34} SKIPPED: {problem}", flush=True)
            continue
        slower += figure.ratio < options.least
        print(figure.row(case, options.least), flush=True)
    encoders = sum(case.kind == "encoder" for case in cases.CASES) if not cases.encoder.MODEL.exists() else 0
    if encoders:
        print(f"SKIPPED: {encoders} cases of the encoder: there is no {cases.encoder.MODEL}; make run fetches it")
    print(f"{len(chosen) - skipped - failed} cases measured, {slower} below {options.least:g}; {failed} FAILED, "
          f"{skipped + encoders} SKIPPED")
    return int(bool(slower or failed))


def main():
    parser = argparse.ArgumentParser(prog="bench/builds.sh BASE", description=__doc__.split(" Called")[0])
    parser.add_argument("--builds", required=True, type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--base", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--case", default="*", metavar="GLOB", help="cases whose title or name matches")
    parser.add_argument("--isa", metavar="NAME", help="hold both builds to a tier: scalar, avx2, avx512")
    parser.add_argument("--rounds", type=int, metavar="N", help="most rounds of each pair of processes (15; 8 with --quick)")
    parser.add_argument("--quick", action="store_true", help="fewer of all: under 3 minutes")
    parser.add_argument("--least", type=float, default=0.98, metavar="RATIO", help="a case below is marked (0.98)")
    parser.add_argument("--list", action="store_true", help="what there is, by title and name")
    options = parser.parse_args()
    chosen = select(options)
    if not chosen:
        print(f"no case matches {options.case}; --list has them", file=sys.stderr)
        return 2
    if options.list:
        for case in chosen:
            print(f"{case.title:34} {case.name}")
        return 0
    os.environ.setdefault("FOVEA_MODELS", str(pathlib.Path(cases.encoder.MODEL).parents[1]))
    return run(chosen, options.builds, options)


if __name__ == "__main__":
    sys.exit(main())
