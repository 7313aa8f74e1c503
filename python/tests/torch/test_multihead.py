"""fovea.MultiHead with the weights of nn.MultiheadAttention."""

import pytest
import torch

import fovea


@pytest.mark.parametrize("kdim, vdim", [(None, None), (20, 28)])
@pytest.mark.parametrize("bias", [True, False])
def test_like_nn_multihead_attention(kdim, vdim, bias):
    torch.manual_seed(3)
    m = torch.nn.MultiheadAttention(24, 4, kdim=kdim, vdim=vdim, bias=bias, batch_first=True).eval()
    for p in m.parameters():
        torch.nn.init.normal_(p, std=0.3)
    o = dict(o=m.out_proj.weight, o_bias=m.out_proj.bias)
    q, k, v = torch.randn(2, 9, 24), torch.randn(2, 300, kdim or 24), torch.randn(2, 300, vdim or 24)
    if kdim is None:
        layer = fovea.MultiHead(q_heads=4, fused=m.in_proj_weight, fused_bias=m.in_proj_bias, inputs="separate", **o)
    else:
        biases = m.in_proj_bias.chunk(3) if bias else (None,) * 3
        biases = dict(zip(("q_bias", "k_bias", "v_bias"), biases))
        weights = dict(q=m.q_proj_weight, k=m.k_proj_weight, v=m.v_proj_weight)
        layer = fovea.MultiHead(q_heads=4, inputs="separate", **weights, **biases, **o)
    out, weights = layer(q, k, v, return_weights=True)
    assert isinstance(out, torch.Tensor)
    with torch.no_grad():
        expected, expected_weights = m.double()(q.double(), k.double(), v.double(), average_attn_weights=False)
    assert torch.allclose(out.double(), expected, rtol=0, atol=5e-6)
    assert torch.allclose(weights.double(), expected_weights, rtol=0, atol=1e-6)
