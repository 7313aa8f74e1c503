"""fovea.Linear of int8 weights: the bits of float32 on the numbers that integers and scales stand for."""

import pickle

import numpy
import pytest
from reference import same

import fovea

EXACT = {"arithmetic": "exact"}


def make(rng, outs, inner):
    weights = [rng.integers(-127, 128, (out, inner), dtype=numpy.int8) for out in outs]
    scales = [(rng.random(out, dtype=numpy.float32) / 64) for out in outs]
    floats = [s[:, None] * w.astype(numpy.float32) for w, s in zip(weights, scales)]
    return weights, scales, floats


@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize("inner, out", [(64, 48), (7, 5), (300, 129)])
def test_bits(rows, inner, out):
    rng = numpy.random.default_rng(rows * inner + out)
    (weight,), (scales,), (floats,) = make(rng, [out], inner)
    bias = rng.standard_normal(out, dtype=numpy.float32)
    x = rng.standard_normal((rows, inner), dtype=numpy.float32)
    int8 = fovea.Linear(weight, bias, scales=scales, activation="gelu", **EXACT)
    assert int8.weight_dtype == "int8" and int8.dtype == "float32"
    assert int8.nbytes == out * (inner + 4 + 4) and "weights int8" in repr(int8) and "i8_columns" in int8.describe()
    same(int8(x), fovea.Linear(floats, bias, activation="gelu")(x))
    transposed = fovea.Linear(numpy.ascontiguousarray(weight.T), bias, scales=scales, layout="in_out", **EXACT)
    same(transposed(x), fovea.Linear(floats, bias)(x))


def test_several_and_gated():
    rng = numpy.random.default_rng(1)
    weights, scales, floats = make(rng, [32, 32], 50)
    x = rng.standard_normal((9, 50), dtype=numpy.float32)
    for got, want in zip(fovea.Linear(weights, scales=scales, **EXACT)(x), fovea.Linear(floats)(x)):
        same(got, want)
    gated = {"activation": "silu_gated", **EXACT}
    same(fovea.Linear(weights, scales=scales, **gated)(x), fovea.Linear(floats, **gated)(x))
    mixed = fovea.Linear([weights[0], floats[1]], scales=[scales[0], None])
    assert mixed.weight_dtype == "float32"
    for got, want in zip(mixed(x), fovea.Linear(floats)(x)):
        same(got, want)
    half = x.astype(numpy.float16)
    int8 = fovea.Linear(weights[0], scales=scales[0], dtype="float16", **EXACT)
    same(int8(half), fovea.Linear(floats[0], dtype="float16")(half))


def test_unpacked_and_pickled():
    rng = numpy.random.default_rng(2)
    weights, scales, _ = make(rng, [20, 33], 41)
    linear = fovea.Linear(weights, [None, numpy.ones(33, numpy.float32)], scales=scales)
    for part in range(2):
        weight, factors = numpy.empty_like(weights[part]), numpy.empty_like(scales[part])
        linear.unpack(weight, part=part, scales=factors)
        same(weight, weights[part])
        same(factors, scales[part])
    copy = pickle.loads(pickle.dumps(linear))
    x = rng.standard_normal((5, 41), dtype=numpy.float32)
    for got, want in zip(copy(x), linear(x)):
        same(got, want)
    assert copy.weight_dtype == "int8"


def test_refused():
    weight, scales = numpy.ones((4, 3), numpy.int8), numpy.ones(4, numpy.float32)
    with pytest.raises(TypeError, match="weight is int8: scales are needed"):
        fovea.Linear(weight)
    with pytest.raises(TypeError, match="scales are for weights of integers"):
        fovea.Linear(weight.astype(numpy.float32), scales=scales)
    with pytest.raises(ValueError, match=r"scales has the shape \(3,\), not \(4,\)"):
        fovea.Linear(weight, scales=scales[:3])
    with pytest.raises(TypeError, match="scales must be float32"):
        fovea.Linear(weight, scales=scales.astype(numpy.float16))
    with pytest.raises(TypeError, match="must be float32, bfloat16 or float16, not uint8"):
        fovea.Linear(weight.astype(numpy.uint8), scales=scales)
    floats = fovea.Linear(weight.astype(numpy.float32))
    with pytest.raises(TypeError, match="float32, which have no scales"):
        floats.unpack(numpy.empty((4, 3), numpy.float32), scales=numpy.empty(4, numpy.float32))
    with pytest.raises(TypeError, match="weight must be int8, not float16"):
        fovea.Linear(weight, scales=scales).unpack(numpy.empty((4, 3), numpy.float16))
