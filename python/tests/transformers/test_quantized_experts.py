"""Experts that were quantized before, FP8Experts and gpt-oss's Mxfp4GptOssExperts, in copies by optimize(): against the same models with
the numbers that their weights stand for. The classes are transformers' own, the tensors of Triton stand-ins."""

import copy
import types
import warnings

import pytest
import torch
from expert_models import model_of  # the families of test_experts.py
from torch import nn

import fovea.torch
import fovea.transformers

fp8 = pytest.importorskip("transformers.integrations.finegrained_fp8")
mxfp4 = pytest.importorskip("transformers.integrations.mxfp4")
FP8 = dict(block_size=(128, 128), activation_scheme="dynamic", scale_fmt="float", expert_dtype="fp8")
WIDE = dict(hidden_size=128, moe_intermediate_size=256, intermediate_size=256)


def draw_of():
    return torch.Generator().manual_seed(3)


def fill(parameter, draw):
    """Random numbers for weights or scales of any type."""
    size = parameter.shape
    if parameter.dtype is torch.int8:
        made = torch.randint(-128, 128, size, generator=draw, dtype=torch.int8)
    elif parameter.dtype is torch.float8_e8m0fnu:
        made = torch.randint(119, 123, size, generator=draw, dtype=torch.uint8).view(parameter.dtype)
    elif parameter.dtype is torch.float8_e4m3fn:
        made = torch.randn(size, generator=draw).to(parameter.dtype)
    else:
        made = torch.rand(size, generator=draw) / 8 + 0.05
    parameter.data = made


def fp8_models(name, form=(), **more):
    """(a model with FP8Experts, the same with their numbers)."""
    form, plain, draw = FP8 | dict(form), model_of(name, **WIDE | more), draw_of()
    made = copy.deepcopy(plain)
    kind = fp8.use_experts_implementation(fp8.FP8Experts, experts_interface=fp8.ALL_FP8_EXPERTS_FUNCTIONS)
    numbers = fp8.Fp8Dequantize(None)._dequantize_one
    for module, other in zip(list(plain.modules()), list(made.modules())):
        if hasattr(module, "experts"):
            other.experts = kind(config=other.experts.config, **form)
            for parameter in other.experts.parameters():
                fill(parameter, draw)
            for part in ("gate_up_proj", "down_proj"):
                weight, scales = (getattr(other.experts, part + end) for end in ("", "_scale_inv"))
                getattr(module.experts, part).data = numbers(weight.data, scales.data, torch.float32)
    return made, plain


class StridedLayout:
    def unswizzle_data(self, data):
        return data


class CUDALayout(StridedLayout):
    pass


def of_triton(tensor, layout=StridedLayout):
    return types.SimpleNamespace(storage=types.SimpleNamespace(layout=layout(), data=tensor.transpose(-1, -2)))


