"""fovea.attention() against float64, and its bits on each tier."""

import numpy as np
import pytest
import reference

import fovea


def close(result, expected, atol=2e-6):
    for got, want in zip(result, expected):
        finite = np.isfinite(want)
        assert got.shape == want.shape and got.dtype == np.float32
        assert np.array_equal(got[~finite], want[~finite].astype(np.float32))
        assert np.abs(got[finite] - want[finite]).max(initial=0) < atol * max(1, np.abs(want[finite]).max(initial=0))


def everything(*args, **options):
    return fovea.attention(*args, return_lse=True, return_weights=True, **options)


@pytest.fixture
def qkv(normal):
    return normal(2, 4, 9, 24), normal(2, 2, 300, 24), normal(2, 2, 300, 20)


def test_plain(qkv, tiers):
    close(tiers(lambda: everything(*qkv)), reference.attention(*qkv))


def test_what_is_returned(qkv):
    out, lse, weights = everything(*qkv)
    assert out.shape == (2, 4, 9, 20) and lse.shape == (2, 4, 9) and weights.shape == (2, 4, 9, 300)
    assert isinstance(fovea.attention(*qkv), np.ndarray)
    for options, parts in (
        (dict(return_lse=True), (out, lse)),
        (dict(return_weights=True), (out, weights)),
    ):
        result = fovea.attention(*qkv, **options)
        assert isinstance(result, tuple) and all(map(np.array_equal, result, parts))


def test_scale_softcap_sinks(qkv, normal, tiers):
    options = dict(scale=0.3, softcap=1.5, sinks=normal(4))
    close(tiers(lambda: everything(*qkv, **options)), reference.attention(*qkv, **options))


def test_scale_zero_is_a_scale(qkv):
    close(everything(*qkv, scale=0), reference.attention(*qkv, scale=0.0))


@pytest.mark.parametrize("causal, offset", [("top_left", 0), ("bottom_right", 291), (100, 100), ([3, 200], None)])
def test_causal(qkv, tiers, causal, offset):
    offsets = [offset] * 2 if offset is not None else causal
    mask = np.stack([reference.causal(9, 300, o) for o in offsets])[:, None]
    close(tiers(lambda: everything(*qkv, causal=causal)), reference.attention(*qkv, mask=mask))


def test_causal_true(qkv):
    q = qkv[0]
    want = fovea.attention(q, q, q, causal="bottom_right")
    assert np.array_equal(fovea.attention(q, q, q, causal=True), want)
    assert np.array_equal(fovea.attention(q, q, q, causal="top_left"), want)
    assert np.array_equal(fovea.attention(q, q, q, causal=False), fovea.attention(q, q, q))
    assert not np.array_equal(fovea.attention(q, q, q), want)


@pytest.mark.parametrize("window", [(5, 0), (None, 3), (-1, 3), [2, None], (4, 4), (None, None)])
def test_window(qkv, tiers, window):
    left, right = (10**6 if w is None or w < 0 else w for w in window)
    distance = np.arange(9)[:, None] + 100 - np.arange(300)[None, :]
    mask = (distance <= left) & (-distance <= right)
    close(
        tiers(lambda: everything(*qkv, window=window, q_offsets=[100, 100])),
        reference.attention(*qkv, mask=mask),
    )


@pytest.mark.parametrize("shape", [(2, 4, 9, 300), (1, 1, 9, 300), (9, 300), (300,), (2, 1, 1, 300), (4, 1, 300), (2, 1, 9, 1), ()])
def test_mask_and_bias_broadcast(qkv, normal, rng, tiers, shape):
    mask = rng.random(shape) < 0.6
    bias = normal(*shape)
    close(tiers(lambda: everything(*qkv, mask=mask)), reference.attention(*qkv, mask=np.broadcast_to(mask, (2, 4, 9, 300))))
    close(tiers(lambda: everything(*qkv, bias=bias)), reference.attention(*qkv, bias=bias))
    close(
        tiers(lambda: everything(*qkv, bias=bias, mask=mask)),
        reference.attention(*qkv, bias=bias, mask=np.broadcast_to(mask, (2, 4, 9, 300))),
    )


def test_mask_strides(qkv, rng):
    mask = rng.random((2, 4, 300, 9)) < 0.5
    want = fovea.attention(*qkv, mask=np.ascontiguousarray(mask.swapaxes(2, 3)))
    assert np.array_equal(fovea.attention(*qkv, mask=mask.swapaxes(2, 3)), want)
    every_other = np.repeat(mask.swapaxes(2, 3), 2, -1)[..., ::2]
    assert np.array_equal(fovea.attention(*qkv, mask=every_other), want)


