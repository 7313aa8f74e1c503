"""Linear modules whose weights were quantized before: of GPTQModel, auto-gptq, AutoAWQ, compressed-tensors, and transformers' FP8.

read() knows them by the names of their classes and by their buffers; none of these packages is imported. What it takes is
what fovea.Linear.quantized() takes. Where shapes or values contradict what a module says, or leave two readings, the
module stays as it is, with a sentence.
"""

from dataclasses import dataclass, field
from typing import Any

import torch

from .exact import call_hooks

# Classes that keep words as files have them. Others (Marlin, Machete, ExLlama, ...) order them for their kernels.
_GPTQ = {"TorchLinear", "TorchQuantLinear", "TritonV2Linear", "TritonV2QuantLinear", "QuantLinear"}
_AWQ = {"WQLinear_GEMM", "AwqTorchLinear", "AwqTorchQuantLinear", "AwqGEMMLinear", "AwqGEMMQuantLinear"}
_FIRST_FORMAT = {"QuantLinear"}  # auto-gptq's, whose zeros are stored less 1 in memory, too
_FP8 = torch.float8_e4m3fn
_ROTATIONS = ("online_full_had", "online_partial_had")


@dataclass
class Stored:
    """Arguments of fovea.Linear.quantized() for one module."""

    kind: str
    weight: torch.Tensor
    in_features: int
    out_features: int
    scales: torch.Tensor
    zeros: torch.Tensor | None = None
    g_idx: torch.Tensor | None = None
    bias: torch.Tensor | None = None
    options: dict[str, Any] = field(default_factory=dict)  # what maps that are packed together have in common

    def alike(self) -> tuple:
        """Equal for maps that can be packed together."""
        order = None if self.g_idx is None else tuple(self.g_idx.tolist())
        groups = self.scales.numel() // self.out_features
        options = tuple(sorted(self.options.items()))
        return self.kind, self.in_features, groups, self.scales.dtype, self.zeros is None, options, order


class _No(Exception):
    """Why a module stays as it is."""


def read(module) -> Stored | str | None:
    """The quantized weights that a module stores, or why they are refused, or None if it stores none."""
    tensors = {**module._parameters, **module._buffers}
    name = type(module).__name__
    try:
        if _is_quantized(tensors):
            _check_devices(tensors)
        if tensors.get("qweight") is not None and tensors.get("scales") is not None:
            if name in _GPTQ:
                stored = _gptq(module, tensors)
            elif name in _AWQ:
                stored = _awq(module, tensors)
            else:
                raise _No(f"{name} has quantized weights in an order of its own")
        elif tensors.get("weight_packed") is not None and tensors.get("weight_scale") is not None:
            stored = _pack_quantized(module, tensors)
        elif tensors.get("weight_scale") is not None and tensors.get("weight") is not None:
            stored = _plain_quantized(module, tensors)
        elif tensors.get("weight_scale_inv") is not None and name == "FP8Linear" and tensors["weight"].dtype is _FP8:
            stored = _fp8(module, tensors)
        else:
            return None
        _check_module(module, tensors)
    except _No as reason:
        return str(reason)
    except Exception as error:  # of tensors that are no ordinary ones, or of attributes with a will of their own
        return f"what it has stored cannot be read: {error}"
    stored.bias = tensors.get("bias")
    return stored


def shared(module) -> list:
    """Objects that a copy of a module has no need of copying: its quantized weights."""
    if _is_quantized(module._buffers):
        return [b for b in module._buffers.values() if b is not None]
    if type(module).__name__ == "Mxfp4GptOssExperts":  # tensors of Triton, which are attributes
        return [value for name, value in vars(module).items() if name.startswith(("gate_up_proj", "down_proj"))]
    return []


def _check_module(module, tensors):
    if any(map(len, call_hooks(vars(module)))):
        raise _No("it has hooks")
    forward = vars(module).get("forward")
    if forward is not None and not _home(forward).startswith("compressed_tensors."):
        raise _No("it has a forward of its own")
    if getattr(module, "adapter", None) is not None:
        raise _No("it has an adapter")
    if module._modules:
        raise _No("it has children")
    if any(getattr(module, name, False) for name in _ROTATIONS):
        raise _No("it rotates its input")


def _is_quantized(tensors) -> bool:
    return any(tensors.get(name) is not None for name in ("qweight", "weight_packed", "weight_scale", "weight_scale_inv"))


