"""guard.py: how often the guard of pairs falls in real models: python python/bench/guard.py [--tokens 200].

Products of bfloat16 run as pairs (VDPBF16PS) where no sum can be subnormal: fv_pairs_exact() of kernels.h, asked of the magnitudes of
the operands. Linear maps ask it for each row of x against each panel of 64 columns of weights, attention for a block of queries
against a segment of 256 keys. This counts, for every product of all-MiniLM-L6-v2 and SmolLM2-135M-Instruct in bfloat16, the share of
(row, panel) pairs that fall to float32, and what that costs: the time against all pairs, where a product in float32 takes SLOWER
times as long. Weights and x are those of PyTorch's own run of the model in bfloat16. Needs torch, transformers, gguf.
"""

import collections

import real_runs
import torch

PANEL, SEGMENT = 64, 256
NORMAL, INFINITE, BIAS = 0x80, 0x7F80, 127
SLOWER = 1.85  # float32 relative to bf16x2: docs/lab/types.md


def magnitudes(x):
    """Bits of the smallest magnitude that is not 0, and of the largest, of each row."""
    bits = x.to(torch.bfloat16).contiguous().view(torch.int16).to(torch.int32) & 0x7FFF
    least = torch.where(bits == 0, 0xFFFF, bits).amin(-1)
    return least, bits.amax(-1)


def good(m):
    return (m[0] >= NORMAL) & (m[1] < INFINITE)


def exact(a, b):
    """fv_pairs_exact() of all rows of a with all of b."""
    sums = (a[0] >> 7)[:, None] + (b[0] >> 7)[None, :] - 2 * BIAS
    return good(a)[:, None] & good(b)[None, :] & (sums >= -112)


def grouped(m, size):
    parts = [(m[0][i : i + size].amin(), m[1][i : i + size].amax()) for i in range(0, len(m[0]), size)]
    return torch.stack([p[0] for p in parts]), torch.stack([p[1] for p in parts])


class Counts:
    def __init__(self):
        self.rows = collections.defaultdict(lambda: [0, 0, 0, 0, 0xFFFF])

    def add(self, name, a, b):
        held = exact(a, b)
        row = self.rows[name]
        row[0] += held.numel()
        row[1] += int((~held).sum())
        row[2] += held.shape[0]
        row[3] += int((~held).all(1).sum())
        row[4] = min(row[4], int(a[0].min()))

    def report(self, model):
        print(f"\n{model}\n{'product':<28} {'pairs':>10} {'fall':>8} {'rows all':>9} {'least of x':>10} {'time':>6}")
        for name, (pairs, fallen, rows, whole, least) in self.rows.items():
            share = fallen / pairs
            exponent = "2^%d" % ((least >> 7) - BIAS) if least < 0xFFFF else "-"
            cost = 1 + share * (SLOWER - 1)
            print(f"{name:<28} {pairs:>10} {100 * share:>7.2f}% {100 * whole / rows:>8.2f}% {exponent:>10} {cost:>6.3f}")


def watch(model, counts):
    panels = {}

    def hook(name, module):
        def run(_, inputs):
            x = inputs[0].reshape(-1, inputs[0].shape[-1])
            if name not in panels:
                panels[name] = grouped(magnitudes(module.weight), PANEL)
            counts.add(real_runs.kind(name), magnitudes(x), panels[name])

        return run

    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_pre_hook(hook(name, module))
    plain = torch.nn.functional.scaled_dot_product_attention

    def attention(q, k, v, *args, **kwargs):
        scaled = magnitudes(q * 2.0 ** -3)  # 2^e of the scale
        for b in range(q.shape[0]):
            for h in range(q.shape[1]):
                head = h * k.shape[1] // q.shape[1]
                rows = (scaled[0][b, h], scaled[1][b, h])
                keys = magnitudes(k[b, head])
                counts.add("scores", rows, grouped(keys, SEGMENT))
        return plain(q, k, v, *args, **kwargs)

    torch.nn.functional.scaled_dot_product_attention = attention
    return plain


if __name__ == "__main__":
    real_runs.main(__doc__, Counts, watch)
