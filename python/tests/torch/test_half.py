"""bfloat16 and float16 in fovea.Linear and fovea.MultiHead: the bits of float32 on the same numbers, rounded once at each step's end."""

import numpy as np
import pytest
import torch

import fovea

TYPES = (torch.bfloat16, torch.float16)
HEADS, D, WIDTH = 4, 16, 64


def name(dtype):
    return str(dtype).removeprefix("torch.")


def same(a, b):
    return a.dtype is b.dtype and a.shape == b.shape and torch.equal(a.view(torch.int16), b.view(torch.int16))


@pytest.fixture(params=TYPES, ids=name)
def dtype(request):
    return request.param


def test_linear(dtype, tiers):
    x, r = torch.randn(2, 37, WIDTH).to(dtype), torch.randn(2, 37, 100).to(dtype)
    w, b = torch.randn(100, WIDTH).to(dtype), torch.randn(100).to(dtype)
    wide = fovea.Linear(w.float(), b.float(), activation="gelu")(x.float(), r.float()).to(dtype)
    make = lambda: fovea.Linear(w, b, activation="gelu")
    assert same(make()(x, r), wide)
    assert tiers(lambda: make()(x, r).view(torch.int16)) is not None
    out = r.clone()
    assert make()(x, out, out=out) is out and same(out, wide)
    parts = fovea.Linear([w, w[:32]], [b, None], heads=[None, 4])(x)
    assert same(parts[0], fovea.Linear(w.float(), b.float())(x.float()).to(dtype))
    assert same(parts[1], fovea.Linear(w[:32].float(), heads=4)(x.float()).to(dtype))
    lens = fovea.Linear(w)(x, lens=[37, 5])
    assert not lens[1, 5:].any() and same(lens[1, :5], fovea.Linear(w)(x[1, :5]))


def test_other_types_of_x(dtype):
    """dtype= is that of x and y, whatever the weight's."""
    w, x = torch.randn(100, WIDTH), torch.randn(5, WIDTH)
    assert torch.equal(fovea.Linear(w.to(dtype), dtype="float32")(x), fovea.Linear(w.to(dtype).float())(x))
    mixed = fovea.Linear(w, torch.randn(100).to(dtype), dtype=name(dtype))
    assert mixed(x.to(dtype)).dtype is dtype
    with pytest.raises(TypeError, match=f"x must be {name(dtype)}, not float32"):
        mixed(x)
    with pytest.raises(TypeError, match=f"out must be {name(dtype)}, not float32"):
        mixed(x.to(dtype), out=torch.empty(5, 100))
    with pytest.raises(TypeError, match=f"residual must be {name(dtype)}, not float32"):
        mixed(x.to(dtype), torch.empty(5, 100))
    with pytest.raises(ValueError, match="dtype must be 'float32', 'bfloat16' or 'float16', not 'float64'"):
        fovea.Linear(w, dtype="float64")


def weights(dtype):
    torch.manual_seed(1)
    w = {n: (torch.randn(WIDTH, WIDTH) / 8).to(dtype) for n in "qkvo"}
    return w, {f"{n}_bias": torch.randn(WIDTH).to(dtype) for n in "qkvo"}


def steps(x, w, b):
    heads = [fovea.Linear(w[n], b[f"{n}_bias"], heads=HEADS)(x) for n in "qkv"]
    return fovea.Linear(w["o"], b["o_bias"])(fovea.attention(*heads))


def test_multihead(dtype, tiers):
    w, b = weights(dtype)
    x = torch.randn(2, 300, WIDTH).to(dtype)
    layer = fovea.MultiHead(q_heads=HEADS, **w, **b)
    y, lse, probabilities = layer(x, return_lse=True, return_weights=True)
    assert same(y, steps(x, w, b)) and lse.dtype is probabilities.dtype is torch.float32
    fused = torch.cat([w[n] for n in "qkv"]), torch.cat([b[f"{n}_bias"] for n in "qkv"])
    layer = fovea.MultiHead(q_heads=HEADS, fused=fused[0], fused_bias=fused[1], o=w["o"], o_bias=b["o_bias"])
    assert same(layer(x), y)
    assert tiers(lambda: fovea.MultiHead(q_heads=HEADS, **w, **b)(x).view(torch.int16)) is not None
    with pytest.raises(TypeError, match=f"q must be {name(dtype)}"):
        layer(x.float())
    with pytest.raises(TypeError, match="of one type"):
        fovea.MultiHead(q_heads=HEADS, **w, q_bias=b["q_bias"], k_bias=b["k_bias"].float())


def test_multihead_of_other_weights(dtype):
    """Weights of 16 bits under float32 inputs: the same numbers, no step rounded."""
    w, b = weights(dtype)
    x = torch.randn(2, 9, WIDTH)
    layer = fovea.MultiHead(q_heads=HEADS, **w, **b, dtype="float32")
    wide = fovea.MultiHead(q_heads=HEADS, **{n: a.float() for n, a in w.items()}, **{n: a.float() for n, a in b.items()})
    assert torch.equal(layer(x), wide(x))


def test_errors_are_not_larger_than_torchs(dtype):
    """Against float64 on the same 16-bit numbers."""
    w, b = weights(dtype)
    module = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).eval()
    module.in_proj_weight.data, module.in_proj_bias.data = (torch.cat([w[n] for n in "qkv"]),
                                                            torch.cat([b[f"{n}_bias"] for n in "qkv"]))  # fmt: skip
    module.out_proj.weight.data, module.out_proj.bias.data = w["o"], b["o_bias"]
    x = torch.randn(2, 300, WIDTH).to(dtype)
    with torch.no_grad():
        theirs = module(x, x, x, need_weights=False)[0]
        exact = module.double()(x.double(), x.double(), x.double(), need_weights=False)[0]
    ours = fovea.MultiHead(q_heads=HEADS, **w, **b)(x)
    error = lambda y: (y.double() - exact).square().mean().sqrt().item()
    assert error(ours) <= error(theirs), (error(ours), error(theirs))


def test_numpy(dtype):
    kind = np.float16 if dtype is torch.float16 else pytest.importorskip("ml_dtypes").bfloat16
    x, w = (np.random.default_rng(i).standard_normal((20, 20)).astype(kind) for i in (1, 2))
    y = fovea.Linear(w)(x)
    assert y.dtype == kind and np.array_equal(y, fovea.Linear(w.astype(np.float32))(x.astype(np.float32)).astype(kind))
