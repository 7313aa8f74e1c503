"""errors.py: errors of 16-bit arithmetics on real models: python python/bench/errors.py [--tokens 200].

For every product and attention of all-MiniLM-L6-v2 and SmolLM2-135M-Instruct in bfloat16, on the operands of PyTorch's own run of the
model: the root mean square error of the result against float64 on the same operands, divided by that of the exact result, as the element
type keeps it. Besides Fovea's arithmetics: attention over an int8 cache, PyTorch's own result, and the exact one rounded once, the smallest
error possible in that type. Needs torch, transformers, gguf.
"""

import collections
import math

import real_runs
import torch

import fovea

ARITHMETICS = ("exact", "bf16", "bf16_tile")
COLUMNS = ("rounded", *ARITHMETICS, "int8", "torch")


class Errors:
    def __init__(self):
        self.squares = collections.defaultdict(lambda: collections.defaultdict(float))

    def add(self, name, exact, results):
        row = self.squares[name]
        row["size"] += float(exact.square().sum())
        row["rounded"] += float((exact.bfloat16().double() - exact).square().sum())
        for what, got in results.items():
            row[what] += float((got.double() - exact).square().sum())

    def report(self, model):
        print(f"\n{model}\n{'':<28}" + "".join(f"{c:>11}" for c in COLUMNS))
        for name, row in self.squares.items():
            errors = (f"{math.sqrt(row[c] / row['size']):.2e}" if c in row else "" for c in COLUMNS)
            print(f"{name:<28}" + "".join(f"{e:>11}" for e in errors))


def attention_exactly(q, k, v, mask, causal, scale):
    q, k, v = q.double(), k.double(), v.double()
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.transpose(-1, -2) * (scale if scale is not None else q.shape[-1] ** -0.5)
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -torch.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask.double()
    return scores.softmax(-1) @ v


def attention_over_int8(q, k, v, causal, scale):
    """The same by keys and values that a cache keeps as int8."""
    cache = fovea.KVCache(1, k.shape[1], k.shape[3], dtype="int8", max_pages=-(-k.shape[2] // 256))
    sequence = cache.add()
    cache.append(0, sequence, k, v)
    return cache.attend(0, sequence, q, causal="bottom_right" if causal else False, scale=scale)


def watch(model, errors):
    def hook(module, inputs, output):
        x = inputs[0].reshape(-1, inputs[0].shape[-1])
        bias = module.bias
        exact = x.double() @ module.weight.double().T + (0 if bias is None else bias.double())
        results = {"torch": output.reshape(exact.shape)}
        for arithmetic in ARITHMETICS:
            linear = fovea.Linear(module.weight.detach(), None if bias is None else bias.detach(), arithmetic=arithmetic)
            results[arithmetic] = linear(x.contiguous())
        errors.add(real_runs.kind(names[module]), exact, results)

    names = {module: name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)}
    for module in names:
        module.register_forward_hook(hook)
    plain = torch.nn.functional.scaled_dot_product_attention

    def attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, **kwargs):
        out = plain(q, k, v, attn_mask=attn_mask, is_causal=is_causal, scale=scale, **kwargs)
        exact = attention_exactly(q, k, v, attn_mask, is_causal, scale)
        results = {"torch": out}
        for arithmetic in ARITHMETICS:
            results[arithmetic] = fovea.attention(
                q, k, v, causal=is_causal, mask=attn_mask, scale=scale, arithmetic=arithmetic
            )
        if attn_mask is None:
            results["int8"] = attention_over_int8(q, k, v, is_causal, scale)
        errors.add("attention", exact, results)
        return out

    torch.nn.functional.scaled_dot_product_attention = attention
    return plain


if __name__ == "__main__":
    real_runs.main(__doc__, Errors, watch)
