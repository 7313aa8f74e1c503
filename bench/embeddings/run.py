"""Vectors of texts beside other backends. Called by bench/embeddings.sh.

Each way is a process of its own (peer.py): it takes texts, and gives vectors; making tokens counts. In each round every
way runs once, in an order that changes. Figures are the median of a way, and the median over rounds of the ratio of
torch's time to it. cosine: the least and the median of a vector with that of sentence-transformers in float64.

  many     1,000 texts of mixed lengths: one or two sentences in a row of tools/embed/alice.txt, from all places;
           vectors a second
  one      one short question; ms
  rerank   a question with 100 of those texts, by a classifier of the same backbone with a random head; ms

The last columns are the largest memory of the process, and the size of the packages that it has imported, or of the
program; start: of fovea-embed, which is a process for each run, to the first text.
"""

import argparse
import fnmatch
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1] / "python/tests/support")]
import real_models  # noqa: E402
from line_process import LineProcess  # noqa: E402

ROOT = HERE.parents[1]
COMPARED = 64  # texts, with float64; computing them warms up
WAYS = {  # name: (class in peer.py, options, interpreter)
    "fovea": ("Fovea", {}, "FOVEA_TORCH_PYTHON"),
    "fovea int8": ("Fovea", {"weights": "int8"}, "FOVEA_TORCH_PYTHON"),
    "fovea bfloat16": ("Fovea", {"dtype": "bfloat16"}, "FOVEA_TORCH_PYTHON"),
    "fovea-embed": ("FoveaEmbed", {}, "FOVEA_TORCH_PYTHON"),
    "fovea-embed q8_0": ("FoveaEmbed", {"weights": "q8_0"}, "FOVEA_TORCH_PYTHON"),
    "torch": ("Torch", {}, "FOVEA_TORCH_PYTHON"),
    "onnxruntime": ("OnnxRuntime", {}, "FOVEA_PEERS_PYTHON"),
    "onnxruntime int8": ("OnnxRuntime", {"int8": True}, "FOVEA_PEERS_PYTHON"),
    "openvino": ("OpenVINO", {}, "FOVEA_PEERS_PYTHON"),
    "openvino int8": ("OpenVINO", {"int8": True}, "FOVEA_PEERS_PYTHON"),
}


def texts():
    whole = " ".join((ROOT / "tools/embed/alice.txt").read_text().split())
    sentences = [s for s in re.split(r"(?<=[.!?])['\"”’)]*\s+", whole) if s]
    random = np.random.default_rng(0)
    spans = [(random.integers(len(sentences) - 6), random.integers(1, 3)) for _ in range(1000)]
    return [" ".join(sentences[begin : begin + count]) for begin, count in spans]


