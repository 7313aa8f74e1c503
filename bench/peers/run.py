"""Fovea, ONNX Runtime, PyTorch, OpenVINO, zentorch and OpenBLAS. Called by bench/peers.sh, which builds the library
and finds Python; writes peers.md and peers.json to the folder of this CPU in docs/peers, and
docs/peers/README.md, where all CPUs are side by side. Exit status 1 if a result of Fovea's is wrong.

  cases.py    what is compared                    engines.py  by whom; engine_*.py: in which forms
  data.py     operands and exact results          api.py      Fovea from Python; structs.py: what it passes
  peer.py     an engine, in its process           pages.py    the pages; report.py: their tables
"""

import datetime
import os
import pathlib
import statistics
import sys
import tempfile
import time

import numpy as np

import cases
import engines
import pages
import peer
import report

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from engine.turns import leads, medians, options_of, quartiles, take_turns  # noqa: E402
from engine.ways import skipped, start  # noqa: E402

# Holds each library to AVX2; read when the library is loaded.
HELD_TO_AVX2 = {
    "FOVEA_ISA": "avx2",
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "DNNL_MAX_CPU_ISA": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
}
BUDGET = 14.0  # seconds for the rounds of one case; fewer rounds rather than more, but never fewer than MIN_ROUNDS
MIN_ROUNDS = 7
REST = 0.1  # seconds; the threads of ONNX Runtime spin for about 0.06


def interpreter(kind):
    """The one of its own that an engine may ask for, or this one."""
    variable = getattr(kind, "python", None)
    return os.environ.get(variable) if variable else sys.executable


def wanted(tier, chosen):
    """{name: arguments of its Way}, "fovea" first."""
    environment = HELD_TO_AVX2 if tier == "avx2" else {}
    if tier == "alone":
        return {"fovea": peer.arguments("fovea", 2), "one thread": peer.arguments("fovea", 1)}
    found = {kind.name: peer.arguments(kind.name, python=interpreter(kind), environment=environment)
             for kind in engines.ENGINES if tier in kind.tiers}
    if not any(case.dtype != "f32" for case in chosen):
        del found["float32"]
    return found


def taking_part(case, ways):
    """Those of the ways that a case is about."""
    left_out = {"sleef"} if case.against != ("sleef",) else set(ways) - {"fovea", "sleef"}
    if case.dtype == "f32":
        left_out.add("float32")
    return {name: way for name, way in ways.items() if name not in left_out}


def measure(case, ways, rounds):
    """The record of a case."""
    notes, forms = [], {}
    for name, way in ways.items():
        try:
            found = way.ask("choose", title=case.title)
        except RuntimeError as problem:  # what failed in its process
            found = {"label": None, "notes": [f"{name}: {problem}"]}
            way.start_again()
        notes += found["notes"]
        if found["label"]:
            forms[name] = found
        elif name == "fovea":
            raise RuntimeError(f"fovea has no right result: {'; '.join(notes)}")
    with tempfile.TemporaryDirectory() as folder:
        ours = peer.output(ways["fovea"], folder)
        for name in forms:
            if not np.allclose(peer.output(ways[name], folder), ours, case.agreement, case.agreement):
                raise RuntimeError(f"{name} and fovea do not agree")
    bound, rest = ways["fovea"].ask("bound", title=case.title), REST if case.threads > 1 else 0
    turns = {name: lambda way=ways[name]: way.ask("take") for name in forms} | {"bound": lambda: ways["fovea"].ask("take_bound")}
    once = sum(found["cost"] + rest for found in [*forms.values(), bound])
    rounds = max(MIN_ROUNDS, min(rounds, int(BUDGET / once)))
    times = take_turns(turns, rounds, lambda name: turns[name](), rest)
    least, work = times.pop("bound"), case.bytes or case.work
    lead, middle = leads(times, "fovea"), medians(times)
    results = {name: {
        "form": forms[name]["label"],
        "seconds": middle[name],
        "ratio": statistics.median(lead[name]),
        "ratio_quartiles": quartiles(lead[name]),
        "share": statistics.median(work / one / (bound["work"] / limit) for one, limit in zip(times[name], least)) / case.threads,
        "bound": bound["label"],
    } for name in forms}
    return {"notes": notes, "results": results, "rounds": rounds}


