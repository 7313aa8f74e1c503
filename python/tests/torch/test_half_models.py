"""bfloat16 and float16 under torch's own attention, nn.MultiheadAttention and optimize(). With arithmetic="exact" errors against
float64 on the same numbers are not larger than torch's, and the bits are those of float32, rounded once; the fastest arithmetic, which
models take otherwise, keeps its bound."""

import copy

import pytest
import torch
import torch.nn.functional as F
from sdpa_cases import CASES
from torch import nn

import fovea.torch

TYPES = (torch.bfloat16, torch.float16)


@pytest.fixture(params=TYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
def dtype(request):
    return request.param


@pytest.fixture(autouse=True)
def exact_arithmetic():
    with fovea.config(arithmetic="exact"):
        yield


def rms(got, exact):
    return (got.double() - exact.double()).square().mean().sqrt().item()


def operands(name, dtype, float_mask):
    *shapes, options = CASES[name]
    options = dict(options)
    q, k, v = (torch.randn(shape).to(dtype) for shape in shapes)
    if "attn_mask" in options:
        mask = torch.rand(options["attn_mask"]) > 0.3
        mask[..., 0] = True
        options["attn_mask"] = torch.where(mask, torch.randn(mask.shape), -torch.inf).to(dtype) if float_mask else mask
    return q, k, v, options


def widened(options, dtype):
    return {n: x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x for n, x in options.items()}


@pytest.mark.parametrize(
    "name, float_mask", [(name, f) for name in CASES for f in (False, True)[: 1 + ("attn_mask" in CASES[name][3])]]
)
def test_sdpa(name, float_mask, dtype):
    q, k, v, options = operands(name, dtype, float_mask)
    exact = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), **widened(options, torch.float64))
    theirs = F.scaled_dot_product_attention(q, k, v, **options)
    with fovea.torch.enable():
        ours = F.scaled_dot_product_attention(q, k, v, **options)
        assert fovea.torch.counters() == {"fovea": {"sdpa": 1}, "torch": {}}
        wide = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), **widened(options, torch.float32))
    assert ours.dtype is dtype and ours.shape == theirs.shape
    assert rms(ours, exact) <= rms(theirs, exact) * 1.001
    assert torch.equal(ours, wide.to(dtype))


def test_a_mask_is_widened_as_it_is_stored(dtype):
    """Not as often as it is repeated."""
    mask = torch.randn(1, 1, 5, 7).to(dtype)
    wide = fovea.torch.types.wide(mask.expand(2, 3, 5, 7))
    assert torch.equal(wide, mask.float())


@pytest.mark.parametrize("name", CASES)
def test_sdpa_by_the_fastest(name):
    """Rounding weights p to bfloat16, before they multiply values and are summed, moves a result by 2^-8 sum p |v| at most; and there
    is the rounding at the end."""
    q, k, v, options = operands(name, torch.bfloat16, False)
    wide = [x.double() for x in (q, k, v)]
    exact = F.scaled_dot_product_attention(*wide, **options)
    reach = F.scaled_dot_product_attention(*wide[:2], wide[2].abs(), **options)
    with fovea.config(arithmetic="default"), fovea.torch.enable():
        ours = F.scaled_dot_product_attention(q, k, v, **options)
    assert ((ours.double() - exact).abs() <= 2**-8 * reach + 2**-9 * exact.abs() + 1e-6).all()


@pytest.mark.parametrize("name", ["plain", "causal", "boolean mask", "grouped"])
def test_gradients(name, dtype):
    q, k, v, options = operands(name, dtype, False)

    def gradients(kind, enabled):
        inputs = [x.detach().to(kind).requires_grad_() for x in (q, k, v)]
        with fovea.torch.enable() if enabled else torch.enable_grad():
            out = F.scaled_dot_product_attention(*inputs, **widened(options, kind))
        return torch.autograd.grad(out.square().sum(), inputs)

    exact, theirs, ours = gradients(torch.float64, False), gradients(dtype, False), gradients(dtype, True)
    assert fovea.torch.counters()["fovea"] == {"sdpa": 1}
    for e, t, o in zip(exact, theirs, ours):
        assert rms(o, e) <= rms(t, e) * 1.05  # torch's backward, with an output and a lse that are nearer


@pytest.mark.parametrize("weights", ["none", "mean", "heads"])
@pytest.mark.parametrize("fast", [False, True])
def test_mha(dtype, fast, weights):
    module = nn.MultiheadAttention(32, 4, batch_first=True).to(dtype).eval()
    x = torch.randn(3, 70, 32).to(dtype)
    padding = torch.zeros(3, 70, dtype=torch.bool)
    padding[1, 50:] = True
    wants = {"need_weights": weights != "none", "average_attn_weights": weights == "mean", "key_padding_mask": padding}
    torch.backends.mha.set_fastpath_enabled(fast)
    try:
        with torch.no_grad():
            theirs = module(x, x, x, **wants)
            with fovea.torch.enable():
                ours = module(x, x, x, **wants)
            assert not fovea.torch.counters()["torch"]
            packed = fovea.torch.optimize(module)(x, x, x, **wants)
            wide = x.double()
            exact = copy.deepcopy(module).double()(wide, wide, wide, **wants)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    for got in (ours, packed):
        assert got[0].dtype is dtype and rms(got[0], exact[0]) <= rms(theirs[0], exact[0]) * 1.05
        if weights != "none":
            assert got[1].dtype is dtype and rms(got[1], exact[1]) <= rms(theirs[1], exact[1]) * 1.05


def test_optimize(dtype):
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu"), 2).to(dtype).eval()
    x = torch.randn(3, 50, 32).to(dtype)
    fast = fovea.torch.optimize(model)
    assert not fast.fovea_report.left
    assert fast.fovea_report.packed_bytes == 2 * sum(p.numel() for n, p in model.named_parameters() if "norm" not in n)
    with torch.no_grad():
        ours, theirs, exact = fast(x), model(x), copy.deepcopy(model).double()(x.double())
    assert ours.dtype is dtype and rms(ours, exact) <= rms(theirs, exact)


def test_optimize_bits(dtype):
    """A product with GELU and residual: float32's, rounded once. Maps of different types of weights are not one product."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.act, self.down = nn.Linear(16, 40), nn.GELU(), nn.Linear(40, 16)

        def forward(self, x):
            return x + self.down(self.act(self.up(x)))

    model = Model().to(dtype)
    x = torch.randn(7, 16).to(dtype)
    wide = lambda linear, **options: fovea.Linear(linear.weight.float(), linear.bias.float(), **options)
    hidden = wide(model.up, activation="gelu")(x.float()).to(dtype)
    assert torch.equal(fovea.torch.optimize(model)(x), wide(model.down)(hidden.float(), x.float()).to(dtype))
