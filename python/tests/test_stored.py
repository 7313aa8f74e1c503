"""Objects print what they are, copy, and go through pickle, with the same bits: also to a process of another tier."""

import contextlib
import copy
import os
import pickle
import subprocess
import sys

import numpy as np
import processes
import pytest

import fovea
from fovea import _stored


def make_linear(normal):
    w, b = [normal(5, 16), normal(7, 16)], [normal(5), None]
    linear = fovea.Linear(w, b, activation="gelu", scale=[None, 0.3], heads=[None, 7])
    x = normal(3, 4, 16)
    return linear, lambda m: [*m(x), m(x, part=1)]


def integers(normal, *shape):
    return np.clip(normal(*shape) * 40, -128, 127).astype(np.int8)


def make_int8(normal):
    w, x = [integers(normal, 5, 16), integers(normal, 7, 16)], normal(3, 4, 16)
    return fovea.Linear(w, [normal(5), None], scales=[normal(5), normal(7)]), lambda m: [*m(x)]


def make_gated(normal):
    w, x = [normal(6, 9).astype(np.float16), normal(6, 9).astype(np.float16)], normal(4, 9).astype(np.float16)
    return fovea.Linear(w, [normal(6), None], activation="silu_gated"), lambda m: [m(x)]


def make_rope(normal):
    divisors, x = np.full(8, 2, np.float32), normal(1, 2, 5, 16)
    rope = fovea.Rope(16, base=5e5, scaling="linear", factor=2.0, divisors=divisors)
    divisors[:] = 3
    return rope, lambda r: [r.apply(x, 3)]


def make_plan(normal):
    x = normal(1, 4, 10, 16)
    plan = fovea.Plan(q_heads=4, q_len=10, kv_len=10, head_dim=16, causal=True, window=(3, None))
    return plan, lambda p: [p.execute(x, x, x)]


def make_relative(normal):
    x = normal(1, 4, 10, 16)
    relative = fovea.Relative.t5(normal(4, 32), bidirectional=False, max_distance=20)
    return relative, lambda r: [fovea.attention(x, x, x, relative=r)]


def mask_of(name):
    def make(normal):
        q, k, seen = normal(2, 2, 10, 16), normal(2, 2, 300, 16), normal(2, 1, 10, 300) > 0.3
        span = np.broadcast_to(np.array([[0, 100], [150, 290]]), (10, 2, 2)).copy()
        starts = np.array([0, 1, 2])
        blocks = {"block_rows": 5, "block_keys": 150, "q_len": 10, "kv_len": 300}
        made = {
            "boolean": lambda: fovea.Mask.boolean(seen),
            "unprepared": lambda: fovea.Mask.boolean(seen, prepare=False),
            "padding": lambda: fovea.Mask.key_padding(seen[:, 0, 0], q_len=10),
            "padding, unprepared": lambda: fovea.Mask.key_padding(seen[:, 0, 0]),
            "ranges": lambda: fovea.Mask.ranges(span, 300),
            "blocks": lambda: fovea.Mask.blocks(starts, [0, 1], **blocks),
            "blocks, unprepared": lambda: fovea.Mask.blocks(starts, [0, 1], **blocks, prepare=False),
        }
        return made[name](), lambda m: [fovea.attention(q, k, k, mask=m)]

    return make


def make_cache(normal):
    cache = fovea.KVCache(2, 1, 16, max_pages=20, rope=fovea.Rope(16), windows=[None, 300], v_dtype="int8")
    gone, first = cache.add(), cache.add()
    cache.remove(gone)
    for layer in range(2):
        cache.append(layer, first, normal(1, 1, 300, 16), normal(1, 1, 300, 16))
    second, third = cache.fork(first), cache.add()
    cache.evict(first, 3, 9)
    q = normal(1, 1, 3, 16)
    assert second % 2**31 < first % 2**31  # in the place of the one that is gone
    return cache, lambda c: [c.attend(n, s, q) for n in range(2) for s in (first, second)] + [np.int64(c.length(third))]


