"""fovea.embedding_sum, activate, pool, normalize and exp: formulas, types, out, the same bits on all tiers, errors."""

import math
import pathlib
import re

import numpy as np
import pytest
from reference import ACTIVATIONS

import fovea


def test_embedding_sum(normal, rng, tiers):
    words, places, kinds = normal(50, 33), normal(9, 33)[:, :33], normal(2, 33)
    ids, positions = rng.integers(50, size=20), rng.integers(9, size=20).astype(np.int32)
    found = tiers(lambda: fovea.embedding_sum([words, places, kinds], [ids, positions, None], scale=1.5))
    assert found.tobytes() == (((words[ids] + places[positions]) + kinds[0]) * np.float32(1.5)).tobytes()
    out = np.empty((20, 33), np.float32)
    assert fovea.embedding_sum([words], [list(ids)], out=out) is out and np.array_equal(out, words[ids])
    for tables, rows, sentence in [
        ([words], [[50]], "id 50 of token 0 is not in table 0, which has 50 rows"),
        ([words], [None], "ids are None for all tables"),
        ([words], [], "1 tables and 0 ids"),
        ([words, normal(3, 4)], [ids, ids], "with the same channels"),
        ([words, places], [ids, positions[:5]], "ids"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            fovea.embedding_sum(tables, rows)
    with pytest.raises(TypeError, match="must be lists"):
        fovea.embedding_sum(words, [ids])


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activate(name, normal, tiers):
    x, up, residual = 3 * normal(4, 5, 37), normal(4, 5, 37), normal(4, 5, 37)
    f = ACTIVATIONS[name]
    x64 = x.astype(np.float64)
    np.testing.assert_allclose(tiers(lambda: fovea.activate(x, name)), f(x64), atol=2e-6)
    found = tiers(lambda: fovea.activate(x, name, up=up, residual=residual))
    np.testing.assert_allclose(found, f(x64) * up + residual, atol=5e-6)
    assert fovea.activate(x, name, up=up, residual=residual, out=x) is x and np.array_equal(x, found)


def test_activate_is_that_of_linear(normal):
    x, weight = normal(7, 16), normal(24, 16)
    for name in ACTIVATIONS:
        assert np.array_equal(fovea.Linear(weight, activation=name)(x), fovea.activate(fovea.Linear(weight)(x), name))


def test_activate_errors(normal):
    with pytest.raises(ValueError, match="activation must be None, 'relu'"):
        fovea.activate(normal(2, 2), "elu")
    with pytest.raises(ValueError, match="up has the shape"):
        fovea.activate(normal(2, 2), up=normal(2, 3))
    with pytest.raises(ValueError, match="x is one number"):
        fovea.activate(np.float32(1).reshape(()))


@pytest.mark.parametrize("pooling", ["first", "last", "mean", "mean_sqrt_len", "weighted_mean", "max"])
def test_pool(pooling, normal, tiers):
    x, starts, own = normal(30, 21), np.array([0, 4, 4, 5, 30]), abs(normal(30))
    own = own if pooling == "weighted_mean" else None
    for weights in (None, own):
        found = tiers(lambda weights=weights: fovea.pool_tokens(x, starts[:-1], starts[1:], pooling, weights=weights))
        for i, (begin, end) in enumerate(zip(starts[:-1], starts[1:], strict=True)):
            rows = x[begin:end].astype(np.float64)
            w = np.arange(1, 1 + len(rows))[:, None] if weights is None else weights[begin:end, None]
            expected = (
                {
                    "first": lambda: rows[0],
                    "last": lambda: rows[-1],
                    "mean": lambda: rows.mean(0),
                    "mean_sqrt_len": lambda: rows.sum(0) / math.sqrt(len(rows)),
                    "weighted_mean": lambda: (rows * w).sum(0) / w.sum(),
                    "max": lambda: rows.max(0),
                }[pooling]()
                if len(rows)
                else np.zeros(21)
            )
            np.testing.assert_allclose(found[i], expected, atol=2e-6)
            alone = fovea.pool_tokens(
                x[begin:end], [0], [end - begin], pooling, weights=None if weights is None else weights[begin:end]
            )
            assert np.array_equal(alone[0], found[i])
    out = np.zeros((4, 40), np.float32)
    fovea.pool_tokens(x, starts[:-1], starts[1:], pooling, out=out[:, 5:26])
    assert np.array_equal(out[:, 5:26], fovea.pool_tokens(x, starts[:-1], starts[1:], pooling)) and not out[:, :5].any()


def test_pool_errors(normal):
    for arguments, sentence in [
        (([0], [4], "mean"), "begin|end|rows"),
        (([0, 1], [1], "mean"), "end"),
        (([0], [1], "cls"), "pooling must be 'first'"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            fovea.pool_tokens(normal(3, 2), *arguments)
    with pytest.raises(ValueError, match="x has 1 dimensions"):
        fovea.pool_tokens(normal(3), [0], [1], "mean")


def test_normalize(normal, tiers):
    x = normal(5, 2, 33)
    x[1] = 0
    found = tiers(lambda: fovea.normalize_rows(x))
    length = np.sqrt((x.astype(np.float64) ** 2).sum(-1, keepdims=True))
    np.testing.assert_allclose(found, x / np.maximum(length, 1e-12), atol=1e-7)
    assert not found[1].any() and fovea.normalize_rows(x, out=x) is x and np.array_equal(x, found)


def test_16_bits(normal):
    x = normal(6, 10).astype(np.float16)
    wide = x.astype(np.float32)
    for call in (
        lambda x: fovea.normalize_rows(x),
        lambda x: fovea.activate(x, "gelu", residual=x),
        lambda x: fovea.pool_tokens(x, [0, 2], [2, 6], "mean"),
        lambda x: fovea.embedding_sum([x, x], [[1, 2], [3, 3]]),
    ):
        found = call(x)
        assert found.dtype == np.float16 and np.array_equal(found, call(wide).astype(np.float16))
    out = np.empty((2, 10), np.float32)
    assert np.array_equal(fovea.pool_tokens(x, [0, 2], [2, 6], "mean", out=out), fovea.pool_tokens(wide, [0, 2], [2, 6], "mean"))


def test_exp(normal, tiers):
    x = np.clip(40 * normal(5, 67), -87, 88)
    found = tiers(lambda: fovea.exp(x))
    np.testing.assert_allclose(found, np.exp(x.astype(np.float64)), rtol=1.3e-7)
    assert np.array_equal(fovea.exp(x[:, ::2]), found[:, ::2]) and np.array_equal(fovea.exp(x[0]), found[0])
    edges = np.array([0, 88.8, -87.4, np.inf, -np.inf], np.float32)
    assert fovea.exp(edges, out=edges) is edges and edges.tolist() == [1, np.inf, 0, np.inf, 0]
    with pytest.raises(TypeError, match="x must be float32"):
        fovea.exp(x.astype(np.float16))


def test_version_of_the_bits():
    """Golden hashes belong to it; C and Python say the same."""
    header = pathlib.Path(__file__).parents[2] / "include/fovea/types.h"
    assert fovea.BITS_VERSION == int(re.search("#define FOVEA_BITS_VERSION (.*)", header.read_text())[1]) == 1
