"""A peer of bench/generate.sh in its process, the interpreter that has it: run() reads the text and goes on from it, first() loads the
model anew and takes the token that follows a text.

  LlamaCpp      llama-cpp-python on the GGUF file, whose weights stay as they are (Q4_1)
  Transformers  on the same numbers in a type of torch's, `sdpa`, a cache that grows
"""

import ctypes
import os
import pathlib
import random
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from engine.ways import serve  # noqa: E402


class Peer:
    def run(self):
        """Seconds for a token of the text, and of those that follow."""
        begin = time.perf_counter()
        self.read()
        middle = time.perf_counter()
        for _ in range(self.tokens):
            self.step()
        seconds = middle - begin, time.perf_counter() - middle
        return {"prompt": self.count, "prefill": seconds[0] / self.count, "decode": seconds[1] / self.tokens}


class LlamaCpp(Peer):
    def __init__(self, model, threads, text, tokens):
        import llama_cpp

        self.tokens, self.load = tokens, lambda: llama_cpp.Llama(model, n_ctx=2048, n_batch=512, n_threads=threads,
                                                                 n_threads_batch=threads, verbose=False)
        self.model = self.load()
        self.text = self.model.tokenize(text.encode(), add_bos=False)
        self.count, self.version = len(self.text), f"llama-cpp-python {llama_cpp.__version__}"

    def first(self, text):
        begin = time.perf_counter()
        model = self.load()
        model.eval(model.tokenize(text.encode(), add_bos=False))
        model.sample(temp=0.0)
        seconds = time.perf_counter() - begin
        model.close()
        return seconds

    def read(self):
        self.model.reset()
        self.model.eval(self.text)

    def step(self):
        self.model.eval([self.model.sample(temp=0.0)])


class Transformers(Peer):
    def __init__(self, dtype, threads, text, tokens):
        import torch
        import transformers

        sys.path.append(str(HERE.parents[1] / "python/tests/support"))
        import real_models

        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self.tokens, self.model = tokens, real_models.smollm2("sdpa").to(getattr(torch, dtype))
        ids = real_models.smollm2_tokenizer().encode(text)
        self.text = torch.tensor([getattr(ids, "ids", ids)])
        self.count = self.text.shape[1]
        self.version = f"transformers {transformers.__version__} with PyTorch {torch.__version__.split('+')[0]}"

    def forward(self, ids, cache):
        out = self.model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        self.cache, self.token = out.past_key_values, out.logits[:, -1].argmax(-1, keepdim=True)

    def read(self):
        self.forward(self.text, None)

    def step(self):
        self.forward(self.token, self.cache)


class Llama:
    """llama.cpp by its C interface, with a backend if one is named, for bench/llama.sh. read() and follow() give seconds a token."""

    version, batch = "", 512

    def __init__(self, model, backend, threads, context):
        import llama_cpp

        self.c = llama_cpp.llama_cpp
        if backend:
            load = self.c._lib.ggml_backend_load
            load.argtypes, load.restype = [ctypes.c_char_p], ctypes.c_void_p
            if not load(os.fsencode(backend)):
                raise RuntimeError(f"{backend} cannot be loaded")
        self.quiet = self.c.llama_log_callback(lambda level, text, data: None)
        self.c.llama_log_set(self.quiet, None)
        self.model = self.c.llama_model_load_from_file(os.fsencode(model), self.c.llama_model_default_params())
        settings = self.c.llama_context_default_params()
        settings.n_ctx, settings.n_batch, settings.n_ubatch = context, self.batch, self.batch
        settings.n_threads = settings.n_threads_batch = threads
        settings.flash_attn_type = self.c.LLAMA_FLASH_ATTN_TYPE_ENABLED
        self.context = self.c.llama_init_from_model(self.model, settings)
        if not self.context:
            raise RuntimeError(f"llama.cpp cannot use {model}")
        self.memory = self.c.llama_get_memory(self.context)
        words = self.c.llama_vocab_n_tokens(self.c.llama_model_get_vocab(self.model))
        draw = random.Random(47)
        self.tokens = (ctypes.c_int32 * context)(*(draw.randrange(words) for _ in range(context)))

    def eval(self, begin, end):
        for at in range(begin, end, self.batch):
            piece = ctypes.cast(ctypes.byref(self.tokens, 4 * at), ctypes.POINTER(ctypes.c_int32))
            if self.c.llama_decode(self.context, self.c.llama_batch_get_one(piece, min(self.batch, end - at))):
                raise RuntimeError("llama_decode() failed")
        self.c.llama_synchronize(self.context)

    def read(self, count):
        self.c.llama_memory_clear(self.memory, True)
        begin = time.perf_counter()
        self.eval(0, count)
        return (time.perf_counter() - begin) / count

    def fill(self, count, path):
        """Fills the cache with `count` tokens, from the file if it exists, else into it."""
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

    def follow(self, count, steps):
        self.c.llama_memory_seq_rm(self.memory, 0, count, -1)
        begin = time.perf_counter()
        for at in range(count, count + steps):
            self.eval(at, at + 1)
        return (time.perf_counter() - begin) / steps

    def resident(self):
        """Bytes of this process in memory."""
        return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


if __name__ == "__main__":
    serve({kind.__name__: kind for kind in (LlamaCpp, Transformers, Llama)})
