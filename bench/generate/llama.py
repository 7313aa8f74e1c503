"""llama.cpp with and without Fovea's backend, and with all that it serves: a prompt is read, or tokens follow a filled cache.
Called by bench/llama.sh. Each of the three is a process, which keeps its model; they take turns. Printed are medians over
rounds and how many times as fast as llama.cpp alone."""

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
VARIANTS = ("alone", "Fovea", "all")  # without the backend, by its default, with FOVEA_GGML=all


def line(ways, rounds, do, **arguments):
    """Medians of the tokens a second, and of their ratios to the first."""
    times = take_turns(ways, rounds, lambda name: ways[name].ask(do, **arguments), REST)
    faster = ratios(times, VARIANTS[0])
    return "   ".join(f"{1 / seconds:7.1f} ({faster[name]:.2f}x)" for name, seconds in medians(times).items())


def main():
    parser = options_of("bench/llama.sh", __doc__.split("\n")[0], 5, 2)
    parser.add_argument("--model", required=True, metavar="FILE", help="a GGUF file (default: SmolLM2-135M-Instruct, Q4_1)")
    parser.add_argument("--backend", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--tokens", type=int, default=16, metavar="N", help="tokens that follow (default 16)")
    parser.add_argument("--prompts", default="512,2048", metavar="N,...", help="lengths of prompts (default 512,2048)")
    parser.add_argument("--keys", default="512,8192", metavar="N,...", help="lengths of caches that tokens follow (default 512,8192)")
    options = parser.parse_args()
    prompts, keys = ([int(n) for n in text.split(",") if n] for text in (options.prompts, options.keys))
    order = {"kind": "Llama", "model": options.model, "threads": options.threads,
             "context": max(prompts + [n + options.tokens for n in keys]) + 64}
    ways = {name: Way(name, HERE / "peer.py", {**order, "backend": "" if name == "alone" else options.backend},
                      os.environ["FOVEA_LLAMA_PYTHON"], {"FOVEA_GGML": "all"} if name == "all" else {}) for name in VARIANTS}
    print(f"{threads_text(options.threads)}; tokens a second, medians of {options.rounds} rounds: llama.cpp alone, with Fovea, with "
          "FOVEA_GGML=all; in brackets: times as fast")
    for count in prompts:
        print(f"prompt of {count:5}       {line(ways, options.rounds, 'read', count=count)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for count in keys:
            path = f"{folder}/cache-{count}"
            for name in VARIANTS[::-1]:  # the first computes it, and it is the fastest
                ways[name].ask("fill", count=count, path=path)
            print(f"decoding at {count:5} keys {line(ways, options.rounds, 'follow', count=count, steps=options.tokens)}", flush=True)
            os.remove(path)
    for way in ways.values():
        way.close()


if __name__ == "__main__":
    main()
