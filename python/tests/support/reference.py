"""Attention and activations in float64, by numpy, written for reading: what results are measured against."""

import math

import numpy as np

_erf = np.vectorize(math.erf, otypes=[float])
ACTIVATIONS = {
    None: lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x / 2 * (1 + _erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}


def same(got, want):
    """Type, shape and bits."""
    assert got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes()


def attention(q, k, v, *, scale=None, mask=None, bias=0.0, softcap=None, sinks=None):
    """(out, lse, weights) of [B, H, T, D] arrays in float64. mask: True = attend."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat(group, 1), v.repeat(group, 1)
    scores = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap is not None:
        scores = softcap * np.tanh(scores / softcap)
    scores = scores + bias
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    sink = np.full(q.shape[1], -np.inf) if sinks is None else np.asarray(sinks, np.float64)
    sink = np.broadcast_to(sink[None, :, None, None], (*scores.shape[:3], 1))
    top = np.maximum(scores.max(-1, keepdims=True, initial=-np.inf), sink)
    top = np.where(np.isneginf(top), 0.0, top)
    p = np.exp(scores - top)
    total = p.sum(-1, keepdims=True) + np.exp(sink - top)
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.where(total > 0, p / total, 0.0)
        lse = np.where(total > 0, np.log(total) + top, -np.inf)[..., 0]
    return weights @ v, lse, weights


def causal(queries, keys, offset=0):
    """[queries, keys]: query i sees keys up to i + offset."""
    return np.arange(keys)[None, :] <= np.arange(queries)[:, None] + offset
