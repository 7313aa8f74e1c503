"""Whole models on Fovea, beside the same models on PyTorch, from Python. Called by bench/models.sh.

All ways of a case run in one process, in turns: each round times each way once, in an order that changes. The figures are the
median time of a way and the median over rounds of the ratio of torch's time to it; torch is the better of "sdpa" and "eager".
Results are compared before anything is timed. At the end come the calls that fell back from Fovea to torch: none is expected.

  minilm    all-MiniLM-L6-v2 by sentence-transformers, 256 sentences of mixed length; ms of all
  bert      BERT-base, random weights, one text of 512 tokens
  vit       ViT-base, random weights, 8 pictures
  prefill   SmolLM2-135M, a prompt of 1024 tokens
  decode    SmolLM2-135M, 64 tokens after 1024: time of all steps
  memory    peak memory of attention in a batch of two prompts of 8192 tokens, one of them padded: MiB above the same model
            without attention
"""

import argparse
import fnmatch
import importlib.util
import itertools
import os
import statistics
import sys
import time
import warnings

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
warnings.filterwarnings("ignore", message=".*CUDA.*")
warnings.filterwarnings("ignore", category=FutureWarning)

import torch
import transformers

import fovea
import fovea.torch
import fovea.transformers

transformers.logging.set_verbosity_error()
# transformers asks at each call; in a CUDA build without a device the answer is a slow exception, which nobody is to be charged.
torch.cuda.is_current_stream_capturing = lambda: False
WORDS = "the a of river engine paper small old quick stone green answer light house water under over runs falls keeps".split()


def copies(model, *names):
    """The model under each attention implementation, then optimized: {way: model}. Weights are shared."""
    import copy

    ways = {}
    for name in names:
        memo = {id(p): p for p in model.parameters()}
        ways[name] = copy.deepcopy(model, memo).eval()
        ways[name].set_attn_implementation(name)
    ways["optimize"] = fovea.torch.optimize(ways[names[0]])
    return ways


def random_model(kind, config, **more):
    torch.manual_seed(0)
    return getattr(transformers, kind)(getattr(transformers, config)(**more)).eval()


def sentences(count):
    numbers = torch.Generator().manual_seed(1)
    pick = lambda n: torch.randint(n, (1,), generator=numbers).item()
    return [" ".join(WORDS[pick(len(WORDS))] for _ in range(4 + pick(60))) for _ in range(count)]


def minilm():
    import sentence_transformers
    from real_models import minilm as folder

    texts, place = sentences(256), str(folder())

    def make(attention):
        return sentence_transformers.SentenceTransformer(place, device="cpu", model_kwargs={"attn_implementation": attention})

    models = {name: make(name) for name in ("sdpa", "fovea")}
    models["optimize"] = make("sdpa")
    inner = models["optimize"][0]
    name = next(name for name in ("model", "auto_model") if isinstance(getattr(inner, name, None), torch.nn.Module))
    setattr(inner, name, fovea.torch.optimize(getattr(inner, name)))
    return {way: lambda m=m: torch.from_numpy(m.encode(texts, batch_size=32)) for way, m in models.items()}


def bert():
    tokens = torch.randint(30522, (1, 512), generator=torch.Generator().manual_seed(1))
    models = copies(random_model("BertModel", "BertConfig"), "sdpa", "eager", "fovea")
    return {way: lambda m=m: m(tokens).last_hidden_state for way, m in models.items()}


def vit():
    pictures = torch.randn(8, 3, 224, 224, generator=torch.Generator().manual_seed(1))
    models = copies(random_model("ViTModel", "ViTConfig"), "sdpa", "eager", "fovea")
    return {way: lambda m=m: m(pictures).last_hidden_state for way, m in models.items()}


def smollm2():
    import real_models

    return copies(real_models.smollm2("sdpa"), "sdpa", "eager", "fovea")


def prompt(length):
    return torch.randint(49152, (1, length), generator=torch.Generator().manual_seed(1))


def prefill():
    tokens = prompt(1024)
    return {way: lambda m=m: m(tokens, logits_to_keep=1).logits for way, m in smollm2().items()}


def decode():
    """Only the steps are timed: each call takes up the cache as the prompt left it."""
    tokens = prompt(1024)

    def run(model):
        cache = model(tokens, logits_to_keep=1, use_cache=True).past_key_values
        while True:
            token, begin = tokens[:, -1:], time.perf_counter()
            for _ in range(64):
                logits = model(token, past_key_values=cache, logits_to_keep=1).logits
                token = logits[:, -1].argmax(-1, keepdim=True)
            seconds = time.perf_counter() - begin
            cache.crop(-64)
            yield logits, seconds

    return {way: (lambda steps: lambda: next(steps))(run(m)) for way, m in smollm2().items()}


