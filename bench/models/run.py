"""Whole models on Fovea and on other engines, from Python. Called by bench/models.sh.

Each way is a process (peer.py). All ways of a case run in turns, in an order that rotates. The figures are the median time of a
way and how many times as fast as torch it is; torch is the better of "sdpa" and "eager". Results are compared before anything is
timed. zentorch and OpenVINO take part where they are installed; what else cannot be compared is SKIPPED, with the reason. At the
end come the calls that fell back from Fovea to torch: none is expected.

  minilm    all-MiniLM-L6-v2 by sentence-transformers, 256 sentences of mixed length; ms of all
  bert      BERT-base, random weights, one text of 512 tokens
  vit       ViT-base, random weights, 8 pictures
  prefill   SmolLM2-135M, a prompt of 1024 tokens
  decode    SmolLM2-135M, 64 tokens after 1024: time of all steps. Then the part of it that is Python and what torch does around
            its kernels: the time of the same model with next to nothing to compute; and the ratio without that part
  memory    peak memory of attention in a batch of two prompts of 8192 tokens, one of them padded: MiB above the same model
            without attention
"""

import fnmatch
import os
import pathlib
import statistics
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from engine.turns import medians, options_of, paired, ratios, take_turns, threads_text  # noqa: E402
from engine.ways import ask_all, start  # noqa: E402

CASES = ("minilm", "bert", "mpnet", "vit", "prefill", "decode")
TORCH, OURS = ("sdpa", "eager"), ("fovea", "optimize", "before")
REST = 0.05


def wanted(before):
    """{way: arguments of its Way}, torch's first."""
    script, here = HERE / "peer.py", os.environ["PYTHONPATH"]
    ways = {name: (script, {"kind": "Torch", "attention": name}) for name in (*TORCH, "fovea", "optimize")}
    if before:
        environment = {"PYTHONPATH": os.pathsep.join([before, here])}
        ways["before"] = script, {"kind": "Torch", "attention": "optimize"}, sys.executable, environment
    for kind in ("Zentorch", "OpenVINO"):
        ways[kind.lower()] = script, {"kind": kind}, os.environ.get(f"FOVEA_{kind.upper()}_PYTHON")
    return ways


def measure(ways, case, threads, rounds):
    """{way: [seconds of each round]} of the ways that can run the case; those of others with a wrong result are SKIPPED."""
    ready = {name: ways[name] for name in ask_all(ways, "prepare", case=case, threads=threads)}
    if not ready:
        return {}
    results = {name: np.load(way.ask("run")["result"]) for name, way in ready.items()}
    for name, result in results.items():
        error = np.abs(result - results["sdpa"]).max() / np.abs(results["sdpa"]).max()
        if not error < 1e-3:
            if name in OURS:
                raise RuntimeError(f"{name} and sdpa differ by {error:.1e}")
            print(f"          {name} SKIPPED: its result differs from sdpa's by {error:.1e}")
            del ready[name]
    return take_turns(ready, rounds, lambda name: ready[name].ask("run")["seconds"], REST)


def cells(times):
    middle = medians(times)
    faster = ratios(times, min((name for name in times if name in TORCH), key=middle.get))
    return ", ".join(f"{way} {middle[way] * 1e3:.0f} ms ({faster[way]:.2f}x)" for way in times)


def without_python(ways, times, threads, rounds):
    """The line about decode's Python: its time, and what the ratios are without it."""
    python = measure({name: way for name, way in ways.items() if name in (*TORCH, *OURS)}, "hollow", threads, rounds)
    middle = medians(python)
    rest = {name: [second - middle[name] for second in times[name]] for name in python}
    return f"of which Python: {cells(python)}; without it: {cells(rest)}"


def run_case(case, ways, threads, rounds):
    times = measure(ways, case, threads, rounds)
    if not times:
        return
    print(f"{case:9} {threads_text(threads)}: {cells(times)}", flush=True)
    if "before" in times:
        ratio = statistics.median(paired(times, "before")["optimize"])
        print(f"          optimize runs at {ratio:.3f} of the speed of before", flush=True)
    if case == "decode":
        print(f"          {without_python(ways, times, threads, rounds)}", flush=True)


def memory(ways):
    nothing = start({"nothing": (HERE / "peer.py", {"kind": "Torch", "attention": "nothing"})})
    found = ask_all(nothing | {name: ways[name] for name in ("sdpa", "fovea")}, "memory")
    nothing["nothing"].close()
    sdpa, ours = (max(found[name] - found["nothing"], 0.0) for name in ("sdpa", "fovea"))
    print(f"memory    8192 tokens, two prompts, padded: sdpa {sdpa:.0f} MiB, fovea {ours:.0f} MiB, ratio {ours / sdpa:.3f}", flush=True)


def main():
    parser = options_of("bench/models.sh", __doc__.split(".")[0] + ".", 7, "1,2", str)
    parser.add_argument("--only", default="*", metavar="GLOB", help="cases by name: " + ", ".join([*CASES, "memory"]))
    parser.add_argument("--before", metavar="DIR", help="build/python of another revision: times its optimize(), too")
    options = parser.parse_args()
    ways = start(wanted(options.before))
    print("; ".join(f"{name} {way.version}" for name, way in ways.items()))
    for case in fnmatch.filter(CASES, options.only):
        for threads in map(int, options.threads.split(",")):
            run_case(case, ways, threads, options.rounds)
    if fnmatch.fnmatch("memory", options.only):
        memory(ways)
    counted = ask_all({name: ways[name] for name in ("fovea", "optimize")}, "fallbacks")
    fallbacks = {name: count for found in counted.values() for name, count in found.items()}
    for way in ways.values():
        way.close()
    print(f"fallbacks from Fovea to torch: {sum(fallbacks.values())} {fallbacks or ''}".rstrip())
    return 1 if fallbacks else 0


if __name__ == "__main__":
    sys.exit(main())
