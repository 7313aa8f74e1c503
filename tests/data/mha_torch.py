#!/usr/bin/env python3
"""Writes mha_torch.arrays: what torch.nn.MultiheadAttention gives for layers whose weights and inputs are made by fill(),
here and in test_mha_torch.c alike. Run once (PyTorch 2.15.0):
    python3 tests/data/mha_torch.py
Computed in float64, so that what is recorded has no rounding but the last.
"""
import torch
from arrays import Arrays


def fill(seed, *shape):
    """Multiples of 1/64 from -1 to 1, exact in float32, from a linear congruential generator."""
    values, state = [], seed
    for _ in range(torch.Size(shape).numel()):
        state = (state * 1103515245 + 12345) % 2**31
        values.append(((state >> 16) % 129 - 64) / 64)
    return torch.tensor(values, dtype=torch.float64).reshape(shape)


def add(arrays, name, tensor):
    arrays.add(name, tensor.detach().to(torch.float32).flatten().numpy())


def layer(embed, heads, kdim=None, vdim=None, bias=True):
    mha = torch.nn.MultiheadAttention(embed, heads, bias=bias, kdim=kdim, vdim=vdim, batch_first=True,
                                      dtype=torch.float64).eval()
    with torch.no_grad():
        for seed, (_, parameter) in enumerate(sorted(mha.named_parameters())):
            parameter.copy_(fill(100 + seed, *parameter.shape))
    return mha


def main():
    arrays = Arrays(__file__)
    x = fill(1, 2, 7, 24)
    mha = layer(24, 4)
    out, weights = mha(x, x, x, average_attn_weights=False)
    add(arrays, "self_out", out)
    add(arrays, "self_weights", weights)
    causal = torch.ones(7, 7, dtype=torch.bool).triu(1)
    add(arrays, "causal_out", mha(x, x, x, attn_mask=causal, need_weights=False)[0])
    padding = torch.tensor([[False] * 7, [False] * 4 + [True] * 3])
    add(arrays, "padded_out", mha(x, x, x, key_padding_mask=padding, need_weights=False)[0])
    q, k, v = fill(2, 2, 5, 24), fill(3, 2, 9, 10), fill(4, 2, 9, 14)
    add(arrays, "cross_out", layer(24, 3, kdim=10, vdim=14)(q, k, v, need_weights=False)[0])
    add(arrays, "plain_out", layer(24, 3, bias=False)(x, x, x, need_weights=False)[0])
    arrays.write()


if __name__ == "__main__":
    main()
