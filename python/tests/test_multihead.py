"""fovea.MultiHead: each form against float64, and against the same steps one by one, bit for bit."""

import numpy as np
import pytest
import reference

import fovea

HEADS, D, FEATURES, OUT, B, T = 4, 8, 24, 20, 2, 9


def close(got, expected, limit=5e-6):
    assert got.shape == expected.shape and got.dtype == np.float32
    assert np.abs(got - expected).max(initial=0) < limit * max(1, np.abs(expected).max(initial=0))


@pytest.fixture
def w(normal):
    sizes = dict(q=(HEADS * D, FEATURES), k=(HEADS * D, FEATURES), v=(HEADS * D, FEATURES), o=(OUT, HEADS * D))
    return {name: normal(*size) / 4 for name, size in sizes.items()}


@pytest.fixture
def b(normal):
    return {f"{name}_bias": normal(OUT if name == "o" else HEADS * D) for name in "qkvo"}


@pytest.fixture
def x(normal):
    return normal(B, T, FEATURES)


def split(y, heads=HEADS):
    return y.reshape(*y.shape[:2], heads, -1).swapaxes(1, 2)


def join(y):
    return y.swapaxes(1, 2).reshape(y.shape[0], y.shape[2], -1)


def exact(q, k, v, w, b={}, **options):
    """The layer in float64: (out, lse, weights)."""
    w = {name: a.astype(float) for name, a in w.items()}
    q, k, v = (split(a.astype(float) @ w[n].T + b.get(f"{n}_bias", 0)) for a, n in ((q, "q"), (k, "k"), (v, "v")))
    out, lse, weights = reference.attention(q, k, v, **options)
    return join(out) @ w["o"].T + b.get("o_bias", 0), lse, weights


def steps(q, k, v, w, b={}, **options):
    """The layer by Linear and attention()."""
    heads = [fovea.Linear(w[n], b.get(f"{n}_bias"), heads=HEADS)(a) for a, n in ((q, "q"), (k, "k"), (v, "v"))]
    return fovea.Linear(w["o"], b.get("o_bias"))(fovea.attention(*heads, **options))


def test_self(x, w, b, tiers):
    layer = fovea.MultiHead(q_heads=HEADS, **w, **b)
    assert layer.form == "factored"
    for got, want in zip(layer(x, return_lse=True, return_weights=True), exact(x, x, x, w, b)):
        close(got, want)
    assert np.array_equal(layer(x), steps(x, x, x, w, b))
    tiers(lambda: fovea.MultiHead(q_heads=HEADS, **w, **b)(x))
    none = fovea.MultiHead(q_heads=HEADS, kv_heads=None, head_dim=None, value_dim=None, **w, **b)
    assert np.array_equal(none(x), layer(x))


def test_cross_and_separate(x, w, b, normal):
    y, z = normal(B, 300, FEATURES), normal(B, 300, FEATURES)
    cross = fovea.MultiHead(q_heads=HEADS, inputs="cross", **w, **b)
    assert np.array_equal(cross(x, y), steps(x, y, y, w, b))
    separate = fovea.MultiHead(q_heads=HEADS, inputs="separate", **w, **b)
    assert np.array_equal(separate(x, y, z), steps(x, y, z, w, b))
    close(separate(x, y, z), exact(x, y, z, w, b)[0])


def test_fused(x, w, b):
    fused = dict(fused=np.concatenate([w["q"], w["k"], w["v"]]), o=w["o"], o_bias=b["o_bias"])
    fused["fused_bias"] = np.concatenate([b["q_bias"], b["k_bias"], b["v_bias"]])
    layer = fovea.MultiHead(q_heads=HEADS, **fused)
    assert layer.form == "fused"
    assert np.array_equal(layer(x), steps(x, x, x, w, b))