def make_states(normal):
    cache = fovea.StateCache([2 * 16 * 8], max_sequences=3, slots=2)
    gone, first = cache.add(), cache.add()
    cache.remove(gone)
    q, v = normal(1, 2, 5, 16), normal(1, 2, 5, 8)
    fovea.gated_delta_rule(q, q, v, cache=cache, cache_state=0, sequences=first)
    second = cache.fork(first)
    cache.remove(cache.add())

    def run(c):
        fork = c.fork(first)
        out, _ = fovea.gated_delta_rule(q, q, v, cache=c, cache_state=0, sequences=fork)
        c.remove(fork)
        return [out, np.int64(c.length(second))]

    return cache, run


MAKERS = {
    "linear": make_linear,
    "linear, int8": make_int8,
    "gated": make_gated,
    "rope": make_rope,
    "plan": make_plan,
    "relative": make_relative,
    **{f"mask, {name}": mask_of(name) for name in ("boolean", "unprepared", "padding", "padding, unprepared")},
    **{f"mask, {name}": mask_of(name) for name in ("ranges", "blocks", "blocks, unprepared")},
    "cache": make_cache,
    "states": make_states,
}


def results(run, made):
    return [np.asarray(y).tobytes() for y in run(made)]


@pytest.mark.parametrize("name", MAKERS)
def test_pickle_and_copies(name, normal):
    made, run = MAKERS[name](normal)
    expected, text = results(run, made), repr(made)
    assert text.startswith(("<fovea.", "fovea.")) and "\n" not in text and "object at" not in text
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        loaded = pickle.loads(pickle.dumps(made, protocol))
        assert results(run, loaded) == expected, protocol
        if name != "cache":  # its forks no longer share pages
            assert repr(loaded) == text
    for copied in (copy.copy(made), copy.deepcopy(made), copy.deepcopy([made])[0]):
        assert type(copied) is type(made) and results(run, copied) == expected


def test_copies_share_what_nothing_changes(normal):
    for name in ("linear", "rope", "plan"):
        made, _ = MAKERS[name](normal)
        assert copy.copy(made) is made and copy.deepcopy([made])[0] is made
    table = normal(4, 32)
    relative = fovea.Relative.t5(table, bidirectional=True)
    apart = copy.deepcopy(relative)
    table[:] = 0
    assert apart.table.any() and copy.copy(relative).table is table


LOADER = """
import pickle, sys
calls = pickle.load(sys.stdin.buffer)
import fovea
for made, name, args, keywords in calls:
    if name == "attention":
        keywords = {"mask" if isinstance(made, fovea.Mask) else "relative": made}
    y = (fovea.attention if name == "attention" else getattr(made, name))(*args, **keywords)
    print((y[0] if isinstance(y, tuple) else y).tobytes().hex())
"""


