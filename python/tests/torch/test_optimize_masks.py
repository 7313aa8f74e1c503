"""Masks of packed nn.MultiheadAttention: torch's numbers for those that torch takes, and torch's errors for others."""

import pytest
import torch
from optimized import close
from torch import nn

from fovea.torch import optimize

B, L, S, HEADS = 3, 5, 7, 4


def masks(dtype):
    pairs = torch.rand(L, S, generator=torch.Generator().manual_seed(1)) > 0.8
    padding = torch.zeros(B, S, dtype=torch.bool)
    padding[1, 4:] = True
    return {
        "pairs": {"attn_mask": pairs},
        "pairs, transposed": {"attn_mask": pairs.t()},
        "heads": {"attn_mask": pairs.expand(B * HEADS, L, S)},
        "heads, transposed": {"attn_mask": pairs.t().expand(B * HEADS, S, L)},
        "heads in front": {"attn_mask": pairs.expand(B, HEADS, L, S)},
        "one axis": {"attn_mask": pairs[0]},
        "uint8": {"attn_mask": pairs.byte()},
        "int64": {"attn_mask": pairs.long()},
        "float64": {"attn_mask": pairs.double()},
        "float16": {"attn_mask": pairs.half()},
        "float32": {"attn_mask": pairs.float()},
        "padding": {"key_padding_mask": padding},
        "padding, transposed": {"key_padding_mask": padding.t()},
        "padding, one axis": {"key_padding_mask": padding[1]},
        "padding, uint8": {"key_padding_mask": padding.byte()},
        "padding, int64": {"key_padding_mask": padding.long()},
        "padding, float64": {"key_padding_mask": padding.double()},
        "padding, floats": {"key_padding_mask": padding.to(dtype), "attn_mask": pairs.to(dtype)},
        "causal without a mask": {"key_padding_mask": padding, "is_causal": True},
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("batch_first", [True, False, None])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", masks(torch.float32))
def test_masks_are_torch_s(name, dtype, batch_first, need_weights):
    """batch_first None: tokens without a batch"""
    model = nn.MultiheadAttention(16, HEADS, batch_first=bool(batch_first)).to(dtype).eval()
    given, fast = masks(dtype)[name], optimize(model)
    q, k = torch.randn(B, L, 16).to(dtype), torch.randn(B, S, 16).to(dtype)
    if batch_first is None:
        q, k = q[1], k[1]
    elif not batch_first:
        q, k = q.transpose(0, 1), k.transpose(0, 1)
    with torch.no_grad():
        try:
            want = model(q, k, k, need_weights=need_weights, **given)
        except Exception as error:
            with pytest.raises(type(error)) as raised:
                fast(q, k, k, need_weights=need_weights, **given)
            assert str(raised.value) == str(error)
        else:
            for got, one in zip(fast(q, k, k, need_weights=need_weights, **given), want):
                assert one is got is None or close(got, one, 4e-6 if dtype is torch.float32 else 0.03) is None