class Progress:
    """One line per case on standard error, with the time that is probably left."""

    def __init__(self, count):
        self.begin, self.done, self.count = time.monotonic(), 0, count

    def start(self, title):
        left = f", about {(time.monotonic() - self.begin) / self.done * (self.count - self.done):.0f} s left" if self.done else ""
        self.done += 1
        print(f"[{self.done}/{self.count}{left}] {title}", file=sys.stderr, flush=True)


def run_tier(tier, chosen, rounds, progress):
    """({title: record}, summary or None) of a tier's cases."""
    ways = start(wanted(tier, chosen))
    if "fovea" not in ways:
        raise SystemExit("Fovea's library does not start")
    about, records = ways["fovea"].ask("about"), {}
    if (tier == "avx2" and about["isa"] != "avx2") or (tier == "alone" and about["threads"] < 2):
        skipped(f"cases of tier {tier}", "this machine has only one CPU" if tier == "alone" else "this CPU has no AVX2")
        return {}, None
    for case in chosen:
        progress.start(case.title)
        peak = ways["fovea"].ask("peak")
        try:
            records[case.title] = measure(case, taking_part(case, ways), rounds)
        except RuntimeError as problem:
            records[case.title] = {"notes": [str(problem)], "results": {}, "rounds": 0, "failed": True}
    versions = {kind.name: ways[kind.name].version if kind.name in ways else None
                for kind in engines.ENGINES if tier in kind.tiers and kind.name != "float32"}
    summary = {"tier": about["isa"], "versions": versions, "peak": peak, "notes": []}
    if "torch" in ways:
        summary["torch_mm"] = ways["torch"].ask("matrix_product")
    for way in ways.values():
        way.close()
    return records, summary


def main():
    parser = options_of("bench/peers.sh", __doc__.split(".")[0] + ".", 25, None)
    parser.add_argument("--only", default="*", metavar="GLOB", help="cases whose title matches; printed only")
    parser.add_argument("--update", action="store_true", help="with --only: writes these cases into the page that is there")
    parser.add_argument("--pages", action="store_true", help="measures nothing: writes all pages anew from their peers.json")
    parser.add_argument("--output", default=str(pages.FOLDER), metavar="FOLDER", help="has a folder for each CPU (default docs/peers)")
    options = parser.parse_args()
    if options.pages:
        return pages.write_all(pathlib.Path(options.output))
    chosen = {tier: cases.select(options.only, tier) for tier in cases.TIERS}
    if not any(chosen.values()):
        titles = (case.title for case in cases.CASES)
        print(f"no case matches {options.only}; there are:", *titles, sep="\n  ", file=sys.stderr)
        return 2
    progress, records, summaries = Progress(sum(map(len, chosen.values()))), {}, {}
    for tier, some in chosen.items():
        found, summary = run_tier(tier, some, options.rounds, progress) if some else ({}, None)
        records.update(found)
        if summary:
            summaries[tier] = summary
    if not summaries:
        return 1
    run = {"date": datetime.date.today().isoformat(), "cpu": pages.cpu_name(), "tiers": summaries, "cases": records,
           "command": f"make bench-peers PEERS=\"{os.environ['FOVEA_PEERS']}\""}
    print(report.markdown(cases.CASES, run) if options.only != "*" else report.table(cases.CASES, run))
    if any(record.get("failed") for record in records.values()):
        print("not written: Fovea's result of a case is wrong (above)", file=sys.stderr)
        return 1
    if options.only == "*" or options.update:
        return pages.store(pathlib.Path(options.output), run, options.update)
    return 0


if __name__ == "__main__":
    sys.exit(main())