def test_another_process_of_another_tier(normal):
    w, x, h, k = normal(33, 70), normal(9, 70), normal(1, 2, 5, 16), normal(1, 2, 300, 16)
    cache = fovea.KVCache(1, 2, 16, max_bytes=1 << 22)
    sequence = cache.add()
    cache.append(0, sequence, k, k)
    mask, relative = fovea.Mask.boolean(normal(5, 300) > 0), fovea.Relative.toeplitz(normal(2, 41))
    calls = [
        (fovea.Linear([w, w[:5]], [normal(33), None], activation="silu"), "apply", (x,), {}),
        (fovea.Linear(w.astype(np.float16), dtype="float32"), "apply", (x,), {"activation": "relu"}),
        (fovea.Rope(16, scaling="ntk", factor=4.0), "apply", (h, 3), {}),
        (fovea.Plan(q_heads=2, q_len=5, kv_len=5, head_dim=16), "execute", (h, h, h), {}),
        (mask, "attention", (h, k, k), {}),
        (relative, "attention", (h, h, h), {}),
        (cache, "attend", (0, sequence, h), {}),
    ]
    expected = [getattr(made, name)(*args, **more) for made, name, args, more in calls if name != "attention"]
    expected[4:4] = [fovea.attention(h, k, k, mask=mask), fovea.attention(h, h, h, relative=relative)]
    run = subprocess.run(
        [sys.executable, "-c", LOADER],
        input=pickle.dumps(calls),
        capture_output=True,
        env={**os.environ, "FOVEA_ISA": "scalar", "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=processes.PATIENCE,
    )
    assert run.returncode == 0, run.stderr.decode()
    assert run.stdout.decode().split() == [(y[0] if isinstance(y, tuple) else y).tobytes().hex() for y in expected]


# --------------------------------------------------------------------------------------------------------- bytes


def flip(value, where):
    """The same tuples, with a bit of the where-th byte of all bytes flipped, or cut off there."""
    if isinstance(value, bytes):
        at, where[0] = where[0], where[0] - len(value)
        if 0 <= at < len(value):
            return value[:at] if where[1] else value[:at] + bytes([value[at] ^ 16]) + value[at + 1 :]
        return value
    return tuple(flip(item, where) for item in value) if isinstance(value, tuple) else value


def test_unknown_and_damaged_forms_are_refused(normal):
    for maker in (*MAKERS.values(), lambda normal: layer_of(normal, "factored")):
        restore, (form, *state) = maker(normal)[0].__reduce__()
        with pytest.raises(ValueError, match="is stored in form 9; this version of fovea knows form 1"):
            restore(form + 8, *state)
        if restore in (_stored.restore_cache, _stored.restore_states):
            *state, stored = state
            with pytest.raises(ValueError):
                restore(form, *state, {number: sequence[:-1] for number, sequence in stored.items()})
            continue
        kind, how, args, keywords, checksum = state
        for at in range(0, 6000, 7):
            for cut in (False, True):
                damaged = flip(args, where := [at, cut])
                if where[0] >= 0:
                    break
                with pytest.raises(ValueError, match="is damaged"):
                    restore(form, kind, how, damaged, keywords, checksum)
                with contextlib.suppress(ValueError):  # of the right checksum it may be another object, but no crash
                    restore(form, kind, how, damaged, keywords, _stored._checksum(damaged))
        for damaged in ((), (1,), (1, 2, 3, 4, 5, 6), tuple("abcdef"), ((),) * 6, (b"", b"", (), ())):
            with pytest.raises(ValueError):
                restore(form, kind, how, damaged, {}, _stored._checksum(damaged))


def test_states_that_contradict_themselves_are_refused(normal):
    def refused(made, change):
        restore, (form, kind, how, args, keywords, _) = made.__reduce__()
        args = change(list(args))
        with pytest.raises(ValueError):
            restore(form, kind, how, tuple(args), keywords, _stored._checksum(tuple(args)))

    linear, mask = fovea.Linear([normal(4, 3), normal(6, 3)], [normal(4), None]), fovea.Mask.boolean(normal(5, 30) > 0)
    layer = layer_of(normal, "merged")[0]
    one = linear.__reduce__()[1][3][5][0]
    for at, values in enumerate([(0, 2, 99), (-1, 5, 8, 9, 1000), (-1, 5, 7), (0,), ((0,), (0, -1), (3, 0), (0, "a")), None]):
        for value in values or [(), (one,), (one,) * 17, (one, one[:4]), (one, (1, 3, -4, *one[3:])), (one, None)]:
            refused(linear, lambda args: [*args[:at], value, *args[at + 1 :]])
    for value in ((1, 2**40, 2**40, b"", None), (1, 3, 4, one[3], b""), (9, *one[1:]), (5, *one[1:])):
        refused(linear, lambda args: [*args[:5], (value, one)])
    refused(linear, lambda args: [2**70, *args[1:]])
    scales = np.array([0.5, -2, 0, 1], np.float32)
    int8 = fovea.Linear(integers(normal, 4, 3), normal(4), scales=scales)
    dtype, inner, outer, weight, bias, factors, _ = whole = int8.__reduce__()[1][3][5][0]
    assert (inner, outer, len(weight), factors) == (3, 4, 12, scales.tobytes())
    for value in (
        whole[:5],  # scales are missing
        (*whole[:5], None),
        (*whole[:5], list(scales)),
        (*whole[:5], b""),
        (*whole[:5], factors[:-1]),
        (*whole[:5], factors + b"0"),
        (*whole, factors),
        (dtype, inner, outer, weight[:-1], bias, factors),
        (dtype, inner, outer, weight * 4, bias, factors),  # as many bytes as floats have
        (dtype, inner, outer, weight, bias[:-4], factors),
        # The last times 4 has the number of bytes of the scales.
        *((dtype, *sizes, weight, bias, factors) for sizes in ((4, 3), (-3, -4), (2**62, 4), (3, 2**62), (3, 2**62 + 4))),
        *((other, *whole[1:]) for other in (-1, 0, 2, 3, 4, 5, 6, 8, 16, 99)),
        *((other, inner, outer, weight * 4, bias, factors) for other in (one[0], 5, 6)),
    ):
        refused(int8, lambda args: [*args[:5], (value,)])
    # Any finite floats are scales.
    strange = fovea.Linear(integers(normal, 4, 3), scales=np.array([-2, 3e38, -0.0, 1e-45], np.float32))
    x = normal(2, 3)
    assert pickle.loads(pickle.dumps(strange))(x).tobytes() == strange(x).tobytes()
    for at, value in ((0, "round"), (1, -1), (2, 2**62), (4, 31 * 8), (5, b"")):
        refused(mask, lambda args: [*args[:at], value, *args[at + 1 :]])
    structs = (b"", b"1" * 999)
    for at, values in enumerate([structs, structs, ((), (None,) * 4), ((), (b"1234", None), (1, 2))]):
        for value in values:
            refused(layer, lambda args: [*args[:at], value, *args[at + 1 :]])


def test_layers_of_version_0_2_are_refused(normal):
    restore, (form, kind, how, args, keywords, _) = layer_of(normal, "factored")[0].__reduce__()
    assert restore(form, kind, how, args, keywords, _stored._checksum(args))
    for at, size in ((0, 96), (1, 208)):  # the largest that the structs had there
        assert len(args[at]) > size
        for cut in (size, 8, 0):
            old = (*args[:at], args[at][:cut], *args[at + 1 :])
            with pytest.raises(ValueError, match="stored by version 0.2 of fovea.* make it of its weights again"):
                restore(form, kind, how, old, keywords, _stored._checksum(old))
        new = (*args[:at], args[at] + bytes(8), *args[at + 1 :])
        with pytest.raises(ValueError, match="stored by a newer version of fovea"):
            restore(form, kind, how, new, keywords, _stored._checksum(new))


# --------------------------------------------------------------------------------------------------------- caches


def test_a_copied_cache_is_independent(normal):
    cache, run = make_cache(normal)
    numbers = sorted({cache.add(), cache.add()})
    other = copy.deepcopy(cache)
    before = results(run, cache)
    other.clear()
    assert results(run, cache) == before and cache.stats()["sequences"] == 5
    again = pickle.loads(pickle.dumps(cache))
    for number in numbers:
        assert again.length(number) == 0
    assert again.add() == cache.add()  # never a number of before
    with pytest.raises(ValueError, match="no sequence"):
        again.length(0)


def test_a_cache_whose_forks_fit_only_shared(normal):
    cache = fovea.KVCache(1, 1, 16, max_pages=3)
    first = cache.add()
    cache.append(0, first, normal(1, 1, 500, 16), normal(1, 1, 500, 16))
    cache.fork(first)
    stored = pickle.dumps(cache)
    with pytest.raises(fovea.CacheFullError):
        pickle.loads(stored)


# --------------------------------------------------------------------------------------------------------- layers


def layer_of(normal, form, dtype=np.float32, **more):
    """A layer of a form, and the inputs that it takes."""

    def w(*shape):
        return normal(*shape).astype(dtype)

    x, o = w(2, 7, 24), {"o": w(20, 32), "o_bias": normal(20)}
    qkv = {"q": w(32, 24), "k": w(16, 24), "v": w(16, 24), "q_bias": normal(32), "v_bias": normal(16)}
    all_heads = {"q": w(32, 24), "k": w(32, 24), "v": w(32, 24)}
    made = {
        "factored": lambda: fovea.MultiHead(q_heads=4, kv_heads=2, **qkv, **o, q_norm=normal(8), **more),
        "no o": lambda: fovea.MultiHead(q_heads=4, kv_heads=2, **qkv, **more),
        "cross": lambda: fovea.MultiHead(q_heads=4, kv_heads=2, inputs="cross", **qkv, **o, window=(2, 2), **more),
        "separate": lambda: fovea.MultiHead(q_heads=4, kv_heads=2, inputs="separate", **qkv, **o, softcap=3.0, **more),
        "fused": lambda: fovea.MultiHead(
            q_heads=4, kv_heads=2, order="grouped", fused=w(64, 24), fused_bias=normal(64), o=o["o"], causal=True, **more
        ),
        "folded": lambda: fovea.MultiHead(q_heads=4, **all_heads, outer_q=w(24, 24), outer_v=w(24, 24), **o, **more),
        "tied": lambda: fovea.MultiHead(q_heads=4, form="tied", q=w(32, 24), q_bias=normal(32), **o, **more),
        "tied, cross": lambda: fovea.MultiHead(q_heads=4, form="tied", inputs="cross", q=w(32, 24), **o, **more),
        "merged": lambda: fovea.MultiHead(q_heads=4, form="merged", **all_heads, **o, **more),
        "merged, keys": lambda: fovea.MultiHead(
            q_heads=4, form="merged", merge="keys", inputs="separate", **all_heads, **o, **more
        ),
        "projected": lambda: fovea.MultiHead(q_heads=4, head_dim=8, o=w(20, 32), **more),
    }[form]()
    heads = (w(2, 4, 7, 8),) * 3
    count = 3 if form in ("separate", "merged, keys") else 2 if "cross" in form else 1
    return made, heads if form == "projected" else (x,) * count


LAYERS = ["factored", "no o", "cross", "separate", "fused", "folded", "tied", "tied, cross", "merged", "merged, keys"]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("form", [*LAYERS, "projected"])
def test_layers(form, dtype, normal):
    layer, inputs = layer_of(normal, form, dtype)
    lens = {"q_lens": [5, 7]} if form in ("factored", "fused") else {}  # past them: o_bias, or +0
    expected = layer(*inputs, **lens, return_lse=True)
    assert copy.copy(layer) is layer and copy.deepcopy([layer])[0] is layer
    assert repr(layer).startswith("<fovea.MultiHead ") and "\n" not in repr(layer)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        with fovea.config(isa="scalar" if protocol == 3 else "best"):
            loaded = pickle.loads(pickle.dumps(layer, protocol))
        for got, want in zip(loaded(*inputs, **lens, return_lse=True), expected):
            assert got.tobytes() == want.tobytes()
    assert pickle.dumps(pickle.loads(pickle.dumps(loaded))) == pickle.dumps(loaded)


def test_a_layer_over_a_cache(normal):
    layer, (x,) = layer_of(normal, "factored", causal=True, cache_dtype="int8")
    loaded, results = pickle.loads(pickle.dumps(layer)), []
    for one in (layer, loaded):
        cache = fovea.KVCache(1, 2, 8, dtype="int8", max_pages=4, rope=fovea.Rope(8))
        results.append(one(x[:1], cache=cache, layer=0, sequences=cache.add()).tobytes())
    assert results[0] == results[1]


def test_layers_that_cannot_be_stored(normal):
    for more, words in (({"fold_values": "always"}, "fold_values"), ({"q_bias": normal(32)}, "merged with q_bias")):
        w = {name: normal(32, 24) for name in ("q", "k", "v")}
        layer = fovea.MultiHead(q_heads=4, form="merged", **w, o=normal(20, 32), **more)
        assert copy.deepcopy(layer) is layer
        with pytest.raises(ValueError, match=f"{words} cannot be stored: store its weights"):
            pickle.dumps(layer)
