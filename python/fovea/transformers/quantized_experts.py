"""Experts whose weights are quantized: transformers' FP8Experts, and Mxfp4GptOssExperts of gpt-oss, which need kernels of a GPU.

stored() has what such a module stores, and arguments() what fovea.Experts takes of it: FP8 with a scale for each 128 x 128, and blocks of
32 E2M1 with an exponent, as they are. What the kernels round inputs to is left out. Where a module leaves two readings, both raise Left.
"""

import torch

from fovea.torch.exact import is_of_transformers

_FP8 = torch.float8_e4m3fn
_SQUARE = 128
_KERNEL = "MegaBlocksMoeMLP.forward"  # of a kernel that computes the same as Mxfp4GptOssMLP, on the experts' weights


class Left(Exception):
    """Why a module stays as it is: what it has or does."""


def is_mxfp4(module):
    """Whether a module is transformers' Mxfp4GptOssExperts, or the one of mxfp4.py."""
    return type(module).__name__ == "Mxfp4GptOssExperts"


def is_quantized(module):
    """Whether a module is what this file knows. FP8Experts may have weights of floats, too."""
    fp8 = type(module).__name__ == "FP8Experts" and module.down_proj.dtype in (_FP8, torch.int8)
    return fp8 or is_mxfp4(module)


def _check(right, sentence):
    if not right:
        raise Left(sentence)


def _unswizzled(wrapped):
    """The tensor in a tensor of Triton, [experts, out, ...]."""
    storage = wrapped.storage
    _check(type(storage.layout).__name__ == "StridedLayout", f"has blocks that are stored as {type(storage.layout).__name__}, for a GPU")
    return storage.layout.unswizzle_data(storage.data).transpose(-1, -2)


def stored(module):
    """{name: tensor} of a module's quantized weights, or None for another module."""
    if not is_quantized(module):
        return None
    if not is_mxfp4(module):
        return {name: p.detach() for name, p in module._parameters.items() if p is not None}
    tensors = {name: getattr(module, name).detach() for name in ("gate_up_proj_bias", "down_proj_bias")}
    for name in ("gate_up_proj", "down_proj"):
        config = getattr(module, f"{name}_precision_config", None)
        _check(config is not None, f"has no scales of {name}: load the model with transformers' MXFP4 kernels, or dequantize it")
        tensors[name], tensors[f"{name}_scales"] = _unswizzled(getattr(module, name)), _unswizzled(config.weight_scale)
    return tensors


def arguments(module, tensors, activation):
    """The arguments of fovea.Experts for what stored() gave. activation(module): those of its activation, or None."""
    return _mxfp4(module, tensors) if is_mxfp4(module) else _fp8(module, tensors, activation)


def _fp8(module, tensors, activation):
    _check(is_of_transformers(module, "integrations.finegrained_fp8"), "is another class of that name")
    _check(not {"forward", "linear"} & vars(module).keys(), "has a method of its own")
    _check(module.activation_scheme == "dynamic", "rounds its inputs with scales of its own")
    options = activation(module)
    _check(options is not None, "has another activation than fovea.Experts")
    first = "gate_up_proj" if module.has_gate else "up_proj"
    down, down_scales = tensors["down_proj"], tensors["down_proj_scale_inv"]
    both, scales = tensors[first], tensors[f"{first}_scale_inv"]
    if down.dtype is torch.int8:
        _check(down_scales.dtype is torch.float8_e8m0fnu, f"has FP4 with scales of {down_scales.dtype}, not of exponents alone")
        both, scales, down, down_scales = (x.view(torch.uint8) for x in (both, scales, down, down_scales))
        kind, middle, rows = "gguf:MXFP4", 2 * down.shape[2], 1
    else:
        size = module.block_size
        _check(size is not None and tuple(size) == (_SQUARE, _SQUARE), f"has scales of blocks {size}; (128, 128) are taken")
        kind, middle, rows = "fp8", down.shape[2], _SQUARE
        scales, down_scales = scales.float(), down_scales.float()
    _check(both.shape[1] == middle * (2 if module.has_gate else 1), f"has {first} of {list(both.shape)}, which is not of {middle} channels")
    _check(middle % rows == 0, f"has {middle} channels of gate and up, which are no blocks of {rows}")
    if module.has_gate:
        options |= {"gate": both[:, :middle], "gate_scales": scales[:, : middle // rows]}
        both, scales = both[:, middle:], scales[:, middle // rows :]
    return {"up": both, "up_scales": scales, "down": down, "down_scales": down_scales, "kind": kind, **options}


def _mxfp4(module, tensors):
    alpha, limit = module.alpha, module.limit
    _check(all(isinstance(x, (int, float)) for x in (alpha, limit)), f"has alpha and limit {alpha} and {limit}")
    hidden, middle = module.hidden_size, module.intermediate_size
    sizes = {"gate_up_proj": (2 * middle, hidden), "down_proj": (hidden, middle)}
    for name, (out, inner) in sizes.items():
        scales = tensors[f"{name}_scales"]
        shape = [module.num_experts, out, inner // 32]
        _check(list(scales.shape) == shape, f"has scales of {name} of {list(scales.shape)}, not {shape}")
        tensors[name] = tensors[name].reshape(*shape[:2], inner // 2)
    both, scales, bias = (tensors[f"gate_up_proj{end}"] for end in ("", "_scales", "_bias"))
    return {
        "up": both[:, 1::2], "up_scales": scales[:, 1::2], "up_bias": bias[:, 1::2],
        "gate": both[:, ::2], "gate_scales": scales[:, ::2], "gate_bias": bias[:, ::2],
        "down": tensors["down_proj"], "down_scales": tensors["down_proj_scales"], "down_bias": tensors["down_proj_bias"],
        "kind": "gguf:MXFP4", "limit": float(limit), "alpha": float(alpha), "up_offset": 1.0,
    }  # fmt: skip


def why_not_mxfp4(mlp):
    """Why a module with Mxfp4GptOssExperts cannot have them run on Fovea, or None."""
    if not is_of_transformers(mlp, "integrations.mxfp4") or not is_of_transformers(mlp.experts, "integrations.mxfp4"):
        return f"it is in a {type(mlp).__name__}, which is another class than Mxfp4GptOssMLP"
    if not is_of_transformers(mlp.router, "models.gpt_oss.modeling_gpt_oss"):
        return f"its router is a {type(mlp.router).__name__}"
    own = vars(mlp).get("forward")
    if "packed_weight" in vars(mlp):
        return "a kernel has changed the order of its weights: optimize the model before its first call"
    known = own is None or getattr(own, "__qualname__", "").endswith(_KERNEL)
    return None if known and "forward" not in vars(mlp.experts) else "it has a forward of its own"

