"""fovea.torch.optimize() of modules that were quantized before: taken over where their layout is certain."""

import copy
import pickle

import numpy
import pytest
import quantized_modules as parts
import torch
from quantized_modules import MODULES, gptq_module, packed_module
from torch import nn

import fovea.torch


def rng_of(name):
    torch.manual_seed(0)
    return numpy.random.default_rng(sum(map(ord, name)))


class Block(nn.Module):
    """q and k of one input, an activation and a residual, between layers of floats."""

    def __init__(self, make, group, dtype=torch.float32):
        super().__init__()
        self.embed = nn.Linear(24, 128)
        self.q, self.k, self.o = make(128, 48, group), make(128, 48, group, bias=False), make(128, 128, group)
        self.act, self.down = nn.GELU(), make(128, 128, group)
        self.embed.to(dtype)

    def forward(self, x):
        x = self.embed(x)
        q = self.q(x)
        k = self.k(x)
        x = x + self.down(self.act(self.o(x)))
        return x[..., :48] + q * k


def wide(model, x):
    """The model in float64: its numbers are float64 as they are."""
    return copy.deepcopy(model).double()(x.double())


@pytest.mark.parametrize("group", [32, 64, 128])
@pytest.mark.parametrize("name", MODULES)
def test_taken_over(name, group):
    rng = rng_of(name)
    model = Block(lambda *sizes, **o: MODULES[name](rng, *sizes, **o), group).eval()
    x = torch.randn(2, 9, 24)
    fast = fovea.torch.optimize(model, example=x)
    assert not fast.fovea_report.left and len(fast.fovea_report.quantized) == 4, fast.fovea_report
    assert type(fast.q) is type(fast.embed) and fast.q.packed.quantization in ("gptq", "awq", "compressed-tensors", "int8", "fp8")
    with torch.no_grad():
        got, want = fast(x), wide(model, x)
        assert (got - want).abs().max() < 3e-4 * want.abs().max()  # of three maps behind each other
        assert torch.equal(fast(x[1:, 3:5]), got[1:, 3:5])
        assert torch.equal(pickle.loads(pickle.dumps(fast))(x), got) and torch.equal(copy.deepcopy(fast)(x), got)
        for dtype in (torch.float16, torch.bfloat16, torch.float32):  # as the module, whatever the model's type is
            x_in = torch.randn(3, 128).to(dtype)
            y, exact = fast.q(x_in), x_in.double() @ model.q.numbers.T + model.q.bias.double()
            assert y.dtype is dtype and (y - exact).abs().max() < (torch.finfo(dtype).eps + 1e-4) * exact.abs().max()
    if "act-order" not in name:
        assert any("one product with k" in line for line in fast.fovea_report.packed)
    with pytest.raises(RuntimeError, match="save the original"):
        fast.state_dict()
    assert (fast.q.weight - model.q.numbers).abs().max() < 1e-7 * model.q.numbers.abs().max()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_models(dtype):
    rng = rng_of("half")
    model = Block(lambda *sizes, **o: gptq_module(rng, *sizes, **o), 64, dtype).eval()
    fast = fovea.torch.optimize(model)
    x = torch.randn(5, 24).to(dtype)
    assert fast.q.packed.dtype == str(dtype).removeprefix("torch.")
    with torch.no_grad():
        want = wide(model, x)
        assert (fast(x) - want).abs().max() <= 2 * (model(x) - want).abs().max() + 1e-3 * want.abs().max()


def _values(module, value):
    module.qzeros.fill_(int.from_bytes(bytes([value | value << 4] * 4), "little", signed=True))


def _set(name, value):
    return lambda m: setattr(m, name, value)


def _buffer(name, change):
    return lambda m: m._buffers.__setitem__(name, change(m._buffers[name]))


def _nan(scales):
    scales = scales.clone()
    scales[0, 0] = float("nan")
    return scales


