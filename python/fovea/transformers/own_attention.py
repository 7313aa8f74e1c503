"""Attention that modules of transformers write out themselves, on Fovea.

Some families never call transformers' attention interface: their modules multiply queries and keys, scale, add biases,
take the softmax and multiply by the values on their own. serve() runs these steps on Fovea, in a copy that optimize()
makes: a function here stands for the forward() of each class, with one call of Fovea for its products and its softmax.
Only forwards whose source is listed are served. Calls that Fovea cannot compute run the class's own.
"""

import contextvars
import functools
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

from transformers.utils import output_capturing

from fovea.torch import compile as compiled
from fovea.torch import sdpa
from fovea.torch.types import wide
from fovea.transformers.attention import _wants_weights, _why_not
from fovea.transformers.counters import fall_back, fuse, leave
from fovea.transformers.source import is_known
from fovea.transformers.visible import Visible

# Calls of fewer tokens go back to the class, which is faster. In CPU time, own by served: BLOOM, one token 0.86;
# MPNet-base, 16 tokens 0.96 to 0.99, 1024 tokens 1.01 (AMD family 25 model 1, busy).
_FEW = 32
_LARGE = 1 << 14  # additive masks of more scores than these are worth a look whether they only hide keys
_LEAST = torch.finfo(torch.float32).min
_weights_wanted = contextvars.ContextVar("weights wanted", default=False)  # by a block that does not tell its attention


def _attend(q, k, v, scale, mask=None, bias=None):
    """softmax(scale * q @ k.mT + bias + mask) @ v, heads merged: [batch, queries, heads * channels].

    mask: booleans, True = attend, or numbers to add.
    """
    mask = mask.tensor() if isinstance(mask, Visible) else mask
    bias = None if bias is None else wide(bias)
    if mask is not None and mask.dtype is not torch.bool:
        keep = mask == 0
        large = q.shape[:-1].numel() * k.shape[-2] >= _LARGE
        if large and mask.shape[1] == 1 and (keep | (mask <= torch.finfo(q.dtype).min)).all():
            mask = keep
        else:
            mask, bias = None, wide(mask) if bias is None else bias + wide(mask)
    if mask is not None and not mask.any(-1).all():
        # A row without a key: models make it the mean of all values.
        hidden = torch.zeros(()).masked_fill(~mask, _LEAST)
        mask, bias = None, hidden if bias is None else bias + hidden
    return compiled.attention(q, k, v, scale=scale, mask=mask, bias=bias, out_layout="bthd").flatten(2)


def _heads(x, size):
    return x.unflatten(-1, (-1, size)).transpose(1, 2)


def _blip(self, x, **kwargs):
    q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
    return self.projection(_attend(q, k, v, self.scale)), None


def _blip_text(
    self, x, attention_mask=None, encoder_hidden_states=None, encoder_attention_mask=None, cache=None, **kwargs
):
    size, layer = self.attention_head_size, self.layer_idx
    cache = kwargs.get("past_key_values") if cache is None else cache  # its name until 5.22
    cross, both = encoder_hidden_states is not None, hasattr(cache, "is_updated")
    mine = cache if not both else cache.cross_attention_cache if cross else cache.self_attention_cache
    if cross and both and cache.is_updated.get(layer):
        k, v = mine.layers[layer].keys, mine.layers[layer].values
    else:
        k, v = (_heads(linear(encoder_hidden_states if cross else x), size) for linear in (self.key, self.value))
        if cache is not None:
            k, v = mine.update(k, v, layer, kwargs=kwargs)
            if cross and both:
                cache.is_updated[layer] = True
    mask = encoder_attention_mask if cross else attention_mask
    return _attend(_heads(self.query(x), size), k, v, size**-0.5, mask), None


def _bloom(self, x, residual, alibi, attention_mask, layer_past=None, *args, **kwargs):
    q, k, v = self._reshape(self.query_key_value(x))
    if layer_past is not None:
        k, v = layer_past.update(k, v, self.layer_idx)
    bias = wide(alibi).unflatten(0, (-1, self.num_heads)) * self.beta
    out = _attend(q, k, v, self.inv_norm_factor, attention_mask, bias)
    if self.pretraining_tp > 1 and self.slow_but_exact:
        size = self.hidden_size / self.pretraining_tp
        slices = [slice(int(i * size), int((i + 1) * size)) for i in range(self.pretraining_tp)]
        out = sum(F.linear(out[..., part], self.dense.weight[:, part]) for part in slices)
    else:
        out = self.dense(out)
    return residual + F.dropout(out, self.hidden_dropout, self.training), None


