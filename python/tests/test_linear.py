"""fovea.Linear against float64, its shapes, what it gives back, and bits that depend on nothing but a row."""

import numpy as np
import pytest
from reference import ACTIVATIONS

import fovea


def close(got, expected):
    assert got.shape == expected.shape and got.dtype == np.float32
    assert np.abs(got - expected).max(initial=0) < 3e-6 * max(1, np.abs(expected).max(initial=0))


def rows(x, w, b=0, activation=None):
    return ACTIVATIONS[activation](x.astype(float) @ w.astype(float).T + b)


@pytest.fixture
def problem(normal):
    return normal(2, 7, 33), normal(50, 33), normal(50)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(problem, normal, tiers, activation):
    x, w, b = problem
    residual = normal(2, 7, 50)
    linear = fovea.Linear(w, b, activation=activation)
    close(linear(x), rows(x, w, b, activation))
    close(linear(x, residual), rows(x, w, b, activation) + residual)
    assert (linear.in_features, linear.out_features) == (33, 50)
    tiers(lambda: fovea.Linear(w, b, activation=activation)(x, residual))


def test_gated(problem, normal, tiers):
    """Two matrices, one result."""
    x, w, b = problem
    up, residual = normal(50, 33), normal(2, 7, 50)
    linear = fovea.Linear([w, up], [b, None], activation="silu_gated")
    expected = rows(x, w, b, "silu") * rows(x, up)
    close(linear(x), expected)
    out = np.empty((2, 7, 50), np.float32)
    assert linear(x, residual, out=out) is out
    close(out, expected + residual)
    assert (linear.in_features, linear.out_features) == (33, 50)
    tiers(lambda: fovea.Linear([w, up], [b, None], activation="silu_gated")(x, residual))


def test_layouts_and_strides_give_the_same_bits(problem):
    x, w, b = problem
    expected = fovea.Linear(w, b)(x)
    wide = np.zeros((50, 66), np.float32)
    wide[:, ::2] = w
    for linear in (
        fovea.Linear(np.ascontiguousarray(w.T), b, layout="in_out"),
        fovea.Linear(w.T, b, layout="in_out"),
        fovea.Linear(wide[:, ::2], b),
        fovea.Linear(w, np.repeat(b, 2)[::2]),
    ):
        assert np.array_equal(linear(x), expected)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: np.asfortranarray(x),
        lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
        lambda x: np.repeat(x, 3, axis=1)[:, ::3],
        lambda x: np.repeat(x, 2, axis=0)[::2],
        lambda x: np.ascontiguousarray(x.swapaxes(0, 1)).swapaxes(0, 1),
    ],
)
def test_strides_of_x(problem, view):
    x, w, b = problem
    linear = fovea.Linear(w, b)
    assert not view(x).flags.c_contiguous or view(x).shape == x.shape
    assert np.array_equal(linear(view(x)), linear(x))


def test_numbers_of_axes(problem):
    x, w, b = problem
    linear = fovea.Linear(w, b)
    expected = linear(x)
    assert np.array_equal(linear(x[1, 3]), expected[1, 3])
    assert np.array_equal(linear(x[1]), expected[1])
    assert np.array_equal(linear(x.reshape(1, 2, 7, 1, 33)), expected.reshape(1, 2, 7, 1, 50))
    mixed = np.repeat(x, 3, axis=0).reshape(2, 3, 7, 33).transpose(1, 0, 2, 3)  # axes that cannot be merged
    assert np.array_equal(linear(mixed), np.stack([expected] * 3))
    assert linear(x[:0]).shape == (0, 7, 50)
    assert linear(x[:, :0]).shape == (2, 0, 50)


def test_several_matrices(problem, normal):
    x, w, b = problem
    other, third = normal(12, 33), normal(20, 33)
    linear = fovea.Linear([w, other, third], [b, None, normal(20)], activation="gelu")
    assert linear.out_features == (50, 12, 20)
    parts = linear(x)
    assert isinstance(parts, tuple) and np.array_equal(parts[0], fovea.Linear(w, b, activation="gelu")(x))
    close(parts[1], rows(x, other, 0, "gelu"))
    residuals = [normal(*part.shape) for part in parts]
    outs = [np.empty_like(part) for part in parts]
    given = linear(x, residuals, out=outs)
    assert all(a is b for a, b in zip(given, outs))
    for part, residual, out in zip(parts, residuals, outs):
        assert np.array_equal(out, part + residual)