def _check_devices(tensors):
    elsewhere = next((t.device for t in tensors.values() if t is not None and t.device.type != "cpu"), None)
    if elsewhere is not None:
        raise _No(f"its weights are on {elsewhere}")


def _home(function) -> str:
    return getattr(getattr(function, "__func__", function), "__module__", None) or ""


def _shape(tensor, name, *sizes):
    if tuple(tensor.shape) != sizes:
        raise _No(f"{name} is {list(tensor.shape)}, not {list(sizes)} as its layout says")
    return tensor


def _sizes(module) -> tuple[int, int]:
    inner = getattr(module, "in_features", getattr(module, "infeatures", None))
    out = getattr(module, "out_features", getattr(module, "outfeatures", None))
    if not isinstance(inner, int) or not isinstance(out, int) or inner < 1 or out < 1:
        raise _No("it does not say its in_features and out_features")
    return inner, out


def _int32(tensor, name):
    if tensor.dtype is not torch.int32:
        raise _No(f"{name} is {tensor.dtype}, not torch.int32")
    return tensor


def unpack(words, bits: int):
    """The integers of the words of a row, the lowest bits first: [..., words * 32 / bits]."""
    shifts = torch.arange(0, 32, bits, dtype=torch.int32)
    return ((words[..., None] >> shifts) & ((1 << bits) - 1)).flatten(-2)


# ------------------------------------------------------------------------------------------------------------- GPTQ --


