"""fovea.compat.flash_attn against attention in float64 (support/eager.py), by flash-attn's definition of its arguments."""

import inspect
import sys

import eager
import numpy as np
import pytest
import torch

import fovea
from fovea.compat import flash_attn
from fovea.compat.flash_attn import (
    flash_attn_func,
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
    flash_attn_with_kvcache,
)

TYPES = (torch.float32, torch.bfloat16, torch.float16)
NEAR = {torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}


@pytest.fixture(autouse=True)
def exact():
    with fovea.config(arithmetic="exact"):
        yield


def near(found, expected, dtype=torch.float32):
    np.testing.assert_allclose(found.double().numpy(), expected, rtol=NEAR[dtype], atol=NEAR[dtype])


def int32(*numbers):
    return torch.tensor(numbers, dtype=torch.int32)


class Case:
    """Random sizes and options of a call: keyword arguments of the function, and those of the reference."""

    def __init__(self, seed):
        self.rng = rng = np.random.default_rng(seed)
        torch.manual_seed(seed)
        self.dtype = TYPES[seed % 3]
        self.kv_heads = int(rng.choice([1, 2]))
        self.heads, self.dim = self.kv_heads * int(rng.choice([1, 3])), int(rng.choice([8, 20]))
        self.batch = int(rng.integers(1, 4))
        self.causal, self.scale = bool(rng.integers(2)), [None, 0.3][rng.integers(2)]
        self.window = tuple(int(x) for x in rng.choice([-1, 0, 2, 5], 2)) if rng.integers(2) else (-1, -1)
        self.softcap = float(rng.choice([0.0, 1.5]))
        self.slopes = [None, torch.rand(self.heads), torch.rand(self.batch, self.heads)][rng.integers(3)]
        self.options = {"softmax_scale": self.scale, "causal": self.causal, "window_size": self.window,
                        "softcap": self.softcap, "alibi_slopes": self.slopes}  # fmt: skip

    def tensor(self, *shape):
        return torch.randn(*shape).to(self.dtype)

    def expected(self, b, q, k, v):
        """(out, lse) of one sequence in float64, of [tokens, heads, dim]. A row that sees no key has a lse of infinity."""
        q, k, v = (torch.as_tensor(x, dtype=torch.float64)[None] for x in (q, k, v))
        window = [None if n < 0 else n for n in (self.window[0], 0 if self.causal else self.window[1])]
        slopes = self.slopes if self.slopes is None or self.slopes.dim() == 1 else self.slopes[b]
        out, lse = eager.attention(q, k, v, window=window, q_offsets=[k.shape[1] - q.shape[1]], scale=self.scale,
                                   softcap=self.softcap or None, alibi=slopes, layout="bthd")  # fmt: skip
        return out[0], lse[0].masked_fill(lse[0] == -torch.inf, torch.inf)


def rotate(x, cos, sin, position, interleaved):
    """One token x [heads, dim]."""
    x, half = np.array(x, np.float64), cos.shape[1]
    for c in range(half):
        a, b = (2 * c, 2 * c + 1) if interleaved else (c, c + half)
        one, other = x[:, a].copy(), x[:, b].copy()
        x[:, a] = one * cos[position, c] - other * sin[position, c]
        x[:, b] = one * sin[position, c] + other * cos[position, c]
    return x


@pytest.mark.parametrize("seed", range(24))
def test_func(seed):
    case = Case(seed)
    queries, keys = (int(x) for x in case.rng.choice([1, 3, 7, 12], 2))
    keys = 0 if seed == 5 else keys
    q = case.tensor(case.batch, queries, case.heads, case.dim)
    k, v = (case.tensor(case.batch, keys, case.kv_heads, case.dim) for _ in range(2))
    out, lse, probs = flash_attn_func(q, k, v, **case.options, return_attn_probs=True)
    assert out.shape == q.shape and out.dtype == q.dtype
    assert lse.shape == (case.batch, case.heads, queries) and probs.numel() == 0
    for b in range(case.batch):
        expected, expected_lse = case.expected(b, q[b], k[b], v[b])
        near(out[b], expected, case.dtype)
        near(lse[b], expected_lse)
    by_place = case.scale, case.causal, case.window, case.softcap, case.slopes, True
    assert torch.equal(out, flash_attn_func(q, k, v, 0.0, *by_place))
    assert torch.equal(out, flash_attn_kvpacked_func(q, torch.stack((k, v), 2), **case.options))
    if q.shape == k.shape:
        assert torch.equal(out, flash_attn_qkvpacked_func(torch.stack((q, k, v), 2), **case.options))


