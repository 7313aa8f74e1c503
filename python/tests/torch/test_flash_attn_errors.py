"""Calls that fovea.compat.flash_attn refuses, and its sentences; no tensor has changed then."""

import pytest
import torch

from fovea.compat.flash_attn import (
    flash_attn_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_with_kvcache,
)


def int32(*numbers):
    return torch.tensor(numbers, dtype=torch.int32)


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
        (ValueError, "softcap is -30.0: it must be positive", lambda: flash_attn_func(q, k, k, softcap=-30.0)),
        (TypeError, "softcap must be a number, not str", lambda: flash_attn_func(q, k, k, softcap="30")),
        (TypeError, "softcap must be a number, not NoneType", lambda: flash_attn_func(q, k, k, softcap=None)),
        (TypeError, "dropout_p must be a number, not NoneType", lambda: flash_attn_func(q, k, k, None)),
        (TypeError, "softmax_scale must be a number, not str", lambda: flash_attn_func(q, k, k, softmax_scale="1")),
        (TypeError, "causal must be True or False, not str", lambda: flash_attn_func(q, k, k, causal="bottom_right")),
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
        (TypeError, "max_seqlen_q must be an int, not NoneType", call(longest=None)),
        (TypeError, "max_seqlen_k must be an int, not float", call(longest_k=5.0)),
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
        (TypeError, "cache_seqlens must be an int, not str", call(cache_seqlens="3")),
        (TypeError, "cache_seqlens must be an int32", call(cache_seqlens=[3.0, 3.0])),
        (TypeError, "rotary_interleaved must be True", call(rotary_cos=cos, rotary_sin=cos, rotary_interleaved="no")),
        (ValueError, "softcap is -1", call(softcap=-1)),
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
