"""optimize(model, weights=...): which maps get quantized weights, and what that costs them."""

import torch

from .exact import python_modules

BLOCKS = {"int8": 1, "int4": 32, "q8_0": 32, "q4_0": 32, "q4_1": 32, "q4_k": 256}  # which in must be a multiple of


def checked(weights) -> dict:
    """{beginning of a name: word or None} of the argument; "" is for all."""
    chosen = weights if isinstance(weights, dict) else {"": weights}
    for word in chosen.values():
        if word is not None and not (isinstance(word, str) and word in BLOCKS):
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


def choice(chosen, name, inner: int, tied: bool) -> tuple:
    """(word or None, why a map of `inner` input channels keeps its floats although it was named, or None)."""
    beginning, word = _asked(chosen, name)
    if word is None:
        return None, None
    if tied and beginning != name:
        return None, f"its weight is an embedding's, too: weights={{{name!r}: {word!r}}} asks for it"
    if inner % BLOCKS[word]:
        return None, f"{inner} input channels are no multiple of {word}'s {BLOCKS[word]}"
    return word, None


def choices(chosen, name, module) -> tuple:
    """The same of each weight of a nn.MultiheadAttention: ({its name: word or None}, ["name: why not"])."""
    inner = {"in_proj_weight": module.embed_dim}
    if not module._qkv_same_embed_dim:
        inner = {"q_proj_weight": module.embed_dim, "k_proj_weight": module.kdim, "v_proj_weight": module.vdim}
    words, reasons = {}, []
    for weight, channels in {**inner, "out_proj.weight": module.embed_dim}.items():
        of = (f"{name}.out_proj" if weight == "out_proj.weight" else name).removeprefix(".")
        words[weight], why = choice(chosen, of, channels, False)
        if why is not None:
            reasons.append(f"{name}.{weight}: {why}".removeprefix("."))
    return words, reasons


def cost(linear, parts) -> str:
    """The error of quantizing some weights of a map, in words."""
    errors = ", ".join(f"{100 * linear.error[part]['relative']:.2g}" for part in parts)
    return f"{linear.quantization}: rms error {errors}% of the weights'"


def dtype_of(model, quantized) -> torch.dtype:
    """The type that a model computes in: that of its first floats outside of quantized modules, whose ids are given."""
    for module in python_modules(model).values():
        if id(module) not in quantized:
            for tensor in [*module._parameters.values(), *module._buffers.values()]:
                if tensor is not None and tensor.is_floating_point():
                    return tensor.dtype if tensor.dtype in (torch.bfloat16, torch.float16) else torch.float32
    return torch.float32
