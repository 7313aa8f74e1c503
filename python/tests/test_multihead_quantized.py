"""fovea.MultiHead of quantized weights: the bits of its steps called one by one, however the weights are given."""

import copy
import pickle

import numpy as np
import pytest
from quantized_weights import awq, gptq, q4_k
from reference import same

import fovea

HEADS, KV, D, DV, IN, OUT = 4, 2, 32, 16, 64, 48
SIZES = {"q": (HEADS * D, IN), "k": (KV * D, IN), "v": (KV * DV, IN), "o": (OUT, HEADS * DV)}
WORDS = ["int8", "int4", "q8_0", "q4_0", "q4_1"]


@pytest.fixture
def w(normal):
    return {name: normal(*size) / 8 for name, size in SIZES.items()}


@pytest.fixture
def b(normal):
    return {name: normal(size[0]) for name, size in SIZES.items()}


@pytest.fixture
def x(normal):
    return normal(2, 7, IN)


def layer(**options):
    return fovea.MultiHead(q_heads=HEADS, kv_heads=KV, **options)


def biases(b):
    return {f"{name}_bias": value for name, value in b.items()}


def numbers(linear):
    array = np.empty((linear.out_features, linear.in_features), np.float32)
    linear.unpack(array)
    return array


def steps(maps, x, heads=(HEADS, KV, KV), **options):
    """The layer by attention() and maps, which give rows."""
    q, k, v = (
        np.ascontiguousarray(maps[name](x).reshape(*x.shape[:2], n, -1).swapaxes(1, 2))
        for name, n in zip("qkv", heads)
    )
    out = fovea.attention(q, k, v, out_layout="bthd", **options)
    return maps["o"](np.ascontiguousarray(out.reshape(*x.shape[:2], -1)))


def fused(arrays, order):
    """q, k and v below each other, or for each key head its queries, its key, its value."""
    if order == "qkv":
        return np.concatenate([arrays[name] for name in "qkv"])
    heads = [arrays[name].reshape(KV, -1, *arrays[name].shape[1:]) for name in "qkv"]
    return np.concatenate([part[head] for head in range(KV) for part in heads])


@pytest.mark.parametrize("arithmetic", [None, "q8", "exact"])
@pytest.mark.parametrize("word", WORDS)
def test_all_ways_to_give_them(word, arithmetic, w, b, x):
    options = {"quantization": word, "arithmetic": arithmetic}
    maps = {name: fovea.Linear(w[name], b[name], **options) for name in w}
    want = steps(maps, x)
    same(layer(**maps)(x), want)
    made = layer(**w, **biases(b), **options)
    same(made(x), want)
    three = fovea.Linear([w[n] for n in "qkv"], [b[n] for n in "qkv"], **options)
    same(layer(fused=three, o=maps["o"])(x), want)
    for order in ("qkv", "grouped"):
        sizes = {"head_dim": D, "value_dim": DV, "order": order}
        whole, bias = fused(w, order), fused(b, order)
        same(layer(fused=whole, fused_bias=bias, o=w["o"], o_bias=b["o"], **sizes, **options)(x), want)
        same(layer(fused=fovea.Linear(whole, bias, **options), o=maps["o"], **sizes)(x), want)
    transposed = {name: np.ascontiguousarray(value.T) for name, value in w.items()}
    same(layer(**transposed, **biases(b), layout="in_out", **options)(x), want)
    assert made.weight_dtypes == (maps["q"].weight_dtype,) * 4 and made.form == "factored"
    assert made.nbytes < sum(value.nbytes for value in w.values()) / (2 if word in ("int8", "q8_0") else 3.5)
    assert f"weights {maps['q'].weight_dtype}, " in repr(made)
    stored = pickle.loads(pickle.dumps(made))
    same(stored(x), want)
    assert copy.deepcopy(made) is made and pickle.dumps(stored) == pickle.dumps(made) and repr(stored) == repr(made)
    if arithmetic == "exact":
        same(layer(**{name: numbers(linear) for name, linear in maps.items()}, **biases(b))(x), want)


def stored_maps(rng, in_features=256):
    """Maps of a format of its own each, as models have stored them."""
    makers = {"q": gptq, "k": lambda *a: gptq(*a, act_order=True), "v": awq, "o": gptq}
    given = {name: make(rng, in_features if name != "o" else HEADS * D, out, 32)
             for (name, make), out in zip(makers.items(), (HEADS * D, KV * D, KV * D, OUT))}  # fmt: skip
    given["v"] = q4_k(rng, in_features, KV * D)
    return {name: fovea.Linear.quantized(g.weight, g.kind, **g.options) for name, g in given.items()}


def test_of_several_formats(rng, normal, tiers):
    maps, x = stored_maps(rng), normal(2, 5, 256) / 16
    made = tiers(lambda: layer(**maps)(x))
    want = steps(maps, x)
    same(made, want)
    of_floats = layer(**{name: numbers(linear) for name, linear in maps.items()})(x)
    assert np.abs(made - of_floats).max() < 1e-3 * np.abs(of_floats).max()
    whole = layer(**maps)
    assert whole.weight_dtypes == tuple(maps[name].weight_dtype for name in "qkvo")
    same(pickle.loads(pickle.dumps(whole))(x), want)
    mixed = layer(**{**maps, "k": numbers(maps["k"])})
    assert mixed.weight_dtypes[1] == "float32"
    same(mixed(x), steps({**maps, "k": fovea.Linear(numbers(maps["k"]))}, x))


