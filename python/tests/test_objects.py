"""Mask, Relative, Plan, merge, config, info; and what a call says about wrong arguments."""

import threading

import numpy as np
import pytest
import reference

import fovea


@pytest.fixture
def qkv(normal):
    return normal(2, 4, 70, 16), normal(2, 2, 300, 16), normal(2, 2, 300, 16)


def test_mask_kinds_give_equal_bits(qkv, tiers):
    distance = np.arange(70)[:, None] * 4 - np.arange(300)[None, :]
    mask = (distance >= 0) & (distance < 40) | (distance >= 80) & (distance < 90)
    two = np.array([[lo, hi] for lo, hi in [(0, 5), (7, 9)]])
    ranges = np.broadcast_to(two, (70, 2, 2)).copy()
    expected = fovea.attention(*qkv, mask=mask)
    for prepare in (True, False):
        for kind in (
            fovea.Mask.boolean(mask, prepare=prepare),
            fovea.Mask.boolean(mask[None, None], prepare=prepare),
            fovea.Mask.bits(np.packbits(mask, -1, bitorder="little"), 300, prepare=prepare),
        ):
            assert np.array_equal(tiers(lambda: fovea.attention(*qkv, mask=kind)), expected), kind
        kind = fovea.Mask.ranges(ranges, 300, prepare=prepare)
        seen = np.zeros((70, 300), bool)
        seen[:, :5] = seen[:, 7:9] = True
        assert np.array_equal(tiers(lambda: fovea.attention(*qkv, mask=kind)), fovea.attention(*qkv, mask=seen))


@pytest.mark.parametrize("prepare", [True, False])
def test_mask_blocks(qkv, prepare):
    starts, blocks = np.array([0, 2, 2, 3]), [0, 3, 1]
    mask = np.zeros((70, 300), bool)
    mask[:32, :64] = mask[:32, 192:256] = mask[64:, 64:128] = True
    kind = fovea.Mask.blocks(starts, blocks, block_rows=32, block_keys=64, q_len=70, kv_len=300, prepare=prepare)
    assert kind.kind == "blocks" and kind.prepared == prepare and (kind.q_len, kind.kv_len) == (70, 300)
    out, lse = fovea.attention(*qkv, mask=kind, return_lse=True)
    expected = fovea.attention(*qkv, mask=mask, return_lse=True)
    assert np.array_equal(out, expected[0]) and np.array_equal(lse, expected[1])
    assert np.isneginf(lse[:, :, 32:64]).all()


def test_mask_key_padding(qkv, rng):
    mask = rng.random((2, 300)) < 0.5
    expected = fovea.attention(*qkv, mask=np.broadcast_to(mask[:, None, None], (2, 4, 70, 300)))
    for kind in (fovea.Mask.key_padding(mask), fovea.Mask.key_padding(mask, q_len=70), mask[:, None, None]):
        assert np.array_equal(fovea.attention(*qkv, mask=kind), expected)
    one = fovea.Mask.key_padding(mask[0])
    assert np.array_equal(fovea.attention(*qkv, mask=one)[0], expected[0])


def test_mask_of_each_sequence_and_head(qkv, rng):
    mask = rng.random((2, 4, 70, 300)) < 0.5
    expected = fovea.attention(*qkv, mask=mask)
    for prepare in (True, False):
        for kind in (
            fovea.Mask.boolean(mask, prepare=prepare),
            fovea.Mask.bits(np.packbits(mask, -1, bitorder="little"), 300, prepare=prepare),
        ):
            assert (kind.batch, kind.q_heads) == (2, 4)
            assert np.array_equal(fovea.attention(*qkv, mask=kind), expected)


