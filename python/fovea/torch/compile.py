"""fovea::attention, the operation that torch.compile and autograd know, and the function that picks it when needed.

    fovea::attention(q, k, v, ...) -> (out, lse)

torch.compile keeps the operation as one node of the graph: it is defined, implemented for the CPU, and described for
tensors without data. Its gradient is in autograd.py. A call that needs neither goes to fovea.attention() directly, which
costs a microsecond instead of ten.
"""

import torch

import fovea
from fovea._core import attention_recorded

from . import autograd
from .types import arithmetic

_TENSORS = ("mask", "bias", "sinks", "alibi", "q_lens", "kv_lens", "q_starts", "kv_starts")
_SCHEMA = (
    "attention(Tensor q, Tensor k, Tensor v, "
    + "".join(f"Tensor? {name}=None, " for name in _TENSORS)
    + "*, str causal='none', int[]? offsets=None, int[]? window=None, float? scale=None, float? softcap=None,"
    " str layout='bhtd', str? out_layout=None) -> (Tensor out, Tensor lse)"
)
_library = torch.library.Library("fovea", "DEF")
_library.define(_SCHEMA)


def _from_op(causal, offsets, window):
    """causal and window as fovea.attention() takes them."""
    if causal == "offset":
        causal = offsets[0] if len(offsets) == 1 else offsets
    elif causal == "none":
        causal = None
    return causal, None if window is None else tuple(window)


def _attention_cpu(q, k, v, *tensors, causal="none", offsets=None, window=None, **options):
    causal, window = _from_op(causal, offsets, window)
    options.update(zip(_TENSORS, tensors))
    return attention_recorded(q, k, v, causal=causal, window=window, return_lse=True, arithmetic=arithmetic(q.dtype), **options)


def _attention_fake(q, k, v, *_tensors, layout="bhtd", out_layout=None, **_):
    heads, tokens = (1, 2) if layout == "bhtd" else (2, 1)
    batch, q_heads, q_len, dim = q.shape[0], q.shape[heads], q.shape[tokens], v.shape[3]
    if (out_layout or layout) == "bhtd":
        out = q.new_empty((batch, q_heads, q_len, dim))
    else:
        out = q.new_empty((batch, q_len, q_heads, dim))
    return out, q.new_empty((batch, q_heads, q_len), dtype=torch.float32)


_library.impl("attention", _attention_cpu, "CPU")
torch.library.register_fake("fovea::attention", _attention_fake, lib=_library)
torch.library.register_autograd(
    "fovea::attention", autograd.backward, setup_context=autograd.setup_context, lib=_library
)


def _to_op(causal, window):
    """causal and window as the operation takes them: words and lists of integers."""
    if causal is True:
        raise ValueError('fovea.torch.attention: causal=True names no corner; use "top_left" or "bottom_right"')
    if causal is None or causal is False:
        causal, offsets = "none", None
    elif isinstance(causal, str):
        offsets = None
    else:
        causal, offsets = "offset", [int(x) for x in (causal if hasattr(causal, "__len__") else [causal])]
    if window is not None:
        window = [-1 if side is None else int(side) for side in window]
    return causal, offsets, window


def attention(q, k, v, *, causal=None, window=None, return_lse=False, **options):
    """fovea.attention() for torch tensors on the CPU, with gradients, and whole under torch.compile.

    Takes mask, bias, causal, window, scale, softcap, sinks, alibi, q_lens, kv_lens, q_starts, kv_starts, layout and
    out_layout as fovea.attention() does, lengths and starts as int64 tensors, and returns out, or (out, lse) with
    return_lse. Gradients of q, k and v exist without softcap and sinks; the backward kernel is torch's. Where neither a
    gradient nor a graph is wanted the call is fovea.attention() itself, with all of its options.
    """
    wanted = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
    wanted = wanted or any(isinstance(x, torch.Tensor) and x.requires_grad for x in options.values())
    if not wanted and not torch.compiler.is_compiling():
        options.setdefault("arithmetic", arithmetic(q.dtype))
        return fovea.attention(q, k, v, causal=causal, window=window, return_lse=return_lse, **options)
    if causal is True and q.shape == k.shape:
        causal = "top_left"
    causal, offsets, window = _to_op(causal, window)
    out, lse = torch.ops.fovea.attention(q, k, v, causal=causal, offsets=offsets, window=window, **options)
    return (out, lse) if return_lse else out
