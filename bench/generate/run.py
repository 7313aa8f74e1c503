"""SmolLM2-135M-Instruct, or a large model: a text is read (prefill), then tokens follow one by one, the likeliest each time (decode).
Called by bench/generate.sh. Every engine is a process; in a round each has its turn. Printed are medians over rounds, and the
time from the start to the first token of a short text: of fovea-generate that of the whole program, of llama.cpp without loading Python."""

import argparse
import mmap
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))
from engine.turns import leads, medians, options_of, take_turns, threads_text  # noqa: E402
from engine.ways import start  # noqa: E402

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHORT = "The sea is wide and the keeper of the lighthouse is"
REST = 0.3  # seconds, in which threads of the engine before stop to spin for work


class Fovea:
    """fovea-generate, as a Way of peer.py: a process for each order."""

    def __init__(self, options, text, dtype, weights):
        self.version = ""
        self.program = [str(ROOT / "build/release/tools/fovea-generate"), "--model", options.model, "--plain", "--type", dtype,
                        "--weights", weights, "--threads", str(options.threads)]
        self.rest = ["--tokens", str(options.tokens + 1), "--", text]

    def ask(self, do, text=None):
        return self.first(text) if do == "first" else self.run()

    def first(self, text):
        """Seconds to the first byte of an answer."""
        begin = time.perf_counter()
        with subprocess.Popen([*self.program, "--tokens", "1", "--", text], stdout=subprocess.PIPE) as process:
            process.stdout.read(1)
            seconds = time.perf_counter() - begin
            process.stdout.read()
        return seconds

    def run(self):
        printed = subprocess.run([*self.program, *self.rest], capture_output=True, text=True, check=True).stdout
        count, prefill = re.search(r"^prefill +(\d+) tokens, ([\d.]+) per second", printed, re.MULTILINE).groups()
        decode, self.version = re.search(r"^decode +\d+ tokens, ([\d.]+) per second; (.*)", printed, re.MULTILINE).groups()
        return {"prompt": int(count), "prefill": 1 / float(prefill), "decode": 1 / float(decode)}

    def close(self):
        pass


def started(options, text):
    """{name and type of weights: engine}, fovea-generate first."""
    model, python = pathlib.Path(options.model), {key: os.environ.get(f"FOVEA_{key}_PYTHON") for key in ("LLAMA", "TORCH")}
    stored = model.is_file()  # a large model: as it is stored alone
    kinds = {"stored": ("bf16", "stored")} if stored else {"Q4_1": ("f32", "stored"), "bf16": ("bf16", "bf16"), "f32": ("f32", "f32")}
    ours = {("fovea-generate", words): Fovea(options, text, *kind) for words, kind in kinds.items()}
    order = {"threads": options.threads, "text": text, "tokens": options.tokens}
    peers = {("llama.cpp", "stored" if stored else "Q4_1"): (
        HERE / "peer.py", {"kind": "LlamaCpp", "model": str(model if stored else model / GGUF), **order}, python["LLAMA"])}
    for words, dtype in () if stored else (("bf16", "bfloat16"), ("f32", "float32")):
        peers["transformers", words] = HERE / "peer.py", {"kind": "Transformers", "dtype": dtype, **order}, python["TORCH"]
    return ours | start(peers)


def back(size):
    """Has memory of that size in use for a moment. A virtual machine may have given free memory back to its host, whose
    pages then come ten times as slowly as the kernel clears them."""
    with mmap.mmap(-1, size) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        for i in range(0, size, mmap.PAGESIZE):
            memory[i] = 1


def main():
    parser = options_of("bench/generate.sh", __doc__.split(".")[0] + ".", 5, 2)
    parser.add_argument("--model", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--tokens", type=int, default=64, metavar="N", help="tokens that follow the text (default 64)")
    parser.add_argument("--characters", type=int, default=2020, metavar="N",
                        help="how much of tools/embed/alice.txt is read (default 2020: about 512 tokens)")
    options = parser.parse_args()
    text = (ROOT / "tools/embed/alice.txt").read_text()[: options.characters]
    engines = started(options, text)
    taken = take_turns(engines, options.rounds, lambda name: engines[name].ask("run"), REST)
    model = pathlib.Path(options.model)
    size = 2 * (model / GGUF if model.is_dir() else model).stat().st_size
    begun = [name for name in engines if name[0] != "transformers"]
    starts = take_turns(begun, options.rounds, lambda name: (back(size), engines[name].ask("first", text=SHORT))[1], REST)
    print(f"{threads_text(options.threads)}, {options.tokens} tokens after the text; tokens per second, medians of {options.rounds} rounds")
    times = {part: {name: [one[part] for one in found] for name, found in taken.items()} for part in ("prefill", "decode")}
    speed = {part: {name: 1 / seconds for name, seconds in medians(found).items()} for part, found in times.items()}
    lead = {part: medians(leads(found, begun[0])) for part, found in times.items()}
    for name, engine in engines.items():
        print(f"{name[0]:15} {name[1]:6} prefill of {taken[name][0]['prompt']}: {speed['prefill'][name]:7.1f} "
              f"({lead['prefill'][name]:.2f}x)   decode: {speed['decode'][name]:6.1f} ({lead['decode'][name]:.2f}x)   {engine.version}",
              flush=True)
    later = medians(leads(starts, begun[0]))
    for name, seconds in medians(starts).items():
        print(f"{name[0]:15} {name[1]:6} first token after {seconds:.3f} seconds ({later[name]:.2f}x)")
    print("in brackets: how many times as fast the first line is, the median over rounds")
    for engine in engines.values():
        engine.close()


if __name__ == "__main__":
    main()