def test_blocks_and_ranges_of_each_sequence_and_head(qkv):
    """Head h of sequence b sees the blocks, of 64 keys, from b to h: as blocks, and as ranges."""
    first, last = np.arange(2)[:, None], np.arange(4)[None, :]
    mask = (np.arange(300) >= 64 * first[..., None]) & (np.arange(300) < 64 * (last[..., None] + 1))
    mask = np.broadcast_to(mask[:, :, None], (2, 4, 70, 300))
    starts = np.stack(np.broadcast_arrays(first, last + 1), -1)
    ranges = np.broadcast_to(64 * np.stack(np.broadcast_arrays(first, last + 1), -1)[:, :, None, None], (2, 4, 70, 1, 2))
    expected = fovea.attention(*qkv, mask=mask)
    for prepare in (True, False):
        sizes = dict(block_rows=70, block_keys=64, q_len=70, kv_len=300, prepare=prepare)
        for kind in (fovea.Mask.blocks(starts, [0, 1, 2, 3, 4], **sizes), fovea.Mask.ranges(ranges, 300, prepare=prepare)):
            assert (kind.batch, kind.q_heads) == (2, 4)
            assert np.array_equal(fovea.attention(*qkv, mask=kind), expected), kind


def test_prepared_masks_need_their_arrays_no_more(qkv):
    mask = np.tril(np.ones((70, 300), bool))
    prepared, kept = fovea.Mask.boolean(mask), fovea.Mask.boolean(mask, prepare=False)
    expected = fovea.attention(*qkv, mask=mask.copy())
    mask[:] = False
    assert np.array_equal(fovea.attention(*qkv, mask=prepared), expected)
    assert not fovea.attention(*qkv, mask=kept).any()
    assert "prepared" in repr(prepared) and "70 queries" in repr(kept)


@pytest.mark.parametrize(
    "make, error, match",
    [
        (lambda: fovea.Mask.boolean(np.ones((3, 4), np.float32)), TypeError, "must be of bool, not float32"),
        (lambda: fovea.Mask.boolean(np.ones(4, bool)), ValueError, "queries, keys"),
        (lambda: fovea.Mask.boolean([[True]]), TypeError, "must be an array"),
        (lambda: fovea.Mask.bits(np.ones((3, 4), np.uint8), 40), ValueError, "40 keys take 5 bytes a row, the mask has 4"),
        (lambda: fovea.Mask.bits(np.ones((3, 4), np.uint8), 24), ValueError, "24 keys take 3 bytes a row, the mask has 4"),
        (lambda: fovea.Mask.bits(np.ones((3, 4), np.int8), 32), TypeError, "must be of uint8"),
        (lambda: fovea.Mask.ranges(np.ones((3, 1, 3), np.int64), 32), ValueError, "ranges, 2"),
        (lambda: fovea.Mask.ranges(np.ones((3, 4, 2), np.int64)[:, ::2], 32), ValueError, "must be contiguous"),
        (lambda: fovea.Mask.ranges(np.ones((3, 1, 2), np.int32), 32), TypeError, "must be of int64"),
        (lambda: fovea.Mask.key_padding(np.ones((1, 2, 3), bool)), ValueError, "keys"),
        (lambda: fovea.Mask.blocks(np.array([0, 1]), [0]), TypeError, "needs block_rows"),
        (
            lambda: fovea.Mask.blocks(np.array([0, 1]), [9], block_rows=4, block_keys=4, q_len=4, kv_len=4),
            ValueError,
            "block",
        ),
        (
            lambda: fovea.Mask.blocks(np.array([0, 1]), [0.5], block_rows=4, block_keys=4, q_len=4, kv_len=4),
            TypeError,
            "integers",
        ),
        (lambda: fovea.Mask(), TypeError, "Mask"),
        (lambda: fovea.Relative(), TypeError, "Relative"),
        (lambda: fovea.Relative.t5(np.ones((2, 32), np.float32)), TypeError, "bidirectional"),
        (lambda: fovea.Relative.toeplitz(np.ones((2, 5))), TypeError, "table must be float32"),
        (lambda: fovea.Relative.window_2d(np.ones((2, 5), np.float32)), TypeError, "height and width"),
        (lambda: fovea.Relative.toeplitz(np.ones((1, 1, 2, 5), np.float32)), ValueError, "entries"),
    ],
)
def test_objects_that_cannot_be_made(make, error, match):
    with pytest.raises(error, match=match):
        make()