def reranker(model, folder):
    """The model with a head of random numbers, as folders of classifiers are."""
    import torch
    import transformers

    torch.manual_seed(0)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    config = transformers.AutoConfig.from_pretrained(model, num_labels=1)
    transformers.AutoModelForSequenceClassification.from_pretrained(model, config=config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        shutil.copy(pathlib.Path(model) / name, folder)


def in_double(model, texts):
    import sentence_transformers

    return sentence_transformers.SentenceTransformer(model, device="cpu").double().encode(texts, batch_size=8)


def multiply_adds(lengths):
    """Flops of all-MiniLM-L6-v2 for texts of so many tokens, without padding."""
    lengths = np.array(lengths, float)
    return float((6 * (2 * lengths * (4 * 384**2 + 2 * 384 * 1536) + 4 * lengths**2 * 384)).sum())


def peak():
    """GFLOPS of a core, by fovea-bench; None without it."""
    bench = ROOT / "build/release/bench/fovea-bench"
    if not bench.is_file():
        return None
    command = [bench, "--case", "linear", "--min-time", "0.01"]
    found = re.findall(
        r"(\w+) FMA peak, one core: ([\d.]+)", subprocess.run(command, capture_output=True, text=True).stdout
    )
    return max((float(number) for _, number in found), default=None)


def start(name, options, python, model, rank):
    if not os.path.exists(os.environ[python]):
        raise RuntimeError(f"no {os.environ[python]}")
    way = LineProcess([os.environ[python], str(HERE / "peer.py")])
    way.version = way.ask({"class": name, "options": options, "model": model, "reranker": rank})["version"]
    return way


def measure(ways, case, rounds, rest):
    """{way: [seconds]}, and the vectors' files of the first run."""
    seconds, random = {name: [] for name in ways}, np.random.default_rng(1)
    for _ in range(rounds):
        for name in random.permutation(list(ways)):
            seconds[name].append(ways[name].ask({"run": case})["seconds"])
            time.sleep(rest)
    return seconds


def show(case, seconds, unit, per, notes):
    base = seconds.get("torch")
    for name, taken in seconds.items():
        ratio = f"{statistics.median(b / t for b, t in zip(base, taken, strict=True)):.2f}" if base else "-"
        median = statistics.median(taken)
        figure = per / median if unit == "texts/s" else median * 1e3
        print(f"{case:7} {name:17} {figure:9.1f} {unit:8} {ratio:>6} {notes.get(name, '')}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", action="append", help="ways, by glob")
    parser.add_argument("--cases", default="many,one,rerank")
    options = parser.parse_args()
    model, all_texts = str(real_models.minilm()), texts()
    with tempfile.TemporaryDirectory() as folder:
        rank = f"{folder}/reranker"
        reranker(model, rank)
        ways = {}
        for name, (kind, arguments, python) in WAYS.items():
            if options.only and not any(fnmatch.fnmatch(name, glob) for glob in options.only):
                continue
            try:
                ways[name] = start(kind, arguments, python, model, rank)
                ways[name].ask({"threads": options.threads})
            except RuntimeError as error:
                print(f"        {name} SKIPPED: {error}")
                ways.pop(name, None)
        print(
            f"{options.threads} thread{'s' * (options.threads > 1)}, {len(all_texts)} texts; "
            + ", ".join(f"{n} {w.version}" for n, w in ways.items())
        )
        for case in options.cases.split(","):
            given = {"many": all_texts, "one": ["How tall is the caterpillar?"], "rerank": all_texts[:100]}[case]
            takes = {}
            for name, way in ways.items():
                try:
                    way.ask({"prepare": case, "texts": given, "out": f"{folder}/{name}.npy", "compared": COMPARED})
                    takes[name] = way
                except RuntimeError as error:
                    print(f"        {case} of {name} SKIPPED: {error}")
            notes = {}
            if case == "many":
                exact = in_double(model, all_texts[:COMPARED])
                for name in takes:
                    vectors = np.load(f"{folder}/{name}.npy").astype(float)
                    cosines = (vectors * exact).sum(1) / np.linalg.norm(vectors, axis=1) / np.linalg.norm(exact, axis=1)
                    notes[name] = f"1 - cosine {1 - cosines.min():.1e}, median {1 - np.median(cosines):.1e}"
                if {"fovea", "fovea-embed"} <= takes.keys():
                    one, other = (np.load(f"{folder}/{name}.npy") for name in ("fovea", "fovea-embed"))
                    notes["fovea-embed"] += f"; {(one == other).all(1).sum()} of {COMPARED} have fovea's bytes"
            seconds = measure(takes, case, options.rounds if case != "one" else 5 * options.rounds, 0.05)
            show(case, seconds, "texts/s" if case == "many" else "ms", len(given), notes)
            if case == "many" and "fovea" in takes and (gflops := peak()):
                flops = multiply_adds(takes["fovea"].ask({"lengths": True})["lengths"])
                for name, taken in seconds.items():
                    share = flops / statistics.median(taken) / 1e9 / gflops / options.threads
                    print(
                        f"        {name:17} {share:5.0%} of the multiply-add peak, {gflops:.0f} GFLOPS a core: "
                        f"at most {1 / share:.2f} times as fast"
                    )
        for name, way in ways.items():
            found = way.ask({"size": True})
            note = f"; start {found['start']:.0f} ms" if "start" in found else ""
            print(f"memory  {name:17} {found['memory'] >> 20:6} MiB; packages {found['packages'] >> 20:6} MiB{note}")
            way.close()


if __name__ == "__main__":
    main()
