"""Tensors of torch through fovea.attention(): kinds, strides, types, gradients, what cannot be read."""

import gc
import sys
import weakref

import numpy as np
import pytest
import torch
from memory import assert_no_growth
from processes import run

import fovea


@pytest.fixture
def qkv():
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(shape, generator=generator) for shape in ((2, 4, 5, 16), (2, 2, 70, 16), (2, 2, 70, 24))]


def test_torch_in_torch_out(qkv):
    out, lse, weights = fovea.attention(*qkv, return_lse=True, return_weights=True)
    expected = fovea.attention(*(x.numpy() for x in qkv), return_lse=True, return_weights=True)
    for tensor, array in zip((out, lse, weights), expected):
        assert type(tensor) is torch.Tensor and tensor.is_contiguous() and not tensor.requires_grad
        assert np.array_equal(tensor.numpy(), array)
    assert out.untyped_storage().nbytes() == out.numel() * 4
    out.resize_(3)  # memory of torch's own


def test_kinds_may_be_mixed(qkv):
    q, k, v = qkv
    expected = fovea.attention(q, k, v, kv_lens=[70, 3])
    assert torch.equal(fovea.attention(q, k.numpy(), v.numpy(), kv_lens=torch.tensor([70, 3])), expected)
    out = fovea.attention(q.numpy(), k, v, kv_lens=torch.tensor([70, 3], dtype=torch.int32))
    assert isinstance(out, np.ndarray) and np.array_equal(out, expected.numpy())


def test_strides(qkv):
    q, k, v = qkv
    expected = fovea.attention(q, k, v)
    views = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in qkv]
    assert not views[0].is_contiguous() and torch.equal(fovea.attention(*views), expected)
    bthd = [x.transpose(1, 2) for x in qkv]
    assert torch.equal(fovea.attention(*bthd, layout="bthd"), expected.transpose(1, 2))
    assert torch.equal(fovea.attention(*(x.mT.contiguous().mT for x in qkv)), expected)
    shared = k[:, :1].expand(-1, 2, -1, -1)
    assert torch.equal(fovea.attention(q, shared, shared), fovea.attention(q, shared.contiguous(), shared.contiguous()))
    offset = torch.cat([torch.full((1, 4, 5, 16), torch.nan), q])[1:]
    assert torch.equal(fovea.attention(offset, k, v), expected)


@pytest.mark.parametrize("stride", [0, 5, 40])
def test_stride_of_one_row(stride):
    """A table of embeddings with one row: its stride says nothing."""
    words, kinds, ids = torch.randn(9, 33), torch.randn(33), torch.tensor([8, 0])
    row = torch.as_strided(kinds, (1, 33), (stride, 1))
    assert torch.equal(fovea.embedding_sum([words, row], [ids, None]), words[ids] + kinds)


def test_masks_are_not_expanded(qkv):
    mask = torch.rand(2, 1, 1, 70) < 0.5
    expected = fovea.attention(*qkv, mask=mask.expand(2, 4, 5, 70).contiguous())
    assert torch.equal(fovea.attention(*qkv, mask=mask.expand(2, 4, 5, 70)), expected)
    assert torch.equal(fovea.attention(*qkv, mask=mask), expected)
    bias = torch.randn(1, 4, 1, 70)
    assert torch.equal(fovea.attention(*qkv, bias=bias.expand(2, 4, 5, 70)), fovea.attention(*qkv, bias=bias))


def test_gradients_are_not_lost(qkv):
    q, k, v = qkv
    needs = k.clone().requires_grad_()
    with pytest.raises(ValueError, match=r"k requires a gradient.*torch.no_grad\(\)"):
        fovea.attention(q, needs, v)
    with pytest.raises(ValueError, match="bias requires a gradient"):
        fovea.attention(q, k, v, bias=torch.zeros(5, 70, requires_grad=True))
    expected = fovea.attention(q, k, v)
    assert torch.equal(fovea.attention(q, needs.detach(), v), expected)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert torch.equal(fovea.attention(q, needs, torch.nn.Parameter(v)), expected)


@pytest.mark.parametrize(
    "make, error, match",
    [
        (lambda x: x.double(), TypeError, "k must be float32, bfloat16 or float16, not float64"),
        (lambda x: x.to(torch.complex64), TypeError, "not complex64"),
        (lambda x: x[0], ValueError, "k has 3 dimensions"),
        (lambda x: x.to(torch.float8_e4m3fn), TypeError, "k must be float32"),
    ],
)
def test_tensors_that_cannot_be_read(qkv, make, error, match):
    q, k, v = qkv
    with pytest.raises(error, match=match):
        fovea.attention(q, make(k), v)


def test_nothing_is_kept(qkv):
    before = [sys.getrefcount(x) for x in qkv]
    lens = torch.tensor([3, 5])
    for _ in range(20):
        fovea.attention(*qkv, kv_lens=lens, return_lse=True)
        with pytest.raises(ValueError):
            fovea.attention(*qkv, kv_lens=lens, kv_starts=[70, 70])
    assert [sys.getrefcount(x) for x in qkv] == before
    out = fovea.attention(*qkv)
    gone = weakref.ref(out)
    del out
    gc.collect()
    assert gone() is None


def test_memory_of_outputs_is_freed(qkv):
    def use():
        for _ in range(20):
            fovea.attention(*qkv, return_weights=True)

    assert_no_growth(use)


def test_fovea_does_not_import_torch():
    code = "import sys, fovea; print([m for m in ('torch', 'numpy', 'transformers') if m in sys.modules])"
    assert run(code) == "[]"


@pytest.mark.parametrize("kind", ["raw", "capped", "biased", "weights"])
def test_scores_of_nothing(kind):
    q, k = torch.randn(1, 2, 3, 16), torch.randn(1, 2, 5, 16)
    nothing = ({"score_keys": (2, 2)}, {"score_queries": (1, 1)}, {"score_heads": []})
    for keys, options in ((k[:, :, :0], {}), *((k, part) for part in nothing)):
        out, scores = fovea.attention(q, keys, keys, return_scores=kind, **options)
        assert scores.numel() == 0 and scores.dim() == 4 and out.shape == q.shape
    with pytest.raises(ValueError, match="heads"):
        fovea.attention(q, k[:, :, :0], k[:, :, :0], return_scores=kind, score_heads=[7])