def test_plan(qkv, tiers):
    plan = fovea.Plan(batch=2, q_heads=4, kv_heads=2, q_len=70, kv_len=300, head_dim=16, causal="bottom_right", scale=0.2)
    expected = fovea.attention(*qkv, causal="bottom_right", scale=0.2, kv_lens=[300, 200], return_lse=True)
    result = plan.execute(*qkv, kv_lens=[300, 200], return_lse=True)
    assert all(map(np.array_equal, result, expected))
    assert plan.workspace_size > 0 and fovea.info()["isa"] in plan.describe()
    with fovea.config(isa="scalar"):
        scalar = fovea.Plan(batch=2, q_heads=4, kv_heads=2, q_len=70, kv_len=300, head_dim=16, causal="bottom_right", scale=0.2)
    assert "scalar" in scalar.describe()
    assert np.array_equal(scalar.execute(*qkv, kv_lens=[300, 200]), expected[0])


def test_plan_options(qkv, normal, rng):
    mask, bias, sinks, table = rng.random((1, 1, 70, 300)) < 0.5, normal(70, 300), normal(4), normal(4, 33)
    relative = fovea.Relative.toeplitz(table)
    for options, given in (
        (dict(mask="boolean"), dict(mask=mask)),
        (dict(mask="boolean"), dict(mask=mask[:, :, :1])),
        (dict(mask="key_padding"), dict(mask=mask[:, :, :1])),
        (dict(mask=fovea.Mask.boolean(mask)), dict(mask=fovea.Mask.boolean(mask))),
        (dict(mask="prepared", bias=True), dict(mask=fovea.Mask.boolean(mask), bias=bias)),
        (dict(sinks=True, relative=relative), dict(sinks=sinks, relative=relative)),
        (dict(relative="alibi"), dict(alibi=sinks)),
    ):
        plan = fovea.Plan(batch=2, q_heads=4, kv_heads=2, q_len=70, kv_len=300, head_dim=16, softcap=3.0, **options)
        assert np.array_equal(plan.execute(*qkv, **given), fovea.attention(*qkv, softcap=3.0, **given))
    plan = fovea.Plan(batch=2, q_heads=4, kv_heads=2, q_len=70, kv_len=300, head_dim=16, causal="offset", window=(9, None))
    assert np.array_equal(
        plan.execute(*qkv, q_offsets=[5, 80]), fovea.attention(*qkv, causal=[5, 80], window=(9, None))
    )


def test_plan_packed(normal):
    plan = fovea.Plan(batch=2, q_heads=2, q_len=10, kv_len=10, head_dim=8, packed=True)
    q = normal(12, 2, 8)
    call = dict(q_cu_seqlens=[0, 4, 12], kv_cu_seqlens=[0, 4, 12], layout="thd")
    assert np.array_equal(plan.execute(q, q, q, **call), fovea.attention(q, q, q, **call))


def test_plan_refuses_other_calls(qkv):
    plan = fovea.Plan(batch=2, q_heads=4, kv_heads=2, q_len=70, kv_len=300, head_dim=16)
    q, k, v = qkv
    half = q.astype(np.float16)
    for call, error, match in (
        (lambda: plan.execute(q[:1], k[:1], v[:1]), ValueError, "batch is 1, the plan's is 2"),
        (lambda: plan.execute(q[:, :, :5], k, v), ValueError, "q_len is 5, the plan's is 70"),
        (lambda: plan.execute(q, k, v, mask=np.ones((70, 300), bool)), ValueError, "mask"),
        (lambda: plan.execute(q, k, v, causal=True), TypeError, "are the plan's"),
        (lambda: plan.execute(half, k, v), TypeError, "q is float16, the plan's is float32"),
        (lambda: plan.execute(q, k), TypeError, r"execute\(\) needs 'v'"),
        (lambda: fovea.Plan(q_heads=4, kv_heads=3, q_len=1, kv_len=1, head_dim=8), ValueError, "multiple"),
        (lambda: fovea.Plan(q_heads=4), ValueError, "needs q_heads, q_len"),
        (lambda: fovea.Plan(q_heads=1, q_len=1, kv_len=1, head_dim=8, dtype="int8"), ValueError, "dtype must be"),
        (lambda: fovea.Plan(q_heads=1, q_len=1, kv_len=1, head_dim=8, mask="x"), ValueError, "mask must be"),
        (lambda: fovea.Plan(q_heads=1, q_len=1, kv_len=2, head_dim=8, causal=True), ValueError, "ambiguous"),
        (lambda: fovea.Plan(q_heads=1, q_len=1, kv_len=2, head_dim=8, causal=3), TypeError, "offset"),
        (lambda: fovea.Plan(q_heads=1, q_len=1, kv_len=2, head_dim=8, relative="x"), TypeError, "relative"),
    ):
        with pytest.raises(error, match=match):
            call()


