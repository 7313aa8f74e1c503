"""nn.MultiheadAttention with packed weights, and the two layers of torch that call an activation as a function."""

import torch
from torch import nn

import fovea

from . import counts
from .packed import PackedLinear, _Inference
from .structure import activation_of
from .types import FLOATS, arithmetic, wide


def why_not(module) -> str | None:
    """Why a nn.MultiheadAttention stays torch's, or None."""
    if type(module) is not nn.MultiheadAttention:
        return f"{type(module).__name__} is a class of its own"
    if module.bias_k is not None or module.add_zero_attn:
        return "its keys get a token more (bias_k or add_zero_attn)"
    types = {p.dtype for p in module.parameters()}
    if len(types) > 1 or not types <= set(FLOATS) or any(p.device.type != "cpu" for p in module.parameters()):
        return "its weights are not of one type of torch.float32, bfloat16 and float16, on the CPU"
    if module._forward_hooks or module._forward_pre_hooks:
        return "it has hooks"
    return None


class PackedMultiheadAttention(_Inference):
    """Has the arguments, results and errors of shape of nn.MultiheadAttention in eval mode."""

    in_proj_weight = in_proj_bias = None  # tells nn.TransformerEncoderLayer that there is no fast path of torch's
    _qkv_same_embed_dim = False

    def __init__(self, module):
        super().__init__()
        self.embed_dim, self.num_heads, self.head_dim = module.embed_dim, module.num_heads, module.head_dim
        self.batch_first, self.dropout = module.batch_first, module.dropout
        if module._qkv_same_embed_dim:
            weights = module.in_proj_weight.chunk(3)
        else:
            weights = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
        biases = (None,) * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
        self.q, self.k, self.v = (PackedLinear(w, b) for w, b in zip(weights, biases))
        bias = module.out_proj.bias
        self.out_proj = PackedLinear(module.out_proj.weight, bias)
        self.training = False

    def _masks(self, key_padding_mask, attn_mask, batch, q_len, kv_len):
        """(mask of Fovea or None, bias or None). True in torch's masks hides a key."""
        keep = bias = None
        for mask, shape in (
            (key_padding_mask, (-1, 1, 1, kv_len)),
            (attn_mask, (1, 1, q_len, kv_len) if attn_mask is None or attn_mask.dim() == 2 else (batch, -1, q_len, kv_len)),
        ):
            if mask is None:
                continue
            mask = mask.reshape(shape)
            if mask.dtype is torch.bool:
                keep = ~mask if keep is None else keep & ~mask
            else:
                bias = wide(mask) if bias is None else bias + wide(mask)
        return keep, bias

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
                average_attn_weights=True, is_causal=False):  # fmt: skip
        if is_causal and attn_mask is None:
            raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
        batched = query.dim() == 3
        heads = []
        for x, linear in ((query, self.q), (key, self.k), (value, self.v)):
            y = linear(x if batched else x.unsqueeze(0))
            y = y.unflatten(-1, (self.num_heads, self.head_dim))
            heads.append(y.transpose(0, 1) if batched and not self.batch_first else y)
        q, k, v = heads  # [B, T, H, D]
        if key_padding_mask is not None and not batched:
            key_padding_mask = key_padding_mask.unsqueeze(0)
        keep, bias = self._masks(key_padding_mask, attn_mask, q.shape[0], q.shape[1], k.shape[1])
        counts.ran("mha")
        out, weights = torch.empty_like(q), None
        result = fovea.attention(q, k, v, mask=keep, bias=bias, layout="bthd", out=out, return_weights=need_weights,
                                 arithmetic=arithmetic(q.dtype))  # fmt: skip
        if need_weights:
            weights = result[1].mean(1) if average_attn_weights else result[1]
            weights = (weights if batched else weights.squeeze(0)).to(out.dtype)
        out = out.transpose(0, 1) if batched and not self.batch_first else out
        out = self.out_proj(out.flatten(2))
        return (out if batched else out.squeeze(0)), weights

    def extra_repr(self) -> str:
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}"


def layer_activation(layer) -> str | None:
    """The activation between linear1 and linear2 of torch's own encoder or decoder layer; None of all else.

    Where there is one the layer is changed to call none: linear1 is to compute it.
    """
    if type(layer) not in (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer) or type(layer.linear1) is not nn.Linear:
        return None
    name = activation_of(layer.activation)
    if name is not None:
        layer.activation = nn.Identity()
        layer.activation_relu_or_gelu = 0
    return name