def test_rows_without_keys(qkv):
    out, lse, weights = everything(*qkv, mask=np.zeros((9, 300), bool))
    assert not out.any() and np.isneginf(lse).all() and not weights.any()


@pytest.mark.parametrize("kind", [list, tuple, np.int64, np.int32, np.uint8, np.int16])
def test_lengths_and_starts(qkv, kind):
    def numbers(*values):
        return kind(values) if kind in (list, tuple) else np.array(values, kind)

    kv = np.arange(300)
    mask = np.stack([(kv >= 3) & (kv < 53), (kv >= 200) & (kv < 201)])[:, None, None, :]
    result = everything(*qkv, kv_starts=numbers(3, 200), kv_lens=numbers(50, 1))
    close(result, reference.attention(*qkv, mask=mask))
    out, lse, _ = everything(*qkv, q_starts=numbers(2, 0), q_lens=numbers(4, 9))
    plain, plain_lse, _ = everything(*qkv)
    assert np.array_equal(out[0, :, 2:6], plain[0, :, 2:6]) and np.array_equal(out[1], plain[1])
    assert not out[0, :, :2].any() and not out[0, :, 6:].any() and np.isneginf(lse[0, :, :2]).all()


def test_padding_on_either_side_gives_equal_bits(normal):
    q, k, v = normal(1, 2, 8, 16), normal(1, 2, 40, 16), normal(1, 2, 40, 16)
    alone = fovea.attention(q, k, v, causal="bottom_right")
    pad = np.full((1, 2, 24, 16), np.nan, np.float32)
    left, right = (fovea.attention(q, *(np.concatenate(order(x), 2) for x in (k, v)), causal="bottom_right", **where)
                   for order, where in ((lambda x: [pad, x], dict(kv_starts=[24])), (lambda x: [x, pad], dict(kv_lens=[40]))))
    assert np.array_equal(left, alone) and np.array_equal(right, alone)


def alibi_bias(slopes, queries, keys):
    return -slopes[..., None, None] * np.abs(np.arange(queries)[:, None] - np.arange(keys)[None, :])


def test_alibi(qkv, tiers):
    slopes = np.float32([0.5, 0.25, 0.125, 0.0625])
    close(tiers(lambda: everything(*qkv, alibi=slopes)), reference.attention(*qkv, bias=alibi_bias(slopes, 9, 300)))
    two = np.stack([slopes, slopes[::-1]])
    close(tiers(lambda: everything(*qkv, alibi=two)), reference.attention(*qkv, bias=alibi_bias(two, 9, 300)))
    by_column = np.asfortranarray(two)
    assert np.array_equal(fovea.attention(*qkv, alibi=by_column), fovea.attention(*qkv, alibi=two))


def test_relative_toeplitz(qkv, normal, tiers):
    table = normal(4, 2 * 6 + 1)
    distance = np.clip(np.arange(9)[:, None] - np.arange(300)[None, :], -6, 6) + 6
    relative = fovea.Relative.toeplitz(table)
    close(tiers(lambda: everything(*qkv, relative=relative)), reference.attention(*qkv, bias=table[:, distance]))
    transposed = fovea.Relative.toeplitz(np.ascontiguousarray(table.T).T)
    assert np.array_equal(fovea.attention(*qkv, relative=transposed), fovea.attention(*qkv, relative=relative))


@pytest.mark.parametrize("bidirectional", [False, True])
def test_relative_t5(qkv, normal, tiers, bidirectional):
    table = normal(4, 32)
    distance = np.arange(9)[:, None] - np.arange(300)[None, :]
    n = np.abs(distance) if bidirectional else np.maximum(distance, 0)
    buckets, exact = (16, 8) if bidirectional else (32, 16)
    with np.errstate(divide="ignore"):
        large = exact + np.floor(np.log(n / exact) / np.log(128 / exact) * (buckets - exact) + 1e-9)
    bucket = np.where(n < exact, n, np.minimum(large, buckets - 1)).astype(int)
    bucket += 16 * (bidirectional & (distance < 0))
    relative = fovea.Relative.t5(table, bidirectional=bidirectional)
    close(tiers(lambda: everything(*qkv, relative=relative)), reference.attention(*qkv, bias=table[:, bucket]))


