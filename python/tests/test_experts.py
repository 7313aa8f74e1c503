"""fovea.Experts and fovea.route() on numpy: numbers, types, arguments."""

import numpy as np
import pytest

import fovea

EXPERTS, IN, BETWEEN, OUT, K = 6, 40, 24, 32, 3


def silu(x):
    return x / (1 + np.exp(-x))


def wanted(x, chosen, weights, up, down, gate, act=lambda g, u: silu(g) * u):
    y = np.zeros((len(x), down.shape[1]))
    for row, (experts, factors) in enumerate(zip(chosen, weights)):
        for e, w in zip(experts, factors):
            if e < len(up):
                between = act(gate[e].astype(float) @ x[row], up[e].astype(float) @ x[row])
                y[row] += w * (down[e].astype(float) @ between)
    return y


@pytest.fixture
def model(normal, rng):
    up, gate = normal(EXPERTS, BETWEEN, IN) / 6, normal(EXPERTS, BETWEEN, IN) / 6
    down, x = normal(EXPERTS, OUT, BETWEEN) / 5, normal(17, IN)
    return up, down, gate, x, rng.integers(0, EXPERTS + 1, (17, K)), rng.random((17, K), np.float32)


def test_numbers(model, tiers):
    up, down, gate, x, chosen, weights = model
    y = tiers(lambda: fovea.Experts(up, down, gate)(x, chosen, weights))
    assert np.abs(y - wanted(x, chosen, weights, up, down, gate)).max() < 1e-5
    experts = fovea.Experts(up, down, gate)
    for row in range(17):
        assert np.array_equal(experts.apply(x[row], chosen[row], weights[row]), y[row])
    out = np.empty((17, OUT), np.float32)
    assert experts(x, chosen.astype(np.int32), weights, out=out) is out and np.array_equal(out, y)
    for kind in (np.int16, np.uint16, np.uint32, np.uint64):
        assert np.array_equal(experts(x, chosen.astype(kind), weights), y)
    assert np.array_equal(experts(x.reshape(1, 17, IN), chosen, weights)[0], y)
    half = weights.astype(np.float16)
    assert np.array_equal(experts(x, chosen, half), experts(x, chosen, half.astype(np.float32)))
    assert np.array_equal(fovea.Experts(*(np.repeat(w, 2, 0)[::2] for w in (up, down, gate)))(x, chosen, weights), y)


def test_layouts(model):
    up, down, gate, x, chosen, weights = model
    y = fovea.Experts(up, down, gate)(x, chosen, weights)
    both = np.concatenate([gate, up], 1)
    turned = np.stack([gate, up], 2).reshape(EXPERTS, 2 * BETWEEN, IN)
    for experts in (
        fovea.Experts(both, down, gate_up="concatenated"),
        fovea.Experts(turned, down, gate_up="interleaved"),
        fovea.Experts(up.transpose(0, 2, 1).copy(), down.transpose(0, 2, 1), gate.transpose(0, 2, 1), layout="in_out"),
    ):
        assert np.array_equal(experts(x, chosen, weights), y)


def test_gpt_oss(model, normal):
    up, down, gate, x, chosen, weights = model
    biases = [normal(EXPERTS, n) for n in (2 * BETWEEN, OUT)]
    turned = np.stack([gate * 9, up * 9], 2).reshape(EXPERTS, 2 * BETWEEN, IN)
    experts = fovea.Experts(turned, down, gate_up="interleaved", up_bias=biases[0], down_bias=biases[1], limit=7, alpha=1.702, up_offset=1)
    y = np.zeros((17, OUT))
    for row in range(17):
        for e, w in zip(chosen[row], weights[row]):
            if e == EXPERTS:
                continue
            both = turned[e].astype(float) @ x[row] + biases[0][e]
            g, u = np.minimum(both[::2], 7), np.clip(both[1::2], -7, 7)
            y[row] += w * (down[e].astype(float) @ (g / (1 + np.exp(-1.702 * g)) * (u + 1)) + biases[1][e])
    assert np.abs(experts(x, chosen, weights) - y).max() < 2e-4
    spread = [np.repeat(b, 2, 1)[:, ::2] for b in biases]
    same = fovea.Experts(turned, down, gate_up="interleaved", up_bias=spread[0], down_bias=spread[1], limit=7, alpha=1.702, up_offset=1)
    assert np.array_equal(same(x, chosen, weights), experts(x, chosen, weights))