def test_scale(problem):
    x, w, b = problem
    close(fovea.Linear(w, b, scale=0.25)(x), 0.25 * rows(x, w, b))
    first, second = fovea.Linear([w, w], [b, b], scale=[2, None])(x)
    assert np.array_equal(first, 2 * second)


def test_heads_are_those_of_attention(normal):
    x, wq, wk, wo = normal(2, 9, 24), normal(32, 24), normal(16, 24), normal(24, 32)
    q, k = fovea.Linear([wq, wk], heads=[4, 2])(x)
    assert np.array_equal(q, fovea.Linear(wq)(x).reshape(2, 9, 4, 8).transpose(0, 2, 1, 3))
    assert k.shape == (2, 2, 9, 8)
    out = fovea.attention(q, k, k)
    joined = fovea.Linear(wo)(out)
    assert np.array_equal(joined, fovea.Linear(wo)(np.ascontiguousarray(out.transpose(0, 2, 1, 3)).reshape(2, 9, 32)))


def test_out(problem, normal):
    x, w, b = problem
    linear, residual = fovea.Linear(w, b), normal(2, 7, 50)
    expected = linear(x, residual)
    out = np.full((2, 9, 60), 5, np.float32)
    view = out[:, 1:8, 5:55]
    assert linear.apply(x, residual, out=view) is view
    assert np.array_equal(view, expected) and (out[:, 0] == 5).all() and (out[..., :5] == 5).all()
    assert linear(x, residual, out=residual) is residual and np.array_equal(residual, expected)


def test_lens(problem):
    x, w, b = problem
    linear = fovea.Linear(w, b)
    expected = linear(x)
    x[1, 3:] = np.nan
    result = linear(x, lens=[7, 3])
    assert np.array_equal(result[0], expected[0]) and np.array_equal(result[1, :3], expected[1, :3])
    assert not result[1, 3:].any()
    out = np.full_like(result, 7)
    linear(x, lens=np.array([7, 3], np.int32), out=out)
    assert np.array_equal(out[1, :3], expected[1, :3]) and (out[1, 3:] == 7).all()


def test_weights_are_copied(problem):
    x, w, b = problem
    linear = fovea.Linear(w, b)
    expected = linear(x)
    w[:] = b[:] = 0
    assert np.array_equal(linear(x), expected)


def test_a_row_alone_has_the_same_bits(normal):
    x, w = normal(70, 40), normal(30, 40)
    linear = fovea.Linear(w)
    expected = linear(x)
    assert all(np.array_equal(linear(x[i]), expected[i]) for i in range(70))


def read_only(array):
    array.flags.writeable = False
    return array


F = np.float32


@pytest.mark.parametrize(
    "make, error, words",
    [
        (lambda: fovea.Linear(np.zeros((3, 4))), TypeError, "weight must be float32, bfloat16 or float16, not float64"),
        (lambda: fovea.Linear(np.zeros(3, F)), ValueError, "weight has 1 dimensions, a matrix has 2"),
        (lambda: fovea.Linear(np.zeros((3, 4), F), np.zeros(4, F)), ValueError, r"bias has the shape \(4,\), not \(3,\)"),
        (lambda: fovea.Linear(np.zeros((3, 4), F), activation="silu_gated"), ValueError, "2"),
        (lambda: fovea.Linear([np.zeros((3, 4), F), np.zeros((5, 4), F)], activation="silu_gated"), ValueError, "5"),
        (lambda: fovea.Linear(np.zeros((3, 4), F), activation="swish"), ValueError, "'swish'"),
        (lambda: fovea.Linear(np.zeros((3, 4), F), layout="oi"), ValueError, "'out_in'.*'oi'"),
        (lambda: fovea.Linear(np.zeros((3, 4), F), heads=2), ValueError, "3 channels cannot be 2 heads"),
        (lambda: fovea.Linear([]), ValueError, "from 1 to 16"),
        (lambda: fovea.Linear([np.zeros((3, 4), F)], np.zeros(3, F)), TypeError, "bias must be a list of 1"),
        (lambda: fovea.Linear([np.zeros((3, 4), F)], []), ValueError, "list of 0, weight of 1"),
        (lambda: fovea.Linear([np.zeros((3, 4), F), np.zeros((3, 5), F)]), ValueError, None),
        (lambda: fovea.Linear(np.zeros((3, 0), F)), ValueError, None),
    ],
)
def test_errors_of_making(make, error, words):
    with pytest.raises(error, match=words):
        make()


