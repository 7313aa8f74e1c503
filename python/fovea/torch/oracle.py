"""The oracle for copies with quantized weights: the model with the numbers that these weights stand for, computed by torch as arithmetic
q16 is defined (kernels/groups.h). Its results differ from the copy's only by float32's rounding, including an x that rounds the other way,
so bounds need no allowance for quantization.

A wrong oracle would agree with a wrong copy: check_weights() says that the numbers are the model's. Weights that
optimize() rounded are near those of the model. Modules that were quantized before are asked: each multiplies some unit
vectors, and the products must be the numbers to less than half a step of the integers.
"""

import functools

import torch
import torch.nn.functional as F
from torch import nn

from .encoders import call_modules
from .packed import Conv1D as PackedConv1D
from .packed import Linear as PackedLinear
from .packed import numbers_of
from .packed_mha import MultiheadAttention as PackedMultiheadAttention
from .quantized import Stored
from .weights import BLOCKS

_MOST, _TINY = 16319, 2.0**-112  # of q16: the largest integer of x; groups of smaller numbers are 0
_WIDEST = 1024  # channels of a group, at most
_NEAR = {"int8": 200, "q8_0": 200}  # of the largest of a block, what part its numbers are off at most; else 7: of 4 bits


def is_quantized(quant) -> bool:
    """Whether a module has quantized weights: a word, a Stored, or words by the names of its weights."""
    return any(quant.values()) if isinstance(quant, dict) else quant is not None


def rounded(x, group: int, order=None):
    """x as q16 has it, as floats. order: channels, group after group."""
    x = x.float()
    x = x if order is None else x[..., order]
    groups = F.pad(x, (0, -x.shape[-1] % group)).unflatten(-1, (-1, group))
    top = groups.abs().amax(-1, keepdim=True)
    numbers = torch.where(top < _TINY, 0.0, (groups * (_MOST / top)).round() * (top / _MOST))
    numbers = numbers.flatten(-2)[..., : x.shape[-1]]
    return numbers if order is None else numbers[..., torch.argsort(order)]


def _product(x, weight, bias, group, order, dtype):
    """The definition of a map with quantized weights, for x of any type; dtype: that of the map."""
    y = F.linear(rounded(x.to(dtype), group, order), weight, None if bias is None else bias.float())
    return y.to(dtype).to(x.dtype)


class Linear(nn.Linear):
    def forward(self, x):
        return self._map(x)


class MultiheadAttention(nn.MultiheadAttention):
    def forward(self, query, key, value, *args, **options):
        q, k, v = (project(x) for project, x in zip(self._maps, (query, key, value)))
        heads, weights = self._inner(q, k, v, *args, **options)  # its own weights are 1, and change nothing
        return self._last(heads), weights


def _groups(quant, in_features: int) -> tuple:
    """(channels of a group, order of channels or None)."""
    if not isinstance(quant, Stored):
        return min(in_features, _WIDEST) if quant == "int8" else 32, None
    size = in_features // (quant.scales.numel() // quant.out_features)
    order = None if quant.g_idx is None else torch.argsort(quant.g_idx.long(), stable=True)
    return min(size, _WIDEST), order


def _map_of(linear, part, quant, bias):
    """A function: what part of a fovea.Linear is defined as."""
    weight, dtype = numbers_of(linear, range(part, part + 1)), getattr(torch, linear.dtype)
    if quant is None:
        return functools.partial(F.linear, weight=weight, bias=bias)
    if isinstance(quant, Stored) and quant.kind == "fp8":  # computes in float32: x is not rounded
        return lambda x: F.linear(x.to(dtype).float(), weight, None if bias is None else bias.float()).to(dtype).to(x.dtype)
    group, order = _groups(quant, linear.in_features)
    return functools.partial(_product, weight=weight, bias=bias, group=group, order=order, dtype=dtype)


def _change_linear(plain, module, quant):
    if isinstance(quant, Stored):
        attributes = vars(nn.Linear(quant.in_features, quant.out_features, bias=False, device="meta"))
        vars(plain).clear()
        vars(plain).update(attributes, training=False)
        plain.weight = nn.Parameter(module.weight.clone(), requires_grad=False)
    plain.__class__ = Linear
    vars(plain)["_map"] = _map_of(module.packed, module._part, quant, module._bias)


def _change_attention(plain, module, words):
    biases = (None,) * 3 if module._bias is None else module._bias.chunk(3)
    packed = module.projections()
    places = [(name, part) for name, linear in packed.items() for part in range(len(linear.out_features))]
    maps = [_map_of(packed[name], part, words[name], bias) for (name, part), bias in zip(places, biases)]
    size, dtype = module.embed_dim, module.out_proj.weight.dtype
    inner = nn.MultiheadAttention(size, module.num_heads, bias=False, batch_first=module.batch_first, dtype=dtype)
    with torch.no_grad():
        inner.in_proj_weight.copy_(torch.eye(size).repeat(3, 1))
        inner.out_proj.weight.copy_(torch.eye(size))
    last = _map_of(module.out_proj.packed, 0, words["out_proj.weight"], module.out_proj._bias)
    plain.__class__ = MultiheadAttention
    vars(plain).update(_maps=maps, _inner=inner.eval().requires_grad_(False), _last=last)


