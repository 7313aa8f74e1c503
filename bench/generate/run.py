"""SmolLM2-135M-Instruct, or a large model: a text is read (prefill), then tokens follow one by one, the likeliest each time (decode).
Called by bench/generate.sh. Every engine has a process of its own; in a round each has its turn. Printed are medians over rounds, and the
time from the start to the first token of a short text: of fovea-generate that of the whole program, of llama.cpp without loading Python."""

import argparse
import mmap
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))
from line_process import LineProcess  # noqa: E402

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHORT = "The sea is wide and the keeper of the lighthouse is"
# Peers of peer.py: what they are called, their types, and the variable that names the interpreter.
PEERS = (
    ("llama.cpp", "llama_cpp", "", "Q4_1", "FOVEA_LLAMA_PYTHON"),
    ("transformers", "transformers", "bfloat16", "bf16", "FOVEA_TORCH_PYTHON"),
    ("transformers", "transformers", "float32", "f32", "FOVEA_TORCH_PYTHON"),
)


class Fovea:
    def __init__(self, options, text, words, dtype, weights):
        self.name, self.dtype, self.version, self.share = "fovea-generate", words, "", ""
        self.program = [str(ROOT / "build/release/tools/fovea-generate"), "--model", options.model, "--plain", "--type", dtype,
                        "--weights", weights, "--threads", str(options.threads)]
        self.rest = ["--tokens", str(options.tokens + 1), "--", text]

    def first(self):
        """Seconds to the first byte of an answer."""
        begin = time.perf_counter()
        with subprocess.Popen([*self.program, "--tokens", "1", "--", SHORT], stdout=subprocess.PIPE) as process:
            process.stdout.read(1)
            seconds = time.perf_counter() - begin
            process.stdout.read()
        return seconds

    def run(self):
        """Tokens of the text, and tokens per second of prefill and decode."""
        printed = subprocess.run([*self.program, *self.rest], capture_output=True, text=True, check=True).stdout
        count, prefill = re.search(r"^prefill +(\d+) tokens, ([\d.]+) per second", printed, re.MULTILINE).groups()
        decode, self.share = re.search(r"^decode +\d+ tokens, ([\d.]+) per second; (.*)", printed, re.MULTILINE).groups()
        return int(count), float(prefill), float(decode)


class Peer(LineProcess):
    share = ""

    def __init__(self, options, text, name, kind, dtype, words, python):
        super().__init__([python, str(HERE / "peer.py")])
        self.name, self.dtype = name, words
        model = pathlib.Path(options.model)
        order = {"kind": kind, "dtype": dtype, "model": str(model / GGUF if model.is_dir() else model), "threads": options.threads,
                 "text": text, "tokens": options.tokens}
        self.version = self.ask({"prepare": order})["version"]

    def first(self):
        return self.ask({"first": SHORT})["first"]

    def run(self):
        answer = self.ask({"run": True})
        return answer["prompt"], answer["prompt"] / answer["prefill"], answer["steps"] / answer["decode"]


def start(options, text):
    stored = pathlib.Path(options.model).is_file()  # a large model: as it is stored alone
    kinds = [("stored", "bf16", "stored")] if stored else [("Q4_1", "f32", "stored"), ("bf16", "bf16", "bf16"), ("f32", "f32", "f32")]
    engines = [Fovea(options, text, *kind) for kind in kinds]
    for name, kind, dtype, words, variable in PEERS[:1] if stored else PEERS:
        python = os.environ.get(variable)
        try:
            if not python:
                raise RuntimeError("it is not installed")
            engines.append(Peer(options, text, name, kind, dtype, "stored" if stored else words, python))
        except (RuntimeError, OSError) as problem:
            print(f"SKIPPED: {name} {words}: {problem}", file=sys.stderr)
    return engines


REST = 0.3  # seconds, in which threads of the engine before stop to spin for work


def turn(engine):
    time.sleep(REST)
    return engine.run()


def back(size):
    """Has memory of that size in use for a moment. A virtual machine may have given free memory back to its host, whose
    pages then come ten times as slowly as the kernel clears them."""
    with mmap.mmap(-1, size) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        for i in range(0, size, mmap.PAGESIZE):
            memory[i] = 1


def first(engine, size):
    time.sleep(REST)
    back(size)
    return engine.first()


def main():
    parser = argparse.ArgumentParser(prog="bench/generate.sh", description=__doc__.split(".")[0] + ".")
    parser.add_argument("--model", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="rounds (default 5)")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="threads of each engine (default 2)")
    parser.add_argument("--tokens", type=int, default=64, metavar="N", help="tokens that follow the text (default 64)")
    parser.add_argument("--characters", type=int, default=2020, metavar="N",
                        help="how much of tools/embed/alice.txt is read (default 2020: about 512 tokens)")
    options = parser.parse_args()
    text = (ROOT / "tools/embed/alice.txt").read_text()[: options.characters]
    engines = start(options, text)
    figures = [[turn(engine) for engine in engines] for _ in range(options.rounds)]
    begun = [engine for engine in engines if engine.name != "transformers"]
    model = pathlib.Path(options.model)
    size = 2 * (model / GGUF if model.is_dir() else model).stat().st_size
    starts = [[first(engine, size) for engine in begun] for _ in range(options.rounds)]
    print(f"{options.threads} thread{'s' * (options.threads > 1)}, {options.tokens} tokens after the text; tokens per second, medians of "
          f"{options.rounds} rounds")
    for i, engine in enumerate(engines):
        ratios = [statistics.median(round[0][k] / round[i][k] for round in figures) for k in (1, 2)]
        prefill, decode = (statistics.median(round[i][k] for round in figures) for k in (1, 2))
        print(f"{engine.name:15} {engine.dtype:6} prefill of {figures[0][i][0]}: {prefill:7.1f} ({ratios[0]:.2f}x)   "
              f"decode: {decode:6.1f} ({ratios[1]:.2f}x)   {engine.share or engine.version}", flush=True)
    for i, engine in enumerate(begun):
        ratio, seconds = (statistics.median(values) for values in ([round[i] / round[0] for round in starts], [round[i] for round in starts]))
        print(f"{engine.name:15} {engine.dtype:6} first token after {seconds:.3f} seconds ({ratio:.2f}x)")
    print("in brackets: how many times as fast the first line is, the median over rounds")
    for engine in engines:
        if isinstance(engine, Peer):
            engine.close()


if __name__ == "__main__":
    main()
