"""fovea.compat.flash_attn against flash-attn's definition in float64 (support/flash_reference.py); what it refuses."""

import inspect
import sys

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

sys.path.insert(0, __file__.rsplit("/torch/", 1)[0] + "/support")
import flash_reference  # noqa: E402

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
        self.softcap = float(rng.choice([0.0, -1.0, 1.5]))
        self.slopes = [None, torch.rand(self.heads), torch.rand(self.batch, self.heads)][rng.integers(3)]
        self.options = {"softmax_scale": self.scale, "causal": self.causal, "window_size": self.window,
                        "softcap": self.softcap, "alibi_slopes": self.slopes}  # fmt: skip

    def tensor(self, *shape):
        return torch.randn(*shape).to(self.dtype)

    def expected(self, b, q, k, v):
        slopes = self.slopes if self.slopes is None or self.slopes.dim() == 1 else self.slopes[b]
        return flash_reference.sequence(
            *(x if isinstance(x, np.ndarray) else x.double().numpy() for x in (q, k, v)),
            scale=self.scale,
            causal=self.causal,
            window=self.window,
            softcap=self.softcap,
            slopes=None if slopes is None else slopes.double().numpy(),
        )


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

        def rotate(tokens, first, step):
            new = [flash_reference.rotate(x, *tables, first + i * step, interleaved) for i, x in enumerate(tokens)]
            return np.array(new).reshape(tokens.shape)

        ahead = case.causal or case.window != (-1, -1)
        turned = [rotate(x, n, ahead) for x, n in zip(turned, lens)]
        new_k = [rotate(x, n, 1) for x, n in zip(new_k, lens)]
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