def mxfp4_models(dtype=torch.float32):
    """(gpt-oss with Mxfp4GptOssExperts, the same with their numbers)."""
    plain, draw = model_of("gpt_oss", hidden_size=64, intermediate_size=96), draw_of()
    made = copy.deepcopy(plain)
    for layer, other in zip(plain.model.layers, made.model.layers):
        experts = mxfp4.Mxfp4GptOssExperts(made.config)
        for part, (out, inner) in {"gate_up_proj": (192, 64), "down_proj": (64, 96)}.items():
            blocks = torch.randint(0, 256, (8, out, inner // 32, 16), dtype=torch.uint8, generator=draw)
            scales = torch.randint(119, 123, (8, out, inner // 32), dtype=torch.uint8, generator=draw)
            getattr(layer.mlp.experts, part).data = mxfp4.convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
            del experts._parameters[part]
            setattr(experts, part, of_triton(blocks.flatten(2)))
            setattr(experts, part + "_precision_config", types.SimpleNamespace(weight_scale=of_triton(scales)))
            getattr(experts, part + "_bias").data = getattr(layer.mlp.experts, part + "_bias").data.clone()
        other.mlp = mxfp4.Mxfp4GptOssMLP(other.mlp.router, experts)
    return made.eval(), plain


def assert_served(made, plain, bound):
    ids = torch.randint(3, 60, (3, 9), generator=draw_of())
    fast = fovea.torch.optimize(made)
    assert sum("(8 experts, " in line for line in fast.fovea_report.packed) == 2 and not fast.fovea_report.left, fast.fovea_report
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", fovea.transformers.FallbackWarning)
        want, got = plain(ids).logits, fast(ids).logits
        assert (got - want).abs().max() <= bound * want.abs().max()
        assert torch.equal(copy.deepcopy(fast)(ids).logits, got)
    return fast


@pytest.mark.parametrize("name", ["mixtral", "qwen3_moe", "deepseek_v3"])
def test_fp8(name):
    made, plain = fp8_models(name)
    fast = assert_served(made, plain, 1e-5)
    assert made.config._experts_implementation == "eager"
    before = sum(p.nbytes for module in made.modules() if hasattr(module, "has_gate") for p in module.parameters())
    experts = [fovea.transformers.experts._packed[m][1] for m in fast.modules() if m in fovea.transformers.experts._packed]
    assert {x.weight_dtype for x in experts} == {"f8_e4m3"} and sum(x.nbytes for x in experts) < 1.3 * before


def test_fp8_with_scales_of_exponents():
    assert_served(*fp8_models("qwen3_moe", dict(scale_fmt="ue8m0")), 1e-5)


def test_fp4():
    assert_served(*fp8_models("qwen3_moe", dict(scale_fmt="ue8m0", expert_dtype="fp4")), 1e-4)


@pytest.mark.parametrize("alpha", [1.702, None])
def test_fp8_with_a_limit(alpha):
    """Gates that are clamped, as FP8Experts of some families have them."""
    made, plain = fp8_models("qwen3_moe")
    for one, other in zip(made.modules(), plain.modules()):
        if hasattr(one, "has_gate"):
            one.swiglu_alpha, one.swiglu_limit, one.limit = alpha, 0.5, 0.5
            other._apply_gate = types.MethodType(fp8.FP8Experts._apply_gate, one)
    plain.set_experts_implementation("batched_mm")  # which calls it
    assert_served(made, plain, 1e-5)


def test_fp8_without_optimize():
    """The implementation is known to the interface of FP8Experts, too."""
    made, plain = fp8_models("mixtral")
    made.set_experts_implementation("fovea")
    ids = torch.tensor([[5, 7, 9]])
    with torch.no_grad():
        want = plain(ids).logits
        assert torch.allclose(made(ids).logits, want, rtol=1e-5, atol=1e-5 * want.abs().max().item())


def _set(name, value):
    return lambda module: setattr(module, name, value)


def _nan(module):
    module.down_proj_scale_inv.data[3, 0, 0] = float("nan")


FP8_LEFT = {
    "static": (dict(activation_scheme="static"), None, "rounds its inputs"),
    "blocks": (dict(block_size=(64, 64)), None, "blocks (64, 64)"),
    "one scale": (dict(block_size=None), None, "blocks None"),
    "FP4 with floats": (dict(expert_dtype="fp4"), None, "scales of torch.float32, not of exponents"),
    "softcap": ({}, lambda m: (_set("gate_softcap", 3.0)(m), _set("up_softcap", 3.0)(m)), "another activation"),
    "NaN": ({}, _nan, "NaN or infinite"),
    "shape": ({}, lambda m: _set("down_proj", nn.Parameter(m.down_proj.data[:, :, :128], False))(m), "not of 128 channels"),
    "scales": ({}, lambda m: setattr(m.down_proj_scale_inv, "data", m.down_proj_scale_inv.data[:, :, :1]), "down_scales has the shape"),
    "product": ({}, _set("linear", lambda *a, **o: None), "method of its own"),
    "forward": ({}, _set("forward", lambda *a, **o: None), "forward of its own"),
}


@pytest.mark.parametrize("name", FP8_LEFT)
def test_fp8_left_alone(name):
    form, change, sentence = FP8_LEFT[name]
    made, _ = fp8_models("qwen3_moe", form)
    if change:
        change(made.model.layers[1].mlp.experts)
    fast = fovea.torch.optimize(made)
    assert any(line.startswith("model.layers.1.mlp.experts: ") and sentence in line for line in fast.fovea_report.left), fast.fovea_report
    assert fast.config._experts_implementation == "eager" and not any("experts," in line for line in fast.fovea_report.packed)


def test_blocks_that_gate_and_up_share():
    made, _ = fp8_models("qwen3_moe", moe_intermediate_size=192)
    fast = fovea.torch.optimize(made)
    assert any("192 channels of gate and up, which are no blocks of 128" in line for line in fast.fovea_report.left), fast.fovea_report


def test_mxfp4():
    made, plain = mxfp4_models()
    fast = assert_served(made, plain, 1e-4)
    experts = fast.model.layers[0].mlp.experts
    assert experts.gate_up_proj is made.model.layers[0].mlp.experts.gate_up_proj  # not copied
    assert type(made.model.layers[0].mlp) is mxfp4.Mxfp4GptOssMLP and isinstance(fast.model.layers[0].mlp, mxfp4.Mxfp4GptOssMLP)


class CPUMegaBlocksMoeMLP(nn.Module):
    def forward(self, x):
        raise AssertionError("the kernel was called")


def test_mxfp4_with_the_forward_of_a_kernel():
    made, plain = mxfp4_models()
    for layer in made.model.layers:
        layer.mlp.forward = types.MethodType(CPUMegaBlocksMoeMLP.forward, layer.mlp)
    assert_served(made, plain, 1e-4)


def _gpu(mlp):
    mlp.experts.down_proj.storage.layout = CUDALayout()


def _narrow(mlp):
    data = mlp.experts.down_proj_precision_config.weight_scale.storage
    data.data = data.data[:, :2]


MXFP4_LEFT = {
    "not loaded": (lambda mlp: _set("gate_up_proj_precision_config", None)(mlp.experts), "has no scales of gate_up_proj"),
    "swizzled": (_gpu, "stored as CUDALayout"),
    "scales": (_narrow, "scales of down_proj of [8, 64, 2], not [8, 64, 3]"),
    "limit": (lambda mlp: _set("limit", None)(mlp.experts), "alpha and limit"),
    "router": (_set("router", nn.Linear(64, 8)), "router is a Linear"),
    "order of a kernel": (_set("packed_weight", True), "a kernel has changed the order"),
    "forward": (_set("forward", lambda x: x), "forward of its own"),
    "other tensors": (lambda mlp: _set("down_proj", object())(mlp.experts), "cannot be read"),
}


@pytest.mark.parametrize("name", MXFP4_LEFT)
def test_mxfp4_left_alone(name):
    change, sentence = MXFP4_LEFT[name]
    made, _ = mxfp4_models()
    change(made.model.layers[1].mlp)
    fast = fovea.torch.optimize(made)
    assert any(line.startswith("model.layers.1.mlp.experts: ") and sentence in line for line in fast.fovea_report.left), fast.fovea_report
    assert type(fast.model.layers[0].mlp) is mxfp4.Mxfp4GptOssMLP
