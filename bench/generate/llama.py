"""llama.cpp with and without Fovea's backend, and with all that it serves: a prompt is read, or tokens follow a filled cache.
Called by bench/llama.sh. Each of the three has a process of its own, which keeps its model; they take turns. Printed are
medians over rounds and how many times as fast as llama.cpp alone."""

import argparse
import ctypes
import os
import pathlib
import random
import statistics
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from line_process import LineProcess, serve  # noqa: E402

REST = 0.3  # seconds, in which threads of the process before stop to spin for work
BATCH = 512
VARIANTS = ("alone", "Fovea", "all")  # without the backend, by its default, with FOVEA_GGML=all


class Llama:
    """llama.cpp on a model, in this process."""

    def __init__(self, order):
        import llama_cpp

        self.c = llama_cpp.llama_cpp
        if order["backend"]:
            load = self.c._lib.ggml_backend_load
            load.argtypes, load.restype = [ctypes.c_char_p], ctypes.c_void_p
            if not load(os.fsencode(order["backend"])):
                raise RuntimeError(f"{order['backend']} cannot be loaded")
        self.quiet = self.c.llama_log_callback(lambda level, text, data: None)
        self.c.llama_log_set(self.quiet, None)
        self.model = self.c.llama_model_load_from_file(os.fsencode(order["model"]), self.c.llama_model_default_params())
        settings = self.c.llama_context_default_params()
        settings.n_ctx, settings.n_batch, settings.n_ubatch = order["context"], BATCH, BATCH
        settings.n_threads = settings.n_threads_batch = order["threads"]
        settings.flash_attn_type = self.c.LLAMA_FLASH_ATTN_TYPE_ENABLED
        self.context = self.c.llama_init_from_model(self.model, settings)
        if not self.context:
            raise RuntimeError(f"llama.cpp cannot use {order['model']}")
        self.memory = self.c.llama_get_memory(self.context)
        words = self.c.llama_vocab_n_tokens(self.c.llama_model_get_vocab(self.model))
        draw = random.Random(47)
        self.tokens = (ctypes.c_int32 * order["context"])(*(draw.randrange(words) for _ in range(order["context"])))

    def eval(self, begin, end):
        for at in range(begin, end, BATCH):
            piece = ctypes.cast(ctypes.byref(self.tokens, 4 * at), ctypes.POINTER(ctypes.c_int32))
            if self.c.llama_decode(self.context, self.c.llama_batch_get_one(piece, min(BATCH, end - at))):
                raise RuntimeError("llama_decode() failed")
        self.c.llama_synchronize(self.context)

    def read(self, count):
        self.c.llama_memory_clear(self.memory, True)
        begin = time.perf_counter()
        self.eval(0, count)
        return {"speed": count / (time.perf_counter() - begin)}

    def fill(self, count, path):
        """The cache of so many tokens, from a file or into one that is not there."""
        self.c.llama_memory_clear(self.memory, True)
        if os.path.exists(path):
            got = (ctypes.c_int32 * len(self.tokens))()
            found = ctypes.c_size_t()
            if not self.c.llama_state_seq_load_file(self.context, os.fsencode(path), 0, got, len(got), ctypes.byref(found)):
                raise RuntimeError(f"{path} cannot be read")
        else:
            self.eval(0, count)
            self.c.llama_state_seq_save_file(self.context, os.fsencode(path), 0, self.tokens, count)
        self.eval(count, count + 1)  # once, for whoever makes something at the first call
        return {}

    def follow(self, count, steps):
        self.c.llama_memory_seq_rm(self.memory, 0, count, -1)
        begin = time.perf_counter()
        for at in range(count, count + steps):
            self.eval(at, at + 1)
        return {"speed": steps / (time.perf_counter() - begin)}


class Server:
    def answer(self, order):
        if "model" in order:
            self.llama = Llama(order)
            return {}
        return getattr(self.llama, order["do"])(*order["with"])


def rounds_of(processes, options, do, numbers):
    """A line per case: medians of the speeds, and of their ratios to the first."""
    speeds = []
    for _ in range(options.rounds):
        speeds.append([])
        for process in processes:
            time.sleep(REST)
            speeds[-1].append(process.ask({"do": do, "with": numbers})["speed"])
    middle = [statistics.median(column) for column in zip(*speeds)]
    ratios = [statistics.median(row[i] / row[0] for row in speeds) for i in range(len(middle))]
    return "   ".join(f"{speed:7.1f} ({ratio:.2f}x)" for speed, ratio in zip(middle, ratios))


def main():
    if sys.argv[1:] == ["--serve"]:
        return serve(Server().answer)
    parser = argparse.ArgumentParser(prog="bench/llama.sh", description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True, metavar="FILE", help="a GGUF file (default: SmolLM2-135M-Instruct, Q4_1)")
    parser.add_argument("--backend", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="rounds (default 5)")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="threads of each process (default 2)")
    parser.add_argument("--tokens", type=int, default=16, metavar="N", help="tokens that follow (default 16)")
    parser.add_argument("--prompts", default="512,2048", metavar="N,...", help="lengths of prompts (default 512,2048)")
    parser.add_argument("--keys", default="512,8192", metavar="N,...", help="lengths of caches that tokens follow (default 512,8192)")
    options = parser.parse_args()
    prompts, keys = ([int(n) for n in text.split(",") if n] for text in (options.prompts, options.keys))
    context = max(prompts + [n + options.tokens for n in keys]) + 64
    processes = []
    for variant in VARIANTS:
        processes.append(LineProcess([os.environ["FOVEA_LLAMA_PYTHON"], str(HERE / "llama.py"), "--serve"],
                                     {"FOVEA_GGML": "all"} if variant == "all" else {}))
        processes[-1].ask({"model": options.model, "threads": options.threads, "context": context,
                           "backend": "" if variant == "alone" else options.backend})
    print(f"{options.threads} thread{'s' * (options.threads > 1)}; tokens a second, medians of {options.rounds} rounds: llama.cpp alone, "
          "with Fovea, with FOVEA_GGML=all; in brackets: times as fast")
    for count in prompts:
        print(f"prompt of {count:5}       {rounds_of(processes, options, 'read', [count])}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for count in keys:
            path = f"{folder}/cache-{count}"
            for process in processes[::-1]:  # the first computes it, and it is the fastest
                process.ask({"do": "fill", "with": [count, path]})
            print(f"decoding at {count:5} keys {rounds_of(processes, options, 'follow', [count, options.tokens])}", flush=True)
            os.remove(path)
    for process in processes:
        process.close()


if __name__ == "__main__":
    main()
