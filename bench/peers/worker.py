"""Measures the cases of one tier in one process and writes a JSON object per line to standard output: the start and the
result of each case, at the end a summary. Started by run.py, which sets the environment that holds libraries to the
tier.

What is compared is interleaved: in a round each engine has its turn (turns.py). The figures are the median time of an
engine's turns and the median over rounds of the ratio of two engines' turns, so what else the machine does falls on all
alike.
"""

import argparse
import itertools
import json
import os
import statistics
import sys
import time

import numpy as np

import cases
import engines
from data import data_of
from remote import Remote, stay_on_one_cpu
from turns import TURN, Contestant, choose, take_turns, turn

BUDGET = 14.0  # seconds for the rounds of one case; fewer rounds rather than more, but never fewer than MIN_ROUNDS
MIN_ROUNDS = 7


def compare(case, contestants, tolerance, peak, rounds):
    """Rounds of turns; contestants is {name: Contestant}, "fovea" first. The bound has a turn in each round, too: the FMA
    peak, as the clock of a core changes from one to the next, or reading, as memory is shared.
    Returns ({name: result}, rounds)."""
    ours = contestants["fovea"].output()
    for name, one in contestants.items():
        if not np.allclose(one.output(), ours, tolerance, tolerance):
            raise RuntimeError(f"{name} and fovea do not agree")
    bound, work = (Reading(peak, case), case.bytes) if case.bytes else (peak, case.work)
    turns = {**contestants, "bound": bound.contestant(contestants["fovea"].clock)}
    rounds = max(MIN_ROUNDS, min(rounds, int(BUDGET / sum(one.cost() for one in turns.values()))))
    times = take_turns(turns, rounds)
    results = {}
    for name in contestants:
        ratios = [theirs / ours for theirs, ours in zip(times[name], times["fovea"])]
        low, _, high = statistics.quantiles(ratios, n=4)
        shares = [work / one / (bound.work / least) for one, least in zip(times[name], times["bound"])]
        results[name] = {
            "form": contestants[name].label,
            "seconds": statistics.median(times[name]),
            "ratio": statistics.median(ratios),
            "ratio_quartiles": [low, high],
            "share": statistics.median(shares) / case.threads,
            "bound": bound.label,
        }
    return results, rounds


class Peak:
    """The FMA peak of a tier: the best of many short runs, taken again before each case; and as what has turns."""

    def __init__(self, library, tier):
        self.library, self.tier, self.best, self.label = library, tier, 0.0, "FMA peak"
        self.work = library.peak_run(tier)

    def run(self):
        self.library.peak_run(self.tier)

    def measure(self):
        for _ in range(20):
            start = time.perf_counter()
            self.run()
            self.best = max(self.best, self.work / (time.perf_counter() - start))
        return self.best

    def contestant(self, clock):
        seconds = self.work / self.best
        return Contestant(self, seconds, max(1, round(TURN / seconds)), clock)


class Reading:
    """As many bytes of memory as a case reads, and nothing else."""

    def __init__(self, peak, case):
        self.work, self.label = case.bytes, "reading"
        readers = itertools.cycle([peak.library.reader(np.ones(case.bytes // 4, np.float32)) for _ in range(case.copies)])
        self.run = lambda: next(readers)()

    def contestant(self, clock):
        seconds = min(turn(self, 1) for _ in range(5))
        return Contestant(self, seconds, max(1, round(TURN / seconds)), clock)


def start(kind, threads):
    """An engine, in a process of its own if it has an interpreter of its own."""
    variable = getattr(kind, "python", None)
    if not variable:
        return kind(threads)
    if not os.environ.get(variable):
        raise ImportError(kind.name)
    return Remote(kind.name, os.environ[variable], threads=threads)


def start_engines(tier, notes):
    """The engines that can be had, "fovea" first, and {name: version or None}."""
    started, versions = [], {}
    for kind in engines.ENGINES:
        if tier not in kind.tiers:
            continue
        versions[kind.name] = None
        try:
            engine = start(kind, 2 if tier == "pair" else 1)
            versions[kind.name] = engine.version()
            started.append(engine)
        except ImportError:
            print(f"SKIPPED: {kind.name} is not installed", file=sys.stderr)
        except Exception as problem:
            notes.append(f"{kind.name} does not start: {str(problem).splitlines()[0][:120]}")
            print(f"SKIPPED: {notes[-1]}", file=sys.stderr)
    return started, versions


def contestant(engine, case, data, notes):
    if not isinstance(engine, Remote):
        return choose(engine, case, data, notes)
    try:
        return engine.choose(case, notes)
    except RuntimeError as problem:  # what failed in its process
        notes.append(str(problem))
        return None


def measure(case, started, peak, rounds):
    notes, contestants = [], {}
    data = data_of(case)
    if case.kind == "threads":
        started = [engines.Fovea(2), engines.Fovea(1)]
        if started[0].context.threads < 2:
            return {"notes": ["only one CPU"], "results": {}, "rounds": 0}
        started[1].name = "one thread"
    elif case.against == ("sleef",):
        started = [e for e in started if e.name in ("fovea", "sleef")]
    else:
        started = [e for e in started if e.name != "sleef"]
    if case.dtype != "f32":
        started = [*started, engines.BESIDE_HALVES(case.threads)]
    for engine in started:
        best = contestant(engine, case, data, notes)
        if best:
            contestants[engine.name] = best
        elif engine.name == "fovea":
            raise RuntimeError(f"fovea has no right result: {'; '.join(notes)}")
    results, rounds = compare(case, contestants, data.agreement, peak, rounds)
    return {"notes": notes, "results": results, "rounds": rounds}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tier", required=True)
    parser.add_argument("--only", default="*")
    parser.add_argument("--rounds", type=int, default=25)
    options = parser.parse_args()
    chosen = cases.select(options.only, options.tier)
    if not chosen:
        return 0
    notes, status = [], 0
    if options.tier in ("best", "avx2"):
        stay_on_one_cpu()
    started, versions = start_engines(options.tier, notes)
    fovea = started[0]
    if options.tier == "avx2" and fovea.context.isa != "avx2":
        print("this CPU has no AVX2: its cases are left out", file=sys.stderr)
        return 0
    if options.tier == "pair" and fovea.context.threads < 2:
        print("there is only one CPU: cases of two threads are left out", file=sys.stderr)
        return 0
    torch = next((e for e in started if e.name == "torch"), None)
    peak = Peak(fovea.library, fovea.context.isa)
    for case in chosen:
        peak.measure()
        print(json.dumps({"start": case.title}), flush=True)
        try:
            record = measure(case, started, peak, options.rounds)
        except RuntimeError as problem:
            record, status = {"notes": [str(problem)], "results": {}, "rounds": 0, "failed": True}, 1
        print(json.dumps({"title": case.title, **record}), flush=True)
    summary = {"tier": fovea.context.isa, "versions": versions, "peak": peak.measure(), "notes": notes}
    if torch:
        summary["torch_mm"] = torch.matrix_product()
    print(json.dumps({"summary": summary}), flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
