"""Sentences of errors about wrong numbers, and about arguments that other libraries have."""

import numpy as np
import pytest
import torch

import fovea
import fovea.torch

_numbers = np.random.default_rng(44)
Q, K, V = (_numbers.standard_normal((2, heads, 7, 8), np.float32) for heads in (4, 2, 2))
W = _numbers.standard_normal((8, 8), np.float32)
CACHE = fovea.KVCache(1, 2, 8, max_pages=8)
SEQUENCES = [CACHE.add(), CACHE.add()]
CACHE.append(0, SEQUENCES, K, V)


class Index:
    def __index__(self):
        return 3


@pytest.mark.parametrize(
    "call, error, sentence",
    [
        (lambda: fovea.attention(Q, np.ma.array(K), V), TypeError, r"k is a masked array: pass k.filled\(0\)"),
        (lambda: fovea.attention(Q, K, V, causal=2**70), OverflowError, "causal does not fit into 64 bits"),
        (lambda: fovea.attention(Q, K, V, kv_lens=[2**70, 1]), OverflowError, "kv_lens does not fit into 64 bits"),
        (lambda: fovea.attention(Q, K, V, kv_lens=np.array([3, 6], ">i8")), TypeError, "kv_lens must hold integers"),
        (lambda: fovea.attention(Q, K, V, scale=10**400), OverflowError, "scale does not fit"),
        (lambda: fovea.attention(Q, K, V, scale=float("nan")), ValueError, "scale"),
        (lambda: fovea.attention(Q, K, V, causal=1.5), TypeError, "causal"),
        (lambda: fovea.attention(Q, K[:, :, :3], V[:, :, :3], causal=np.True_), ValueError, "causal=True is ambiguous"),
        (lambda: CACHE.attend(0, SEQUENCES, Q, causal=np.True_), ValueError, "causal=True is ambiguous with a cache"),
        (lambda: CACHE.load(0), TypeError, "not a number"),
        (lambda: fovea.Linear(W)(W, lens=[1.5]), TypeError, "lens must hold integers"),
        (lambda: fovea.KVCache(1, 2, 8, value_dim=-3, max_pages=1), ValueError, "none may be negative"),
    ],
)
def test_sentences(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()


def test_scalars_of_numpy_and_torch():
    for true in (np.True_, torch.tensor(True), np.array(True)):
        assert np.array_equal(fovea.attention(Q, K, V, causal=true), fovea.attention(Q, K, V, causal=True))
        assert fovea.Plan(q_heads=1, q_len=3, kv_len=3, head_dim=8, causal=true).describe()
        fovea.MultiHead(q_heads=2, q=W, k=W, v=W, o=W, causal=true)
        q, k, v = (torch.tensor(x, requires_grad=True) for x in (Q, K, V))  # which takes another way
        assert torch.equal(fovea.torch.attention(q, k, v, causal=true), fovea.torch.attention(q, k, v, causal=True))
    for three in (np.int64(3), torch.tensor(3), Index()):
        assert np.array_equal(fovea.attention(Q, K, V, causal=three), fovea.attention(Q, K, V, causal=3))
        assert np.array_equal(fovea.Rope(8).apply(Q, three), fovea.Rope(8).apply(Q, 3))


@pytest.mark.parametrize(
    "call, name, hint",
    [
        (lambda **x: fovea.attention(Q, K, V, **x), "attn_mask", "give booleans as mask=, True = attend"),
        (lambda **x: fovea.attention(Q, K, V, **x), "is_causal", "is_causal=True is causal='top_left'"),
        (lambda **x: fovea.attention(Q, K, V, **x), "dropout_p", "there is no dropout"),
        (lambda **x: fovea.attention(Q, K, V, **x), "enable_gqa", "k and v may have fewer heads"),
        (lambda **x: fovea.attention(K, K, **x), "value", "it is v"),
        (lambda **x: fovea.attention(Q, K, V, **x), "window_size", r"window=\(left, right\)"),
        (lambda **x: fovea.attention(Q, K, V, **x), "anything", None),
        (lambda **x: CACHE.attend(0, SEQUENCES, Q, **x), "alibi_slopes", "it is alibi="),
        (lambda **x: fovea.MultiHead(q_heads=2, q=W, k=W, v=W, o=W)(Q[0], **x), "need_weights", "it is return_weights="),
        (lambda **x: fovea.MultiHead(q=W, k=W, v=W, o=W, **x), "num_heads", "it is q_heads="),
        (lambda **x: fovea.Plan(q_heads=1, q_len=1, kv_len=1, head_dim=8, **x), "softmax_scale", "it is scale="),
        (lambda **x: fovea.Linear(W, **x), "device", "it is the CPU"),
    ],
)
def test_hints(call, name, hint):
    with pytest.raises(TypeError, match=f"has no argument '{name}'" + (f": .*{hint}" if hint else "$")):
        call(**{name: 1})