def test_tied_and_cross(normal, rng):
    x, y = normal(2, 5, IN), normal(2, 9, IN)
    q, o = fovea.Linear(normal(HEADS * D, IN), quantization="int4"), fovea.Linear(normal(OUT, HEADS * D), quantization="int8")
    same(fovea.MultiHead(q_heads=HEADS, q=q, o=o)(x), steps(dict.fromkeys("qkv", q) | {"o": o}, x, (HEADS,) * 3))
    maps = {name: fovea.Linear(normal(HEADS * D, IN), quantization=word) for name, word in zip("qkv", ("q4_0", "int8", "q8_0"))}
    out = fovea.attention(*(maps[n](a).reshape(2, -1, HEADS, D) for n, a in (("q", x), ("k", y), ("v", y))), layout="bthd")
    made = fovea.MultiHead(q_heads=HEADS, **maps, o=o, inputs="cross")
    same(made(x, y), o(out.reshape(2, 5, -1)))


@pytest.mark.parametrize("word", ["int8", "q4_1"])
def test_over_a_cache(word, w, b, normal):
    """Pieces of any sizes have the bits of all tokens at once."""
    square = {**w, "v": normal(KV * D, IN) / 8, "o": normal(OUT, HEADS * D) / 8}
    bias = biases({**b, "v": normal(KV * D)})
    made = layer(**square, **bias, quantization=word, causal=True, cache_dtype="float32")
    cache = fovea.KVCache(1, KV, D, max_pages=4)
    x = normal(1, 11, IN)
    one, other = cache.add(), cache.add()
    whole = made(x, cache=cache, layer=0, sequences=one)
    parts = [made(x[:, a:b], cache=cache, layer=0, sequences=other) for a, b in ((0, 4), (4, 5), (5, 11))]
    same(np.concatenate(parts, 1), whole)
    same(whole, layer(**square, **bias, quantization=word, causal=True)(x))


def test_norms_and_types(w, b, x):
    norms = {"q_norm": np.linspace(0.5, 2, D).astype(np.float16), "k_norm": np.ones(D, np.float16)}
    wide = {name: value.astype(np.float32) for name, value in norms.items()}
    half = {name: value.astype(np.float16) for name, value in w.items()}
    made = layer(**half, **biases(b), quantization="int8", **norms)
    got = made(x.astype(np.float16))
    assert got.dtype == np.float16
    same(layer(**half, **biases(b), quantization="int8", dtype="float32", **norms)(x),
         layer(**half, **biases(b), quantization="int8", dtype="float32", **wide)(x))  # fmt: skip


REFUSED = [  # (arguments, sentence)
    (lambda w, m: {"q": fovea.Linear(w["q"], activation="relu")}, "q is a fovea.Linear with an activation"),
    (lambda w, m: {"q": fovea.Linear([w["q"], w["k"]])}, "q is a fovea.Linear of 2 matrices, not of one"),
    (lambda w, m: {"fused": fovea.Linear([w["q"], w["k"]])}, "fused is a fovea.Linear of 2 matrices, not of one or three"),
    (lambda w, m: {**m, "q_bias": w["q"][:, 0]}, "q is a fovea.Linear, whose bias is its own: q_bias is given"),
    (lambda w, m: {**m, "k": fovea.Linear(w["k"], quantization="int8", arithmetic="q8")}, "k has weights of arithmetic q8, .* q16"),
    (lambda w, m: {"fused": m["q"], "q": w["q"]}, "fused and q are given"),
    (lambda w, m: {"fused": m["q"], "value_dim": 30}, "fused has 128 outputs, not those of 4 heads of 16, 2 of 16 and 2 of 30"),
    (lambda w, m: {**w, "arithmetic": "q8"}, "'q16' and 'q8' are for quantization=: a fovea.Linear has its own"),
    (lambda w, m: {**w, "q": w["q"].reshape(HEADS, D, IN), "quantization": "int8"}, "q is a matrix for each head"),
    (lambda w, m: {**w, "quantization": "int8", "form": "merged"}, "a layer of form merged multiplies weights"),
    (lambda w, m: {**w, "quantization": "int8", "fold_values": "always"}, "with fold_values multiplies weights"),
    (lambda w, m: {**w, "quantization": "q4_k"}, "64, no multiple of the 256"),
    (lambda w, m: {**w, "quantization": "int5"}, "quantization must be None, 'int8'"),
    (lambda w, m: {**w, "q": w["q"] * np.nan, "quantization": "int4"}, "NaN"),
    (lambda w, m: {**m, "k": fovea.Linear(w["k"][:, :32], quantization="int4")}, "k is 32 x 64, but the description says 64 x 64"),
    (lambda w, m: {"q": w["q"], "k": w["k"], "v": w["v"], "outer_q": fovea.Linear(np.eye(64, dtype="f"), quantization="int8")},
     "it is multiplied into other weights"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refused(case, w):
    arguments, sentence = REFUSED[case]
    with pytest.raises((ValueError, TypeError), match=sentence):
        layer(**arguments(w, {name: fovea.Linear(w[name], quantization="int4") for name in w}))


def test_a_damaged_pickle_is_refused(w):
    restore, (form, kind, maker, args, keywords, _) = layer(**w, quantization="int4").__reduce__()
    from fovea import _stored

    for change in ({6: (48, 2, None, None)}, {5: b""}, {0: 3}):
        matrix = list(args[2][0])
        for place, value in change.items():
            matrix[place] = value
        damaged = (*args[:2], (tuple(matrix), *args[2][1:]), *args[3:])
        with pytest.raises(ValueError, match="contradicts itself|damaged"):
            restore(form, kind, maker, damaged, keywords, _stored._checksum(damaged))