def test_without_a_gate(model):
    up, down, gate, x, chosen, weights = model
    y = fovea.Experts(up, down, activation="relu")(x, chosen, weights)
    assert np.abs(y - wanted(x, chosen, weights, up, down, up, lambda g, u: np.maximum(u, 0))).max() < 1e-5


@pytest.mark.parametrize("quantization", ["int8", "q8_0", "q4_0"])
def test_quantized(normal, rng, quantization):
    up, gate, down = normal(4, 64, 96) / 9, normal(4, 64, 96) / 9, normal(4, 32, 64) / 8
    x, chosen, weights = normal(9, 96), rng.integers(0, 4, (9, 2)), rng.random((9, 2), np.float32)
    experts = fovea.Experts(up, down, gate, quantization=quantization, arithmetic="exact")
    y = experts(x, chosen, weights)
    parts = [fovea.Linear([gate[e], up[e]], activation="silu_gated", quantization=quantization, arithmetic="exact") for e in range(4)]
    ends = [fovea.Linear(down[e], quantization=quantization, arithmetic="exact") for e in range(4)]
    for row in range(9):
        total = np.zeros(32, np.float32)
        for e, w in sorted(zip(chosen[row], weights[row]), key=lambda pair: pair[0]):
            total = total + w * ends[e](parts[e](x[row : row + 1]))[0]
        assert np.array_equal(y[row], total)
    assert experts.weight_dtype == quantization and experts.nbytes > 0 and "4 of 96 to 64 to 32" in repr(experts)


def test_blocks(normal, rng):
    stack = rng.integers(0, 128, (3, 64, 2 * 34), np.uint8)  # q8_0: a float16, 32 integers
    stack[:, :, 1::34] &= 0x1F
    y = fovea.Experts(stack, stack, stack, kind="gguf:Q8_0")(normal(5, 64), np.array([0, 1, 2, 3, 0])[:, None], np.ones((5, 1), np.float32))
    assert y.shape == (5, 64) and np.array_equal(y[3], np.zeros(64)) and np.isfinite(y).all() and y.any()


