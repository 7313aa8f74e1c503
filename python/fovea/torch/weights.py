"""optimize(model, weights=...): which maps get quantised weights, and what the copy is then compared with."""

import torch
from torch import nn

from .packed import Linear

BLOCKS = {"int8": 1, "int4": 32, "q8_0": 32, "q4_0": 32, "q4_1": 32, "q4_k": 256}  # which in must be a multiple of


def checked(weights) -> dict:
    """{beginning of a name: word or None} of the argument; "" is for all."""
    chosen = weights if isinstance(weights, dict) else {"": weights}
    for word in chosen.values():
        if word is not None and word not in BLOCKS:
            known = ", ".join(map(repr, BLOCKS))
            raise ValueError(f"weights must be None, {known}, or a dict of names of modules and these, not {word!r}")
    return chosen


def check_names(chosen, names):
    """Raises where a name is of no module."""
    for beginning in chosen:
        if beginning and beginning not in names:
            raise ValueError(f"weights names {beginning!r}, which is no module of the model")


def _asked(chosen, name) -> tuple:
    """(the longest beginning of a name that was given, its word)."""
    found = [b for b in chosen if not b or name == b or name.startswith(f"{b}.")]
    best = max(found, key=len, default=None)
    return best, chosen.get(best)


def choice(chosen, name, module, tied: bool) -> tuple:
    """(word or None, why a map that was asked for keeps its floats or None)."""
    beginning, word = _asked(chosen, name)
    if word is None:
        return None, None
    if tied and beginning != name:
        return None, f"its weight is an embedding's, too: weights={{{name!r}: {word!r}}} asks for it"
    inner = module.weight.shape[0 if type(module).__name__ == "Conv1D" else 1]
    if inner % BLOCKS[word]:
        return None, f"{inner} input channels are no multiple of {word}'s {BLOCKS[word]}"
    return word, None


def cost(module) -> str:
    """What quantising the weights of a packed map cost, in words."""
    error = module.packed.error
    return f"{module.packed.quant}: rms error {100 * error[module._part]['relative']:.2g}% of the weights'"


def of_the_same_weights(model, optimized):
    """`model`, a copy of the original, with the numbers that quantised weights of `optimized` stand for."""
    for name, module in optimized.named_modules():
        if isinstance(module, Linear) and module.packed.quant and not module._was_quantized:
            weight = module.weight.detach().clone()
            model.get_submodule(name).weight = nn.Parameter(weight, requires_grad=False)
    return model


def dtype_of(model, quantized) -> torch.dtype:
    """The type that a model computes in: that of its first floats outside of quantised modules, whose ids are given."""
    for module in model.modules():
        if id(module) not in quantized:
            for tensor in [*module._parameters.values(), *module._buffers.values()]:
                if tensor is not None and tensor.is_floating_point():
                    return tensor.dtype if tensor.dtype in (torch.bfloat16, torch.float16) else torch.float32
    return torch.float32