def _falcon(
    self, x, alibi, attention_mask, position_ids=None, layer_past=None, use_cache=False, output_attentions=False,
    position_embeddings=None, **kwargs,
):  # fmt: skip
    q, k, v = (y.transpose(1, 2) for y in self._split_heads(self.query_key_value(x)))
    if alibi is None:
        q, k = sys.modules[type(self).__module__].apply_rotary_pos_emb(q, k, *position_embeddings)
    if layer_past is not None:
        k, v = layer_past.update(k, v, self.layer_idx)
    if self.config._attn_implementation == "sdpa":  # the mask has alibi in it
        causal = self.is_causal and attention_mask is None and x.shape[1] > 1
        out = sdpa.run(q, k, v, attention_mask, causal, None)[0].transpose(1, 2).flatten(2)
    elif alibi is None:
        out = _attend(q, k, v, self.head_dim**-0.5, attention_mask)
    else:
        bias = wide(alibi).view(x.shape[0], self.num_heads, 1, -1) * self.inv_norm_factor
        out = _attend(q, k, v, self.inv_norm_factor, attention_mask, bias)
    return self.dense(out), None


def _mpnet(self, x, attention_mask=None, position_bias=None, output_attentions=False, **kwargs):
    q, k, v = (_heads(linear(x), self.attention_head_size) for linear in (self.q, self.k, self.v))
    return (self.o(_attend(q, k, v, self.attention_head_size**-0.5, attention_mask, position_bias)),)


def _mpt(self, x, position_bias, cache=None, attention_mask=None, **kwargs):
    cache = kwargs.get("past_key_values") if cache is None else cache  # its name until 5.22
    qkv = self.Wqkv(x)
    qkv = qkv.clamp(-self.clip_qkv, self.clip_qkv) if self.clip_qkv else qkv
    q, k, v = (_heads(y, self.head_dim) for y in qkv.chunk(3, dim=2))
    queries = x.shape[1]
    if cache is not None:
        k, v = cache.update(k, v, self.layer_idx, kwargs=kwargs)
        queries += cache.get_seq_length()
    if position_bias is not None:
        first = [max(0, size - n) for size, n in zip(position_bias.shape[1:], (queries, k.shape[2]), strict=True)]
        position_bias = position_bias[None, :, first[0] :, first[1] :]
    mask = None if attention_mask is None else ~attention_mask
    return self.out_proj(_attend(q, k, v, self.softmax_scale, mask, position_bias)), None