CASES = {"minilm": minilm, "bert": bert, "vit": vit, "prefill": prefill, "decode": decode}


def once(way):
    """(result, seconds) of a call, which may time itself."""
    begin = time.perf_counter()
    result = way()
    return result if isinstance(result, tuple) else (result, time.perf_counter() - begin)


def measure(ways, rounds):
    """{way: (seconds, ratio of torch's time)}; None for a way whose result is wrong."""
    results = {name: once(way)[0] for name, way in ways.items()}
    base = results["sdpa"]
    for name, result in results.items():
        error = (result - base).abs().max().item() / base.abs().max().item()
        if not error < 1e-3:
            raise RuntimeError(f"{name} and sdpa differ by {error:.1e}")
    times = {name: [] for name in ways}
    names = list(ways)
    for i in range(rounds):
        for name in names[i % len(names):] + names[: i % len(names)]:
            times[name].append(once(ways[name])[1])
    torchs = min((name for name in ways if name in ("sdpa", "eager")), key=lambda name: statistics.median(times[name]))
    return {name: (statistics.median(t), statistics.median(b / a for a, b in zip(t, times[torchs]))) for name, t in times.items()}


def peak_above(call):
    """How far the resident memory rises while `call` runs, in MiB."""
    status = lambda key: next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key)) / 1024
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = status("VmRSS")
    call()
    return status("VmHWM") - before


def memory():
    model = random_model("LlamaModel", "LlamaConfig", hidden_size=576, intermediate_size=576, num_hidden_layers=1,
                         num_attention_heads=9, num_key_value_heads=3, vocab_size=64)
    tokens, mask = torch.ones(2, 8192, dtype=torch.long), torch.ones(2, 8192, dtype=torch.long)
    mask[0, :1000] = 0
    nothing = lambda module, query, key, value, mask, **more: (query.transpose(1, 2).contiguous(), None)
    transformers.AttentionInterface.register("nothing", nothing)
    transformers.AttentionMaskInterface.register("nothing", lambda *args, **more: None)
    found = {}
    for name in ("nothing", "sdpa", "fovea"):
        model.set_attn_implementation(name)
        run = lambda: model(tokens, attention_mask=mask, use_cache=False)
        model(tokens[:, :64], attention_mask=mask[:, :64], use_cache=False)
        found[name] = peak_above(run)
    sdpa, ours = (max(found[name] - found["nothing"], 0.0) for name in ("sdpa", "fovea"))
    print(f"memory    8192 tokens, two prompts, padded: sdpa {sdpa:.0f} MiB, fovea {ours:.0f} MiB, ratio {ours / sdpa:.3f}", flush=True)


def others():
    """Engines that would be lines here, and are not."""
    for name, what in (("zentorch", "needs the PyTorch that it is built for"), ("openvino", "its backend of torch.compile")):
        there = importlib.util.find_spec(name)
        print(f"{name}: {'installed, and not measured: ' + what if there else 'not installed in this venv'}")


def main():
    parser = argparse.ArgumentParser(prog="bench/models.sh", description=__doc__.split(".")[0] + ".")
    parser.add_argument("--only", default="*", metavar="GLOB", help="cases by name: " + ", ".join([*CASES, "memory"]))
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="rounds of each case (default 7)")
    parser.add_argument("--threads", default="1,2", metavar="N,N", help="numbers of threads (default 1,2)")
    options = parser.parse_args()
    info = fovea.info()
    print(f"{info['cpu']}, {info['isa']}; torch {torch.__version__}, transformers {transformers.__version__}, fovea {fovea.__version__}")
    fovea.torch.reset_counters()
    fovea.transformers.counters.reset()
    with torch.inference_mode():
        for name in CASES:
            if not fnmatch.fnmatch(name, options.only):
                continue
            try:
                ways = CASES[name]()
            except BaseException as error:
                if type(error).__name__ != "Skipped":
                    raise
                print(f"{name:9} SKIPPED: {error}")
                continue
            for threads in map(int, options.threads.split(",")):
                torch.set_num_threads(threads)
                found = measure(ways, options.rounds)
                cells = (f"{way} {seconds * 1e3:.0f} ms ({ratio:.2f}x)" for way, (seconds, ratio) in found.items())
                print(f"{name:9} {threads} thread{'s' * (threads > 1)}: " + ", ".join(cells), flush=True)
        if fnmatch.fnmatch("memory", options.only):
            memory()
    others()
    fallbacks = dict(fovea.transformers.counters.fallbacks) | fovea.torch.counters()["torch"]
    print(f"fallbacks from Fovea to torch: {sum(fallbacks.values())} {fallbacks or ''}".rstrip())
    return 1 if fallbacks else 0


if __name__ == "__main__":
    sys.exit(main())
