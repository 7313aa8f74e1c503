"""Descriptions of masks against the matrices that transformers makes."""

import functools

import pytest
import torch
from transformers import masking_utils as theirs

import fovea
from fovea.transformers import Visible, counters, masks

CAUSAL = theirs.causal_mask_function
KNOWN = {
    "causal": CAUSAL,
    "bidirectional": theirs.bidirectional_mask_function,
    "window": theirs.sliding_window_causal_mask_function(4),
    "window 1": theirs.sliding_window_causal_mask_function(1),
    "bidirectional window": theirs.sliding_window_bidirectional_mask_function(3),
    "two windows": theirs.and_masks(
        theirs.sliding_window_overlay(6), theirs.sliding_window_causal_mask_function(3), theirs.bidirectional_mask_function
    ),
}
LEFT_PADDING = torch.zeros(3, dtype=int)
UNKNOWN = {
    "chunks": theirs.chunked_causal_mask_function(4, LEFT_PADDING),
    "union": theirs.or_masks(CAUSAL, theirs.sliding_window_bidirectional_overlay(2)),
    "image blocks": theirs.or_masks(CAUSAL, theirs.blockwise_overlay(torch.tensor([[-1, -1, 0, 0, 0, -1, -1, 1, 1, -1]] * 3))),
    "packed": theirs.and_masks(CAUSAL, theirs.packed_sequence_mask_function(torch.tensor([[0, 0, 0, 1, 1, 1, 1, 2, 2, 2]] * 3))),
    "of the user": lambda batch, head, q, k: (k <= q) & (k != 2),
    "alike": functools.partial(CAUSAL),
}
PADDINGS = {
    "none": None,
    "all": torch.ones(3, 10),
    "left": torch.tensor([[0] * n + [1] * (10 - n) for n in (0, 3, 9)]),
    "right": torch.tensor([[1] * (10 - n) + [0] * n for n in (2, 0, 5)]),
    "both": torch.tensor([[0, 1, 1, 1, 1, 1, 1, 1, 0, 0]] * 3),
    "holes": torch.tensor([[1, 1, 0, 1, 1, 1, 1, 0, 1, 1], [1] * 10, [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]]),
    "a sequence without keys": torch.tensor([[1] * 10, [0] * 10, [0] * 4 + [1] * 6]),
}
# (q_length, kv_length, q_offset, kv_offset): all at once, the end of it, one token, a cache that forgot, a static cache.
PLACES = [(10, 10, 0, 0), (4, 10, 6, 0), (1, 10, 9, 0), (3, 6, 7, 4), (4, 10, 3, 0)]


def both(function, padding, place):
    q_length, kv_length, q_offset, kv_offset = place
    arguments = {
        "batch_size": 3,
        "q_length": q_length,
        "kv_length": kv_length,
        "q_offset": q_offset,
        "kv_offset": kv_offset,
        "mask_function": function,
        "attention_mask": None if padding is None else padding.bool(),
        "allow_is_causal_skip": False,
        "dtype": torch.float32,
        "config": None,
    }
    return theirs.sdpa_mask(**arguments), masks.mask(**arguments)


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("name", KNOWN)
def test_known(name, padding, place):
    matrix, visible = both(KNOWN[name], PADDINGS[padding], place)
    assert isinstance(visible, Visible)
    assert torch.equal(visible.tensor(), matrix)
    # Attention sees by the arguments what it sees by the matrix.
    numbers = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(3, 2, n, 8, generator=numbers) for n in (place[0], place[1], place[1]))
    arguments = visible.arguments()
    assert "mask" not in arguments or padding == "holes"
    got = fovea.attention(q, k, v, **arguments)
    wanted = fovea.attention(q, k, v, mask=matrix)
    # To rounding: keys of padded sequences count from their first key, not from the tensor's.
    assert torch.allclose(got, wanted, rtol=0, atol=1e-6)
    assert torch.equal(got == 0, wanted == 0)


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown(name):
    counters.reset()
    for padding in (None, PADDINGS["left"]):
        matrix, ours = both(UNKNOWN[name], padding, PLACES[0])
        assert ours.limits is None and ours.shape == matrix.shape
        assert torch.equal(ours.tensor(), matrix)
    assert counters.mask_tensors == 2


def test_offset_of_a_static_cache():
    matrix, visible = both(CAUSAL, None, (2, 10, torch.tensor(5), 0))
    assert torch.equal(visible.tensor(), matrix)
    assert visible.arguments() == {"causal": 5}


def test_arguments():
    _, visible = both(KNOWN["window"], PADDINGS["left"], PLACES[1])
    assert visible.arguments() == {
        "kv_lens": [10, 7, 1],
        "kv_starts": [0, 3, 9],
        "window": (3, None),
        "causal": [6, 3, -3],
    }


def test_as_a_tensor():
    """Models that take masks apart get the matrix."""
    matrix, visible = both(CAUSAL, PADDINGS["left"], PLACES[0])
    assert visible.shape == matrix.shape and visible.dtype == torch.bool
    assert torch.equal(visible[:, :, :, :4], matrix[:, :, :, :4])
    assert torch.equal(~visible, ~matrix)
    assert torch.equal(visible & matrix, matrix) and torch.equal(matrix & visible, matrix)
    assert torch.equal(torch.cat([visible, matrix], 0), torch.cat([matrix, matrix], 0))
    assert torch.equal(torch.where(visible, 1.0, -1.0), torch.where(matrix, 1.0, -1.0))
    assert torch.equal(visible.to(torch.float32) * 2, matrix * 2.0)
