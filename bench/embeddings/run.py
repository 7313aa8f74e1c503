"""Vectors of texts by Fovea and other backends. Called by bench/embeddings.sh.

Each way is a process (peer.py): it takes texts, and gives vectors; making tokens counts. The second figure is how many times
as fast as sentence-transformers on torch a way is. cosine: the least and the median of a vector with that of
sentence-transformers in float64.

  many     1,000 texts of mixed lengths: one or two sentences in a row of tools/embed/alice.txt, from all places;
           vectors a second
  one      one short question; ms
  rerank   a question with 100 of those texts, by a classifier of the same backbone with a random head; ms

The last columns are the largest memory of the process, and the size of the packages that it has imported, or of the
program; start: of fovea-embed, which is a process for each run, to the first text.
"""

import fnmatch
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "python/tests/support")]
import real_models  # noqa: E402
from engine.turns import medians, options_of, ratios, take_turns, threads_text  # noqa: E402
from engine.ways import ask_all, start  # noqa: E402

ROOT = HERE.parents[1]
COMPARED = 64  # texts, with float64; computing them warms up
TORCH, PEERS = "FOVEA_TORCH_PYTHON", "FOVEA_PEERS_PYTHON"
WAYS = {  # name: (class in peer.py, options, interpreter)
    "fovea": ("Fovea", {}, TORCH),
    "fovea int8": ("Fovea", {"weights": "int8"}, TORCH),
    "fovea int8 q8": ("Fovea", {"weights": "int8", "arithmetic": "q8"}, TORCH),
    "fovea bfloat16": ("Fovea", {"dtype": "bfloat16"}, TORCH),
    "fovea-embed": ("FoveaEmbed", {}, TORCH),
    "fovea-embed q8_0": ("FoveaEmbed", {"weights": "q8_0"}, TORCH),
    "torch": ("Torch", {}, TORCH),
    "onnxruntime": ("OnnxRuntime", {}, PEERS),
    "onnxruntime int8": ("OnnxRuntime", {"int8": True}, PEERS),
    "openvino": ("OpenVINO", {}, PEERS),
    "openvino int8": ("OpenVINO", {"int8": True}, PEERS),
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
    return folder


def cosines(model, some, names, folder):
    """{name: how far its vectors are from float64's}"""
    import sentence_transformers

    exact = sentence_transformers.SentenceTransformer(model, device="cpu").double().encode(some, batch_size=8)
    vectors = {name: np.load(f"{folder}/{name}.npy") for name in names}
    notes = {}
    for name, found in vectors.items():
        cosine = (found.astype(float) * exact).sum(1) / np.linalg.norm(found.astype(float), axis=1) / np.linalg.norm(exact, axis=1)
        notes[name] = f"1 - cosine {1 - cosine.min():.1e}, median {1 - np.median(cosine):.1e}"
    if {"fovea", "fovea-embed"} <= vectors.keys():
        same = (vectors["fovea"] == vectors["fovea-embed"]).all(1).sum()
        notes["fovea-embed"] += f"; {same} of {len(exact)} have fovea's bytes"
    return notes


def multiply_adds(lengths):
    """Flops of all-MiniLM-L6-v2 for texts of these lengths in tokens, without padding."""
    lengths = np.array(lengths, float)
    return float((6 * (2 * lengths * (4 * 384**2 + 2 * 384 * 1536) + 4 * lengths**2 * 384)).sum())


def peak():
    """GFLOPS of a core, by fovea-bench; None without it."""
    bench = ROOT / "build/release/bench/fovea-bench"
    if not bench.is_file():
        return None
    said = subprocess.run([bench, "--case", "linear", "--min-time", "0.01"], capture_output=True, text=True).stdout
    return max((float(number) for number in re.findall(r"\w+ FMA peak, one core: ([\d.]+)", said)), default=None)


def show_shares(way, middle, threads):
    """How much of the multiply-add peak each way uses."""
    gflops = peak()
    if not gflops:
        return
    flops = multiply_adds(way.ask("lengths"))
    for name, seconds in middle.items():
        share = flops / seconds / 1e9 / gflops / threads
        print(f"        {name:17} {share:5.0%} of the multiply-add peak, {gflops:.0f} GFLOPS a core: "
              f"at most {1 / share:.2f} times as fast")


def run_case(case, given, ways, options, model, folder):
    ready = {}
    for name, way in ways.items():
        if name in ask_all({name: way}, "prepare", case=case, texts=given, out=f"{folder}/{name}.npy", compared=COMPARED):
            ready[name] = way
    notes = cosines(model, given[:COMPARED], ready, folder) if case == "many" else {}
    rounds = options.rounds * (5 if case == "one" else 1)
    times = take_turns(ready, rounds, lambda name: ready[name].ask("run", case=case), 0.05)
    middle, faster = medians(times), ratios(times, "torch") if "torch" in times else {}
    for name, seconds in middle.items():
        ratio = f"{faster[name]:.2f}" if faster else "-"
        figure, unit = (len(given) / seconds, "texts/s") if case == "many" else (seconds * 1e3, "ms")
        print(f"{case:7} {name:17} {figure:9.1f} {unit:8} {ratio:>6} {notes.get(name, '')}")
    if case == "many" and "fovea" in ready:
        show_shares(ready["fovea"], middle, options.threads)


def main():
    parser = options_of("bench/embeddings.sh", __doc__, 3, 1)
    parser.add_argument("--only", action="append", metavar="GLOB", help="ways: " + ", ".join(WAYS))
    parser.add_argument("--cases", default="many,one,rerank", metavar="NAME,...", help="default %(default)s")
    options = parser.parse_args()
    model, all_texts = str(real_models.minilm()), texts()
    with tempfile.TemporaryDirectory() as folder:
        rank = reranker(model, f"{folder}/reranker")
        ways = start({name: (HERE / "peer.py", {"kind": kind, "model": model, "reranker": rank, "threads": options.threads, **more},
                             os.environ[python])
                      for name, (kind, more, python) in WAYS.items()
                      if not options.only or any(fnmatch.fnmatch(name, glob) for glob in options.only)})
        print(f"{threads_text(options.threads)}, {len(all_texts)} texts; " + ", ".join(f"{n} {w.version}" for n, w in ways.items()))
        for case in options.cases.split(","):
            given = {"many": all_texts, "one": ["How tall is the caterpillar?"], "rerank": all_texts[:100]}[case]
            run_case(case, given, ways, options, model, folder)
        for name, found in ask_all(ways, "size").items():
            note = f"; start {found['start']:.0f} ms" if "start" in found else ""
            print(f"memory  {name:17} {found['memory'] >> 20:6} MiB; packages {found['packages'] >> 20:6} MiB{note}")
        for way in ways.values():
            way.close()


if __name__ == "__main__":
    main()
