"""The gradient of fovea::attention: the operation fovea::attention_backward, and both as torch.autograd.Functions.

With p the weights, s the scores, o the result, L its lse, and d a row's sum of grad_o * o (FlashAttention-2, arXiv
2307.08691, section 3.1, where L has no gradient):

    grad_s = p * (grad_o v^T - d + grad_L)      grad_sink = sum of exp(sink - L) * (grad_L - d)
    grad_v = p^T grad_o     grad_q = scale * grad_s' k     grad_k = scale * grad_s'^T q

grad_s' is grad_s times the slope of softcap, 1 - (s / softcap)^2. What is added to s has grad_s, summed where it repeats.

The weights come from Fovea itself, a block of rows at a time, so they know all that attention knows; sums are in float32.
torch's backward kernel of its fused attention is faster, and runs where it can: causal, or a mask or bias without a gradient.
"""

import torch
from torch.autograd import forward_ad

import fovea
from fovea._core import attention_recorded

TENSORS = ("mask", "bias", "sinks", "alibi", "table", "q_lens", "kv_lens", "q_starts", "kv_starts", "q_offsets",
           "cu_seqlens_q", "cu_seqlens_kv")  # fmt: skip
INPUTS = ("q", "k", "v", *TENSORS)
BACKWARD_INPUTS = ("grad_out", "grad_lse", "out", "lse", *INPUTS)
_RELATIVE = {"t5": ("bidirectional", "max_distance"), "toeplitz": (), "window_2d": ("height", "width")}
DEFAULTS = {"causal": "none", "window": None, "scale": None, "softcap": None, "relative": None, "relative_numbers": [],
            "layout": "bhtd", "out_layout": None, "arithmetic": None}  # fmt: skip
_BLOCK = 1 << 21  # weights at a time: 8 MiB


def bhtd(x, layout):
    """A tensor of a layout as [B, H, T, D]; one without heads' channels as [B, H, T]. Its own inverse where B exists."""
    x = x if len(layout) == 4 else x.unsqueeze(0)
    return x.transpose(1, 2) if layout.endswith("thd") else x


def relative(kind, table, numbers):
    """The fovea.Relative of an operation's arguments, or None."""
    return kind and getattr(fovea.Relative, kind)(table, **dict(zip(_RELATIVE[kind], numbers)))


def causal_of(causal, offsets):
    """causal and q_offsets of an operation, as fovea.attention() takes them."""
    if causal == "offset":
        return {"causal": int(offsets) if offsets.numel() == 1 else offsets, "q_offsets": None}
    return {"causal": {"none": None, "true": True}.get(causal, causal), "q_offsets": offsets}


def _finite(x):
    """x with 0 for NaN and infinities: where they are attended, the weights are NaN; elsewhere they would spread."""
    return x if x.sum().isfinite() else x.nan_to_num(0.0, 0.0, 0.0)


def _rows_and_keys(x, batch, rows, keys):
    """The part of a tensor that broadcasts to [B, H, T_q, T_k]."""
    if x is None:
        return None
    x = x[(None,) * (4 - x.dim())]
    parts = (batch, slice(None), rows, keys)
    return x[tuple(part if size > 1 else slice(None) for part, size in zip(parts, x.shape))]


def _of(x, sequences, dims):
    """The part of slopes or tables of some sequences: only those of `dims` dimensions have an axis of them."""
    return x[sequences] if x is not None and x.dim() == dims and x.shape[0] > 1 else x


def _pieces(given, causal, batch, q_tokens, kv_tokens, step):
    """(sequences, rows, keys, the position of each sequence's first row), where rows and keys are ranges of tokens."""
    numbers = {name: None if given[name] is None else given[name].tolist() for name in TENSORS[5:]}
    cu_q, cu_kv, offsets = numbers["cu_seqlens_q"], numbers["cu_seqlens_kv"], numbers.pop("q_offsets")

    def tokens(i, cu, starts, lens, count):
        first, stop = (cu[i], cu[i + 1]) if cu else (starts[i] if starts else 0, count)
        return slice(first, first + lens[i] if lens else stop)

    count = len(cu_q) - 1 if cu_q else batch
    step = 1 if any(x is not None for x in numbers.values()) else step
    for i in range(0, count, step):
        rows = tokens(i, cu_q, numbers["q_starts"], numbers["q_lens"], q_tokens)
        keys = tokens(i, cu_kv, numbers["kv_starts"], numbers["kv_lens"], kv_tokens)
        stop = min(i + step, count)
        corner = keys.stop - keys.start - rows.stop + rows.start if causal == "bottom_right" else 0
        first = [corner] * (stop - i)
        if offsets is not None:
            first = offsets * (stop - i) if len(offsets) == 1 else offsets[i:stop]
        yield slice(i, stop), rows, keys, torch.tensor(first)