def test_routes(normal):
    logits = normal(50, 16)
    chosen, weights = fovea.route(logits, 4, denominator="sum")
    order = np.argsort(-logits, 1, kind="stable")[:, :4]
    p = np.exp(np.take_along_axis(logits, order, 1).astype(float))
    assert chosen.dtype == np.int64 and np.array_equal(chosen, order)
    assert np.abs(weights - p / p.sum(1, keepdims=True)).max() < 1e-6
    after = fovea.route(logits, 4, after_top_k=True)
    assert np.array_equal(after[0], order) and np.abs(after[1] - weights).max() < 1e-6
    least = fovea.route(logits, 4, denominator="at_least", eps=0.5)
    p = np.exp(logits.astype(float))
    p = np.take_along_axis(p / p.sum(1, keepdims=True), order, 1)
    assert np.abs(least[1] - p / np.maximum(p.sum(1, keepdims=True), 0.5)).max() < 1e-6
    bias = np.linspace(-1, 1, 16, dtype=np.float32)
    chosen, weights = fovea.route(
        logits, 3, score="sigmoid", bias=bias, groups=4, groups_used=2, group_score="sum_of_two", denominator="sum", eps=1e-20, scale=2.5
    )
    by = 1 / (1 + np.exp(-logits.astype(float))) + bias
    best = np.sort(by.reshape(50, 4, 4), 2)[:, :, 2:].sum(2)
    for row in range(50):
        allowed = np.isin(np.arange(16) // 4, np.argsort(-best[row])[:2])
        expected = np.argsort(-np.where(allowed, by[row], -np.inf))[:3]
        assert np.array_equal(chosen[row], expected)
        s = (by[row] - bias)[expected]
        assert np.abs(weights[row] - 2.5 * s / s.sum()).max() < 1e-6
    logits[7, 3] = np.nan
    assert np.isnan(fovea.route(logits, 2)[1]).any(1).nonzero()[0].tolist() == [7]
    assert fovea.route(np.zeros((2, 3, 8), np.float32), 2)[0].tolist() == [[[0, 1]] * 3] * 2


def test_sizes_refused(model):
    up, down, gate, x, chosen, weights = model
    experts = fovea.Experts(up, down, gate)
    for wrong in (lambda: fovea.Experts(up[:0], down, gate), lambda: experts(x, np.array(0), weights)):
        with pytest.raises(ValueError):
            wrong()
    one = experts(x[:1], np.zeros((1, 1), int), np.full((1, 1), 0.5, np.float32))
    assert np.array_equal(experts(x[:1], np.zeros((1, 1), int), np.array(0.5, np.float32)), one)


def test_refused(model):
    up, down, gate, x, chosen, weights = model
    experts = fovea.Experts(up, down, gate)
    for change, words in (
        (lambda: experts(x, chosen + 1, weights), "must be from 0 to 5, or 6 for none"),
        (lambda: experts(x, chosen - 7, weights), "must be from 0 to 5"),
        (lambda: experts(x, chosen[:3], weights), "chosen has 9 numbers for 17 rows"),
        (lambda: experts(x, np.full((17, K), 2**64 - 1, np.uint64), weights), "does not fit into 64 bits with a sign"),
        (lambda: experts(x[:3], chosen, weights), "chosen has 51 numbers for 3 rows"),
        (lambda: experts(x, chosen, weights[:3]), "weights has 9 numbers"),
        (lambda: experts(x, chosen[:, :2], weights), "weights has 51 numbers, chosen 34"),
        (lambda: experts(x[:, :5], chosen, weights), "rows of 5 channels"),
        (lambda: fovea.Experts(up, down), "gate is NULL"),
        (lambda: fovea.Experts(up, down[:3], gate), "down is of 3 experts"),
        (lambda: fovea.Experts(up, down[:, :, :4], gate), "not 4"),
        (lambda: fovea.Experts(up[0], down, gate), "up has 2 dimensions"),
        (lambda: fovea.Experts(up, down, gate, activation="swish"), "activation must be"),
        (lambda: fovea.Experts(up, down, gate, gate_up="mixed"), "gate_up must be"),
        (lambda: fovea.Experts(up, down, gate, limit=0), "limit is 0"),
        (lambda: fovea.Experts(up, down, gate, up_bias=up[0]), "up_bias has the shape"),
        (lambda: fovea.route(x, 41), "k is 41"),
        (lambda: fovea.route(x, 2, denominator="all"), "denominator must be"),
        (lambda: fovea.route(x, 2, groups=3), "groups is 3"),
    ):
        with pytest.raises(ValueError, match=words):
            change()
    half, bias = np.zeros((17, OUT), np.float16), np.zeros((EXPERTS, OUT), np.float16)
    for change, words in (
        (lambda: experts(x.astype(np.float64), chosen, weights), "float64"),
        (lambda: experts(x.astype(np.float16), chosen, weights), "x must be float32, not float16"),
        (lambda: experts(x, chosen, weights, out=half), "out must be float32, not float16"),
        (lambda: experts(x, weights, weights), "chosen must hold integers"),
        (lambda: fovea.Experts(up.astype(int), down, gate), "int64"),
        (lambda: fovea.Experts(up, down, gate, kind="gguf:Q8_0"), "up must be uint8"),
        (lambda: fovea.Experts(up, down, gate, gate_bias=up[:, :, 0], down_bias=bias), "biases are of different types"),
        (lambda: fovea.Experts(*[np.zeros((2, 32, 34), np.uint8)] * 3, kind="gguf:Q8_0", quantization="int8"), "weights of floats"),
        (lambda: fovea.route(x, 2, bias=np.zeros(IN, np.float16)), "bias must be float32"),
    ):
        with pytest.raises(TypeError, match=words):
            change()


def test_mxfp4_of_safetensors(normal, rng):
    """Codes apart from their scales, neighbours in a byte, are GGUF's blocks, whose byte j has numbers j and j + 16."""
    numbers, scales = rng.integers(0, 16, (4, 64, 2, 32), np.uint8), rng.integers(118, 130, (4, 64, 2, 1), np.uint8)
    codes = numbers[..., ::2] | numbers[..., 1::2] << 4
    blocks = np.concatenate([scales, numbers[..., :16] | numbers[..., 16:] << 4], -1).reshape(4, 64, 34)
    x, chosen, weights = normal(9, 64), rng.integers(0, 5, (9, 3)), rng.random((9, 3), np.float32)
    bias = normal(4, 64)
    options = {"kind": "gguf:MXFP4", "limit": 7.0, "alpha": 1.702, "up_offset": 1.0}
    options |= {"gate_bias": bias[:, ::2], "up_bias": bias[:, 1::2], "down_bias": bias}
    down, down_scales = codes[..., :1, :], scales[..., :1, 0]
    want = fovea.Experts(blocks[:, 1::2], blocks[..., :17], blocks[:, ::2], **options)(x, chosen, weights)
    options |= {"down_scales": down_scales, "gate_scales": scales[:, ::2, :, 0], "up_scales": scales[:, 1::2, :, 0]}
    for both in (codes, codes.reshape(4, 64, 32)):
        made = fovea.Experts(both[:, 1::2], down, both[:, ::2], **options)
        assert np.array_equal(made(x, chosen, weights), want) and np.abs(want).max() > 1
    with pytest.raises(ValueError, match="up_scales has the shape"):
        fovea.Experts(codes[:, 1::2], down, codes[:, ::2], **options | {"up_scales": scales[..., 0]})
    with pytest.raises(TypeError, match="up_scales must be uint8, not float32"):
        fovea.Experts(codes[:, 1::2], down, codes[:, ::2], **options | {"up_scales": normal(4, 32, 2)})
    with pytest.raises(TypeError, match="up_scales is of kind='gguf:MXFP4' and 'fp8' alone"):
        fovea.Experts(normal(4, 64, 64), normal(4, 64, 64), up_scales=scales[..., 0], activation="silu")


@pytest.mark.parametrize("rows", [False, True])
def test_fp8(normal, rng, rows):
    """Bytes of E4M3FN with scales of each row or 128 x 128 are the products of both."""
    code = np.arange(128)
    table = np.where(code < 8, code / 512, np.ldexp(1 + code % 8 / 8, code // 8 - 7)).astype(np.float32)
    table = np.concatenate([table, -table])
    stacks, numbers = {}, {}
    for name, out, inner in (("up", 256, 128), ("gate", 256, 128), ("down", 128, 256)):
        codes = rng.integers(0, 127, (3, out, inner), np.uint8) | rng.integers(0, 2, (3, out, inner), np.uint8) << 7
        scales = rng.random((3, out, 1) if rows else (3, out // 128, inner // 128), np.float32) / 64
        stacks |= {name: codes, f"{name}_scales": scales}
        each = scales if rows else scales.repeat(128, 1).repeat(128, 2)
        numbers[name] = table[codes] * each
    x, chosen, weights = normal(9, 128) / 64, rng.integers(0, 4, (9, 2)), rng.random((9, 2), np.float32)
    want = fovea.Experts(**numbers)(x, chosen, weights)
    made = fovea.Experts(**stacks, kind="fp8")
    assert np.array_equal(made(x, chosen, weights), want) and np.abs(want).max() > 0.1
    assert made.weight_dtype == "f8_e4m3" and made.nbytes < 3 * 3 * 256 * 128 * 1.5
    with pytest.raises(TypeError, match="down_scales is needed of kind='fp8'"):
        fovea.Experts(**stacks | {"down_scales": None}, kind="fp8")
    with pytest.raises(TypeError, match="gate must be float8_e4m3fn or uint8, not float32"):
        fovea.Experts(**stacks | {"gate": numbers["gate"]}, kind="fp8")
    with pytest.raises(TypeError, match="up_scales must be float32, bfloat16 or float16, not uint8"):
        fovea.Experts(**stacks | {"up_scales": stacks["up_scales"].astype(np.uint8)}, kind="fp8")
    with pytest.raises(ValueError, match="up_scales has the shape"):
        fovea.Experts(**stacks | {"up_scales": stacks["up_scales"][..., :0]}, kind="fp8")