def test_merge(qkv, normal, tiers):
    q, k, v = qkv
    whole, whole_lse, _ = reference.attention(q, k, v)
    cuts = [0, 7, 150, 300]
    parts = [fovea.attention(q, k[:, :, a:b], v[:, :, a:b], return_lse=True) for a, b in zip(cuts, cuts[1:])]
    outs, lses = zip(*parts)
    out, lse = tiers(lambda: fovea.merge(outs, lses))
    assert np.abs(out - whole).max() < 2e-6 and np.abs(lse - whole_lse).max() < 2e-6
    sinks = normal(4)
    out, lse = fovea.merge(list(outs), list(lses), sinks=sinks)
    with_sinks = reference.attention(q, k, v, sinks=sinks)
    assert np.abs(out - with_sinks[0]).max() < 2e-6 and np.abs(lse - with_sinks[1]).max() < 2e-6
    one = fovea.merge(outs[:1], lses[:1])
    assert np.array_equal(one[0], outs[0]) and np.array_equal(one[1], lses[0])
    wide = [np.repeat(o, 2, -1)[..., ::2] for o in outs]
    assert np.array_equal(fovea.merge(wide, lses)[0], fovea.merge(outs, lses)[0])


def test_merge_layouts(normal):
    """Packed sequences, and heads next to tokens: results of attention() in a layout are accepted in it."""
    q, k, v = normal(70, 4, 16), normal(300, 2, 16), normal(300, 2, 16)
    whole, whole_lse = fovea.attention(q, k, v, q_cu_seqlens=[0, 30, 70], kv_cu_seqlens=[0, 100, 300], layout="thd",
                                       return_lse=True)  # fmt: skip
    parts = [([0, 40, 140], 0, 40, 100, 200), ([0, 60, 160], 40, 100, 200, 300)]  # of the sequences' keys
    for layout in ("thd", "htd"):
        found = []
        for starts, a, b, c, d in parts:
            some = [np.concatenate([x[a:b], x[c:d]]) for x in (k, v)]
            found.append(fovea.attention(*(x if layout == "thd" else x.swapaxes(0, 1) for x in (q, *some)), layout=layout,
                                         q_cu_seqlens=[0, 30, 70], kv_cu_seqlens=starts, return_lse=True))  # fmt: skip
        out, lse = fovea.merge(*zip(*found), layout=layout)
        out = out if layout == "thd" else out.swapaxes(0, 1)
        assert out.shape == whole.shape and np.abs(out - whole).max() < 2e-6
        assert lse.shape == whole_lse.shape and np.abs(lse - whole_lse).max() < 2e-6
    outs, lses = [normal(2, 5, 3, 8) for _ in range(2)], [normal(2, 3, 5) for _ in range(2)]
    out, lse = fovea.merge(outs, lses, layout="bthd")
    expected = fovea.merge([x.swapaxes(1, 2) for x in outs], lses)
    assert np.array_equal(out.swapaxes(1, 2), expected[0]) and np.array_equal(lse, expected[1])


def test_sizes_may_be_none():
    """As the signatures say."""
    plan = fovea.Plan(q_heads=4, kv_heads=None, q_len=8, kv_len=8, head_dim=16, value_dim=None)
    assert plan.workspace_size >= 0
    with pytest.raises(TypeError):
        fovea.Plan(q_heads=4, kv_heads="2", q_len=8, kv_len=8, head_dim=16)


