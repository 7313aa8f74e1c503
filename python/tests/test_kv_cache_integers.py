"""KVCache of int8 and int4: attention over what its integers and scales stand for."""

import numpy as np
import pytest

import fovea

HEADS, DIM = 2, 16


def rounded(x):
    """x as int8 keeps it: integers times the scale of their row."""
    scale = np.abs(x).max(-1, keepdims=True) / np.float32(127)
    return np.rint(x / scale) * scale


@pytest.mark.parametrize(("k_dtype", "v_dtype"), [("int8", "int8"), ("int8", "float32"), ("float32", "int8")])
def test_int8(normal, tiers, k_dtype, v_dtype):
    k, v, q = normal(2, HEADS, 300, DIM), normal(2, HEADS, 300, DIM), normal(2, 4, 9, DIM)

    def run():
        cache = fovea.KVCache(1, HEADS, DIM, k_dtype=k_dtype, v_dtype=v_dtype, max_pages=8)
        sequences = [cache.add(), cache.add()]
        cache.append(0, sequences, k, v)
        assert (cache.k_dtype, cache.v_dtype) == (k_dtype, v_dtype)
        return cache.attend(0, sequences, q, causal="bottom_right")

    kept = rounded(k) if k_dtype == "int8" else k, rounded(v) if v_dtype == "int8" else v
    # Queries are rounded to 16319 steps, too.
    np.testing.assert_allclose(tiers(run), fovea.attention(q, *kept, causal="bottom_right"), atol=2e-3)


def rotation(channels):
    """Walsh-Hadamard butterflies over the largest power of two that divides the channels, orthonormal."""
    h = np.ones((1, 1))
    while channels % (2 * len(h)) == 0:
        h = np.block([[h, h], [h, -h]])
    return np.kron(np.eye(channels // len(h)), h / np.sqrt(len(h)))


def rounded_int4(x):
    """x as int4 keeps it: rotated, then integers times a float16 scale for each 32 channels."""
    h, width = rotation(x.shape[-1]), 32
    y = (x.astype(np.float64) @ h).reshape(*x.shape[:-1], -1, width)
    scale = (np.abs(y).max(-1, keepdims=True) / 7).astype(np.float16).astype(np.float64)
    return ((np.rint(y / scale) * scale).reshape(x.shape) @ h.T).astype(np.float32)


@pytest.mark.parametrize(("k_dtype", "v_dtype"), [("int4", "int4"), ("int8", "int4"), ("int4", "float32")])
def test_int4(normal, tiers, k_dtype, v_dtype):
    wide = 64
    k, v, q = normal(2, HEADS, 300, wide), normal(2, HEADS, 300, wide), normal(2, 4, 9, wide)

    def run():
        cache = fovea.KVCache(1, HEADS, wide, k_dtype=k_dtype, v_dtype=v_dtype, max_pages=8)
        sequences = [cache.add(), cache.add()]
        cache.append(0, sequences, k, v)
        assert (cache.k_dtype, cache.v_dtype) == (k_dtype, v_dtype)
        row = {"int4": 36, "int8": 68, "float32": 256}  # bytes of 64 channels and their scales
        assert cache.stats()["token_bytes"] == HEADS * (row[k_dtype] + row[v_dtype])
        other = fovea.KVCache(1, HEADS, wide, k_dtype=k_dtype, v_dtype=v_dtype, max_pages=8)
        loaded = [other.load(cache.save(s)) for s in sequences]
        out = cache.attend(0, sequences, q, causal="bottom_right")
        assert np.array_equal(other.attend(0, loaded, q, causal="bottom_right"), out)
        return out

    by = {"int4": rounded_int4, "int8": rounded, "float32": lambda x: x}
    want = fovea.attention(q, by[k_dtype](k), by[v_dtype](v), causal="bottom_right")
    np.testing.assert_allclose(tiers(run), want, atol=5e-3)
