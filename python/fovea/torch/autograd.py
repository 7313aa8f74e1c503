"""The gradient of fovea::attention: torch's backward kernel of its fused attention, with our output and our lse.

That kernel knows a float mask that is added to the scores, and causal masks from the top left corner. Everything else
that selects or adds becomes such a mask, made in backward only: T_q x T_k floats of memory per batch entry and head that
differ. Softcap and sinks change the scores in a way that the kernel does not know, and have no gradient here; neither
has lse.
"""

import torch

_CONSTANTS = ("mask", "bias", "sinks", "alibi", "q_lens", "kv_lens", "q_starts", "kv_starts")  # without gradients
_NO_GRADIENTS = (None,) * len(_CONSTANTS)


def setup_context(ctx, inputs, keyword_only_inputs, output):
    q, k, v, *constants = inputs
    options = keyword_only_inputs
    for name, tensor in zip(_CONSTANTS, constants):
        if tensor is not None and tensor.requires_grad:
            raise NotImplementedError(f"fovea.torch.attention: {name} has no gradient; detach it")
    for name, value in (("softcap", options["softcap"]), ("sinks", constants[_CONSTANTS.index("sinks")])):
        if value is not None:
            raise NotImplementedError(f"fovea.torch.attention: there is no gradient with {name}; use torch.no_grad()")
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(q, k, v, *output, *constants)
    ctx.options = {name: options[name] for name in ("causal", "offsets", "window", "scale", "layout", "out_layout")}


def _column(values, device):
    """A tensor [B] as [B, 1, 1, 1]."""
    return values.to(device).view(-1, 1, 1, 1)


def _both(seen, more):
    return more if seen is None else seen & more


def _visible(q_len, kv_len, options, q_starts, kv_starts, q_lens, kv_lens, device):
    """Which keys a row sees by position alone: booleans [B or 1, 1, T_q or 1, T_k], or None if all."""
    causal, window = options["causal"], options["window"]
    row = torch.arange(q_len, device=device).view(1, 1, -1, 1)
    col = torch.arange(kv_len, device=device).view(1, 1, 1, -1)
    rows, cols = q_len, kv_len  # of each sequence
    seen = None
    if q_starts is not None:
        row, rows = row - _column(q_starts, device), q_len - _column(q_starts, device)
    if kv_starts is not None:
        col, cols = col - _column(kv_starts, device), kv_len - _column(kv_starts, device)
    if q_lens is not None:
        rows = _column(q_lens, device)
    if kv_lens is not None:
        cols = _column(kv_lens, device)
    if q_starts is not None or q_lens is not None:
        seen = (row >= 0) & (row < rows)
    if kv_starts is not None or kv_lens is not None:
        seen = _both(seen, (col >= 0) & (col < cols))
    if causal == "bottom_right":
        row = row + (cols - rows)
    elif causal == "offset":
        row = row + torch.tensor(options["offsets"], device=device).view(-1, 1, 1, 1)
    if causal != "none":
        seen = _both(seen, col <= row)
    if window is not None and window[0] >= 0:
        seen = _both(seen, col >= row - window[0])
    if window is not None and window[1] >= 0:
        seen = _both(seen, col <= row + window[1])
    return seen


def _additive(q, k, constants, options):
    """(mask to add or None, whether the kernel's own causal mask serves)."""
    mask, bias, _, alibi, q_lens, kv_lens, q_starts, kv_starts = constants
    causal, window = options["causal"], options["window"]
    lengths = (q_starts, kv_starts, q_lens, kv_lens)
    if all(x is None for x in (mask, bias, alibi, window, *lengths)) and causal in ("none", "top_left"):
        return None, causal == "top_left"
    if alibi is not None:
        raise NotImplementedError("fovea.torch.attention: there is no gradient with alibi; give it as a bias")
    q_len, kv_len = q.shape[2], k.shape[2]
    seen = _visible(q_len, kv_len, options, *lengths, q.device)
    if mask is not None:
        seen = _both(seen, mask)
    added = torch.zeros((1, 1, q_len, kv_len), dtype=q.dtype, device=q.device) if bias is None else bias
    if seen is not None:
        added = torch.where(seen, added, -torch.inf)
    while added.dim() < 4:
        added = added.unsqueeze(0)
    return added.to(q.dtype).expand(*added.shape[:2], q_len, kv_len), False


def backward(ctx, grad_out, _):
    q, k, v, out, lse, *constants = ctx.saved_tensors
    layout = ctx.options["layout"]
    out_layout = ctx.options["out_layout"] or layout
    if layout == "bthd":
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    if out_layout == "bthd":
        out, grad_out = out.transpose(1, 2), grad_out.transpose(1, 2)
    added, is_causal = _additive(q, k, constants, ctx.options)
    if added is not None:
        lse = torch.where(torch.isneginf(lse), 0.0, lse)
    if q.shape[3] != v.shape[3]:
        raise NotImplementedError("fovea.torch.attention: there is no gradient where value dim and head dim differ")
    grads = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        grad_out, q, k, v, out, lse, 0.0, is_causal, attn_mask=added, scale=ctx.options["scale"]
    )
    if layout == "bthd":
        grads = (x.transpose(1, 2) for x in grads)
    return *grads, *_NO_GRADIENTS