def test_merge_refuses(normal):
    out, lse = normal(1, 2, 3, 4), normal(1, 2, 3)
    for args, error, match in (
        (([], []), ValueError, "at least one"),
        (([out], [lse, lse]), ValueError, "1 outs and 2 lses"),
        (([out, out[:, :, :2]], [lse, lse[:, :, :2]]), ValueError, "shape|queries|is"),
        (([out[0]], [lse]), ValueError, r"outs\[0\] has 3 dimensions"),
        (([out], [lse.astype(np.float64)]), TypeError, "lses must be float32"),
        ((out, lse), TypeError, "must be lists"),
        (([out], [3]), TypeError, "lses must be an array"),
    ):
        with pytest.raises(error, match=match):
            fovea.merge(*args)
    with pytest.raises(ValueError, match="each of the 2 heads"):
        fovea.merge([out], [lse], sinks=normal(3))
    with pytest.raises(ValueError, match="layout must be"):
        fovea.merge([out], [lse], layout="tdh")


def test_config_and_info():
    best = fovea.info()
    assert best["version"] == fovea.__version__ and best["threads"] >= 1 and best["cpu"]
    with fovea.config(isa="scalar", threads=1) as config:
        assert fovea.info()["isa"] == "scalar" and fovea.info()["threads"] == 1
        with fovea.config(isa="best"):
            assert fovea.info()["isa"] == best["isa"] and fovea.info()["threads"] == 1
        assert fovea.info()["isa"] == "scalar"
        with pytest.raises(KeyError), fovea.config(isa="best"):
            raise KeyError
        assert fovea.info()["isa"] == "scalar"
    assert fovea.info()["isa"] == best["isa"]
    fovea.config(isa="scalar")
    assert fovea.info()["isa"] == "scalar"
    for wrong, error in (
        (dict(isa="mmx"), ValueError),
        (dict(isa=3), TypeError),
        (dict(threads=-1), ValueError),
        (dict(threads="2"), TypeError),
        (dict(colour=1), TypeError),
    ):
        with pytest.raises(error):
            fovea.config(**wrong)
    assert fovea.info()["isa"] == "scalar"
    assert config is not None


def test_config_while_others_call(qkv):
    expected, stop, wrong = fovea.attention(*qkv), False, []

    def work():
        while not stop:
            if not np.array_equal(fovea.attention(*qkv), expected):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(60):
        with fovea.config(isa=("scalar", "avx2", "best")[i % 3], threads=i % 4):
            fovea.attention(*qkv)
    stop = True
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(
    "options, error, match",
    [
        (dict(causal=True), ValueError, "causal=True is ambiguous for 70 queries and 300 keys.*'top_left'.*'bottom_right'"),
        (dict(causal="left"), ValueError, "causal must be"),
        (dict(causal=1.5), TypeError, "causal must be a list or an array of integers"),
        (dict(causal=[1]), ValueError, "causal has 1 numbers, not 2"),
        (dict(causal=2**70), OverflowError, "."),
        (dict(causal=[1, 1], q_offsets=[1, 1]), ValueError, "leave q_offsets out"),
        (dict(causal="top_left", q_offsets=[1, 1]), ValueError, "q_offsets"),
        (dict(window=3), TypeError, "pair"),
        (dict(window=(1,)), TypeError, "pair"),
        (dict(window=(-2, 0)), ValueError, "limit of -2"),
        (dict(window=("a", 0)), TypeError, "."),
        (dict(scale="x"), TypeError, "scale must be a number"),
        (dict(scale=float("nan")), ValueError, "scale"),
        (dict(softcap=-1.0), ValueError, "softcap"),
        (dict(mask=np.ones((70, 300), np.float32)), TypeError, "mask must be bool.*bias="),
        (dict(mask=np.ones((3, 70, 300), bool)), ValueError, r"mask has the shape \(3, 70, 300\), which does not broadcast to"),
        (dict(mask=[[True]]), TypeError, "mask must be an array"),
        (dict(mask=fovea.Mask.boolean(np.ones((5, 300), bool))), ValueError, "."),
        (dict(mask=fovea.Mask.boolean(np.ones((5, 300), bool), prepare=False)), ValueError, "mask is for 5 queries"),
        (dict(bias=np.ones((70, 300), bool)), TypeError, "bias must be float32, not bool"),
        (dict(bias=np.ones((70, 300), np.float64)), TypeError, "bias must be float32, not float64"),
        (dict(bias=np.ones(7, np.float32)), ValueError, r"bias has the shape \(7,\)"),
        (dict(sinks=np.ones(3, np.float32)), ValueError, "each of the 4 query heads"),
        (dict(sinks=np.ones(4)), TypeError, "sinks must be float32"),
        (dict(alibi=np.ones(3, np.float32)), ValueError, r"slopes \[4\] or \[2, 4\]"),
        (dict(alibi=np.ones(4)), TypeError, "alibi must be float32"),
        (dict(alibi=np.ones(4, np.float32), relative=fovea.Relative.toeplitz(np.ones(3, np.float32))), ValueError, "together"),
        (dict(relative=np.ones(3, np.float32)), TypeError, "must be a fovea.Relative"),
        (dict(relative=fovea.Relative.toeplitz(np.ones((3, 3), np.float32))), ValueError, "relative"),
        (dict(kv_lens=[1]), ValueError, "kv_lens has 1 numbers, not 2"),
        (dict(kv_lens=[1, 301]), ValueError, "kv_lens.1. is 301"),
        (dict(kv_lens=[1.0, 2.0]), TypeError, "kv_lens must hold integers"),
        (dict(kv_lens=np.array([1.0, 2.0])), TypeError, "kv_lens must hold integers, not float64"),
        (dict(kv_lens=np.array([[1, 2]])), ValueError, "one dimension, not 2"),
        (dict(kv_lens=5), TypeError, "kv_lens must be a list or an array of integers"),
        (dict(q_starts=[0, 71]), ValueError, "q_starts"),
        (dict(kv_starts=[-1, 0]), ValueError, "kv_starts"),
        (dict(q_lens=np.array([2**63, 0], np.uint64)), ValueError, "q_lens"),
        (dict(q_cu_seqlens=[0, 70]), ValueError, "both q_cu_seqlens and kv_cu_seqlens"),
        (dict(q_cu_seqlens=[0, 70], kv_cu_seqlens=[0, 300]), ValueError, "batch"),
        (dict(layout="thd"), ValueError, "layout 'thd' is that of packed sequences"),
        (dict(layout="bhdt"), ValueError, "layout must be"),
        (dict(layout=3), TypeError, "layout must be"),
        (dict(out_layout="thd"), ValueError, "different numbers of dimensions"),
        (dict(is_causal=True), TypeError, r"attention\(\) has no argument 'is_causal'"),
    ],
    ids=lambda x: ", ".join(x) if isinstance(x, dict) else None,
)
def test_wrong_arguments(qkv, options, error, match):
    with pytest.raises(error, match=match):
        fovea.attention(*qkv, **options)


