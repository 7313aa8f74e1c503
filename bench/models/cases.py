"""The models of bench/models.sh, their inputs, and how each is called, for peer.py.

    case = CASES["bert"]()
    model = case.load("sdpa")            an attention implementation of transformers
    out = case.call(model)               a tensor; or (tensor, seconds) where not all of the call counts
"""

import time
from dataclasses import dataclass, field

import torch
import transformers

WORDS = "the a of river engine paper small old quick stone green answer light house water under over runs falls keeps".split()
STEPS, PROMPT = 64, 1024


def random_model(kind, config, **more):
    torch.manual_seed(0)
    return getattr(transformers, kind)(getattr(transformers, config)(**more)).eval()


def sentences(count):
    numbers = torch.Generator().manual_seed(1)
    pick = lambda n: torch.randint(n, (1,), generator=numbers).item()
    return [" ".join(WORDS[pick(len(WORDS))] for _ in range(4 + pick(60))) for _ in range(count)]


def prompt(length=PROMPT):
    return torch.randint(49152, (1, length), generator=torch.Generator().manual_seed(1))


@dataclass
class Model:
    """One call of a model, which gives `output`."""

    make: object
    inputs: dict
    output: str
    fixed: dict = field(default_factory=dict)

    def load(self, attention):
        model = self.make()
        model.set_attn_implementation(attention)
        return model

    def call(self, model):
        return getattr(model(**self.inputs, **self.fixed), self.output)


class Decode(Model):
    """STEPS tokens after a prompt. Only the steps are timed: each call takes up the cache as the prompt left it."""

    def run(self, model, cache):
        token, begin = self.inputs["input_ids"][:, -1:], time.perf_counter()
        for _ in range(STEPS):
            logits = model(token, past_key_values=cache, logits_to_keep=1).logits
            token = logits[:, -1].argmax(-1, keepdim=True)
        return logits, time.perf_counter() - begin

    def read_prompt(self, model):
        return model(**self.inputs, logits_to_keep=1, use_cache=True).past_key_values

    def call(self, model):
        caches = self.__dict__.setdefault("caches", {})
        if id(model) not in caches:
            caches[id(model)] = model, self.read_prompt(model)
        found = self.run(*caches[id(model)])
        caches[id(model)][1].crop(-STEPS)
        return found


class Sentences:
    """all-MiniLM-L6-v2 by sentence-transformers."""

    def __init__(self):
        self.texts = sentences(256)

    def load(self, attention):
        import sentence_transformers
        from real_models import minilm as folder

        place, how = str(folder()), {"attn_implementation": attention}
        return sentence_transformers.SentenceTransformer(place, device="cpu", model_kwargs=how)

    def replace(self, model, change):
        """Puts change(encoder) in place of the encoder."""
        inner = model[0]
        name = next(name for name in ("model", "auto_model") if isinstance(getattr(inner, name, None), torch.nn.Module))
        setattr(inner, name, change(getattr(inner, name)))
        return model

    def call(self, model):
        return torch.from_numpy(model.encode(self.texts, batch_size=32))


def bert():
    tokens = torch.randint(30522, (1, 512), generator=torch.Generator().manual_seed(1))
    return Model(lambda: random_model("BertModel", "BertConfig"), {"input_ids": tokens}, "last_hidden_state")


def mpnet():
    """8 padded texts. Its modules write their attention out: only the optimized model runs it on Fovea."""
    numbers = torch.Generator().manual_seed(1)
    tokens, lengths = torch.randint(3, 30522, (8, 128), generator=numbers), torch.randint(32, 129, (8, 1), generator=numbers)
    inputs = {"input_ids": tokens, "attention_mask": (torch.arange(128) < lengths).long()}
    return Model(lambda: random_model("MPNetModel", "MPNetConfig"), inputs, "last_hidden_state")


def vit():
    pictures = torch.randn(8, 3, 224, 224, generator=torch.Generator().manual_seed(1))
    return Model(lambda: random_model("ViTModel", "ViTConfig"), {"pixel_values": pictures}, "last_hidden_state")


def smollm2():
    import real_models

    return real_models.smollm2("sdpa")


def prefill():
    return Model(smollm2, {"input_ids": prompt()}, "logits", {"logits_to_keep": 1})


def decode():
    return Decode(smollm2, {"input_ids": prompt()}, "logits")


def hollow():
    """decode() with hardly a number to compute: as many layers and heads, 8 channels each, a prompt of one token. Its time is that of
    Python, and of torch around its kernels."""
    make = lambda: random_model("LlamaForCausalLM", "LlamaConfig", vocab_size=64, hidden_size=72, intermediate_size=16,
                                num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3, tie_word_embeddings=True)
    return Decode(make, {"input_ids": torch.ones(1, 1, dtype=torch.long)}, "logits")


def once(call):
    """(result, seconds) of a call, which may time itself."""
    begin = time.perf_counter()
    result = call()
    return result if isinstance(result, tuple) else (result, time.perf_counter() - begin)


def peak_above(call):
    """How far the resident memory rises while `call` runs, in MiB."""
    status = lambda key: next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key)) / 1024
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = status("VmRSS")
    call()
    return status("VmHWM") - before


def memory(attention):
    """MiB of a layer on two prompts of 8192 tokens, one of them padded; "nothing": without attention."""
    model = random_model("LlamaModel", "LlamaConfig", hidden_size=576, intermediate_size=576, num_hidden_layers=1,
                         num_attention_heads=9, num_key_value_heads=3, vocab_size=64)
    tokens, mask = torch.ones(2, 8192, dtype=torch.long), torch.ones(2, 8192, dtype=torch.long)
    mask[0, :1000] = 0
    nothing = lambda module, query, key, value, mask, **more: (query.transpose(1, 2).contiguous(), None)
    transformers.AttentionInterface.register("nothing", nothing)
    transformers.AttentionMaskInterface.register("nothing", lambda *args, **more: None)
    model.set_attn_implementation(attention)
    model(tokens[:, :64], attention_mask=mask[:, :64], use_cache=False)
    return peak_above(lambda: model(tokens, attention_mask=mask, use_cache=False))


CASES = {"minilm": Sentences, "bert": bert, "mpnet": mpnet, "vit": vit, "prefill": prefill, "decode": decode, "hollow": hollow}
