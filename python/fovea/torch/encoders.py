"""nn.TransformerEncoder and its layers without their fast path, which reads weights and calls no module.

On that path torch drops padded tokens before the first layer and gives zeros for them after the last. forward() gives
zeros in the same cases.
"""

import functools

import torch
import torch.nn.functional as F
from torch import nn

from .exact import python_modules


def _gives_zeros(encoder, src, mask, padding) -> bool:
    """Whether torch would compute without padded tokens: of a copy, whose weights have no gradient."""
    return (
        padding is not None
        and mask is None
        and type(src) in (torch.Tensor, nn.Parameter)
        and src.dim() == 3
        and not (src.requires_grad and torch.is_grad_enabled())
        and not encoder.layers[0].training
        and torch.backends.mha.get_fastpath_enabled()
        and not torch.is_autocast_enabled()
        and not (encoder.mask_check and torch.compiler.is_compiling())
    )


def forward(encoder, src, mask=None, src_key_padding_mask=None, is_causal=None):
    """nn.TransformerEncoder.forward of `encoder`."""
    if _gives_zeros(encoder, src, mask, src_key_padding_mask):
        padding = F._canonical_mask(src_key_padding_mask, "src_key_padding_mask", None, "mask", src.dtype)
        keep = padding.logical_not()
        if not encoder.mask_check or torch._nested_tensor_from_mask_left_aligned(src, keep):
            for layer in encoder.layers:
                src = layer(src, src_key_padding_mask=padding)
            src = src.masked_fill(~keep.unsqueeze(-1), 0.0)
            return src if encoder.norm is None else encoder.norm(src)
    return nn.TransformerEncoder.forward(encoder, src, mask, src_key_padding_mask, is_causal)


def _drops_padding(module) -> bool:
    return isinstance(module, nn.TransformerEncoder) and module.use_nested_tensor


def why_not(modules) -> dict:
    """{id of a module: why it stays as it is}: those in encoders that drop padded tokens in a forward of their own."""
    return {
        id(inner): f"it is in {type(module).__name__}, which has a forward of its own"
        for module in modules
        if _drops_padding(module)
        and ("forward" in vars(module) or type(module).forward is not nn.TransformerEncoder.forward)
        for inner in module.modules()
    }


def approximates(layer) -> bool:
    """Whether a layer computes GELU by tanh, which torch's fast path takes for the exact one."""
    return getattr(layer.activation, "approximate", "none") != "none"


def call_modules(model, which=lambda layer: True):
    """Takes the fast path from the layers that are chosen, and from their encoders."""
    modules = python_modules(model).values()
    layers = [m for m in modules if isinstance(m, nn.TransformerEncoderLayer) and which(m)]
    for layer in layers:
        layer.activation_relu_or_gelu = 0
    for module in modules:
        if _drops_padding(module) and any(inner in layers for inner in module.modules()):
            module.use_nested_tensor = False
            vars(module)["forward"] = functools.partial(forward, module)
