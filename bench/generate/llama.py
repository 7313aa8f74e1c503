"""llama.cpp with and without Fovea's backend, and with all that it serves: a prompt is read, or tokens follow a filled cache.
Called by bench/llama.sh. Each way is a process, which keeps its model; they take turns. Printed are medians over rounds and
how many times as fast as llama.cpp alone; resident memory of each, as a multiple of the file; and, if the speed of reading is
given, the share of it at which the file's bytes are read for each token that is decoded."""

import argparse
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from engine.turns import medians, options_of, ratios, take_turns, threads_text  # noqa: E402
from engine.ways import Way  # noqa: E402

REST = 0.3  # seconds, in which threads of the process before stop to spin for work
ALONE = "alone"
WAYS = {ALONE: {}, "Fovea": {}, "all": {"FOVEA_GGML": "all"}, "q8": {"FOVEA_GGML_ARITHMETIC": "q8"}}  # and their variables


def measure(ways, rounds, do, **arguments):
    """Medians of the tokens a second, and their line with the ratios to the first."""
    times = take_turns(ways, rounds, lambda name: ways[name].ask(do, **arguments), REST)
    faster = ratios(times, ALONE)
    speeds = {name: 1 / seconds for name, seconds in medians(times).items()}
    return speeds, "   ".join(f"{speed:7.1f} ({faster[name]:.2f}x)" for name, speed in speeds.items())


def main():
    parser = options_of("bench/llama.sh", __doc__.split("\n")[0], 5, 2)
    parser.add_argument("--model", required=True, metavar="FILE", help="a GGUF file (default: SmolLM2-135M-Instruct, Q4_1)")
    parser.add_argument("--backend", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--tokens", type=int, default=16, metavar="N", help="tokens that follow (default 16)")
    parser.add_argument("--prompts", default="512,2048", metavar="N,...", help="lengths of prompts (default 512,2048)")
    parser.add_argument("--keys", default="512,8192", metavar="N,...", help="lengths of caches that tokens follow (default 512,8192)")
    parser.add_argument("--ways", default="alone,Fovea,all", metavar="NAME,...", help="some of alone, Fovea (as it ships), all, q8, trial")
    parser.add_argument("--trial", default="", metavar="FILE", help="rows in place of those that ship, for the way `trial`")
    parser.add_argument("--reading", type=float, default=0.0, metavar="GB/S", help="what these threads read from memory")
    options = parser.parse_args()
    prompts, keys = ([int(n) for n in text.split(",") if n] for text in (options.prompts, options.keys))
    order = {"kind": "Llama", "model": options.model, "threads": options.threads,
             "context": max(prompts + [n + options.tokens for n in keys]) + 64}
    known = {**WAYS, "trial": {"FOVEA_KNOWN_CPUS": options.trial}}
    names = options.ways.split(",")
    if names[0] != ALONE or not set(names) <= set(known):
        parser.error(f"--ways: {ALONE}, and then some of {', '.join(known)}")
    ways = {name: Way(name, HERE / "peer.py", {**order, "backend": "" if name == ALONE else options.backend},
                      os.environ["FOVEA_LLAMA_PYTHON"], known[name]) for name in names}
    print(f"{threads_text(options.threads)}; tokens a second, medians of {options.rounds} rounds: {', '.join(names)}; in brackets: times "
          "as fast as llama.cpp alone")
    for count in prompts:
        print(f"prompt of {count:5}       {measure(ways, options.rounds, 'read', count=count)[1]}", flush=True)
    bytes_of_file = os.path.getsize(options.model)
    with tempfile.TemporaryDirectory() as folder:
        for count in keys:
            path = f"{folder}/cache-{count}"
            for name in names[::-1]:  # the first computes it, and it is the fastest
                ways[name].ask("fill", count=count, path=path)
            speeds, text = measure(ways, options.rounds, "follow", count=count, steps=options.tokens)
            print(f"decoding at {count:5} keys {text}", flush=True)
            if options.reading:
                shares = (speed * bytes_of_file / (options.reading * 1e9) for speed in speeds.values())
                print(f"  of {options.reading:4.1f} GB/s           " + "   ".join(f"{share:15.2f}" for share in shares), flush=True)
            os.remove(path)
    resident = (way.ask("resident") / bytes_of_file for way in ways.values())
    print("resident, of the file   " + "   ".join(f"{share:15.2f}" for share in resident), flush=True)
    for way in ways.values():
        way.close()


if __name__ == "__main__":
    main()