def test_grouped_heads_and_orders(x, normal):
    q, k, v, o = normal(32, FEATURES), normal(16, FEATURES), normal(16, FEATURES), normal(OUT, 32)
    expected = fovea.MultiHead(q_heads=4, kv_heads=2, q=q, k=k, v=v, o=o)(x)
    heads = fovea.Linear([q, k, v], heads=[4, 2, 2])(x)
    assert np.array_equal(expected, fovea.Linear(o)(fovea.attention(*heads)))
    grouped = np.concatenate([q[:16], k[:8], v[:8], q[16:], k[8:], v[8:]])
    layer = fovea.MultiHead(q_heads=4, kv_heads=2, fused=grouped, o=o, order="grouped")
    assert np.array_equal(layer(x), expected)


def test_layouts(x, w, b):
    expected = fovea.MultiHead(q_heads=HEADS, **w, **b)(x)
    turned = {name: np.ascontiguousarray(a.T) for name, a in w.items()}
    assert np.array_equal(fovea.MultiHead(q_heads=HEADS, layout="in_out", **turned, **b)(x), expected)
    by_head = {name: w[name].reshape(HEADS, D, FEATURES) for name in "qkv"}
    by_head["o"] = np.ascontiguousarray(w["o"].reshape(OUT, HEADS, D).transpose(1, 0, 2))
    assert np.array_equal(fovea.MultiHead(q_heads=HEADS, **by_head, **b)(x), expected)
    turned = {name: np.ascontiguousarray(a.transpose(0, 2, 1)) for name, a in by_head.items()}
    assert np.array_equal(fovea.MultiHead(q_heads=HEADS, layout="in_out", **turned, **b)(x), expected)


def test_tied(x, w):
    layer = fovea.MultiHead(q_heads=HEADS, q=w["q"], o=w["o"])
    assert layer.form == "tied"
    assert np.array_equal(layer(x), steps(x, x, x, dict(w, k=w["q"], v=w["q"])))


def test_folded(x, w, b, normal):
    outer = {f"outer_{n}": normal(FEATURES, 16) / 4 for n in "qkv"}
    layer = fovea.MultiHead(q_heads=HEADS, **w, **b, **outer)
    assert layer.form == "folded"
    y = normal(B, T, 16)
    close(layer(y), exact(*(y.astype(float) @ outer[f"outer_{n}"].T.astype(float) for n in "qkv"), w, b)[0])


@pytest.mark.parametrize("merge", ["queries", "keys"])
def test_merged(x, w, merge):
    made = fovea.MultiHead(q_heads=HEADS, **w, form="merged", merge=merge)
    close(made(x), exact(x, x, x, w)[0])
    products = tuple(
        (q.astype(float).T @ k).astype(np.float32)
        for q, k in zip(w["q"].reshape(HEADS, D, -1), w["k"].reshape(HEADS, D, -1))
    )
    given = fovea.MultiHead(q_heads=HEADS, merged=products, v=w["v"], o=w["o"], head_dim=D, merge=merge)
    assert given.form == "merged" and np.array_equal(given(x), made(x))


def test_projected(normal, w):
    q, k, v = (normal(B, HEADS, T, D) for _ in range(3))
    layer = fovea.MultiHead(q_heads=HEADS, o=w["o"], head_dim=D)
    assert layer.form == "projected"
    expected = fovea.Linear(w["o"])(fovea.attention(q, k, v))
    assert np.array_equal(layer(q, k, v), expected)
    assert np.array_equal(layer(join(q), join(k), join(v)), expected)


@pytest.mark.parametrize("fold", ["cheaper", "always"])
def test_folded_values(x, w, fold):
    close(fovea.MultiHead(q_heads=HEADS, **w, fold_values=fold)(x), exact(x, x, x, w)[0])


def test_without_o(x, w):
    out = fovea.MultiHead(q_heads=HEADS, q=w["q"], k=w["k"], v=w["v"])(x)
    heads = fovea.Linear([w["q"], w["k"], w["v"]], heads=[HEADS] * 3)(x)
    assert np.array_equal(out, fovea.attention(*heads))


def test_options(x, w, b):
    options = dict(causal="top_left", window=(3, None), scale=0.2, softcap=2.0)
    layer = fovea.MultiHead(q_heads=HEADS, **w, **b, **options)
    assert np.array_equal(layer(x), steps(x, x, x, w, b, **options))
    assert np.array_equal(fovea.MultiHead(q_heads=HEADS, **w, causal=True)(x), steps(x, x, x, w, causal=True))