def _gptq(module, tensors) -> Stored:
    inner, out = _sizes(module)
    bits = getattr(module, "bits", None)
    if bits not in (4, 8):
        raise _No(f"its weights have {bits} bits; 4 and 8 are taken")
    if getattr(module, "planar", False):
        raise _No("its words are planar")
    per = 32 // bits
    weight = _shape(_int32(tensors["qweight"], "qweight"), "qweight", inner // per, out)
    groups = tensors["scales"].shape[0]
    scales = _shape(tensors["scales"], "scales", groups, out)
    zeros = tensors.get("qzeros")
    if zeros is not None:
        _shape(_int32(zeros, "qzeros"), "qzeros", groups, out // per)
    g_idx = tensors.get("g_idx")
    g_idx = None if g_idx is None or not g_idx.numel() else _shape(g_idx, "g_idx", inner)
    if g_idx is not None and torch.equal(g_idx.long(), torch.arange(inner) // (inner // groups)):
        g_idx = None
    offset = 0 if zeros is None else _zero_offset(module, zeros, bits)
    return Stored("gptq", weight, inner, out, scales, zeros, g_idx, options={"bits": bits, "zero_offset": offset})


def _zero_offset(module, qzeros, bits: int) -> int:
    """1 for zeros that are stored less 1 (GPTQ's first format), else 0. Symmetric weights tell it by their only zero,
    which is half of the range; of others a module says it."""
    half, zeros = 1 << bits - 1, unpack(qzeros, bits)
    least, most = int(zeros.min()), int(zeros.max())
    symmetric = getattr(module, "sym", None)
    claimed = getattr(module, "qzero_format", None)
    claimed = claimed() if callable(claimed) else 1 if type(module).__name__ in _FIRST_FORMAT else claimed
    if symmetric:
        if least != most or least not in (half - 1, half):
            raise _No(f"it says that it is symmetric, but its zeros are {least} to {most}, neither {half - 1} nor {half}")
        return half - least
    if claimed not in (1, 2):
        raise _No("it does not say whether its zeros are stored less 1")
    if symmetric is None and least == most and half - least != 2 - claimed and least in (half - 1, half):
        raise _No(f"its zeros are all {least}, which contradicts that they are stored {'less 1' if claimed == 1 else 'as they are'}")
    if claimed == 1 and most == 2 * half - 1:
        raise _No(f"a zero is stored as {most}, which is {most + 1} or 0")
    return 2 - claimed


# -------------------------------------------------------------------------------------------------------------- AWQ --


def _awq(module, tensors) -> Stored:
    inner, out = _sizes(module)
    bits = getattr(module, "bits", getattr(module, "w_bit", None))
    if bits != 4:
        raise _No(f"its weights have {bits} bits; 4 are taken")
    weight = _shape(_int32(tensors["qweight"], "qweight"), "qweight", inner, out // 8)
    groups = tensors["scales"].shape[0]
    scales = _shape(tensors["scales"], "scales", groups, out)
    zeros = tensors.get("qzeros")
    if zeros is None:
        raise _No("it has no zeros")
    _shape(_int32(zeros, "qzeros"), "qzeros", groups, out // 8)
    return Stored("awq", weight, inner, out, scales, zeros)


# ----------------------------------------------------------------------------------------------- compressed-tensors --


def _scheme(module):
    """The arguments of a module's weights, or None."""
    scheme = getattr(module, "quantization_scheme", None)
    if getattr(scheme, "input_activations", None) is not None or getattr(scheme, "output_activations", None) is not None:
        raise _No("it quantizes its input or output, too")
    return getattr(scheme, "weights", None)


def _ct_scales(tensors, inner, out):
    scales = tensors["weight_scale"]
    if scales.numel() == 1:  # of the whole tensor
        return scales.detach().reshape(1, 1).expand(out, 1).contiguous()
    groups = scales.shape[1] if scales.dim() == 2 else 1
    if scales.dim() > 2 or scales.shape[0] != out or inner % groups:
        raise _No(f"weight_scale is {list(scales.shape)}, which is not [{out}, groups]")
    return scales.detach().reshape(out, groups)


def _ct_order(tensors, inner):
    g_idx = tensors.get("weight_g_idx")
    if g_idx is None or bool((g_idx == -1).any()):  # -1: no act-order
        return None
    return _shape(g_idx.detach(), "weight_g_idx", inner)


def _pack_quantized(module, tensors) -> Stored:
    weights = _scheme(module)
    weight = _int32(tensors["weight_packed"].detach(), "weight_packed")
    shape = tensors.get("weight_shape")
    if shape is None or shape.numel() != 2 or weight.dim() != 2:
        raise _No("it does not say the shape of its weights")
    out, inner = map(int, shape.tolist())
    bits = getattr(weights, "num_bits", None) or next((b for b in (4, 8) if weight.shape[1] == -(-inner * b // 32)), None)
    if bits not in (4, 8):
        raise _No(f"its weights have {bits} bits; 4 and 8 are taken")
    if inner % (32 // bits):
        raise _No(f"{inner} input channels do not fill words of {32 // bits}")
    _shape(weight, "weight_packed", out, inner * bits // 32)
    scales = _ct_scales(tensors, inner, out)
    zeros = tensors.get("weight_zero_point")
    if zeros is not None and zeros.dtype is not torch.int32:
        if bool(zeros.bool().any()):
            raise _No(f"weight_zero_point is {zeros.dtype}, not words")
        zeros = None
    if zeros is not None:
        zeros = _shape(zeros.detach(), "weight_zero_point", -(-out * bits // 32), scales.shape[1])
    if getattr(weights, "symmetric", zeros is None) is not (zeros is None):
        raise _No("it has zeros but says that it is symmetric, or the other way round")
    options = {"bits": bits}
    return Stored("compressed-tensors", weight, inner, out, scales, zeros, _ct_order(tensors, inner), options=options)


def _plain_quantized(module, tensors) -> Stored:
    """int-quantized and float-quantized: a byte for each weight."""
    _scheme(module)
    weight, zeros = tensors["weight"].detach(), tensors.get("weight_zero_point")
    kind = {torch.int8: "int8", _FP8: "fp8"}.get(weight.dtype)
    if kind is None or weight.dim() != 2:
        raise _No(f"its weights are {weight.dtype}, which are not taken with scales")
    if zeros is not None and bool(zeros.to(torch.float32).any()):
        raise _No(f"its {kind} weights have zeros")
    if _ct_order(tensors, weight.shape[1]) is not None:
        raise _No(f"its {kind} weights have an act-order")
    out, inner = weight.shape
    return Stored(kind, weight, inner, out, _ct_scales(tensors, inner, out))


# ----------------------------------------------------------------------------------------------- FP8 of transformers --


def _fp8(module, tensors) -> Stored:
    """A scale for all weights, or for each block of 128 x 128. Inputs are not rounded to FP8, as the module's kernels do."""
    weight, scales = tensors["weight"].detach(), tensors["weight_scale_inv"].detach()
    out, inner = weight.shape
    if scales.numel() == 1:
        scales = scales.reshape(1, 1).expand(out, 1).contiguous()
    elif module.block_size is None or tuple(module.block_size) != (128, 128) or not scales.dtype.is_floating_point:
        raise _No(f"its scales are {scales.dtype} of blocks {module.block_size}; float32 of (128, 128) are taken")
    return Stored("fp8", weight, inner, out, scales)
