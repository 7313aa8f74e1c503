"""load_state_dict() of copies by optimize(): what stands in packed weights already is loaded, other numbers are refused.

A copy is asked before anything is written: its other parameters are the original's, too.
"""

from .packed_weight import refuse


def _check(module, state, prefix):
    for name, weight in module._parameters.items():
        key = prefix + name
        if weight is not None and key in state and not weight.same_numbers(state[key]):
            refuse(f"and its weights are packed, not those of {key}: load into the original, and optimize that")


def load_from_state_dict(module, state, prefix, _, strict, missing, unexpected, __):
    """What nn.Module has by a name with an underscore before, of one packed module."""
    _check(module, state, prefix)
    if strict:
        own = {prefix + name for name, weight in module._parameters.items() if weight is not None}
        missing += [key for key in own if key not in state]
        children = tuple(f"{prefix}{name}." for name in module._modules)
        here = [key for key in state if key.startswith(prefix) and key not in own]
        unexpected += [key for key in here if not key.startswith(children)]


def load_state_dict(model, kind, state_dict, *args, **options):
    """kind: the class of packed modules."""
    for name, module in model.named_modules():
        if isinstance(module, kind):
            _check(module, state_dict, f"{name}." if name else "")
    return type(model).load_state_dict(model, state_dict, *args, **options)
