"""llama-cpp-python with Fovea's backend: an answer, and a hash of its logits for each number of threads.

    python3 llama_cpp_python.py MODEL.gguf ["prompt"] [--threads 1,2,4,8]

The backend is the one in the package fovea, or the file that FOVEA_GGML_LIBRARY names. With FOVEA_GGML=all one hash is
expected, and the program fails if there are several. FOVEA_GGML=none shows llama.cpp alone.
"""
import argparse
import hashlib
import os

import fovea.llama_cpp
import llama_cpp
import numpy as np


def answer(model, prompt, threads, tokens=24):
    llama = llama_cpp.Llama(model, n_ctx=1024, n_threads=threads, n_threads_batch=threads, verbose=False)
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
    parser.add_argument("model")
    parser.add_argument("prompt", nargs="?", default="The sea is")
    parser.add_argument("--threads", default="2")
    arguments = parser.parse_args()
    fovea.llama_cpp.enable()
    hashes = set()
    for threads in map(int, arguments.threads.split(",")):
        text, digest = answer(arguments.model, arguments.prompt, threads)
        print(f"{threads} threads, logits {digest}: {arguments.prompt}{text!r}", flush=True)
        hashes.add(digest)
    if len(hashes) > 1 and os.environ.get("FOVEA_GGML") == "all":
        raise SystemExit("logits depend on the number of threads")


if __name__ == "__main__":
    main()
