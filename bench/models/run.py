"""Whole models on Fovea, beside the same models on PyTorch, from Python. Called by bench/models.sh.

All ways of a case run in turns: each round times each way once, in an order that changes. The figures are the median time of a
way and the median over rounds of the ratio of torch's time to it; torch is the better of "sdpa" and "eager". Results are compared
before anything is timed. Fovea and torch run in one process. zentorch and OpenVINO have one each (peer.py), where they are
installed; what else can not be compared is SKIPPED, with the reason. At the end come the calls that fell back from Fovea to
torch: none is expected.

  minilm    all-MiniLM-L6-v2 by sentence-transformers, 256 sentences of mixed length; ms of all
  bert      BERT-base, random weights, one text of 512 tokens
  vit       ViT-base, random weights, 8 pictures
  prefill   SmolLM2-135M, a prompt of 1024 tokens
  decode    SmolLM2-135M, 64 tokens after 1024: time of all steps. Then the part of it that is Python and what torch does around
            its kernels: the time of the same model with next to nothing to compute; and the ratio without that part
  memory    peak memory of attention in a batch of two prompts of 8192 tokens, one of them padded: MiB above the same model
            without attention
"""

import argparse
import fnmatch
import os
import statistics
import sys
import warnings

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
warnings.filterwarnings("ignore", message=".*CUDA.*")
warnings.filterwarnings("ignore", category=FutureWarning)

import torch
import transformers
from cases import CASES, hollow, once, random_model
from peer import Peer

import fovea
import fovea.torch
import fovea.transformers

transformers.logging.set_verbosity_error()
# transformers asks at each call; in a CUDA build without a device the answer is a slow exception, which nobody is to be charged.
torch.cuda.is_current_stream_capturing = lambda: False
TORCH = ("sdpa", "eager")


def ways_of(case):
    return case.ways([*TORCH, "fovea"], fovea.torch.optimize)


def measure(ways, rounds):
    """{way: [seconds of each round]}; ways with a wrong result are taken out of `ways`."""
    results = {name: once(way)[0] for name, way in ways.items()}
    base = results["sdpa"]
    for name, result in results.items():
        error = (result - base).abs().max().item() / base.abs().max().item()
        if not error < 1e-3:
            if isinstance(getattr(ways[name], "__self__", None), Peer):
                print(f"          {name} SKIPPED: its result differs from sdpa's by {error:.1e}")
                del ways[name]
            else:
                raise RuntimeError(f"{name} and sdpa differ by {error:.1e}")
    times = {name: [] for name in ways}
    names = list(ways)
    for i in range(rounds):
        for name in names[i % len(names):] + names[: i % len(names)]:
            times[name].append(once(ways[name])[1])
    return times


def median(times):
    return {name: statistics.median(one) for name, one in times.items()}


def ratios(times):
    """{way: the median over rounds of the ratio of torch's time to it}."""
    middle = median(times)
    torchs = min((name for name in times if name in TORCH), key=middle.get)
    return {name: statistics.median(b / a for a, b in zip(one, times[torchs])) for name, one in times.items()}


def cells(seconds, ratio):
    return ", ".join(f"{way} {seconds[way] * 1e3:.0f} ms ({ratio[way]:.2f}x)" for way in seconds)


def without_python(times, rounds):
    """The line about decode's Python: its time, and what the ratios are without it."""
    python = median(measure(ways_of(hollow()), rounds))
    rest = {name: [second - python[name] for second in times[name]] for name in python}
    return f"of which Python: {cells(python, ratios(rest)).replace('x)', 'x without)')}"


def start_peers(before):
    peers = []
    if before:
        here = os.environ["PYTHONPATH"]
        for name, path in (("now", here), ("before", os.pathsep.join([before, here]))):  # each in a process of its own
            peers.append(Peer(name, sys.executable, {"PYTHONPATH": path}))
    for name in ("zentorch", "openvino"):
        python = os.environ.get(f"FOVEA_{name.upper()}_PYTHON")
        if not python:
            print(f"{name} SKIPPED: it is not installed (make bench-peers PEERS='openvino zentorch')")
            continue
        try:
            peers.append(Peer(name, python))
            print(f"{name} {peers[-1].version}")
        except RuntimeError as error:
            print(f"{name} SKIPPED: {error}")
    return peers


