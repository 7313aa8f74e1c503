"""Masks as descriptions: what transformers' mask functions stand for, without the matrix.

transformers builds masks from functions of (batch, head, query, key) that it combines: causal, sliding windows, overlays. Those
that are causal limits and windows are recognized by their code, and become a Visible: a few numbers that fovea.attention()
takes as such. Any other function is evaluated to a boolean matrix by transformers, as for its sdpa.
"""

import inspect
import types

import torch
from transformers import masking_utils

from fovea.transformers.counters import counters
from fovea.transformers.visible import Limits, Visible

NAME = "fovea"
_NUMBERS = ("deepseek_v4", "gemma4_audio")  # models that take masks apart as numbers


def _cell(function, name):
    """A variable that a closure holds."""
    return function.__closure__[function.__code__.co_freevars.index(name)].cell_contents


def _intersection(function):
    limits = Limits()
    for part in _cell(function, "mask_functions"):
        found = limits_of(part)
        if found is None:
            return None
        limits = limits.intersect(found)
    return limits


# Factories of masking_utils, their argument, and the limits of the mask function that they make.
_KNOWN = (
    ("causal_mask_function", None, lambda function: Limits(right=0)),
    ("bidirectional_mask_function", None, lambda function: Limits()),
    ("sliding_window_overlay", 3, lambda function: Limits(left=_cell(function, "sliding_window") - 1)),
    ("sliding_window_bidirectional_overlay", 3, lambda function: Limits(*[_cell(function, "sliding_window")] * 2)),
    ("sliding_window_causal_mask_function", 3, _intersection),
)
_limits: dict[types.CodeType, tuple] = {}  # by the code of a mask function: closures of one factory share it


def limits_of(function):
    """The Limits that a mask function of transformers stands for, or None if it is another function."""
    known = _limits.get(getattr(function, "__code__", None))
    return known(function) if known else None


def _recognize():
    """Fills _limits with those that this transformers has, and that say on a small grid what they should."""
    q, k = torch.arange(9)[:, None], torch.arange(9)[None, :]
    for name, argument, limits in _KNOWN:
        try:
            function = getattr(masking_utils, name)
            function = function if argument is None else function(argument)
            known = torch.equal(limits(function).sees(q - k), function(0, 0, q, k).expand(9, 9))
        except Exception:  # gone, or another: its masks become matrices
            continue
        if known:
            _limits[function.__code__] = limits


_recognize()


def _stands_in(value):
    """Whether a tensor stands in for one, as those of tracing do, and has no numbers to look at."""
    return isinstance(value, torch.Tensor) and type(value) is not torch.Tensor or isinstance(value, torch.fx.Proxy)


def register():
    """Makes the masks of attn_implementation="fovea" known to transformers, without which a model would drop its padding."""
    wanted = {"batch_size", "q_length", "kv_length", "q_offset", "kv_offset", "mask_function", "attention_mask", "device"}
    missing = wanted - set(inspect.signature(masking_utils.sdpa_mask).parameters)
    if missing:
        raise ImportError(f"its mask functions have no argument {', '.join(sorted(missing))}")
    masking_utils.AttentionMaskInterface.register(NAME, mask)


def mask(
    batch_size,
    q_length,
    kv_length,
    q_offset=0,
    kv_offset=0,
    mask_function=getattr(masking_utils, "causal_mask_function", None),
    attention_mask=None,
    device="cpu",
    **kwargs,
):
    """The mask function that transformers calls for attn_implementation="fovea" (AttentionMaskInterface).

    Returns a Visible: of a boolean matrix [batch, 1, q_length, kv_length] for mask functions that it does not know. On other
    devices, and while a graph is traced, it is the matrix itself.
    """
    if isinstance(attention_mask, Visible):
        # generate() makes masks for static caches ahead, and models give them back in place of the padding.
        return attention_mask
    limits = limits_of(mask_function)
    traced = torch.compiler.is_compiling() or torch.jit.is_tracing() or _stands_in(attention_mask) or _stands_in(q_offset)
    numbers = getattr(kwargs.get("config"), "model_type", None) in _NUMBERS
    if limits is None or numbers or traced or torch.device(device).type != "cpu":
        if not traced:
            counters.mask_tensors += 1
        kwargs.update(allow_is_causal_skip=False, allow_is_bidirectional_skip=False)
        matrix = masking_utils.sdpa_mask(
            batch_size=batch_size,
            q_length=q_length,
            kv_length=kv_length,
            q_offset=q_offset,
            kv_offset=kv_offset,
            mask_function=mask_function,
            attention_mask=attention_mask,
            device=device,
            **kwargs,
        )
        if numbers:
            return Visible.of(matrix).numbers(kwargs.get("dtype", torch.float32))
        return matrix if traced or matrix.device.type != "cpu" else Visible.of(matrix)
    kv_offset, padding = int(kv_offset), attention_mask
    if padding is not None:
        missing = kv_offset + kv_length - padding.shape[-1]  # keys that a static cache has not got yet
        padding = torch.nn.functional.pad(padding, (0, missing)) if missing > 0 else padding
        padding = padding[:, kv_offset : kv_offset + kv_length].to(torch.bool)
    counters.described += 1
    return Visible(limits, batch_size, q_length, kv_length, int(q_offset) - kv_offset, padding, attention_mask)