def test_masks_biases_sinks(x, w, b, normal, rng):
    mask = rng.random((B, 1, T, T)) < 0.7
    arrays = dict(mask=mask, bias=normal(HEADS, T, T), sinks=normal(HEADS))
    layer = fovea.MultiHead(q_heads=HEADS, **w, **b, mask="boolean", bias=True, sinks=True)
    assert np.array_equal(layer(x, **arrays), steps(x, x, x, w, b, **arrays))
    close(layer(x, **arrays), exact(x, x, x, w, b, **arrays)[0])
    padding = rng.random((B, 1, 1, T)) < 0.7
    layer = fovea.MultiHead(q_heads=HEADS, **w, mask="key_padding")
    assert np.array_equal(layer(x, mask=padding), steps(x, x, x, w, mask=padding))
    slopes = np.float32([0.5, 0.25, 0.125, 0.0625])
    layer = fovea.MultiHead(q_heads=HEADS, **w, relative="alibi")
    assert np.array_equal(layer(x, alibi=slopes), steps(x, x, x, w, alibi=slopes))


def test_lengths(x, w, b):
    layer = fovea.MultiHead(q_heads=HEADS, **w, **b)
    alone = layer(x[1:, 2:6])
    x[1, :2] = x[1, 6:] = np.nan
    both = layer(x, q_lens=[T, 4], kv_lens=[T, 4], q_starts=[0, 2], kv_starts=[0, 2])
    assert np.array_equal(both[1, 2:6], alone[0]) and np.array_equal(both[1, 0], b["o_bias"])
    assert np.array_equal(both[0], layer(x[:1])[0])


def test_any_shape(w, b, normal):
    layer = fovea.MultiHead(q_heads=HEADS, **w, **b)
    for batch, tokens in [(1, 1), (3, 70), (0, 5), (2, 300)] + [(1, n) for n in range(2, 40)] + [(3, 70)]:
        x = normal(batch, tokens, FEATURES)
        assert np.array_equal(layer(x), steps(x, x, x, w, b))
    assert np.array_equal(layer(x[0]), layer(x)[0])


def test_out(x, w):
    layer = fovea.MultiHead(q_heads=HEADS, **w)
    out = np.empty((B, T, OUT), np.float32)
    assert layer(x, out=out) is out and np.array_equal(out, layer(x))


F = np.float32


@pytest.mark.parametrize(
    "options, error, words",
    [
        (dict(q_heads=0), ValueError, "q_heads must be at least 1"),
        (dict(q_heads=5), ValueError, None),
        (dict(q_heads=4, q=np.zeros((32, 24))), TypeError, "q must be float32"),
        (dict(q_heads=4, q_bias=np.zeros(32, F)), ValueError, "q_bias is given without q"),
        (dict(q_heads=4, q=np.zeros((32, 24), F), q_bias=np.zeros(24, F)), ValueError, r"q_bias has the shape \(24,\)"),
        (dict(q_heads=4, form="squared"), ValueError, "form cannot be 'squared'"),
        (dict(q_heads=4, inputs="two"), ValueError, "inputs cannot be 'two'"),
        (dict(q_heads=4, head_dim=8, causal=True), ValueError, "'bottom_right'"),
        (dict(q_heads=4, merged=(np.zeros((24, 24), F),)), ValueError, "merged has 1 matrices for 4 heads"),
        (dict(q_heads=4), ValueError, "head_dim must be given"),
    ],
)
def test_errors_of_making(options, error, words):
    with pytest.raises(error, match=words):
        fovea.MultiHead(**options)


