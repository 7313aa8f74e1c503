"""load_state_dict() of copies by optimize(): packed weights take the numbers that they have, and refuse others.

A copy is asked before anything is written: its other parameters are the original's, too.
"""

import torch

from .packed_weight import PackedWeight, refuse, same_bits


def _check(module, state, prefix):
    for name, weight in module._parameters.items():
        key = prefix + name
        if weight is not None and key in state and not same_bits(weight, state[key]):
            refuse(f"and its weights are packed, not those of {key}: load into the original, and optimize that")


def load_from_state_dict(module, state, prefix, _, strict, missing, unexpected, __):
    """nn.Module._load_from_state_dict() for one packed module."""
    _check(module, state, prefix)
    if strict:
        own = {prefix + name for name, weight in module._parameters.items() if weight is not None}
        missing += [key for key in own if key not in state]
        children = tuple(f"{prefix}{name}." for name in module._modules)
        here = [key for key in state if key.startswith(prefix) and key not in own]
        unexpected += [key for key in here if not key.startswith(children)]


def load_state_dict(model, kind, state_dict, strict=True, assign=False):
    """kind: the class of packed modules."""
    if assign:
        refuse("and shares its parameters with the original: load without assign=True")
    for name, module in model.named_modules():
        if isinstance(module, kind):
            _check(module, state_dict, f"{name}." if name else "")
    # A parameter that keeps its bits counts as not written: packed maps may be watching its version.
    named = model.named_parameters(remove_duplicate=False)
    same = tuple(p for name, p in named if not isinstance(p, PackedWeight) and same_bits(p, state_dict.get(name)))
    with torch.autograd._unsafe_preserve_version_counter(same):
        return type(model).load_state_dict(model, state_dict, strict)
