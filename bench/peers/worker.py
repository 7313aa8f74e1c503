"""Measures the cases of one tier in one process and writes a JSON object per line to standard output: the start and the
result of each case, at the end a summary. Started by run.py, which sets the environment that holds libraries to the
tier.

What is compared is interleaved: in a round each engine has its turn, in an order that rotates. The figures are the
median time of an engine's turns and the median over rounds of the ratio of two engines' turns, so what else the machine
does falls on all alike. Time is the process's CPU time, which counts what other processes take from it only through
the caches, and would count the help of a second thread; where two threads are the matter, it is the wall clock's, and
threads are placed: see place_threads().
"""

import argparse
import dataclasses
import json
import os
import statistics
import sys
import time

import numpy as np

import cases
import encoder
import engines

TURN = 0.012  # seconds that a turn lasts at least: shorter calls are repeated
BUDGET = 14.0  # seconds for the rounds of one case; fewer rounds rather than more, but never fewer than MIN_ROUNDS
MIN_ROUNDS = 7
REST = 0.1  # seconds; those of ONNX Runtime spin for about 0.06
TOLERANCE = 1e-4
CPUS = sorted(os.sched_getaffinity(0))


class Data:
    """The operands of a case, the same for all engines, and its exact result."""

    tolerance = TOLERANCE

    def __init__(self, case):
        self.case, random = case, np.random.default_rng(1)
        if case.kind == "exp":
            self.x = (-20 * random.random(case.q_len)).astype(np.float32)
            return
        if case.kind == "linear":
            self.x, self.w, self.b = self.normal(random, (case.rows, case.channels), (case.columns, case.channels))
            return
        if case.kind == "mha":
            d = case.model
            self.x, self.w, self.b = self.normal(random, (case.batch, case.q_len, d), (3 * d, d))
            _, self.wo, self.bo = self.normal(random, (1,), (d, d))
            return
        q_shape = (case.batch, case.heads, case.q_len, case.head_dim)
        k_shape = (case.batch, case.groups, case.kv_len, case.head_dim)
        self.q, self.k, self.v = (random.standard_normal(shape, np.float32) for shape in (q_shape, k_shape, k_shape))

    @staticmethod
    def normal(random, x_shape, w_shape):
        """An input, a weight [out, in] that keeps its size, and a bias."""
        w = random.standard_normal(w_shape, np.float32) / np.float32(w_shape[1] ** 0.5)
        return random.standard_normal(x_shape, np.float32), w, random.standard_normal(w_shape[0], np.float32)

    def layer_row(self, b, rows):
        """Rows of a layer's output in float64."""
        case, d = self.case, self.case.model
        qkv = (self.x[b].astype(np.float64) @ self.w.T.astype(np.float64) + self.b).reshape(-1, 3, case.heads, d // case.heads)
        q, k, v = (qkv[:, i].transpose(1, 0, 2) for i in range(3))
        scores = q[:, rows] @ k.transpose(0, 2, 1) / case.head_dim**0.5
        p = np.exp(scores - scores.max(axis=-1, keepdims=True))
        heads = (p @ v / p.sum(axis=-1, keepdims=True)).transpose(1, 0, 2).reshape(len(rows), d)
        return heads @ self.wo.T.astype(np.float64) + self.bo

    def mask(self, rows=None):
        """True where a row attends to a key."""
        i = np.arange(self.case.q_len)[rows if rows is not None else slice(None), None]
        j = np.arange(self.case.kv_len)[None]
        allowed = j <= i if self.case.causal else np.ones((len(i), self.case.kv_len), bool)
        return allowed & (j > i - self.case.window) if self.case.window else allowed

    def bias(self):
        return np.where(self.mask(), 0, -np.inf).astype(np.float32)

    def error(self, out):
        """How far a result is from float64's: all of an exp, relatively; some rows of anything else."""
        case = self.case
        if case.kind == "exp":
            return float(np.max(np.abs(out / np.exp(self.x.astype(np.float64)) - 1)))
        count = case.rows if case.kind == "linear" else case.q_len
        rows, worst = np.unique(np.linspace(0, count - 1, 16).astype(int)), 0.0
        if case.kind == "linear":
            return float(np.max(np.abs(out[rows] - (self.x[rows].astype(np.float64) @ self.w.T + self.b))))
        if case.kind == "mha":
            return max(float(np.max(np.abs(out[b, rows] - self.layer_row(b, rows)))) for b in range(case.batch))
        allowed = self.mask(rows)
        for b in range(case.batch):
            for h in range(case.heads):
                g = h // (case.heads // case.groups)
                q, k, v = (a.astype(np.float64) for a in (self.q[b, h, rows], self.k[b, g], self.v[b, g]))
                scores = q @ k.T / case.head_dim**0.5
                p = np.exp(np.where(allowed, scores, -np.inf) - scores.max(axis=1, keepdims=True))
                exact = p @ v / p.sum(axis=1, keepdims=True)
                worst = max(worst, float(np.max(np.abs(out[b, h, rows] - exact))))
        return worst


def place_threads():
    """The caller's thread on the first CPU, all others, those of every library's pool, on the second: threads that wait
    for work by spinning are else at the mercy of the scheduler, which may keep both on one CPU for long."""
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), {CPUS[int(thread) != os.getpid()]})


def clock_of(case):
    return time.perf_counter if case.threads > 1 else time.process_time


