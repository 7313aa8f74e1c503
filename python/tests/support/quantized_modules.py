"""Modules with quantized weights as GPTQModel, auto-gptq, AutoAWQ and compressed-tensors make them: names of classes,
attributes and buffers alone. They compute as those do: weights become floats of x's type, and torch multiplies.
"""

import types

import numpy
import torch
import torch.nn.functional as F
from quantized_weights import awq, compressed, fp8, gptq, int8
from torch import nn


class _Quantized(nn.Module):
    def __init__(self, given, bias, **attributes):
        super().__init__()
        self.out_features, self.in_features = given.numbers.shape
        vars(self).update(attributes)
        vars(self)["numbers"] = torch.from_numpy(given.numbers)  # no buffer: the packages compute them from theirs
        self.register_buffer("bias", None if bias is None else bias.half())

    def forward(self, x):
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return F.linear(x, self.numbers.to(x.dtype), bias)


class TorchLinear(_Quantized):
    """GPTQModel's: zeros of the second format in memory."""

    def qzero_format(self):
        return self.claimed


class QuantLinear(_Quantized):
    """auto-gptq's: zeros of the first format."""


class WQLinear_GEMM(_Quantized):
    """AutoAWQ's."""


class AwqTorchLinear(_Quantized):
    """GPTQModel's, of AWQ."""


class MarlinLinear(_Quantized):
    """One whose words are in the order of its kernel."""


class CompressedLinear(nn.Linear):
    """compressed-tensors'."""

    def forward(self, x):
        return F.linear(x, self.numbers.to(x.dtype), None if self.bias is None else self.bias.to(x.dtype))


def _tensor(array):
    return torch.from_numpy(numpy.ascontiguousarray(array))


def gptq_module(rng, inner, out, group=32, kind=TorchLinear, bias=True, claimed=2, **options):
    first = kind is QuantLinear or claimed == 1
    g = gptq(rng, inner, out, group, first_format=first, **options)
    attributes = {"bits": g.bits, "group_size": group, "maxq": 15}
    if kind is not QuantLinear:
        attributes |= {"sym": bool(options.get("symmetric")), "claimed": claimed, "adapter": None}
    module = kind(g, torch.randn(out) if bias else None, **attributes)
    module.register_buffer("qweight", _tensor(g.weight))
    module.register_buffer("qzeros", _tensor(g.options["zeros"]))
    module.register_buffer("scales", _tensor(g.options["scales"]))
    module.register_buffer("g_idx", torch.from_numpy(g.integers["g_idx"]).int())
    return module


def awq_module(rng, inner, out, group=32, kind=WQLinear_GEMM, bias=True):
    g = awq(rng, inner, out, group)
    bits = {"w_bit": 4} if kind is WQLinear_GEMM else {"bits": 4, "sym": False}
    module = kind(g, torch.randn(out) if bias else None, group_size=group, **bits)
    for name, array in (("qweight", g.weight), ("qzeros", g.options["zeros"]), ("scales", g.options["scales"])):
        module.register_buffer(name, _tensor(array))
    return module


def _compressed(g, bias, weights):
    out, inner = g.numbers.shape
    module = CompressedLinear(inner, out, bias=bias)
    vars(module)["numbers"] = torch.from_numpy(g.numbers)
    scheme = types.SimpleNamespace(weights=weights, input_activations=None, output_activations=None)
    vars(module).update(quantization_scheme=scheme, quantization_status="compressed")
    return module


def _put(module, **tensors):
    for name, value in tensors.items():
        setattr(module, name, nn.Parameter(value, requires_grad=False))


def packed_module(rng, inner, out, group=32, bias=True, **options):
    g = compressed(rng, inner, out, group, **options)
    symmetric = "zeros" not in g.options
    module = _compressed(g, bias, types.SimpleNamespace(num_bits=g.bits, symmetric=symmetric, group_size=group))
    del module.weight
    _put(module, weight_packed=_tensor(g.weight), weight_scale=_tensor(g.options["scales"]))
    _put(module, weight_shape=torch.tensor([out, inner]))
    if not symmetric:
        _put(module, weight_zero_point=_tensor(g.options["zeros"]))
    order = g.options.get("g_idx")
    _put(module, weight_g_idx=torch.full((inner,), -1) if order is None else _tensor(order))
    return module


def _float8(g):
    return _tensor(g.weight).view(torch.float8_e4m3fn)


class FP8Linear(nn.Linear):
    """As transformers' one, which needs kernels of a GPU, without rounding its input."""

    def __init__(self, g, bias, block_size=(128, 128)):
        out, inner = g.weight.shape
        super().__init__(inner, out, bias=bias)
        self.block_size, self.numbers = block_size, torch.from_numpy(g.numbers)
        self.weight = nn.Parameter(_float8(g), requires_grad=False)
        self.weight_scale_inv = nn.Parameter(_tensor(g.options["scales"]), requires_grad=False)

    def forward(self, x):
        return F.linear(x.double(), self.numbers, None if self.bias is None else self.bias.double()).to(x.dtype)


def float_module(rng, inner, out, bias=True):
    g = fp8(rng, inner, out)
    module = _compressed(g, bias, types.SimpleNamespace(num_bits=8, symmetric=True))
    del module.weight
    _put(module, weight=_float8(g), weight_scale=_tensor(g.options["scales"]))
    return module


def int8_module(rng, inner, out, bias=True):
    g = int8(rng, inner, out, inner)
    module = _compressed(g, bias, types.SimpleNamespace(num_bits=8, symmetric=True))
    del module.weight
    _put(module, weight=_tensor(g.weight), weight_scale=_tensor(g.options["scales"]))
    return module


MODULES = {
    "gptq": gptq_module,
    "gptq 8 bits": lambda *a, **o: gptq_module(*a, **o, bits=8),
    "gptq symmetric": lambda *a, **o: gptq_module(*a, **o, symmetric=True),
    "gptq act-order": lambda *a, **o: gptq_module(*a, **o, act_order=True),
    "gptq first format": lambda *a, **o: gptq_module(*a, **o, claimed=1),
    "gptq symmetric, told by its values": lambda *a, **o: gptq_module(*a, **o, symmetric=True, claimed=1),
    "auto-gptq": lambda *a, **o: gptq_module(*a, **o, kind=QuantLinear),
    "auto-gptq symmetric": lambda *a, **o: gptq_module(*a, **o, kind=QuantLinear, symmetric=True),
    "awq": awq_module,
    "awq of gptqmodel": lambda *a, **o: awq_module(*a, **o, kind=AwqTorchLinear),
    "compressed": packed_module,
    "compressed 8 bits": lambda *a, **o: packed_module(*a, **o, bits=8),
    "compressed symmetric": lambda *a, **o: packed_module(*a, **o, symmetric=True),
    "compressed act-order": lambda *a, **o: packed_module(*a, **o, act_order=True),
    "compressed int8": lambda rng, inner, out, group=32, **o: int8_module(rng, inner, out, **o),
    "compressed float8": lambda rng, inner, out, group=32, **o: float_module(rng, inner, out, **o),
    "transformers float8": lambda rng, inner, out, group=32, bias=True: FP8Linear(fp8(rng, inner, out, 128, 128), bias),
}