def _recompute(grad_out, grad_lse, out, lse, q, k, v, given, wanted, options):
    """Gradients of INPUTS named in `wanted`, by name, as float32; q, k, v, out and their gradients [B, H, T, D]."""
    causal, window, softcap, scale = (options[name] for name in ("causal", "window", "softcap", "scale"))
    scale = q.shape[3] ** -0.5 if scale is None else scale
    batch, heads, q_tokens, _ = q.shape
    kv_heads, kv_tokens = k.shape[1:3]
    sinks, alibi, table, packed = given["sinks"], given["alibi"], given["table"], given["cu_seqlens_q"] is not None
    grads = {name: torch.zeros(x.shape) for name, x in (("q", q), ("k", k), ("v", v))}
    grads.update((name, torch.zeros(given[name].shape)) for name in wanted if name in given)
    delta = (grad_out.float() * out).sum(-1)
    if grad_lse is not None:
        delta = delta - grad_lse
    if "sinks" in wanted:
        share = torch.where(lse == -torch.inf, 0.0, (sinks[:, None] - lse).exp())
        grads["sinks"] = -(share * delta).sum((0, 2))
    step = max(1, _BLOCK // max(1, heads * kv_tokens * min(q_tokens, 64)))
    for sequences, rows, keys, first in _pieces(given, causal, batch, q_tokens, kv_tokens, step):
        part, size = slice(0, 1) if packed else sequences, first.numel()
        block = max(1, _BLOCK // max(1, size * heads * (keys.stop - keys.start)))
        for at in range(rows.start, rows.stop, block):
            now = slice(at, min(at + block, rows.stop))
            place = first + (at - rows.start)
            low, high = keys.start, keys.stop  # the keys that some row sees
            if causal != "none" or (window and window[1] >= 0):
                more = window[1] if causal == "none" else 0
                high = min(high, low + max(0, int(place.max()) + now.stop - at + more))
            if window and window[0] >= 0 and options["relative"] != "window_2d":
                low = min(high, max(low, low + int(place.min()) - window[0]))
            if high == low:
                continue
            place = place - (low - keys.start)
            seen, n = slice(low, high), high - low
            bias_of = relative(options["relative"], _of(table, sequences, 3), options["relative_numbers"])
            _, p, *capped = attention_recorded(
                q[part, :, now], k[part, :, seen], v[part, :, seen, :1], mask=_rows_and_keys(given["mask"], part, now, seen),
                bias=_rows_and_keys(given["bias"], part, now, seen), sinks=sinks, alibi=_of(alibi, sequences, 2),
                relative=bias_of, window=None if window is None else tuple(window), scale=scale, softcap=softcap,
                causal=None if causal == "none" else place, q_offsets=place if causal == "none" else None,
                return_weights=True, return_scores=softcap and "capped", arithmetic="exact",
            )  # fmt: skip
            grouped = (size, kv_heads, heads // kv_heads * (now.stop - at), -1)
            go, qs = (x[part, :, now].float().reshape(grouped) for x in (grad_out, q))
            ks, vs, p = k[part, :, seen].float(), v[part, :, seen].float(), p.view(grouped)
            gs = (go @ vs.mT).sub_(delta[part, :, now].reshape(grouped)).mul_(p)
            for_heads = gs.view(size, heads, now.stop - at, n)
            if "bias" in wanted:
                to = _rows_and_keys(grads["bias"], part, now, seen)
                to += for_heads.sum_to_size(to.shape)
            if "alibi" in wanted:
                distance = place.view(-1, 1, 1, 1) + torch.arange(now.stop - at)[:, None] - torch.arange(n)
                to = _of(grads["alibi"], sequences, 2)
                to -= (for_heads * distance.abs()).sum((2, 3)).sum_to_size(to.shape)
            if "table" in wanted:
                _add_to_table(_of(grads["table"], sequences, 3), for_heads, place, options)
            if softcap:
                gs = gs.mul_(1 - (capped[0].view(grouped) / softcap).square_())
            grads["q"][part, :, now] = (gs @ ks).mul_(scale).view(size, heads, now.stop - at, -1)
            grads["k"][part, :, seen] += (gs.mT @ qs).mul_(scale)
            grads["v"][part, :, seen] += p.mT @ go
    return grads


def _add_to_table(grad, gs, place, options):
    """Adds the gradients [B, H, rows, keys] of a table's entries. Fovea tells which entry belongs to a row and a key."""
    batch, heads, rows, keys = gs.shape
    entries = grad.shape[-1]
    numbers = relative(options["relative"], torch.arange(entries, dtype=torch.float32), options["relative_numbers"])
    one = torch.zeros(batch, 1, max(rows, keys), 1)
    _, entry = attention_recorded(one[:, :, :rows], one[:, :, :keys], one[:, :, :keys], relative=numbers, q_offsets=place,
                                  return_scores="biased")  # fmt: skip
    entry = entry.long().expand(gs.shape).reshape(batch, heads, -1)
    sums = torch.zeros(batch, heads, entries).scatter_add_(2, entry, gs.reshape(batch, heads, -1))
    grad += sums.sum_to_size((1,) * (3 - grad.dim()) + tuple(grad.shape)).view(grad.shape)


def _fused(grad_out, grad_lse, out, lse, q, k, v, given, wanted, options):
    """Gradients of q, k and v by torch's kernel, or None where it does not serve, or not fast."""
    causal, mask, bias = options["causal"], given["mask"], given["bias"]
    others = any(given[name] is not None for name in ("sinks", "alibi", "table", "cu_seqlens_q"))
    if others or options["window"] or options["softcap"] or grad_lse is not None or "bias" in wanted:
        return None
    if not q.dtype == k.dtype == v.dtype or q.shape[3] != v.shape[3]:
        return None
    batch, q_len, kv_len = q.shape[0], q.shape[2], k.shape[2]
    lengths = {name: given[name] for name in TENSORS[5:10] if given[name] is not None}
    corner = causal == "top_left" or (causal != "none" and q_len == kv_len and causal != "offset")
    if lengths or (causal != "none" and not (corner and mask is bias is None)):
        if batch * q_len * kv_len > 8 * _BLOCK:
            return None
        q1, k1 = (torch.zeros(batch, 1, tokens, 1) for tokens in (q_len, kv_len))
        lengths.update(causal_of(causal, lengths.pop("q_offsets", None)))
        seen = attention_recorded(q1, k1, k1, return_scores="biased", **lengths)[1]
        bias, causal = seen if bias is None else bias + seen, "none"
    if mask is not None:
        bias = torch.where(mask, 0.0 if bias is None else bias, -torch.inf)
    if bias is not None:  # where nothing is seen, lse is -inf, which the kernel cannot subtract
        bias = bias.to(q.dtype)[(None,) * (4 - bias.dim())].expand(-1, -1, q_len, kv_len)
        lse = torch.where(lse == -torch.inf, 0.0, lse)
    grads = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        grad_out, q, k, v, out, lse, 0.0, causal != "none", attn_mask=bias, scale=options["scale"]
    )
    return dict(zip(("q", "k", "v"), grads))


def backward_cpu(grad_out, grad_lse, out, lse, *inputs, wanted, **options):
    """fovea::attention_backward: the gradients of those of INPUTS whose numbers are in `wanted`."""
    options = DEFAULTS | options  # torch leaves out what equals its default
    layout, out_layout = options["layout"], options["out_layout"] or options["layout"]
    given = dict.fromkeys(INPUTS) | dict(zip(INPUTS, inputs))
    q, k, v = (_finite(bhtd(given.pop(name), layout)) for name in ("q", "k", "v"))
    grad_out = torch.zeros_like(out) if grad_out is None else grad_out
    out, grad_out = bhtd(out, out_layout), bhtd(grad_out, out_layout)
    if len(layout) == 3:
        lse, grad_lse = lse[None], None if grad_lse is None else grad_lse[None]
    names = [INPUTS[i] for i in wanted]
    arguments = (grad_out, grad_lse, out, lse, q, k, v, given, names, options)
    with torch.autocast("cpu", enabled=False):
        grads = _fused(*arguments) or _recompute(*arguments)
    result = []
    for i, name in zip(wanted, names):
        grad = grads[name]
        if i < 3:
            grad = grad.transpose(1, 2) if layout.endswith("thd") else grad
            grad = grad.reshape(inputs[i].shape)
        result.append(grad.to(inputs[i].dtype).contiguous())
    return result


def backward_fake(_grad_out, _grad_lse, _out, _lse, *inputs, wanted, **_):
    return [inputs[i].new_empty(inputs[i].shape) for i in wanted]


def refuse_tangents(*tensors):
    if forward_ad._current_level >= 0:
        for x in tensors:
            if isinstance(x, torch.Tensor) and forward_ad.unpack_dual(x, level=0).tangent is not None:
                raise NotImplementedError("fovea.torch.attention has no forward-mode derivative (jvp): use a backward one")


class Attention(torch.autograd.Function):
    """fovea::attention and its gradient. Called by its name, for torch.func does not see into operations."""

    @staticmethod
    def forward(options, *tensors):
        return torch.ops.fovea.attention(*tensors, **options)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*output, *inputs[1:])
        ctx.options = inputs[0]

    @staticmethod
    def backward(ctx, *grads):
        wanted = [i for i, needs in enumerate(ctx.needs_input_grad[1:]) if needs]
        found = iter(Backward.apply(ctx.options, wanted, *grads, *ctx.saved_tensors))
        return None, *(next(found) if i in wanted else None for i in range(len(INPUTS)))

    @staticmethod
    def vmap(info, in_dims, options, *tensors):
        return over_batch(lambda *x: Attention.apply(options, *x), INPUTS, info, in_dims[1:], tensors)


class Backward(torch.autograd.Function):
    """fovea::attention_backward, which has no derivative."""

    @staticmethod
    def forward(options, wanted, *tensors):
        return tuple(torch.ops.fovea.attention_backward(*tensors, wanted=wanted, **options))

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *grads):
        raise NotImplementedError("fovea.torch.attention has no second derivative: use torch's attention (MATH backend)")

    @staticmethod
    def vmap(info, in_dims, options, wanted, *tensors):
        call = lambda *x: Backward.apply(options, wanted, *x)  # noqa: E731
        return over_batch(call, BACKWARD_INPUTS, info, in_dims[2:], tensors, max(wanted) < 3)