def turn(form, repeats, clock=time.process_time):
    """Seconds of one call, the mean of `repeats` after one that warms the caches where the call is short. By the wall
    clock there is always one, after a rest in which other libraries' threads stop to spin for more work."""
    if clock is time.perf_counter:
        time.sleep(REST)
    if repeats > 1 or clock is time.perf_counter:
        form.run()
    start = clock()
    for _ in range(repeats):
        form.run()
    return (clock() - start) / repeats


def overhead(engine, case):
    """Seconds that a call of an exp takes before it comes to the array: those of one element."""
    tiny = dataclasses.replace(case, q_len=1)
    form = next(iter(engine.forms(tiny, Data(tiny))))
    return min(turn(form, 2000) for _ in range(5))


@dataclasses.dataclass
class Contestant:
    form: engines.Form
    seconds: float  # of a call, about
    repeats: int  # calls in a turn
    overhead: float = 0.0  # seconds of a call that do not count


def choose(engine, case, data, notes):
    """The engine's fastest form that gives the right result, as Contestant; None if it has none."""
    best, clock = None, clock_of(case)
    for form in engine.forms(case, data):
        if form is None:
            continue
        try:
            form.run()
            if case.tier == "pair":
                place_threads()
            error = data.error(form.output())
        except Exception as problem:  # a form this version of a library refuses: not offered
            notes.append(f"{engine.name} {form.label}: {str(problem).splitlines()[0][:120]}")
            continue
        if not error < data.tolerance:
            notes.append(f"{engine.name} {form.label}: off by {error:.1e}, left out")
            continue
        repeats = max(1, round(TURN / turn(form, 1, clock)))
        seconds = min(turn(form, repeats, clock) for _ in range(3))
        if best is None or seconds < best.seconds:
            best = Contestant(form, seconds, max(1, round(TURN / seconds)))
    if best and case.kind == "exp":
        best.overhead = overhead(engine, case)
    return best


def compare(case, contestants, peak, rounds):
    """Rounds of turns; contestants is {name: Contestant}, "fovea" first. The bound has a turn in each round, too: the FMA
    peak, as the clock of a core changes from one to the next, or reading, as memory is shared.
    Returns ({name: result}, rounds)."""
    ours = contestants["fovea"].form.output()
    for name, one in contestants.items():
        if not np.allclose(one.form.output(), ours, TOLERANCE, TOLERANCE):
            raise RuntimeError(f"{name} and fovea do not agree")
    clock = clock_of(case)
    wall = case.threads > 1
    bound, work = (Reading(peak, case.bytes), case.bytes) if case.bytes else (peak, case.work)
    turns = {**contestants, "bound": bound.contestant()}
    once = sum(one.seconds * (one.repeats + (one.repeats > 1 or wall)) + REST * wall for one in turns.values())
    rounds = max(MIN_ROUNDS, min(rounds, int(BUDGET / once)))
    names, times = list(turns), {name: [] for name in turns}
    for k in range(rounds):
        shift = k % len(names)
        for name in names[shift:] + names[:shift]:
            one = turns[name]
            times[name].append(turn(one.form, one.repeats, clock) - one.overhead)
    results = {}
    for name in contestants:
        ratios = [theirs / ours for theirs, ours in zip(times[name], times["fovea"])]
        low, _, high = statistics.quantiles(ratios, n=4)
        shares = [work / one / (bound.work / least) for one, least in zip(times[name], times["bound"])]
        results[name] = {
            "form": contestants[name].form.label,
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

    def contestant(self):
        seconds = self.work / self.best
        return Contestant(self, seconds, max(1, round(TURN / seconds)))


class Reading:
    """As many bytes of memory as a case reads, and nothing else."""

    def __init__(self, peak, work):
        self.work, self.label = work, "reading"
        self.run = peak.library.reader(peak.tier, np.ones(work // 4, np.float32))

    def contestant(self):
        seconds = min(turn(self, 1) for _ in range(5))
        return Contestant(self, seconds, max(1, round(TURN / seconds)))


def start_engines(tier, notes):
    """The engines that can be imported, "fovea" first, and {name: version or None}."""
    started, versions = [], {}
    for kind in engines.ENGINES:
        if tier == "avx2" and kind not in (engines.Fovea, engines.Torch):
            continue  # cannot be held to a tier
        if tier == "alone" and kind is not engines.Fovea:
            continue
        if tier == "pair" and kind not in (engines.Fovea, engines.Torch, engines.OnnxRuntime):
            continue
        try:
            engine = kind(2 if tier == "pair" else 1)
            versions[kind.name] = engine.version()
            started.append(engine)
        except ImportError:
            versions[kind.name] = None
        except Exception as problem:
            versions[kind.name] = None
            notes.append(f"{kind.name} does not start: {str(problem).splitlines()[0][:120]}")
    return started, versions


def measure(case, started, peak, rounds):
    notes, contestants = [], {}
    data = encoder.Data(case) if case.kind == "encoder" else Data(case)
    if case.kind == "threads":
        started = [engines.Fovea(2), engines.Fovea(1)]
        if started[0].context.threads < 2:
            return {"notes": ["only one CPU"], "results": {}, "rounds": 0}
        started[1].name = "one thread"
    elif case.against == ("sleef",):
        started = [e for e in started if e.name in ("fovea", "sleef")]
    else:
        started = [e for e in started if e.name != "sleef"]
    for engine in started:
        best = choose(engine, case, data, notes)
        if best:
            contestants[engine.name] = best
        elif engine.name == "fovea":
            raise RuntimeError(f"fovea has no right result: {'; '.join(notes)}")
    results, rounds = compare(case, contestants, peak, rounds)
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