def test_relative_window_2d(normal, tiers):
    height, width = 3, 5
    qkv = [normal(2, 4, height * width, 8) for _ in range(3)]
    table = normal(4, (2 * height - 1) * (2 * width - 1))
    y, x = np.divmod(np.arange(height * width), width)
    at = (y[:, None] - y[None] + height - 1) * (2 * width - 1) + x[:, None] - x[None] + width - 1
    relative = fovea.Relative.window_2d(table, height=height, width=width)
    close(tiers(lambda: everything(*qkv, relative=relative)), reference.attention(*qkv, bias=table[:, at]))


def packed_parts(normal):
    return [(normal(1, 4, t, 16), normal(1, 2, s, 16), normal(1, 2, s, 16)) for t, s in ((3, 3), (1, 40), (0, 5), (7, 300))]


@pytest.mark.parametrize("layout", ["htd", "thd", "bhtd", "bthd"])
@pytest.mark.parametrize("causal", [None, "bottom_right"])
def test_packed(normal, tiers, layout, causal):
    parts = packed_parts(normal)
    cu_q, cu_kv = ([0, *np.cumsum([p[i].shape[2] for p in parts])] for i in (0, 1))
    q, k, v = (np.concatenate([p[i] for p in parts], 2) for i in range(3))
    alone = [everything(*p, causal=causal) for p in parts]

    def arrange(x):
        x = x if layout.startswith("b") else x[0]
        return np.ascontiguousarray(x.swapaxes(-3, -2)) if "thd" in layout else x

    out, lse, weights = tiers(lambda: everything(*map(arrange, (q, k, v)), q_cu_seqlens=cu_q, kv_cu_seqlens=np.array(cu_kv),
                                                 layout=layout, causal=causal))
    assert np.array_equal(out, arrange(np.concatenate([a[0] for a in alone], 2)))
    batch = () if layout in ("htd", "thd") else (1,)
    assert lse.shape == (*batch, 4, 11) and np.array_equal(lse.reshape(1, 4, 11), np.concatenate([a[1] for a in alone], 2))
    weights = weights.reshape(4, 11, 348)
    for part, i, j in zip(alone, cu_q, cu_kv):
        rows, keys = part[2].shape[2:]
        assert np.array_equal(weights[:, i : i + rows, j : j + keys], part[2][0])
        weights[:, i : i + rows, j : j + keys] = 0
    assert not weights.any()


def test_packed_tokens_of_no_sequence(normal):
    q = normal(6, 2, 8)
    call = dict(q_cu_seqlens=[1, 3], kv_cu_seqlens=[1, 3], layout="thd")
    given = np.ones_like(q)
    out, lse = fovea.attention(q, q, q, return_lse=True, **call)
    fovea.attention(q, q, q, out=given, **call)
    assert (given[0] == 1).all() and (given[3:] == 1).all() and np.array_equal(given[1:3], out[1:3])
    assert not out[0].any() and not out[3:].any() and out[1:3].all()
    assert np.isneginf(lse[:, 0]).all() and np.isneginf(lse[:, 3:]).all() and np.isfinite(lse[:, 1:3]).all()


def test_packed_causal_true(normal):
    q = normal(6, 2, 8)
    call = dict(layout="thd", causal=True, q_cu_seqlens=[0, 2, 6])
    fovea.attention(q, q, q, kv_cu_seqlens=[0, 2, 6], **call)
    with pytest.raises(ValueError, match="causal=True is ambiguous"):
        fovea.attention(q, q, q, kv_cu_seqlens=[0, 3, 6], **call)
    with pytest.raises(ValueError, match="causal=True is ambiguous"):  # the longest are as long
        fovea.attention(q, q, q, kv_cu_seqlens=[0, 4, 6], **call)


def test_empty(normal):
    assert fovea.attention(normal(0, 2, 3, 8), normal(0, 2, 5, 8), normal(0, 2, 5, 8)).shape == (0, 2, 3, 8)
    assert fovea.attention(normal(2, 2, 0, 8), normal(2, 2, 5, 8), normal(2, 2, 5, 8)).shape == (2, 2, 0, 8)
    out, lse = fovea.attention(normal(2, 2, 3, 8), normal(2, 2, 0, 8), normal(2, 2, 0, 8), return_lse=True)
    assert not out.any() and np.isneginf(lse).all()
