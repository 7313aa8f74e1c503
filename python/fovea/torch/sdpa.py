"""F.scaled_dot_product_attention on Fovea: kernels for torch's dispatcher.

On the CPU torch sends a call to one of two operations, and both are replaced:

  _scaled_dot_product_flash_attention_for_cpu   what its fused kernel can do. torch's backward of this operation takes
                                                our output and our lse, so gradients need nothing more.
  _scaled_dot_product_attention_math            the rest: value dims that differ from head dims, channel strides, 3-D
                                                masks. It is a composition with gradients of its own; Fovea runs it
                                                where no gradient is wanted.

What does not fit runs torch's kernel, which was looked up before it was replaced. Masks reach these operations as
numbers of query's type, or as booleans; torch aligns causal masks at the top left corner.
"""

import contextlib
import threading

import torch

from fovea._core import attention_recorded

from . import counts
from .types import FLOATS, arithmetic, plain, wide

_FLASH = "_scaled_dot_product_flash_attention_for_cpu"
_MATH = "_scaled_dot_product_attention_math"
CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
_AUTOGRAD_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.AutogradCPU)
kernels: dict = {}  # torch's, by name
_captures = threading.local()


@contextlib.contextmanager
def capture():
    """While it is open, the next call on Fovea in this thread also leaves its weights [B, H, T_q, T_k] in the list."""
    _captures.open = weights = []
    try:
        yield weights
    finally:
        _captures.open = None


def why_not(query, key, value, mask, dropout) -> str | None:
    """The reason why a call goes to torch, or None."""
    if query.dtype not in FLOATS or key.dtype is not query.dtype or value.dtype is not query.dtype:
        return f"dtype {query.dtype}"
    if dropout > 0.0:
        return "dropout"
    if mask is not None and mask.dtype not in (torch.float32, torch.bool, query.dtype):
        return f"mask of {mask.dtype}"
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        return f"{query.dim()} dimensions"
    if query.shape[1] % max(key.shape[1], 1) or key.shape[1] != value.shape[1]:
        return "heads of query, key and value"
    if query.shape[0] != key.shape[0] or query.shape[0] != value.shape[0]:
        return "broadcast batch"
    if max(query.shape[3], value.shape[3]) > 576 or 0 in (query.shape[3], value.shape[3]):
        return "head dim"
    return None


def run(query, key, value, mask, causal, scale, out=None, lse=False):
    """Attention by Fovea: (out, lse or None)."""
    captured = getattr(_captures, "open", None)
    boolean = mask is None or mask.dtype is torch.bool
    result = attention_recorded(
        query,
        key,
        value,
        mask=mask if boolean else None,
        bias=None if boolean else wide(mask),
        causal="top_left" if causal else None,
        scale=scale,
        out=out,
        return_lse=lse,
        return_weights=captured is not None,
        arithmetic=arithmetic(query.dtype),
    )
    if captured is not None:
        *result, weights = result
        result = tuple(result) if lse else result[0]
        captured.append(weights)
        _captures.open = None
    return result if lse else (result, None)


def _flash(query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    reason = why_not(query, key, value, attn_mask, dropout_p)
    if reason is not None:
        counts.went_to_torch("sdpa", reason)
        kernel = kernels[_FLASH]
        return kernel.call_boxed(CPU, query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale)
    counts.ran("sdpa")
    out, lse = run(query, key, value, attn_mask, is_causal, scale, torch.empty_like(query), True)
    if attn_mask is not None:
        lse.masked_fill_(lse == -torch.inf, 0.0)  # torch's backward needs a finite lse where all is masked
    return out, lse.mT.contiguous().mT  # strides as torch's of both, which compiled code relies on


def _math(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, dropout_mask=None, *, scale=None,
          enable_gqa=False):  # fmt: skip
    reason = None
    if not plain(query, key, value):
        reason = "tracing"
    elif torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad):
        reason = "gradient of a case outside torch's fused kernel"
    elif torch.is_grad_enabled() and attn_mask is not None and attn_mask.requires_grad:
        reason = "gradient of a mask"
    elif dropout_mask is not None:
        reason = "dropout"
    elif query.dim() == 4 and query.shape[1] != key.shape[1] and not enable_gqa:
        reason = "heads of query, key and value"
    else:
        reason = why_not(query, key, value, attn_mask, dropout_p)
    if reason is not None:
        if reason != "tracing":
            counts.went_to_torch("sdpa", reason)
        kernel = kernels[_MATH]
        return kernel.call_boxed(_AUTOGRAD_CPU, query, key, value, attn_mask, dropout_p, is_causal, dropout_mask,
                                 scale=scale, enable_gqa=enable_gqa)  # fmt: skip
    counts.ran("sdpa")
    out, _ = run(query, key, value, attn_mask, is_causal, scale)
    return out, out.new_empty(0)


def replace(library, name, function) -> None:
    """Puts a kernel for the CPU into the dispatcher, for as long as `library` lives. torch's stays in kernels."""
    if name not in kernels:
        kernels[name] = torch.library.get_kernel(f"aten::{name}", "CPU")
    library.impl(name, function, "CPU")


def install(library) -> None:
    """Puts Fovea's kernels into the dispatcher."""
    replace(library, _FLASH, _flash)
    replace(library, _MATH, _math)
    library.impl(_MATH, _math, "AutogradCPU")
