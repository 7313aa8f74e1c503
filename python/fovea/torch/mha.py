"""nn.MultiheadAttention on Fovea, on both of its paths.

The fast path (eval, batch first, self-attention) is one operation, _native_multi_head_attention, which
nn.TransformerEncoderLayer's fast path calls too. Its projections stay torch's: they read the weights as they are now, so
nothing can go stale (optimize() packs them). The slow path is F.multi_head_attention_forward, which computes weights by
a plain softmax when they are wanted, and they are by default; there it is called without weights, and Fovea's attention
leaves them.
"""

import functools
import inspect

import torch
import torch.nn.functional as F

from fovea._core import attention_recorded

from . import counts, sdpa
from .types import FLOATS, arithmetic, plain

_NATIVE = "_native_multi_head_attention"
_torch_forward = None  # F.multi_head_attention_forward of torch while ours is in its place
_SIGNATURE = inspect.signature(F.multi_head_attention_forward)


def _native(query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask=None,
            need_weights=True, average_attn_weights=True, mask_type=None):  # fmt: skip
    reason = None
    if query is not key or key is not value:
        reason = "query, key and value differ"
    elif not plain(query) or query.dim() != 3:
        reason = "kind of tensor"
    elif query.dtype not in FLOATS or qkv_weight.dtype is not query.dtype:
        reason = f"dtype {query.dtype}"
    elif embed_dim % num_head or embed_dim // num_head > 576:
        reason = "head dim"
    if reason is not None:
        counts.went_to_torch("mha", reason)
        return sdpa.kernels[_NATIVE].call_boxed(
            sdpa.CPU, query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask,
            need_weights, average_attn_weights, mask_type,
        )  # fmt: skip
    counts.ran("mha")
    batch, tokens, _ = query.shape
    heads = F.linear(query, qkv_weight, qkv_bias).view(batch, tokens, 3, num_head, embed_dim // num_head)
    q, k, v = heads.unbind(2)
    weights = None
    keep = None if mask is None else mask.logical_not()  # nonzero is masked; of type 1 are masks of keys
    keep = keep[:, None, None] if keep is not None and mask_type == 1 else keep
    out = attention_recorded(q, k, v, mask=keep, layout="bthd", return_weights=need_weights,
                             arithmetic=arithmetic(q.dtype))  # fmt: skip
    if need_weights:
        out, weights = out
        weights = (weights.mean(1) if average_attn_weights else weights).to(query.dtype)
    return F.linear(out.view(batch, tokens, embed_dim), proj_weight, proj_bias), weights


def _why_not_captured(a):
    """The reason why the weights of a call of F.multi_head_attention_forward come from torch, or None."""
    query = a["query"]
    if not plain(query, a["key"], a["value"]):
        return "kind of tensor"
    if query.dtype not in FLOATS:
        return f"dtype {query.dtype}"
    if a.get("training", True) and a["dropout_p"] > 0.0:
        return "dropout"
    if torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in a.values()):
        return "gradient with weights"
    return None


def _wrap(forward):
    @functools.wraps(forward)
    def multi_head_attention_forward(*args, **kwargs):
        if torch.compiler.is_compiling() or kwargs.get("need_weights", True) is False:
            return forward(*args, **kwargs)
        a = _SIGNATURE.bind(*args, **kwargs).arguments
        if not a.get("need_weights", True):
            return forward(*args, **kwargs)
        reason = _why_not_captured(a)
        if reason is None:
            hint = a.get("is_causal", False) and a.get("attn_mask") is None  # an error, which torch tells
            with sdpa.capture() as captured:
                out, _ = forward(**{**a, "need_weights": False, "is_causal": hint})
            for weights in captured:
                weights = (weights.mean(1) if a.get("average_attn_weights", True) else weights).to(out.dtype)
                return out, weights if out.dim() == 3 else weights.squeeze(0)
            reason = "attention went to torch"
        counts.went_to_torch("mha", reason)
        return forward(*args, **kwargs)

    return multi_head_attention_forward


def install(library) -> None:
    """Puts Fovea's kernel into the dispatcher and its wrapper around F.multi_head_attention_forward."""
    global _torch_forward
    sdpa.replace(library, _NATIVE, _native)
    _torch_forward = F.multi_head_attention_forward
    F.multi_head_attention_forward = _wrap(_torch_forward)


def uninstall() -> None:
    """Gives F.multi_head_attention_forward back."""
    global _torch_forward
    if _torch_forward is not None:
        F.multi_head_attention_forward = _torch_forward
        _torch_forward = None