@pytest.mark.parametrize(
    "args, options, error, words",
    [
        ((np.zeros((2, 5), F),), {}, ValueError, "x has rows of 5 channels, not 4"),
        ((np.float32(1),), {}, (ValueError, TypeError), None),
        ((np.zeros((2, 4)),), {}, TypeError, "x must be float32"),
        (([1.0, 2.0],), {}, TypeError, "x"),
        ((), {}, TypeError, "x"),
        ((np.zeros((2, 4), F), np.zeros((2, 4), F)), {}, ValueError, r"residual has the shape \(2, 4\), not \(2, 3\)"),
        ((np.zeros((2, 4), F), np.zeros((2, 3))), {}, TypeError, "residual must be float32, not float64"),
        ((np.zeros((2, 4), F), np.zeros((2, 3), np.float16)), {}, TypeError, "residual must be float32, not float16"),
        ((np.zeros((2, 4), F),), {"out": np.zeros((2, 3), np.float16)}, TypeError, "out must be float32, not float16"),
        ((np.zeros((2, 4), F),), {"out": np.zeros((3, 3), F)}, ValueError, r"out has the shape \(3, 3\)"),
        ((np.zeros((2, 4), F),), {"out": read_only(np.zeros((2, 3), F))}, ValueError, "read-only"),
        ((np.zeros((2, 4), F),), {"out": np.zeros((2, 6), F)[:, ::2]}, ValueError, "stride"),
        ((np.zeros((2, 4), F),), {"lens": [1, 2]}, ValueError, "lens"),
        ((np.zeros((2, 4), F),), {"lens": [3]}, ValueError, None),
        ((np.zeros((2, 4), F),), {"y": 1}, TypeError, "no argument 'y'"),
    ],
)
def test_errors_of_calls(args, options, error, words):
    with pytest.raises(error, match=words):
        fovea.Linear(np.zeros((3, 4), F)).apply(*args, **options)


def test_out_that_overlaps(normal):
    x = normal(5, 4)
    with pytest.raises(ValueError, match="overlap"):
        fovea.Linear(normal(4, 4))(x, out=x)


def test_unpack(normal):
    w = [normal(13, 17), normal(5, 17).T.copy().T]
    for dtype in (np.float32, np.float16):
        linear = fovea.Linear([m.astype(dtype) for m in w], [None, normal(5)], layout="out_in")
        assert linear.has_bias == (False, True) and linear.weight_dtype == np.dtype(dtype).name
        assert linear.nbytes == 18 * 17 * np.dtype(dtype).itemsize + 5 * 4
        for part, matrix in enumerate(w):
            weight, bias = np.empty(matrix.shape, dtype), np.full(len(matrix), 7, np.float32)
            linear.unpack(weight, bias, part=part)
            assert np.array_equal(weight, matrix.astype(dtype))
            assert linear.has_bias[part] or (np.signbit(bias) & (bias == 0)).all()
    for given, error, words in (
        ((np.empty((5, 17), np.float32),), TypeError, "weight is float32|weight must be float16|float16"),
        ((np.empty((17, 5), np.float16),), ValueError, r"shape \(17, 5\), not \(13, 17\)"),
        ((np.empty((17, 13), np.float16).T,), ValueError, "weight is not contiguous"),
        ((np.empty((13, 17), np.float16), np.empty(26, np.float32)[::2]), ValueError, "bias is not contiguous"),
    ):
        with pytest.raises(error, match=words):
            linear.unpack(*given)
    with pytest.raises(ValueError, match="part must be from 0 to 1, not 2"):
        linear.unpack(np.empty((5, 17), np.float16), part=2)


def test_a_part_alone_and_another_activation(normal, tiers):
    w, x, residual = [normal(n, 40) for n in (70, 3, 33)], normal(9, 40), [normal(9, n) for n in (70, 3, 33)]
    linear, plain = fovea.Linear(w, activation="gelu"), fovea.Linear(w)
    whole = linear(x, residual)
    for part in range(3):
        out = np.full_like(whole[part], np.nan)
        assert np.array_equal(tiers(lambda: linear(x, residual[part], part=part)), whole[part])
        assert linear.apply(x, residual[part], out=out, part=part) is out and np.array_equal(out, whole[part])
    for call in (linear, linear.apply):
        assert all(map(np.array_equal, call(x, activation=None), plain(x)))
        assert all(map(np.array_equal, call(x), plain(x, activation="gelu")))
        for wrong, error in ((3, ValueError), (-1, ValueError), (2**70, OverflowError), (1.5, TypeError)):
            with pytest.raises(error, match="^part "):
                call(x, part=wrong)
        with pytest.raises(ValueError, match="SILU_GATED"):
            call(x, activation="silu_gated")
        with pytest.raises(ValueError, match="activation must be .*'swish'"):
            call(x, activation="swish")