def _swin(self, x, attention_mask=None, output_attentions=False):
    q, k, v = (_heads(linear(x), self.attention_head_size) for linear in (self.query, self.key, self.value))
    q = F.normalize(q, dim=-1) * self.logit_scale.clamp(max=math.log(1.0 / 0.01)).exp()
    table = self.continuous_position_bias_mlp(self.relative_coords_table).view(-1, self.num_attention_heads)
    bias = table[self.relative_position_index.view(-1)].view(x.shape[1], x.shape[1], -1)
    bias = 16 * bias.permute(2, 0, 1).sigmoid()[None]
    if attention_mask is not None:  # of each window of an image, and added twice there
        bias = (bias + 2 * attention_mask[:, None]).repeat(x.shape[0] // attention_mask.shape[0], 1, 1, 1)
    return (_attend(q, F.normalize(k, dim=-1), v, 1.0, None, bias),)


def _block(self, *args, **kwargs):
    """A block that takes output_attentions, and does not tell its attention."""
    wanted = kwargs.get("output_attentions") or any(a is True for a in args) or _hooked(self)
    token = _weights_wanted.set(bool(wanted))
    try:
        return type(self).forward(self, *args, **kwargs)
    finally:
        _weights_wanted.reset(token)


# By modules in transformers.models, and classes there: what stands for their forwards, the name of their number of
# heads, and SHA-256 of the sources that it stands for, cut short. To add those of another version: read what changed,
# and run python/tests/transformers/test_own_attention.py with it.
_SERVED = {
    ("blip.modeling_blip", "BlipAttention"): (_blip, "num_heads", "7c204e9f015b"),
    ("blip.modeling_blip_text", "BlipTextSelfAttention"): (
        _blip_text, "num_attention_heads", "499279aed422", "3c3aade98d4f", "960bf8d9f132",
    ),
    ("bloom.modeling_bloom", "BloomAttention"): (_bloom, "num_heads", "34225381cf82"),
    ("falcon.modeling_falcon", "FalconAttention"): (_falcon, "num_heads", "5a79ce8af412"),
    ("mpnet.modeling_mpnet", "MPNetSelfAttention"): (_mpnet, "num_attention_heads", "8e2c44e25640"),
    ("mpt.modeling_mpt", "MptAttention"): (_mpt, "n_heads", "acd08620f748", "c38160120bf5"),
    ("mpt.modeling_mpt", "MptBlock"): (_block, None, "a59dca07027d", "907141dd75e9"),
    ("swinv2.modeling_swinv2", "Swinv2SelfAttention"): (_swin, "num_attention_heads", "45e0ab1be182", "23b643e595b9"),
}  # fmt: skip


def _key(cls):
    return cls.__module__.removeprefix("transformers.models."), cls.__name__


def _hooked(module):
    """Whether a module has hooks that get its output, besides those by which transformers collects attentions."""
    hooks = module._forward_hooks.values()
    return any(getattr(hook, "__module__", None) != output_capturing.__name__ for hook in hooks)


def _unsuitable(module, inner, heads, x, args, kwargs):
    """None, or (reason, sentence) why a call runs as the class computes it."""
    if _weights_wanted.get() or _wants_weights(module, kwargs) or any(a is True for a in args):
        return "weights", "attention weights are wanted. Call the model without output_attentions"
    if _hooked(module) or any(child._forward_hooks or child._forward_pre_hooks for child in inner):
        return "hooks", f"{type(module).__name__} has hooks, which may read attention weights. Remove them"
    if torch.is_autocast_enabled("cpu"):
        return "autocast", "autocast is on. Load the model in the type to compute in"
    modes = torch._C._are_functorch_transforms_active() or torch._C._len_torch_dispatch_stack()
    given = [x, *(y for y in (*args, *kwargs.values()) if isinstance(y, torch.Tensor))]
    if modes or not all(type(y) in (torch.Tensor, nn.Parameter) for y in given):
        return "kind of tensor", "a mode, transform or class of tensors is in use that Fovea does not see"
    dropouts = [child.p for child in inner if isinstance(child, nn.Dropout) and child.training]
    dropouts += [getattr(module, "attn_dropout_p", 0.0)] if module.training else []
    head = x[..., : x.shape[-1] // heads]
    return _why_not(head, head, head, max(dropouts, default=0.0), ())


def forward(module, inner, *args, **kwargs):
    """The replacement for forward() of a module that is served. inner: the modules in it that it may not call."""
    cls = type(module)
    served, heads, *sources = _SERVED[_key(cls)]
    traced = torch.compiler.is_compiling() or torch.jit.is_tracing()
    if traced or not is_known(cls.forward, tuple(sources)) or not (args or "hidden_states" in kwargs):
        return cls.forward(module, *args, **kwargs)
    x, *others = args or (kwargs["hidden_states"],)
    if isinstance(x, torch.Tensor) and x.shape[:-1].numel() < _FEW:
        leave(module, "few tokens")
        return cls.forward(module, *args, **kwargs)
    reason = _unsuitable(module, inner, getattr(module, heads), x, others, kwargs)
    if reason is not None:
        fall_back(module, *reason)
        return cls.forward(module, *args, **kwargs)
    output = served(module, x, *others, **{name: y for name, y in kwargs.items() if name != "hidden_states"})
    fuse(module)
    return output


forward.runs_class_forward = _block.runs_class_forward = True  # type: ignore[attr-defined]


def serve(name, module):
    """Has a module that writes its attention out compute it by Fovea. Returns a line for the report, or None."""
    cls = type(module)
    if _key(cls) not in _SERVED:
        return None
    served, heads, *sources = _SERVED[_key(cls)]
    reason = None
    if "forward" in module.__dict__:
        reason = "it has a forward of its own"
    elif not is_known(cls.forward, tuple(sources)):
        reason = "the source of its forward is not one that Fovea knows"
    if reason is not None:
        return f"{name}: as {cls.__name__} computes it: {reason}"
    if heads is None:
        module.forward = functools.partial(_block, module)
        return None
    inner = [child for child in module.modules() if child is not module and not isinstance(child, nn.Linear)]
    module.forward = functools.partial(forward, module, inner)
    return f"{name}: fovea.attention in the forward of {cls.__name__}"