@pytest.mark.parametrize("seed", range(24))
def test_varlen(seed):
    case = Case(100 + seed)
    lens_q, lens_k = ([int(x) for x in case.rng.choice([0, 1, 4, 9], case.batch)] for _ in range(2))
    lens_k = lens_q if seed % 4 == 0 else lens_k
    gap = seed % 3  # tokens of no sequence, at both ends
    starts_q, starts_k = (int32(*(np.cumsum([0, *lens]) + gap)) for lens in (lens_q, lens_k))
    q = case.tensor(sum(lens_q) + 2 * gap, case.heads, case.dim)
    k, v = (case.tensor(sum(lens_k) + 2 * gap, case.kv_heads, case.dim) for _ in range(2))
    arguments = (starts_q, starts_k, max(lens_q), max(lens_k) + 3)
    out, lse, _ = flash_attn_varlen_func(q, k, v, *arguments, **case.options, return_attn_probs=True)
    assert out.shape == q.shape and lse.shape == (case.heads, len(q))
    expected, expected_lse = np.zeros(q.shape), np.full(lse.shape, np.inf)
    for b in range(case.batch):
        rows, cols = (slice(int(s[b]), int(s[b + 1])) for s in (starts_q, starts_k))
        expected[rows], expected_lse[:, rows] = case.expected(b, q[rows], k[cols], v[cols])
    near(out, expected, case.dtype)
    near(lse, expected_lse)
    assert torch.equal(out, flash_attn_varlen_kvpacked_func(q, torch.stack((k, v), 1), *arguments, **case.options))
    if lens_q == lens_k and case.heads == case.kv_heads:
        packed = torch.stack((q, k, v), 1)
        assert torch.equal(out, flash_attn_varlen_qkvpacked_func(packed, starts_q, max(lens_q), **case.options))
    # The same keys in pages of 3, whose other tokens, and the table's other entries, are never looked at.
    table, pages = torch.full((case.batch, 5), -(2**31), dtype=torch.int32), iter(case.rng.permutation(20).tolist())
    k_pages, v_pages = (torch.full((20, 3, case.kv_heads, case.dim), torch.nan, dtype=case.dtype) for _ in range(2))
    for b, n in enumerate(lens_k):
        for j in range(n):
            if j % 3 == 0:
                table[b, j // 3] = next(pages)
            for to, x in ((k_pages, k), (v_pages, v)):
                to[table[b, j // 3], j % 3] = x[int(starts_k[b]) + j]
    options = dict(case.options, block_table=table, return_attn_probs=True)
    paged = flash_attn_varlen_func(q, k_pages, v_pages, *arguments, **options)
    assert torch.equal(paged[0], out) and torch.equal(paged[1], lse)


@pytest.mark.parametrize("seed", range(36))
def test_kvcache(seed):
    case = Case(200 + seed)
    rng, batch, dim, kind = case.rng, case.batch, case.dim, ("rows", "index", "pages")[seed // 3 % 3]
    queries, new = int(rng.choice([1, 3, 6])), int(rng.choice([0, 1, 4])) if seed % 5 else 0
    size, rows = (4, 3 * batch + 2) if kind == "pages" else (12, batch + 2)
    caches = [case.tensor(rows, size, case.kv_heads, dim) for _ in range(2)]
    k, v = (case.tensor(batch, new, case.kv_heads, dim) for _ in range(2)) if seed % 5 else (None, None)
    lens = rng.integers(0, 13 - new, batch).tolist()
    leftpad = [int(rng.integers(0, n + 1)) for n in lens] if kind != "pages" and seed % 2 else [0] * batch
    options = {"cache_seqlens": int32(*lens)}
    if seed % 4 == 0:
        lens = [lens[0]] * batch
        leftpad = [0] * batch
        options = {"cache_seqlens": lens[0]}
    if k is None and seed % 2:
        lens, leftpad, options = [12] * batch, [1] * batch if kind != "pages" else [0] * batch, {}
    if any(leftpad):
        options["cache_leftpad"] = int32(*leftpad)
    index, table = list(range(batch)), None
    if kind == "index":
        index = rng.permutation(rows)[:batch].tolist()
        options["cache_batch_idx"] = int32(*index)
    elif kind == "pages":
        table = rng.permutation(rows)[: 3 * batch].reshape(batch, 3).tolist()
        options["block_table"] = torch.tensor(table, dtype=torch.int32)

    def place(b, j):
        return (table[b][j // size], j % size) if table else (index[b], j)

    q = case.tensor(batch, queries, case.heads, dim)
    turned = [x.double().numpy() for x in q]
    new_k = None if k is None else [x.double().numpy() for x in k]
    if k is not None and rng.integers(2):
        pairs, interleaved = int(rng.choice([2, 4])), bool(rng.integers(2))
        angle = torch.rand(20, pairs) * 6
        cos, sin = angle.cos().to(case.dtype), angle.sin().to(case.dtype)
        options.update(rotary_cos=cos, rotary_sin=sin, rotary_interleaved=interleaved)
        tables = cos.double().numpy(), sin.double().numpy()

        def rotated(tokens, first, step):
            new = [rotate(x, *tables, first + i * step, interleaved) for i, x in enumerate(tokens)]
            return np.array(new).reshape(tokens.shape)

        ahead = case.causal or case.window != (-1, -1)
        turned = [rotated(x, n, ahead) for x, n in zip(turned, lens)]
        new_k = [rotated(x, n, 1) for x, n in zip(new_k, lens)]
    held = torch.zeros(caches[0].shape[:2], dtype=torch.bool)
    for b in range(batch):
        for j in range(leftpad[b], lens[b]):
            held[place(b, j)] = True
    for cache in caches:
        cache[~held] = torch.nan  # what no sequence holds is never looked at
    expected_caches = [x.double().numpy() for x in caches]
    for b in range(batch):
        for i in range(new):
            expected_caches[0][place(b, lens[b] + i)] = new_k[b][i]
            expected_caches[1][place(b, lens[b] + i)] = v[b, i].double().numpy()
    before = [x.clone() for x in caches]
    out, lse = flash_attn_with_kvcache(q, *caches, k, v, **options, **case.options, return_softmax_lse=True)
    for cache, expected in zip(caches, expected_caches):
        near(cache, expected, case.dtype)
    assert out.shape == q.shape and lse.shape == (batch, case.heads, queries)
    for b in range(batch):
        keys = [place(b, j) for j in range(leftpad[b], lens[b] + new)]
        kv = [np.array([x[at] for at in keys]).reshape(-1, case.kv_heads, dim) for x in expected_caches]
        expected, expected_lse = case.expected(b, turned[b], *kv)
        near(out[b], expected, case.dtype)
        np.testing.assert_allclose(lse[b].numpy(), expected_lse, atol=10 * NEAR[case.dtype])
    # Appending again gives the same; so do other splits.
    before = [x.nan_to_num() for x in before]
    again = flash_attn_with_kvcache(q, *before, k, v, **options, **case.options, num_splits=7)
    assert torch.equal(again, out) and all(a.equal(b) for a, b in zip(before, [x.nan_to_num() for x in caches]))


def test_nothing():
    """No queries, no keys, no room."""
    q, cache = torch.randn(2, 3, 4, 8), torch.randn(3, 6, 2, 8)
    for options in ({}, {"cache_batch_idx": int32(2, 0)}, {"block_table": torch.zeros(2, 1, dtype=torch.int32)}):
        out, lse = flash_attn_with_kvcache(q[:, :0], cache, cache, **options, return_softmax_lse=True, cache_seqlens=3)
        assert out.shape == (2, 0, 4, 8) and lse.shape == (2, 4, 0)
        empty = [cache[:, :0]] * 2
        out, lse = flash_attn_with_kvcache(q, *empty, **options, return_softmax_lse=True)
        assert not out.any() and torch.equal(lse, torch.full((2, 4, 3), torch.inf))


def test_kvcache_places():
    """Tokens that go to one place: the last stays, whatever the number of threads. Caches may be views."""
    cache, q = torch.zeros(2, 7, 3, 8).transpose(1, 2)[:, 1:, :2], torch.randn(2, 1, 2, 8)  # [2, 2, 2, 8], strided
    k = torch.randn(2, 2, 2, 8)
    out = flash_attn_with_kvcache(q, cache, cache, k, k, cache_seqlens=0, cache_batch_idx=int32(1, 1))
    assert torch.equal(cache[1], k[1]) and not cache[0].any()
    near(out[0], eager.attention(q[:1], k[1:], k[1:], layout="bthd")[0][0])
    flash_attn_with_kvcache(q, cache, cache, k, k, cache_seqlens=0, block_table=torch.zeros(2, 2, dtype=torch.int32))
    assert torch.equal(cache[0], k[1])


def test_names():
    """Signatures are flash-attn's, and code that imports it by name runs."""
    dense = "(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, "
    dense += "alibi_slopes=None, deterministic=False, return_attn_probs=False)"
    lens = "(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, "
    varlen = dense.replace("(q, k, v, ", lens).replace("probs=False)", "probs=False, block_table=None)")
    cached = "(q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None, cache_seqlens=None, "
    cached += "cache_batch_idx=None, cache_leftpad=None, block_table=None, softmax_scale=None, causal=False, "
    cached += "window_size=(-1, -1), softcap=0.0, rotary_interleaved=True, alibi_slopes=None, num_splits=0, "
    cached += "return_softmax_lse=False)"
    expected = {
        "flash_attn_func": dense,
        "flash_attn_varlen_func": varlen,
        "flash_attn_with_kvcache": cached,
    }
    assert {name: str(inspect.signature(getattr(flash_attn, name))) for name in expected} == expected
    sys.modules["flash_attn"] = flash_attn
    try:
        from flash_attn import flash_attn_func as by_name
    finally:
        del sys.modules["flash_attn"]
    assert by_name is flash_attn_func


def test_without_torch():
    """The module loads without torch, which its functions need."""
    import subprocess

    code = "import sys; sys.modules['torch'] = None; import fovea.compat.flash_attn as f; f.flash_attn_func(1, 2, 3)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "in flash_attn_func" in done.stderr and "Error: import of torch halted" in done.stderr


@pytest.mark.parametrize("seed", range(8))
def test_gradients(seed):
    case = Case(300 + seed)
    case.dtype = torch.float32
    lens_q, lens_k = ([int(x) for x in case.rng.choice([0, 2, 5], case.batch)] for _ in range(2))
    starts_q, starts_k = (int32(*np.cumsum([0, *lens])) for lens in (lens_q, lens_k))
    q = case.tensor(sum(lens_q), case.heads, case.dim).requires_grad_()
    kv = case.tensor(sum(lens_k), 2, case.kv_heads, case.dim).requires_grad_()
    grad = torch.randn_like(q)
    calls = [lambda: flash_attn_varlen_kvpacked_func(q, kv, starts_q, starts_k, 5, 5, **case.options)]
    if case.batch == 1:
        calls.append(lambda: flash_attn_func(q[None], *kv[None].unbind(2), **case.options)[0])
    wide_q, wide = (x.detach().double().requires_grad_() for x in (q, kv))
    pairs = zip(wide_q.split(lens_q), wide.split(lens_k))
    parts = [case.expected(b, x, *y.unbind(1))[0] for b, (x, y) in enumerate(pairs)]
    expected = torch.autograd.grad(torch.cat(parts), (wide_q, wide), grad.double())
    for call in calls:
        for found, wanted in zip(torch.autograd.grad(call(), (q, kv), grad), expected):
            torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=1e-4)