BROKEN = {  # what is done to a GPTQ module of 128 x 48, and the sentence
    "words of AWQ": (_buffer("qweight", lambda w: w.reshape(128, 6)), "qweight is"),
    "bits": (_set("bits", 3), "3 bits"),
    "other bits": (_set("bits", 8), "qweight is"),
    "symmetric, but is not": (_set("sym", True), "symmetric, but its zeros are"),
    "no format": (_set("claimed", None), "does not say whether its zeros"),
    "a zero that has two readings": (lambda m: (_set("claimed", 1)(m), _values(m, 15)), "which is 16 or 0"),
    "groups": (_buffer("scales", lambda s: s[:3]), "qzeros is"),
    "channels of groups": (_buffer("g_idx", lambda g: g // 2), "group"),
    "NaN": (_buffer("scales", _nan), "NaN or infinite"),
    "rotation": (_set("online_full_had", True), "rotates"),
    "adapter": (_set("adapter", object()), "adapter"),
    "hook": (lambda m: m.register_forward_hook(lambda *a: None), "hooks"),
    "own forward": (lambda m: setattr(m, "forward", lambda x: x), "forward of its own"),
    "another class": (lambda m: setattr(m, "__class__", parts.MarlinLinear), "order of its own"),
    "planar": (_set("planar", True), "planar"),
    "no words": (_buffer("qweight", lambda w: w.long()), "torch.int32"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_left_alone(name):
    change, sentence = BROKEN[name]
    module = gptq_module(rng_of(name), 128, 48)
    change(module)
    model = nn.Sequential(nn.Linear(16, 128), module).eval()
    fast = fovea.torch.optimize(model)
    (line,) = fast.fovea_report.left
    assert line.startswith("1: ") and sentence in line, line
    assert type(fast[1]) is type(module) and not fast.fovea_report.quantized
    x = torch.randn(3, 16)
    with torch.no_grad():
        assert torch.allclose(fast(x), model(x), atol=1e-5)


def test_zeros_of_auto_gptq_contradict():
    module = gptq_module(rng_of("auto"), 128, 48, kind=parts.QuantLinear, symmetric=True)
    _values(module, 8)
    (line,) = fovea.torch.optimize(nn.Sequential(module)).fovea_report.left
    assert "its zeros are all 8, which contradicts that they are stored less 1" in line


@pytest.mark.parametrize(
    "change, sentence",
    [
        (lambda m: setattr(m.quantization_scheme, "input_activations", object()), "quantizes its input"),
        (lambda m: setattr(m.quantization_scheme.weights, "num_bits", 8), "weight_packed is"),
        (lambda m: setattr(m.quantization_scheme.weights, "symmetric", True), "says that it is symmetric"),
        (lambda m: setattr(m, "weight_shape", nn.Parameter(torch.tensor([48, 64]), False)), "weight_packed is"),
        (lambda m: setattr(m, "weight_scale", nn.Parameter(m.weight_scale[:7], False)), "weight_scale is"),
        (lambda m: setattr(m, "weight_zero_point", nn.Parameter(m.weight_zero_point[:2], False)), "weight_zero_point is"),
    ],
)
def test_compressed_left_alone(change, sentence):
    module = packed_module(rng_of("compressed"), 128, 48)
    change(module)
    (line,) = fovea.torch.optimize(nn.Sequential(module)).fovea_report.left
    assert sentence in line, line


@pytest.mark.parametrize("name", MODULES)
def test_of_no_memory(name):
    """All buffers without memory, or one."""
    for which in (None, "g_idx", "scales", "weight_scale", "weight_shape"):
        module = MODULES[name](rng_of(name), 128, 48, 32)
        tensors = {**module._parameters, **module._buffers}
        if which is None:
            module.to("meta")
        elif tensors.get(which) is None:
            continue
        elif which in module._parameters:
            module._parameters[which] = nn.Parameter(tensors[which].to("meta"), requires_grad=False)
        else:
            module._buffers[which] = tensors[which].to("meta")
        assert fovea.torch.optimize(nn.Sequential(module)).fovea_report.left == ["0: its weights are on meta"]


STRANGE = {
    "scales": [torch.ones(()), torch.ones(0, 48), torch.ones(4, 48, 1), torch.ones(4, 48).double()],
    "qzeros": [torch.zeros((), dtype=torch.int32), torch.zeros(4, 6)],
    "qweight": [torch.zeros(1, dtype=torch.int32), torch.zeros(16, 48, dtype=torch.int32).to_sparse()],
    "g_idx": [torch.zeros(128, 1), torch.full((128,), float("nan")), torch.arange(128) // 32 - 1],
}


@pytest.mark.parametrize("buffer, place", [(name, i) for name, values in STRANGE.items() for i in range(len(values))])
def test_strange_buffers(buffer, place):
    module = gptq_module(rng_of("strange"), 128, 48)
    module._buffers[buffer] = STRANGE[buffer][place]
    fast = fovea.torch.optimize(nn.Sequential(module))
    assert len(fast.fovea_report.left) == 1 and type(fast[0]) is type(module), fast.fovea_report