def oracle(model, optimized, quants):
    """`model`, a copy of the original, as it is defined with the quantized weights of `optimized`. quants: {id of a
    module of `optimized`: the word of its weights, a Stored, or words by the names of its weights}."""
    for name, module in optimized.named_modules():
        quant = quants.get(id(module))
        if not is_quantized(quant):
            continue
        change = _change_attention if isinstance(module, PackedMultiheadAttention) else _change_linear
        change(model.get_submodule(name), module, quant)
    call_modules(model)
    return model


def of_the_same_weights(model, optimized):
    """`model`, a copy of the original, with the numbers that quantized weights of `optimized` stand for."""
    for name, module in optimized.named_modules():
        if isinstance(module, PackedLinear) and module.packed.quantization and not module._was_quantized:
            weights = {"weight": module.weight}
        elif isinstance(module, PackedMultiheadAttention):
            weights = {n: getattr(module, n) for n, linear in module.projections().items() if linear.quantization}
        else:
            continue
        for weight, value in weights.items():
            setattr(model.get_submodule(name), weight, nn.Parameter(value.detach().clone(), requires_grad=False))
    return model


# ---------------------------------------------------------------------------------------------- are they the model's? --


def _why_not_near(before, numbers, word) -> str | None:
    """Whether rounding moved weights [out, in] no further than it can."""
    block = numbers.shape[1] if word == "int8" else max(32, BLOCKS[word])
    error, before = (numbers - before.float()).unflatten(1, (-1, block)), before.float().unflatten(1, (-1, block))
    bound = before.abs().amax(2) / _NEAR.get(word, 7) + (0.0 if word == "int8" else 2.0**-20)  # scales of float16
    far = (error.abs().amax(2) > bound).nonzero()
    return f"are off by more than rounding to {word} can be, first in output channel {int(far[0, 0])}" if len(far) else None


def _run(module, x):
    """The module's products with the rows of x, in the widest type that it takes."""
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        try:
            return module(x.to(dtype))
        except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
            reason = error
    raise reason


def _probes(inner: int):
    """Some input channels: the first, which a wrong order of a word's integers moves, and others of all groups."""
    every = torch.linspace(0, inner - 1, min(inner, 96)).long()
    return torch.unique(torch.cat([torch.arange(min(inner, 16)), every]))


def _why_other(module, numbers, stored) -> str | None:
    """Whether a module that was quantized before multiplies by `numbers` [out, in], those of what it has stored."""
    channels, bits = _probes(stored.in_features), stored.options.get("bits", {"int8": 8, "fp8": 9}.get(stored.kind, 4))
    bias = torch.zeros(()) if stored.bias is None else stored.bias.detach().float().abs().max()
    size = float(2.0 ** torch.log2(bias / numbers.abs().max().clamp(min=1e-30)).ceil().clamp(0, 10))
    x = torch.zeros(len(channels) + 1, stored.in_features)
    x[torch.arange(len(channels)), channels] = size
    y = _run(module, x)
    got = (y[:-1].float() - y[-1:].float()) / size
    scales = stored.scales.float() if stored.kind in ("gptq", "awq") else stored.scales.float().t()  # [groups, out]
    if scales.shape[1] != stored.out_features:  # of blocks of 128 x 128
        scales = scales.repeat_interleave(128, 1)[:, : stored.out_features]
    group = torch.arange(stored.in_features) // (stored.in_features // scales.shape[0])
    step = scales[(group if stored.g_idx is None else stored.g_idx.long())[channels]].abs()
    eps = max(torch.finfo(t).eps for t in (torch.float16, y.dtype, stored.scales.dtype))  # they compute in 16 bits
    bound = 1.5 * eps * (step * 2**bits + y[-1:].float().abs() / size)
    far = ~((got - numbers[:, channels].t()).abs() <= bound)
    if not far.any():
        return None
    row, out = far.nonzero()[0].tolist()
    channel = int(channels[row])
    return f"input channel {channel} of output {out} is {got[row, out]:.4g}, read as {numbers[out, channel]:.4g}"


def check_weights(model, optimized, quants):
    """RuntimeError where numbers of quantized weights are not those of `model`, a copy of the original."""
    for name, module in optimized.named_modules():
        quant = quants.get(id(module))
        if not is_quantized(quant):
            continue
        plain = model.get_submodule(name)
        kind = f"{name or 'the model'} ({type(plain).__name__})"
        if isinstance(quant, Stored):
            try:
                why = _why_other(plain, numbers_of(module.packed, range(module._part, module._part + 1)), quant)
            except Exception as error:
                raise RuntimeError(f"optimize: {kind} cannot be run here, and not be compared: {error}") from error
            weights = {"weights": why}
        elif isinstance(quant, dict):
            weights = {n: _why_not_near(plain.get_parameter(n), numbers_of(p, range(len(p.out_features))), quant[n])
                       for n, p in module.packed_weights().items() if quant[n]}  # fmt: skip
        else:
            before = plain.weight.t() if isinstance(module, PackedConv1D) else plain.weight
            numbers = numbers_of(module.packed, range(module._part, module._part + 1))
            weights = {"weight": _why_not_near(before, numbers, quant)}
        for weight, why in weights.items():
            if why is not None:
                raise RuntimeError(f"optimize: the {weight} of {kind} {why}: use the original, and report this")