@pytest.mark.parametrize(
    "args, options, error, words",
    [
        ((), {}, TypeError, "q"),
        ((np.zeros((2, 9, 23), F),), {}, ValueError, "q has rows of 23 channels, not 24"),
        ((np.zeros((2, 9, 24), F),) * 2, {}, TypeError, "inputs='cross'"),
        ((np.zeros((2, 9, 24), F),), {"causal": True}, TypeError, "MultiHead"),
        ((np.zeros((2, 9, 24), F),), {"mask": np.ones((9, 9), bool)}, ValueError, "mask is given"),
        ((np.zeros((2, 9, 24), F),), {"out": np.zeros((2, 9, 24), F)}, ValueError, r"not \(2, 9, 20\)"),
        ((np.zeros((2, 9, 24), F),), {"q_lens": [9, 10]}, ValueError, None),
        ((np.zeros(24, F),), {}, ValueError, "1 dimensions"),
    ],
)
def test_errors_of_calls(w, args, options, error, words):
    with pytest.raises(error, match=words):
        fovea.MultiHead(q_heads=HEADS, **w)(*args, **options)


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": (3, 2)}], ids=str)
def test_packed(w, b, normal, options):
    """The bits of a call for each sequence; tokens of none are zeros."""
    x, starts = normal(30, FEATURES), [0, 7, 7, 20, 28]
    layer = fovea.MultiHead(q_heads=HEADS, **w, **b, **options, q_tokens=30)
    alone = fovea.MultiHead(q_heads=HEADS, **w, **b, **options)
    y, lse, weights = layer(x, q_cu_seqlens=starts, return_lse=True, return_weights=True)
    assert y.shape == (30, OUT) and lse.shape == (HEADS, 30) and weights.shape == (HEADS, 30, 30)
    assert not y[28:].any() and np.isneginf(lse[:, 28:]).all() and not weights[:, 28:].any()
    for first, stop in zip(starts, starts[1:]):
        if first == stop:
            continue
        want = alone(x[None, first:stop], return_lse=True, return_weights=True)
        assert np.array_equal(y[first:stop], want[0][0]) and np.array_equal(lse[:, first:stop], want[1][0])
        assert np.array_equal(weights[:, first:stop, first:stop], want[2][0])
        assert not weights[:, first:stop, :first].any() and not weights[:, first:stop, stop:].any()
    out = np.full((30, OUT), 7, np.float32)
    assert layer(x, q_cu_seqlens=starts, out=out) is out
    assert np.array_equal(out[:28], y[:28]) and (out[28:] == 7).all()


def test_packed_cross(w, b, normal):
    x, z = normal(12, FEATURES), normal(400, FEATURES)
    layer = fovea.MultiHead(q_heads=HEADS, inputs="cross", **w, **b, q_tokens=12, kv_tokens=400)
    y = layer(x, z, q_cu_seqlens=[0, 5, 12], kv_cu_seqlens=[0, 100, 400])
    alone = fovea.MultiHead(q_heads=HEADS, inputs="cross", **w, **b)
    assert np.array_equal(y, np.concatenate([alone(x[:5], z[:100]), alone(x[5:], z[100:])]))
    for args, more, error, words in (
        ((x, z), {"q_cu_seqlens": [0, 12]}, ValueError, "both"),
        ((x, z), {}, ValueError, "cu_seqlens"),
        ((x[None].repeat(2, 0), z), {"q_cu_seqlens": [0, 12], "kv_cu_seqlens": [0, 400]}, ValueError, "no axis of batches"),
        ((normal(13, FEATURES), z), {"q_cu_seqlens": [0, 12], "kv_cu_seqlens": [0, 400]}, ValueError, "12"),
    ):
        with pytest.raises(error, match=words):
            layer(*args, **more)
    with pytest.raises(TypeError, match="q_tokens="):
        alone(x, z, q_cu_seqlens=[0, 12], kv_cu_seqlens=[0, 400])
    for wrong, error, words in (
        ({"q_tokens": 0}, ValueError, "at least 1"),
        ({"q_tokens": -1}, ValueError, "q_tokens|size"),
        ({"q_tokens": "many"}, TypeError, "int"),
        ({"q_tokens": 3, "kv_tokens": 4}, ValueError, "q_tokens 3 and kv_tokens 4 differ"),
        ({"kv_tokens": 4}, ValueError, "kv_tokens"),
    ):
        with pytest.raises(error, match=words):
            fovea.MultiHead(q_heads=HEADS, **w, **wrong)


def test_missing_mask(x, w):
    with pytest.raises(ValueError, match="mask is missing"):
        fovea.MultiHead(q_heads=HEADS, **w, mask="boolean")(x)
