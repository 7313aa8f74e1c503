"""An engine of bench/generate.sh in a process of its own, the interpreter that has it. Reads an order per line of standard input, as
JSON, and answers each with a line: {"prepare": ...} loads the model, {"run": true} reads the text and goes on from it, {"first": TEXT}
loads the model anew and takes the token that follows a text.

  llama_cpp     llama-cpp-python on the GGUF file, whose weights stay as they are (Q4_1)
  transformers  on the same numbers in a type of torch's, `sdpa`, a cache that grows
"""

import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from line_process import serve  # noqa: E402


class LlamaCpp:
    def __init__(self, order):
        import llama_cpp

        self.tokens, self.order = order["tokens"], order
        self.model = self.load()
        self.text = self.model.tokenize(order["text"].encode(), add_bos=False)
        self.version = f"llama-cpp-python {llama_cpp.__version__}"

    def load(self):
        import llama_cpp

        threads = self.order["threads"]
        return llama_cpp.Llama(self.order["model"], n_ctx=2048, n_batch=512, n_threads=threads, n_threads_batch=threads, verbose=False)

    def first(self, text):
        begin = time.perf_counter()
        model = self.load()
        model.eval(model.tokenize(text.encode(), add_bos=False))
        model.sample(temp=0.0)
        seconds = time.perf_counter() - begin
        model.close()
        return {"first": seconds}

    def read(self):
        self.model.reset()
        self.model.eval(self.text)

    def step(self):
        self.model.eval([self.model.sample(temp=0.0)])


class Transformers:
    def __init__(self, order):
        import torch
        import transformers

        sys.path.append(str(HERE.parents[1] / "python/tests/support"))
        import real_models

        torch.set_num_threads(order["threads"])
        torch.set_grad_enabled(False)
        self.tokens, self.model = order["tokens"], real_models.smollm2("sdpa").to(getattr(torch, order["dtype"]))
        ids = real_models.smollm2_tokenizer().encode(order["text"])
        self.text = torch.tensor([getattr(ids, "ids", ids)])
        self.version = f"transformers {transformers.__version__} with PyTorch {torch.__version__.split('+')[0]}"

    def forward(self, ids, cache):
        out = self.model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        self.cache, self.token = out.past_key_values, out.logits[:, -1].argmax(-1, keepdim=True)

    def read(self):
        self.forward(self.text, None)

    def step(self):
        self.forward(self.token, self.cache)


def run(engine):
    begin = time.perf_counter()
    engine.read()
    middle = time.perf_counter()
    for _ in range(engine.tokens):
        engine.step()
    count = engine.text.shape[1] if hasattr(engine.text, "shape") else len(engine.text)
    return {"prompt": count, "steps": engine.tokens, "prefill": middle - begin, "decode": time.perf_counter() - middle}


class Server:
    def answer(self, order):
        if "prepare" in order:
            self.engine = {"llama_cpp": LlamaCpp, "transformers": Transformers}[order["prepare"]["kind"]](order["prepare"])
            return {"version": self.engine.version}
        return self.engine.first(order["first"]) if "first" in order else run(self.engine)


if __name__ == "__main__":
    serve(Server().answer)