def attention_autograd(*inputs, **options):
    """fovea::attention where gradients are recorded: compilers and calls of torch.ops come here."""
    refuse_tangents(*inputs)
    if torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in inputs):
        if torch._C._are_functorch_transforms_active():
            raise NotImplementedError("torch.func cannot map an operation: call fovea.torch.attention, outside torch.compile")
        return Attention.apply(DEFAULTS | options, *inputs, *(None,) * (len(INPUTS) - len(inputs)))
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.fovea.attention(*inputs, **options)


# Dimensions with the batch, and whether a batch of 1, or none, is that of all.
_AXES = {"mask": (4, True), "bias": (4, True), "alibi": (2, True), "table": (3, True), "q_offsets": (1, True),
         "lse": (3, False), "grad_lse": (3, False)} | dict.fromkeys(TENSORS[5:9], (1, False))  # fmt: skip


def over_batch(function, names, info, in_dims, tensors, may_fold=True):
    """vmap: the mapped axis joins the batch; where there is none to join, calls one after another."""
    count, found = info.batch_size, dict(zip(names, zip(tensors, in_dims)))
    nothing = (None, None)
    if found.get("sinks", nothing)[1] is not None or found.get("cu_seqlens_q", nothing)[0] is not None or not may_fold:
        each = [function(*(x if d is None else x.select(d, i) for x, d in zip(tensors, in_dims))) for i in range(count)]
        return tuple(torch.stack(results) for results in zip(*each)), (0,) * len(each[0])
    batch = found["q"][0].shape[found["q"][1] == 0]

    def fold(name, x, dim):
        dims, repeats = _AXES.get(name, (4, False))
        if x is None or (dim is None and (name == "sinks" or (repeats and (x.dim() < dims or x.shape[0] == 1)))):
            return x
        x = x.expand(count, *x.shape) if dim is None else x.movedim(dim, 0)
        x = x[(slice(None),) + (None,) * (dims + 1 - x.dim())]
        return x.expand(count, batch, *x.shape[2:]).flatten(0, 1)

    results = function(*(fold(name, x, dim) for name, (x, dim) in found.items()))
    return tuple(x.unflatten(0, (count, batch)) for x in results), (0,) * len(results)
