#!/usr/bin/env python3
"""Writes compat_torch.arrays: what PyTorch gives where ONNX has no such thing, for test_compat_torch.c, which makes the
same inputs with fill(). Run once (PyTorch 2.15.0):
    python3 tests/data/compat_torch.py
Computed in float64, so that what is recorded has no rounding but the last.
"""
import warnings

import torch
from arrays import Arrays
from mha_torch import add, fill

arrays = Arrays(__file__)
HEADS, EMBED, BATCH, QUERIES, KEYS = 4, 24, 2, 5, 7


def bits(seed, *shape, share=3):
    """Booleans, one in share of them true."""
    return (fill(seed, *shape) * 64 + 64).remainder(share) == 0


def sdpa():
    def attend(q_len, kv_len, **options):
        q, k, v = fill(1, 2, 4, q_len, 8) * 4, fill(2, 2, 2, kv_len, 8), fill(3, 2, 2, kv_len, 6)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True, **options)

    add(arrays, "sdpa_causal_wide", attend(5, 9, is_causal=True))
    add(arrays, "sdpa_causal_tall", attend(9, 5, is_causal=True))
    keep = ~bits(4, 5, 9)
    keep[2] = False  # a query that sees nothing gives 0
    add(arrays, "sdpa_boolean", attend(5, 9, attn_mask=keep))
    add(arrays, "sdpa_additive", attend(5, 9, attn_mask=fill(5, 2, 1, 5, 9)))
    add(arrays, "sdpa_scale_negative", attend(5, 9, scale=-0.3))
    add(arrays, "sdpa_scale_zero", attend(5, 9, scale=0.0))


def mha():
    def layer(**options):
        module = torch.nn.MultiheadAttention(EMBED, HEADS, batch_first=True, dtype=torch.float64, **options).eval()
        with torch.no_grad():
            for seed, (_, parameter) in enumerate(sorted(module.named_parameters())):
                parameter.copy_(fill(100 + seed, *parameter.shape) / 4)
        return module

    def record(name, module, **options):
        q, k, v = fill(1, BATCH, QUERIES, EMBED), fill(2, BATCH, KEYS, EMBED), fill(3, BATCH, KEYS, EMBED)
        out, weights = module(q, k, v, **options)  # averaged over the heads
        add(arrays, f"{name}_out", out)
        add(arrays, f"{name}_weights", weights)

    left_out = bits(6, QUERIES, KEYS)
    padding = bits(7, BATCH, KEYS)
    causal = torch.ones(QUERIES, KEYS, dtype=torch.bool).triu(1)
    padding[:, 0] = left_out[:, 0] = False
    by_head = bits(8, BATCH * HEADS, QUERIES, KEYS)
    by_head[:, :, 0] = False
    plain = layer()
    record("masks", plain, attn_mask=left_out, key_padding_mask=padding)
    record("by_head", plain, attn_mask=by_head)
    record("by_head_padding", plain, attn_mask=by_head, key_padding_mask=padding)
    record("padding", plain, key_padding_mask=padding)
    record("float_padding", plain, attn_mask=fill(9, QUERIES, KEYS), key_padding_mask=padding)
    bias = layer(add_bias_kv=True)
    record("bias_kv", bias)
    record("bias_kv_masks", bias, attn_mask=left_out, key_padding_mask=padding)
    record("bias_kv_causal", bias, attn_mask=causal)
    record("bias_kv_floats", bias, attn_mask=fill(9, QUERIES, KEYS), key_padding_mask=padding)
    record("zero", layer(add_zero_attn=True), attn_mask=left_out, key_padding_mask=padding)
    record("both", layer(add_bias_kv=True, add_zero_attn=True), attn_mask=causal, key_padding_mask=padding)


def main():
    warnings.filterwarnings("ignore")
    sdpa()
    mha()
    arrays.write()


main()