def test_names_need_not_be_interned(qkv):
    name = "".join(["sc", "ale"])
    assert np.array_equal(fovea.attention(*qkv, **{name: 0.5}), fovea.attention(*qkv, scale=0.5))


def test_wrong_calls(qkv, normal):
    q, k, v = qkv
    for call, error, match in (
        (lambda: fovea.attention(q, k), TypeError, r"attention\(\) needs 'v'"),
        (lambda: fovea.attention(q, k, None), TypeError, "'v' is None"),
        (lambda: fovea.attention(q, k, v, q=q), TypeError, "got 'q' twice"),
        (lambda: fovea.attention(q, k, v, None), TypeError, "takes 3 arguments by position, 4 were given"),
        (lambda: fovea.attention(q[0], k, v), ValueError, "q has 3 dimensions, layout 'bhtd' has 4"),
        (lambda: fovea.attention(q, k, v[:, :, :5]), ValueError, "."),
        (lambda: fovea.attention(q, k[:1], v[:1]), ValueError, "."),
        (lambda: fovea.attention(q[:, :3], k, v), ValueError, "multiple"),
        (lambda: fovea.attention(q, normal(2, 2, 300, 8), v), ValueError, "."),
        (lambda: fovea.attention("q", k, v), TypeError, "q must be an array"),
        (lambda: fovea.attention(np.zeros((1,) * 6, np.float32), k, v), ValueError, "q has 6 dimensions"),
    ):
        with pytest.raises(error, match=match):
            call()


def test_objects_cannot_be_derived():
    with pytest.raises(TypeError):
        type("Sub", (fovea.Mask,), {})


def test_docstrings():
    for name in fovea.__all__:
        assert getattr(fovea, name).__doc__, name
    assert "kv_lens" in fovea.attention.__text_signature__
