"""nn.MultiheadAttention with packed weights."""

import functools

import torch
import torch.nn.functional as F
from torch import nn

import fovea

from . import counts
from .packed import PLAIN, Linear, Packed, ordinary, unpack_weight
from .packed_weight import no_gradient
from .types import arithmetic, wide

_FORWARD = nn.MultiheadAttention.forward
WEIGHTS = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight")
_PARAMETERS = {*WEIGHTS[:4], "in_proj_bias"}


class MultiheadAttention(Packed, nn.MultiheadAttention):
    """Has the arguments, results and errors of shape of nn.MultiheadAttention in eval mode."""

    @classmethod
    def pack_words(cls, module, words) -> dict:
        """Turns a module into one of this class. words: {name of a weight (WEIGHTS): a word of quantization= or None}. Returns
        {name of a weight: why it keeps its floats} of those whose numbers cannot be quantized."""
        refused = {}

        def pack(names, weights, biases):
            options = {"arithmetic": arithmetic(module.out_proj.weight.dtype)}
            try:
                options = {"quantization": words[names[0]]} if words[names[0]] else options
                return fovea.Linear(weights, biases, **options)
            except ValueError as error:
                if "quantization" not in options:
                    raise
                refused[names[0]] = str(error)
                words[names[0]] = None
                return pack(names, weights, biases)

        bias, out = module.in_proj_bias, module.out_proj
        biases = (None,) * 3 if bias is None else bias.detach().chunk(3)
        if module._qkv_same_embed_dim:
            packed = (pack(WEIGHTS[:1], list(module.in_proj_weight.detach().chunk(3)), list(biases)),)
        else:
            three = [getattr(module, name).detach() for name in WEIGHTS[1:4]]
            packed = tuple(pack([n], [w], None if b is None else [b]) for n, w, b in zip(WEIGHTS[1:], three, biases))
        last = pack(WEIGHTS[4:], [out.weight.detach()], None if out.bias is None else [out.bias.detach()])
        Linear.become(out, last)
        vars(module).update(packed=packed, _bias=None if bias is None else bias.detach().clone())
        module.__class__ = cls
        module._fix()
        return refused

    def projections(self) -> dict:
        """{name of a weight: the fovea.Linear that has it}, but for out_proj's."""
        return dict(zip(WEIGHTS[:1] if self._qkv_same_embed_dim else WEIGHTS[1:4], self.packed))

    def packed_weights(self) -> dict:
        """The same of all weights, as they were packed."""
        return {**self.projections(), WEIGHTS[4]: self.out_proj.packed}

    def _sources(self):
        sources = dict.fromkeys((*WEIGHTS[:4], "in_proj_bias"))
        for name, linear in self.projections().items():
            parts = 3 if self._qkv_same_embed_dim else 1
            size, dtype = (parts * self.embed_dim, linear.in_features), self.out_proj.weight.dtype
            like = torch.empty(size, dtype=dtype, device="meta")
            sources[name] = (functools.partial(unpack_weight, linear, False, range(parts)), like)
        if self._bias is not None:
            sources["in_proj_bias"] = (self._bias, self._bias)
        return sources

    def _project(self, query, key, value):
        """q, k and v, each [B, T, E] where inputs are."""
        if not self._qkv_same_embed_dim:
            return [linear.apply(x, part=0) for x, linear in zip((query, key, value), self.packed)]
        (linear,) = self.packed
        if query is key is value:
            return linear.apply(query)
        return [linear.apply(x, part=part) for part, x in enumerate((query, key, value))]

    def _takes(self, query, key, key_padding_mask, attn_mask, need_weights, is_causal) -> bool:
        """Whether masks have the shapes and types that torch takes; it says itself what is wrong with others."""
        if query.dim() not in (2, 3) or key.dim() != query.dim():
            return False
        batched = query.dim() == 3
        axis = 1 if batched and self.batch_first else 0
        q_len, kv_len, batch = query.shape[axis], key.shape[axis], query.shape[1 - axis] if batched else 1
        kinds = (torch.bool, query.dtype) if need_weights else (torch.bool, query.dtype, torch.float32)
        shapes = ((q_len, kv_len), (batch * self.num_heads, q_len, kv_len))
        return (attn_mask is not None or not is_causal) and all(
            mask is None or (mask.shape in known and mask.dtype in kinds)
            for mask, known in ((key_padding_mask, ((batch, kv_len)[not batched :],)), (attn_mask, shapes))
        )

    def _masks(self, key_padding_mask, attn_mask, batch, q_len, kv_len):
        """(mask of Fovea or None, bias or None). True in torch's masks hides a key."""
        pairs = (1, 1) if attn_mask is None or attn_mask.dim() == 2 else (batch, self.num_heads)
        given = ((key_padding_mask, (batch, 1, 1, kv_len)), (attn_mask, (*pairs, q_len, kv_len)))
        masks = [mask.reshape(shape) for mask, shape in given if mask is not None]
        keep = [~mask for mask in masks if mask.dtype is torch.bool]
        bias = [wide(mask) for mask in masks if mask.dtype is not torch.bool]
        joins = ((torch.logical_and, keep), (torch.add, bias))
        return [functools.reduce(join, some) if some else None for join, some in joins]

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
                average_attn_weights=True, is_causal=False):  # fmt: skip
        plain = type(query) in PLAIN and type(key) in PLAIN and type(value) in PLAIN and ordinary()
        known = nn.MultiheadAttention.forward is _FORWARD and vars(self).keys().isdisjoint(_PARAMETERS)
        masked = is_causal or attn_mask is not None or key_padding_mask is not None
        if (
            not (plain and known)
            or not query.numel()
            or not key.numel()
            or self.add_zero_attn
            or (masked and not self._takes(query, key, key_padding_mask, attn_mask, need_weights, is_causal))
        ):  # torch has its own ways with nothing, its own errors, and adds a key where that was asked for later
            return nn.MultiheadAttention.forward(
                self, query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal
            )
        if torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad):
            no_gradient()
        batched, tokens_first = query.dim() == 3, query.dim() == 3 and not self.batch_first
        heads = [y.unflatten(-1, (self.num_heads, self.head_dim)) for y in self._project(query, key, value)]
        heads = heads if batched else [y.unsqueeze(0) for y in heads]
        q, k, v = [y.transpose(0, 1) for y in heads] if tokens_first else heads  # [B, T, H, D]
        keep, bias = self._masks(key_padding_mask, attn_mask, q.shape[0], q.shape[1], k.shape[1])
        counts.ran("mha")
        out, weights = torch.empty_like(q), None
        result = fovea.attention(q, k, v, mask=keep, bias=bias, layout="bthd", out=out, return_weights=need_weights,
                                 arithmetic=arithmetic(q.dtype))  # fmt: skip
        if need_weights:
            weights = result[1].mean(1) if average_attn_weights else result[1]
            weights = (weights if batched else weights.squeeze(0)).to(out.dtype)
        out = out.transpose(0, 1) if tokens_first else out
        last = self.out_proj  # torch reads its weight and calls no hook of it
        out = out.flatten(2)
        own = type(last) is Linear and "weight" not in vars(last) and "bias" not in vars(last)
        out = last._execute(out) if own else F.linear(out, last.weight, last.bias)
        return (out if batched else out.squeeze(0)), weights

    def extra_repr(self) -> str:
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}"
