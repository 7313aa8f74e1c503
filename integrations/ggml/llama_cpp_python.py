"""llama-cpp-python with Fovea's backend: an answer, and a hash of its logits for each number of threads.

    python3 llama_cpp_python.py libggml-fovea.so MODEL.gguf ["prompt"] [--threads 1,2,4,8]

With FOVEA_GGML=all one hash is expected, and the program fails if there are several. FOVEA_GGML=none shows llama.cpp alone.
"""
import argparse
import ctypes
import hashlib
import os

import llama_cpp
import numpy as np


def load_backend(path):
    """Before a model is loaded. The library is the one that llama.cpp itself calls: wheels hold files of several names."""
    load = llama_cpp.llama_cpp._lib.ggml_backend_load
    load.argtypes, load.restype = [ctypes.c_char_p], ctypes.c_void_p
    if not load(os.fsencode(path)):
        raise SystemExit(f"{path} cannot be loaded")


def answer(model, prompt, threads, tokens=24):
    # flash_attn: without it llama.cpp composes attention of other operations. "auto" turns it off if a backend is loaded.
    llama = llama_cpp.Llama(model, n_ctx=1024, n_threads=threads, n_threads_batch=threads, flash_attn=True, verbose=False)
    llama.eval(llama.tokenize(prompt.encode()))
    digest, said = hashlib.sha256(), []
    for _ in range(tokens):
        logits = np.ctypeslib.as_array(llama_cpp.llama_get_logits(llama.ctx), shape=(llama.n_vocab(),))
        digest.update(logits.tobytes())
        said.append(int(logits.argmax()))
        llama.eval(said[-1:])
    return llama.detokenize(said).decode(errors="replace"), digest.hexdigest()[:16]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("backend")
    parser.add_argument("model")
    parser.add_argument("prompt", nargs="?", default="The sea is")
    parser.add_argument("--threads", default="2")
    arguments = parser.parse_args()
    load_backend(arguments.backend)
    hashes = set()
    for threads in map(int, arguments.threads.split(",")):
        text, digest = answer(arguments.model, arguments.prompt, threads)
        print(f"{threads} threads, logits {digest}: {arguments.prompt}{text!r}", flush=True)
        hashes.add(digest)
    if len(hashes) > 1 and os.environ.get("FOVEA_GGML") == "all":
        raise SystemExit("logits depend on the number of threads")


if __name__ == "__main__":
    main()
