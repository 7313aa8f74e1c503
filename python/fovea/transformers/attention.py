"""The attention implementation "fovea" of transformers."""

import functools
import inspect
import sys

import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, AttentionInterface

import fovea
from fovea._core import models_arithmetic
from fovea.torch import compile as compiled
from fovea.transformers import masks, versions
from fovea.transformers.counters import fall_back, fuse
from fovea.transformers.pages import Pages
from fovea.transformers.visible import Limits, Visible

_collector = None  # of what hooks collect from a model's modules
with versions.adapter("collecting attention weights"):
    from transformers.utils.output_capturing import _active_collector as _collector  # type: ignore[no-redef]
_MAX_CHANNELS = 576
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def register():
    """Makes attn_implementation="fovea" known to transformers."""
    masks.register()
    AttentionInterface.register(masks.NAME, attention)


def attention(
    module,
    query,
    key,
    value,
    attention_mask,
    dropout=0.0,
    scaling=None,
    is_causal=None,
    softcap=None,
    s_aux=None,
    position_bias=None,
    **kwargs,
):
    """The attention function that models of transformers call.

    query [batch, heads, queries, channels], key and value with as many heads or fewer, any strides, on the CPU, of one
    type: float32, float16, or bfloat16, which is computed by the arithmetic of fovea.config(), else the fastest. Key and value
    are both a Pages where the cache is a KVCache (paged.py).
    attention_mask: a Visible (masks.py), a boolean or an additive tensor [batch, heads, queries, keys], or None: then causal
    from the top left if is_causal says so and there is more than one query. s_aux: sinks [heads].
    position_bias is added to the scores. cu_seq_lens_q and cu_seq_lens_k: packed sequences, each aligned at its last key.

    Returns (output [batch, queries, heads, channels], weights [batch, heads, queries, keys] or None): weights where the
    caller collects attentions.
    """
    packed = kwargs.get("cu_seq_lens_q") is not None
    # A module that says is_causal has masks that are (masks.py); without one, eager attention sees all. Packed sequences have no mask.
    causal = is_causal if is_causal is not None else packed and getattr(module, "is_causal", True)
    traced = torch.compiler.is_compiling()
    paged = isinstance(key, Pages)
    eager, more = (_find_eager if traced else _eager)(type(module))
    unknown = more and [name for name in more if kwargs.get(name) is not None]
    reason = _why_not(query, *(key.new_tensors(query) if paged else (key, value)), dropout, unknown)
    if reason and paged:
        raise ValueError(f"attention over fovea.transformers.KVCache cannot fall back to transformers: {reason[1]}")
    if reason:
        if not traced:
            fall_back(module, *reason)
        kwargs.update(softcap=softcap, s_aux=s_aux, position_bias=position_bias)
        kwargs = {name: value for name, value in kwargs.items() if value is not None}
        eager = eager if unknown or "softcap" in kwargs or "s_aux" in kwargs or _wants_weights(module, kwargs) else None
        return _fall_back(eager, module, query, key, value, attention_mask, dropout, scaling, causal, kwargs)
    if not paged and query.shape[0] == 1 < key.shape[0]:
        query = query.expand(key.shape[0], -1, -1, -1)
    arguments = {"scale": scaling, "softcap": softcap, "sinks": None if s_aux is None else s_aux.detach().float()}
    if query.dtype is torch.bfloat16 and not traced:  # fovea.torch.attention does the same
        arguments["arithmetic"] = models_arithmetic()
    if not traced:
        fuse(module)
    if packed and not paged:
        if isinstance(kwargs["cu_seq_lens_k"], dict):  # until 5.23 it is attention that writes the cache of generate_batch()
            key, value = kwargs["cache"].update(key, value, module.layer_idx, kwargs)
        return _packed(query, key, value, causal, arguments, kwargs), None
    mask = attention_mask
    if isinstance(mask, Visible) and mask.limits is None:
        mask = mask.tensor()
    if mask is not None and not isinstance(mask, Visible):
        if mask.is_floating_point():
            position_bias = mask if position_bias is None else position_bias + mask
            mask = causal = None
        else:
            mask = mask if mask.dtype == torch.bool else mask != 0
    wants_weights = _wants_weights(module, kwargs)
    arguments["out_layout"] = "bthd"
    if wants_weights:
        arguments["return_weights"] = True
    if paged:
        result = key.cache.attend(key, query, mask, causal, position_bias, arguments)
    else:
        result = _contiguous(query, key, value, mask, causal, position_bias, arguments, traced and not wants_weights)
    return (result[0], result[1].to(query.dtype)) if wants_weights else (result, None)


