"""Tells which modules optimize() may replace: those whose class, forward and attributes are exactly the ones it knows.

Everything else stays as it is: subclasses, instances with a forward of their own or an attribute that somebody put
there (accelerate's hooks are such), modules with hooks or parametrizations, and parameters that are no plain tensors.
"""

import functools
import operator
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules import module as torch_module

from .types import FLOATS

_HOOKS = [name for name in vars(nn.Module()) if name.endswith("_hooks")]
_CALL_HOOKS = [name for name in _HOOKS if "state_dict" not in name]
call_hooks = operator.itemgetter(*_CALL_HOOKS)  # takes vars() of a module: a container may have been replaced
# Hooks of all modules: torch changes these containers, and does not replace them.
GLOBAL_HOOKS = [hooks for name, hooks in vars(torch_module).items() if name.removeprefix("_global") in _CALL_HOOKS]
_OF_ALL = vars(nn.Module()).keys() | {"_is_hf_initialized"}  # the last: a mark of transformers
_FORWARDS = {  # taken now: a forward that is replaced later is another function
    kind: kind.forward
    for kind in (nn.Linear, nn.MultiheadAttention, nn.ReLU, nn.GELU, nn.SiLU, nn.Dropout, nn.Identity, nn.Sequential)
}
_GELU: tuple[str, dict] = ("gelu", {"act": F.gelu})
_GELU_TANH: tuple[str, dict] = ("gelu_tanh", {})
_OF_TRANSFORMERS = {  # activation, and the attributes with which the class computes it
    "GELUActivation": _GELU,
    "NewGELUActivation": _GELU_TANH,
    "FastGELUActivation": _GELU_TANH,
    "GELUTanh": ("gelu_tanh", {"act": (F.gelu, (), {"approximate": "tanh"})}),
}
_MHA = vars(nn.MultiheadAttention(2, 1)).keys()


def python_modules(model) -> dict:
    """The named_modules() of a model, but for those of torch.jit, which are compiled."""
    return {name: m for name, m in model.named_modules() if not isinstance(m, torch.jit.ScriptModule)}


def is_of_transformers(module, file: str) -> bool:
    """Whether the class of a module is the one of that name in a file of transformers, which is not imported for it."""
    kind, home = type(module), sys.modules.get(f"transformers.{file}")
    return home is not None and getattr(home, kind.__name__, None) is kind and kind.forward.__module__ == home.__name__


def _foreign(module, attributes) -> str | None:
    """The part of a module that its class does not have, in words, or None."""
    if type(module).forward is not _FORWARDS.get(type(module), type(module).forward):
        return "its class has another forward"
    if any(getattr(module, name) for name in _HOOKS):
        return "it has hooks"
    more = sorted(vars(module).keys() - _OF_ALL - attributes)
    return f"it has attributes that nn.{type(module).__name__} has not: {', '.join(more)}" if more else None


def _of_parameters(module, names, children=()) -> str | None:
    """Why parameters of a module cannot be packed, or None."""
    if module._parameters.keys() != names or module._buffers or module._modules.keys() != set(children):
        return "it has other parameters, buffers or children than its class"
    parameters = [p for p in module.parameters() if p is not None]
    for p in parameters:
        if type(p) is not nn.Parameter or p.layout is not torch.strided:
            return f"its weights are {type(p).__name__ if type(p) is not nn.Parameter else p.layout}, not plain tensors"
        if p.device.type != "cpu":
            return f"its weights are on {p.device}"
        if p.is_neg() or p.is_conj():
            return "its weights have torch's negative or conjugate bit"
        if p.dim() > 2:
            return f"its weights have {p.dim()} axes"
        if p.dtype not in FLOATS:
            return f"its weights are {p.dtype}; packed are those of torch.float32, bfloat16 and float16"
    if not parameters or not parameters[0].numel():
        return "it has no weights"
    return "its parameters are of several types" if len({p.dtype for p in parameters}) > 1 else None


def layout_of(module) -> str | None:
    """The layout of a linear map's weight, "out_in" or "in_out"; None for other modules."""
    if type(module) is nn.Linear:
        return "out_in"
    return "in_out" if type(module).__name__ == "Conv1D" and is_of_transformers(module, "pytorch_utils") else None


def why_not_linear(module) -> str | None:
    """Why a module that has a layout stays as it is, or None."""
    reason = _foreign(module, {"in_features", "out_features", "nf", "nx"}) or _of_parameters(module, {"weight", "bias"})
    if reason is None and module.bias is not None:
        out = module.weight.shape[0 if layout_of(module) == "out_in" else 1]
        reason = None if module.bias.shape == (out,) else f"its bias is not of {out} numbers"
    return reason


def why_not_mha(module) -> str | None:
    """Why a nn.MultiheadAttention stays as it is, or None."""
    if type(module) is not nn.MultiheadAttention:
        return f"{type(module).__name__} is a class of its own"
    if module.bias_k is not None or module.add_zero_attn:
        return "its keys get a token more (bias_k or add_zero_attn)"
    out = module.out_proj
    if not isinstance(out, nn.Linear) or type(out).forward is not _FORWARDS[nn.Linear]:
        return f"its out_proj is a {type(out).__name__}"
    names = {"in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias"}
    names |= {"bias_k", "bias_v"} & module._parameters.keys()
    reason = _foreign(module, _MHA) or _foreign(out, {"in_features", "out_features"})
    return reason or _of_parameters(module, names, {"out_proj"}) or _of_parameters(out, {"weight", "bias"})


def activation_of(module) -> tuple[str, dict] | None:
    """(activation of Fovea, the attributes that make it so) of a module that computes one, or None."""
    if type(module) is nn.ReLU:
        name, attributes = "relu", {"inplace": False}
    elif type(module) is nn.GELU and module.approximate in ("none", "tanh"):
        name, attributes = "gelu" if module.approximate == "none" else "gelu_tanh", {"approximate": module.approximate}
    elif type(module).__name__ in _OF_TRANSFORMERS and is_of_transformers(module, "activations"):
        name, attributes = _OF_TRANSFORMERS[type(module).__name__]
    else:
        return None
    if _foreign(module, attributes.keys()) or module._modules or module._parameters or module._buffers:
        return None
    same = all(_same(vars(module).get(key), value) for key, value in attributes.items())
    return (name, {key: vars(module)[key] for key in attributes}) if same else None


def _same(value, known) -> bool:
    if isinstance(value, functools.partial):
        value = (value.func, value.args, value.keywords)
    return value is known or (isinstance(known, (str, tuple)) and value == known)


def changes_its_input_alone(module) -> bool:
    """Whether a call of a module computes a function of its input, and writes to nothing else."""
    of_transformers = type(module).__name__ == "SiLUActivation" and is_of_transformers(module, "activations")
    return (type(module) is nn.SiLU or of_transformers) and _foreign(module, {"inplace"}) is None


def is_no_op(module) -> bool:
    """Whether a module returns its input as long as it is not in training."""
    known = type(module) in (nn.Dropout, nn.Identity) and _foreign(module, {"p", "inplace"}) is None
    return known and not module.training
