#!/usr/bin/env python3
"""Writes compat_keras.arrays: what MultiHeadAttention and Attention of Keras give, for test_compat_keras.c, which makes the
same inputs and weights with fill(). Run once, with Keras (3.15.1) and PyTorch:
    KERAS_BACKEND=torch python3 tests/data/compat_keras.py
"""
import keras
import numpy as np
from arrays import Arrays
from mha_torch import fill

arrays = Arrays(__file__)
HEADS, KEY_DIM, VALUE_DIM, BATCH, QUERIES, KEYS = 3, 4, 5, 2, 5, 7
FEATURES = {"query": 6, "key": 8, "value": 7, "output": 9}


def array(seed, *shape):
    return fill(seed, *shape).numpy().astype(np.float32)


def bits(seed, *shape):
    """Booleans, two in three of them true, the first of each row too."""
    keep = (fill(seed, *shape).numpy() * 64 + 64) % 3 != 0
    keep[..., 0] = True
    return keep


def record(name, result):
    for part, tensor in zip(("out", "weights"), result):
        arrays.add(f"{name}_{part}", keras.ops.convert_to_numpy(tensor).flatten())


def main():
    q, k, v = (array(i + 1, BATCH, n, FEATURES[f]) for i, (n, f) in
               enumerate([(QUERIES, "query"), (KEYS, "key"), (KEYS, "value")]))
    layer = keras.layers.MultiHeadAttention(num_heads=HEADS, key_dim=KEY_DIM, value_dim=VALUE_DIM,
                                            output_shape=FEATURES["output"])
    layer(q, v, k)
    assert len(layer.weights) == 8
    for weight in layer.weights:
        role = next(r for r in ("query", "key", "value", "output") if f"{r}/" in weight.path)
        weight.assign(array(100 + 10 * list(FEATURES).index(role) + weight.path.endswith("bias"), *weight.shape))
    masks = {"value_mask": bits(11, BATCH, KEYS), "key_mask": bits(12, BATCH, KEYS),
             "attention_mask": bits(13, BATCH, QUERIES, KEYS)}
    record("plain", layer(q, v, k, return_attention_scores=True))
    record("causal", layer(q, v, k, return_attention_scores=True, use_causal_mask=True))
    record("masks", layer(q, v, k, return_attention_scores=True, **masks))
    masked = keras.ops.convert_to_tensor(q)
    masked._keras_mask = keras.ops.convert_to_tensor(bits(14, BATCH, QUERIES))  # the argument query_mask is not used
    record("query_mask", layer(masked, v, k, return_attention_scores=True, use_causal_mask=True, **masks))

    q, v, k = array(21, BATCH, QUERIES, 6), array(22, BATCH, KEYS, 6), array(23, BATCH, KEYS, 6)
    record("attention", keras.layers.Attention()([q, v, k], return_attention_scores=True))
    scaled = keras.layers.Attention(use_scale=True)
    scaled([q, v, k])
    scaled.scale.assign(0.375)
    record("attention_masks", scaled([q, v, k], mask=[bits(14, BATCH, QUERIES), bits(11, BATCH, KEYS)],
                                     return_attention_scores=True, use_causal_mask=True))
    arrays.write()


main()