def refused(error, words, call, *tensors):
    """A sentence, after which no tensor has changed."""
    before = [x.clone() for x in tensors]
    with pytest.raises(error, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert all(torch.equal(a, b) for a, b in zip(before, tensors))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_refusals():
    q, k = torch.randn(2, 3, 4, 8), torch.randn(2, 5, 2, 8)
    meta, sparse = k.to("meta"), k.to_sparse()
    for error, words, call in (
        (NotImplementedError, "dropout_p is 0.1", lambda: flash_attn_func(q, k, k, 0.1)),
        (TypeError, "v is torch.float16", lambda: flash_attn_func(q, k, k.half())),
        (TypeError, "q is torch.float64", lambda: flash_attn_func(q.double(), k, k)),
        (TypeError, "q must be a torch.Tensor, not ndarray", lambda: flash_attn_func(q.numpy(), k, k)),
        (ValueError, "k must be a dense tensor of the CPU; it is .* on meta", lambda: flash_attn_func(q, meta, k)),
        (ValueError, "v must be a dense tensor of the CPU; it is torch.sparse", lambda: flash_attn_func(q, k, sparse)),
        (ValueError, "q has 3 dimensions, not 4", lambda: flash_attn_func(q[0], k, k)),
        (ValueError, "k and v differ in shape", lambda: flash_attn_func(q, k, k[:, :4])),
        (ValueError, "head dims must be equal", lambda: flash_attn_func(q, k[..., :7], k[..., :7])),
        (ValueError, "a multiple", lambda: flash_attn_func(q[:, :, :3], k, k)),
        (ValueError, "q has 2 sequences, k has 1", lambda: flash_attn_func(q, k[:1], k[:1])),
        (ValueError, "at least one", lambda: flash_attn_func(q[:0], k[:0], k[:0])),
        (ValueError, "q must be a dense tensor", lambda: flash_attn_func(torch.nested.nested_tensor([q[0]]), k, k)),
        (TypeError, "window_size must be a pair", lambda: flash_attn_func(q, k, k, window_size=None)),
        (TypeError, "window_size must be a pair", lambda: flash_attn_func(q, k, k, window_size=(None, 0))),
        (ValueError, "alibi", lambda: flash_attn_func(q, k, k, alibi_slopes=torch.ones(3))),
        (TypeError, "alibi", lambda: flash_attn_func(q, k, k, alibi_slopes=torch.ones(4).half())),
        (ValueError, "softcap", lambda: flash_attn_func(q, k, k, softcap=float("nan"))),
        (ValueError, "scale", lambda: flash_attn_func(q, k, k, softmax_scale=float("inf"))),
        (ValueError, "qkv must have 5 dimensions", lambda: flash_attn_qkvpacked_func(torch.randn(2, 3, 2, 4, 8))),
        (ValueError, "kv must have 4 dimensions", lambda: flash_attn_varlen_kvpacked_func(q[0], k, None, None, 3, 5)),
    ):
        refused(error, words, call)


def test_refusals_varlen():
    q, k, table = torch.randn(9, 4, 8), torch.randn(9, 2, 8), torch.zeros(2, 3, dtype=torch.int32)
    pages = torch.randn(4, 2, 2, 8)

    def call(starts_q=(0, 4, 9), starts_k=(0, 4, 9), longest=5, longest_k=5, keys=k, **options):
        starts_q, starts_k = (x if isinstance(x, torch.Tensor) else int32(*x) for x in (starts_q, starts_k))
        return lambda: flash_attn_varlen_func(q, keys, keys, starts_q, starts_k, longest, longest_k, **options)

    for error, words, what in (
        (TypeError, "cu_seqlens_q must be an int32 tensor", call(torch.tensor([0, 4, 9]))),
        (TypeError, "cu_seqlens_k must be an int32 tensor", call(starts_k=int32(0, 4, 9)[None])),
        (ValueError, r"cu_seqlens_q\[0\] is -1", call((-1, 4, 9))),
        (ValueError, r"cu_seqlens_k\[2\] is 10", call(starts_k=(0, 4, 10))),
        (ValueError, "cu_seqlens_q must never decrease", call((0, 9, 4))),
        (ValueError, "one sequence or more", call((0,), (0,))),
        (ValueError, "one sequence or more", call(())),
        (ValueError, "cu_seqlens_q is of 2 sequences, cu_seqlens_k of 1", call(starts_k=(0, 5))),
        (ValueError, "max_seqlen_q is 4, but a sequence has 5", call(longest=4)),
        (ValueError, "max_seqlen_k is 4, but a sequence has 5", call(longest_k=4)),
        (ValueError, "k has 3 dimensions, not 4", call(block_table=table)),
        (TypeError, "block_table must be an int32", call(keys=pages, block_table=table.long())),
        (ValueError, "block_table is of 1 sequences on cpu, q of 2", call(keys=pages, block_table=table[:1])),
        (ValueError, "block_table has page 4: there are 4", call(keys=pages, block_table=table + 4)),
        (ValueError, "block_table has page -1", call(keys=pages, block_table=table - 1)),
        (ValueError, "more keys than 2 pages of 2", call(keys=pages, block_table=table[:, :2])),
    ):
        refused(error, words, what)


def test_refusals_kvcache():
    q, cache, new = torch.randn(2, 3, 4, 8), torch.randn(3, 6, 2, 8), torch.randn(2, 3, 2, 8)
    table, cos = torch.tensor([[0, 1], [2, 0]], dtype=torch.int32), torch.ones(12, 4)

    def call(k=new, v=new, k_cache=cache, v_cache=cache, q=q, cache_seqlens=3, **options):
        return lambda: flash_attn_with_kvcache(q, k_cache, v_cache, k, v, cache_seqlens=cache_seqlens, **options)

    with torch.inference_mode():
        inference = cache.clone()
    for error, words, what in (
        (ValueError, "inference_mode", call(v_cache=inference)),
        (TypeError, "v must be a torch.Tensor", call(v=None)),
        (TypeError, "k must be a torch.Tensor", call(k=None)),
        (TypeError, "k is torch.bfloat16", call(new.bfloat16(), new.bfloat16())),
        (TypeError, "k_cache is torch.float16", call(k_cache=cache.half())),
        (ValueError, "k and v differ", call(v=new[:, :2])),
        (ValueError, "k_cache and v_cache differ", call(v_cache=cache[:, :5])),
        (ValueError, "k of as many", call(new[:1], new[:1])),
        (ValueError, "k needs cache_seqlens", call(cache_seqlens=None)),
        (ValueError, "at most", call(*[torch.randn(2, 7, 2, 8)] * 2, cache_seqlens=0)),
        (ValueError, r"cache_seqlens\[0\] is 4: it must be from 0 to 3", call(cache_seqlens=4)),
        (ValueError, r"cache_seqlens\[1\] is -1", call(cache_seqlens=int32(3, -1))),
        (ValueError, r"cache_seqlens\[0\] is 1000000000000", call(cache_seqlens=10**12)),
        (TypeError, "cache_seqlens must be an int32", call(cache_seqlens=torch.tensor([3, 3]))),
        (ValueError, "cache_seqlens has 3 numbers", call(cache_seqlens=int32(3, 3, 3))),
        (ValueError, r"cache_batch_idx\[1\] is 3", call(cache_batch_idx=int32(0, 3))),
        (ValueError, r"cache_batch_idx\[0\] is -1", call(cache_batch_idx=int32(-1, 0))),
        (ValueError, r"cache_leftpad\[0\] is 4: it must be from 0 to 3", call(cache_leftpad=int32(4, 0))),
        (ValueError, "block_table does not go", call(block_table=table, cache_batch_idx=int32(0, 1))),
        (ValueError, "block_table does not go", call(block_table=table, cache_leftpad=int32(0, 1))),
        (ValueError, "block_table has page 3", call(block_table=table + 1, cache_seqlens=6)),
        (ValueError, "k_cache has 1 rows", call(k_cache=cache[:1], v_cache=cache[:1])),
        (ValueError, "no axis expanded", call(k_cache=cache[:1].expand(3, 6, 2, 8))),
        (ValueError, "must be contiguous", call(k_cache=cache.mT.contiguous().mT)),
        (ValueError, "go with k and v", call(None, None, rotary_cos=cos, rotary_sin=cos)),
        (TypeError, "rotary_sin must be a torch.Tensor", call(rotary_cos=cos)),
        (TypeError, "rotary_cos must be a torch.Tensor", call(rotary_sin=cos)),
        (ValueError, "of q's type", call(rotary_cos=cos.half(), rotary_sin=cos.half())),
        (ValueError, "needs 6 rows", call(rotary_cos=cos[:5], rotary_sin=cos[:5])),
        (ValueError, "needs 9 rows", call(rotary_cos=cos[:8], rotary_sin=cos[:8], q=torch.randn(2, 6, 4, 8))),
        (ValueError, "at most 4 columns", call(rotary_cos=torch.ones(12, 5), rotary_sin=torch.ones(12, 5))),
        (ValueError, "has no gradient", call(q=q.clone().requires_grad_())),
        (ValueError, "alibi", call(alibi_slopes=torch.ones(3))),  # found after the new keys were written
        (ValueError, "softcap", call(softcap=float("nan"), cache_batch_idx=int32(2, 0))),
    ):
        refused(error, words, what, cache, inference)


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
    near(out[0], flash_reference.sequence(q[0].numpy(), k[1].numpy(), k[1].numpy())[0])
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


def differentiable(case, b, q, k, v):
    """One sequence in float64, with gradients: [tokens, heads, dim]."""
    queries, keys, group = len(q), len(k), q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    distance = torch.arange(queries)[:, None] + keys - queries - torch.arange(keys)
    scores = torch.einsum("ihd,jhd->hij", q, k) * (case.dim**-0.5 if case.scale is None else case.scale)
    if case.softcap > 0:
        scores = case.softcap * torch.tanh(scores / case.softcap)
    if case.slopes is not None:
        slopes = case.slopes.double().expand(case.batch, case.heads)[b]
        scores = scores - slopes[:, None, None] * distance.abs()
    left, right = case.window[0], 0 if case.causal else case.window[1]
    seen = (left < 0) | (distance <= left)
    seen = seen & ((right < 0) | (-distance <= right))
    p = torch.where(seen, scores - scores.amax(-1, keepdim=True) if keys else scores, -torch.inf).exp()
    return torch.einsum("hij,jhd->ihd", p / p.sum(-1, keepdim=True).clamp_min(1e-300), v)


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
    parts = [differentiable(case, b, x, *y.unbind(1)) for b, (x, y) in enumerate(pairs)]
    expected = torch.autograd.grad(torch.cat(parts), (wide_q, wide), grad.double())
    for call in calls:
        for found, wanted in zip(torch.autograd.grad(call(), (q, kv), grad), expected):
            torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=1e-4)