def _contiguous(query, key, value, mask, causal, bias, arguments, traced):
    """Attention over tensors: out, or (out, weights)."""
    if isinstance(mask, Visible):
        arguments.update(mask.over(query.shape[2], key.shape[2]).arguments())
    elif mask is not None:
        arguments["mask"] = mask
    elif causal and query.shape[2] > 1:
        arguments["causal"] = "top_left"
    if bias is not None:
        arguments["bias"] = bias.detach().float()
    return (compiled.attention if traced else fovea.attention)(query, key, value, **arguments)


def _find_eager(kind):
    """The eager attention of a class of modules or None, and its arguments that attention() does not have."""
    eager = getattr(sys.modules.get(kind.__module__), "eager_attention_forward", None)
    known = set(inspect.signature(attention).parameters) | {"sliding_window"}
    return eager, [name for name in inspect.signature(eager).parameters if name not in known] if eager else []


_eager = functools.cache(_find_eager)


def _why_not(query, key, value, dropout, unknown):
    """None, or (reason, sentence) why Fovea cannot compute this."""
    if torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad):
        return "gradients", "it is recorded for gradients. For inference, call the model under torch.inference_mode()"
    if dropout:
        return "dropout", f"dropout is {dropout}. For inference, call model.eval()"
    if query.device.type != "cpu":
        return "device", f"tensors are on {query.device}"
    if not query.dtype == key.dtype == value.dtype or query.dtype not in _DTYPES:
        return "element type", f"queries are {query.dtype}. Load the model with dtype=torch.float32"
    if unknown:
        return "argument", f"the model's attention has arguments that Fovea does not know: {', '.join(unknown)}"
    if query.shape[-1] > _MAX_CHANNELS or value.shape[-1] > _MAX_CHANNELS:
        return "head size", f"heads have more than {_MAX_CHANNELS} channels"
    return None


def _fall_back(eager, module, query, key, value, mask, dropout, scaling, causal, kwargs):
    """The model's eager attention, given for what torch's cannot do, else torch's."""
    if isinstance(mask, Visible) and mask.limits is not None and not isinstance(key, Pages):
        mask = mask.over(query.shape[2], key.shape[2])
    if eager:
        if mask is None and causal and query.shape[2] > 1:
            mask = Visible(Limits(right=0), query.shape[0], query.shape[2], key.shape[2], 0)
        if isinstance(mask, torch.Tensor) and mask.dtype == torch.bool:
            mask = Visible.of(mask)
        mask = mask.numbers(query.dtype) if isinstance(mask, Visible) else mask
        return eager(module, query, key, value, mask, scaling=scaling, dropout=dropout, **kwargs)
    mask = mask.tensor() if isinstance(mask, Visible) else mask
    return ALL_ATTENTION_FUNCTIONS["sdpa"](
        module, query, key, value, mask, dropout=dropout, scaling=scaling, is_causal=causal, **kwargs
    )


def _wants_weights(module, kwargs):
    """Whether somebody collects the attention weights of this call."""
    if kwargs.get("output_attentions"):
        return True
    # Models do not pass the flag on: hooks collect what attention modules return.
    collected = _collector and _collector.get()
    return bool(collected) and any(key.endswith("attentions") for key in collected)


def _packed(query, key, value, causal, arguments, kwargs):
    """Sequences side by side on one axis of tokens, [1, heads, tokens, channels]: continuous batching, padding-free batches."""
    window = kwargs.get("sliding_window")
    if window:
        arguments["window"] = (window - 1, None if causal else window - 1)
    tokens = query.shape[2]
    lengths = kwargs["cu_seq_lens_q"]
    # Tokens past the last sequence are not written.
    whole = int(lengths[-1]) == tokens
    make = query.new_empty if whole else query.new_zeros
    out = make((1, tokens, query.shape[1], value.shape[-1]))
    fovea.attention(
        query[0],
        key[0],
        value[0],
        **arguments,
        causal="bottom_right" if causal else None,
        q_cu_seqlens=lengths,
        kv_cu_seqlens=kwargs["cu_seq_lens_k"],
        layout="htd",
        out_layout="thd",
        out=out[0],
    )
    return out