def peer_ways(name, threads, peers):
    ways = {}
    for peer in peers:
        try:
            peer.prepare(name, threads)
            ways[peer.name] = peer.run
        except RuntimeError as error:
            print(f"          {peer.name} SKIPPED: {error}", flush=True)
    return ways


def run_case(name, options, peers):
    try:
        ways = ways_of(CASES[name]())
    except BaseException as error:
        if type(error).__name__ != "Skipped":
            raise
        print(f"{name:9} SKIPPED: {error}")
        return
    for threads in map(int, options.threads.split(",")):
        torch.set_num_threads(threads)
        all_ways = {**ways, **peer_ways(name, threads, peers)}
        times = measure(all_ways, options.rounds)
        print(f"{name:9} {threads} thread{'s' * (threads > 1)}: {cells(median(times), ratios(times))}", flush=True)
        if "before" in times:
            ratio = statistics.median(b / a for a, b in zip(times["now"], times["before"]))
            print(f"          optimize runs at {ratio:.3f} of the speed of before", flush=True)
        if name == "decode":
            print(f"          {without_python(times, options.rounds)}", flush=True)


def peak_above(call):
    """How far the resident memory rises while `call` runs, in MiB."""
    status = lambda key: next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key)) / 1024
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = status("VmRSS")
    call()
    return status("VmHWM") - before


def memory():
    model = random_model("LlamaModel", "LlamaConfig", hidden_size=576, intermediate_size=576, num_hidden_layers=1,
                         num_attention_heads=9, num_key_value_heads=3, vocab_size=64)
    tokens, mask = torch.ones(2, 8192, dtype=torch.long), torch.ones(2, 8192, dtype=torch.long)
    mask[0, :1000] = 0
    nothing = lambda module, query, key, value, mask, **more: (query.transpose(1, 2).contiguous(), None)
    transformers.AttentionInterface.register("nothing", nothing)
    transformers.AttentionMaskInterface.register("nothing", lambda *args, **more: None)
    found = {}
    for name in ("nothing", "sdpa", "fovea"):
        model.set_attn_implementation(name)
        run = lambda: model(tokens, attention_mask=mask, use_cache=False)
        model(tokens[:, :64], attention_mask=mask[:, :64], use_cache=False)
        found[name] = peak_above(run)
    sdpa, ours = (max(found[name] - found["nothing"], 0.0) for name in ("sdpa", "fovea"))
    print(f"memory    8192 tokens, two prompts, padded: sdpa {sdpa:.0f} MiB, fovea {ours:.0f} MiB, ratio {ours / sdpa:.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="bench/models.sh", description=__doc__.split(".")[0] + ".")
    parser.add_argument("--only", default="*", metavar="GLOB", help="cases by name: " + ", ".join([*CASES, "memory"]))
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="rounds of each case (default 7)")
    parser.add_argument("--threads", default="1,2", metavar="N,N", help="numbers of threads (default 1,2)")
    parser.add_argument("--before", metavar="DIR", help="build/python of another revision: times its optimize(), too")
    options = parser.parse_args()
    info = fovea.info()
    print(f"{info['cpu']}, {info['isa']}; torch {torch.__version__}, transformers {transformers.__version__}, fovea {fovea.__version__}")
    fovea.torch.reset_counters()
    fovea.transformers.counters.reset()
    chosen = [name for name in CASES if fnmatch.fnmatch(name, options.only)]
    peers = start_peers(options.before) if chosen else []
    with torch.inference_mode():
        for name in chosen:
            run_case(name, options, peers)
        if fnmatch.fnmatch("memory", options.only):
            memory()
    for peer in peers:
        peer.close()
    fallbacks = dict(fovea.transformers.counters.fallbacks) | fovea.torch.counters()["torch"]
    print(f"fallbacks from Fovea to torch: {sum(fallbacks.values())} {fallbacks or ''}".rstrip())
    return 1 if fallbacks else 0


if __name__ == "__main__":
    sys.exit(main())
