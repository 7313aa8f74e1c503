"""The gradient of fovea::attention: the operation fovea::attention_backward, and both as torch.autograd.Functions.

With p the weights, s the scores, o the result, L its lse, and d a row's sum of grad_o * o (FlashAttention-2, arXiv
2307.08691, section 3.1, where L has no gradient):

    grad_s = p * (grad_o v^T - d + grad_L)      grad_sink = sum of exp(sink - L) * (grad_L - d)
    grad_v = p^T grad_o     grad_q = scale * grad_s' k     grad_k = scale * grad_s'^T q

grad_s' is grad_s times the slope of softcap, 1 - (s / softcap)^2. What is added to s has grad_s, summed where it
repeats. The weights come from Fovea itself, a block of rows at a time, so they know all that attention knows; sums are
in float32. torch's backward kernel of its fused attention is faster, and runs where it can: causal and padded calls,
and those with a mask or a bias that needs no gradient.
"""

import functools

import torch
from torch.autograd import forward_ad

import fovea
from fovea._core import attention_recorded

TENSORS = ("mask", "bias", "sinks", "alibi", "table", "q_lens", "kv_lens", "q_starts", "kv_starts", "q_offsets",
           "q_cu_seqlens", "kv_cu_seqlens")  # fmt: skip
INPUTS = ("q", "k", "v", *TENSORS)
BACKWARD_INPUTS = ("grad_out", "grad_lse", "out", "lse", *INPUTS)
DEFAULTS: dict = {"causal": "none", "window": None, "scale": None, "softcap": None, "relative": None,
                  "relative_numbers": [], "layout": "bhtd", "out_layout": None, "arithmetic": None}  # fmt: skip
_RELATIVE = {"t5": ("bidirectional", "max_distance"), "toeplitz": (), "window_2d": ("height", "width")}
_BLOCK = 1 << 21  # weights at a time: 8 MiB
_ALL = slice(None)
_zeros = functools.partial(torch.zeros, dtype=torch.float32, device="cpu")  # whatever torch's defaults are
_arange = functools.partial(torch.arange, dtype=torch.float32, device="cpu")


def relative(options, table):
    """The fovea.Relative of an operation's options, or None."""
    kind = options["relative"]
    return kind and getattr(fovea.Relative, kind)(table, **dict(zip(_RELATIVE[kind], options["relative_numbers"])))


def causal_of(causal, offsets):
    """causal and q_offsets of an operation, as fovea.attention() takes them."""
    if causal == "offset":
        return {"causal": offsets.item() if offsets.numel() == 1 else offsets, "q_offsets": None}
    return {"causal": {"none": None, "true": True}.get(causal, causal), "q_offsets": offsets}


def _bhtd(x, layout):
    """A tensor of a layout as [B, H, T, D]."""
    x = x if len(layout) == 4 else x.unsqueeze(0)
    return x.transpose(1, 2) if layout.endswith("thd") else x


def _finite(x):
    """x with 0 for NaN and infinities: where they are attended, the weights are NaN; elsewhere they would spread."""
    return x if x.sum().isfinite() else x.nan_to_num(0.0, 0.0, 0.0)


def _part(x, *parts):
    """A part of a tensor that broadcasts to as many axes as there are parts, or None."""
    if x is None:
        return None
    x = x[(None,) * (len(parts) - x.dim())]
    return x[tuple(part if size > 1 else _ALL for part, size in zip(parts, x.shape))]


def _pieces(x, causal, step):
    """(sequences, rows, keys, the position of each sequence's first row), where rows and keys are ranges of tokens."""
    numbers = {name: None if x[name] is None else x[name].tolist() for name in TENSORS[5:]}
    offsets, cu_seqlens = numbers.pop("q_offsets"), numbers["q_cu_seqlens"]

    def tokens(i, side, count):
        cu, starts, lens = (numbers[f"{side}_{name}"] for name in ("cu_seqlens", "starts", "lens"))
        first, stop = (cu[i], cu[i + 1]) if cu else (starts[i] if starts else 0, count)
        return slice(first, first + lens[i] if lens else stop)

    count = len(cu_seqlens) - 1 if cu_seqlens else len(x["q"])
    step = 1 if any(numbers.values()) else step
    for i in range(0, count, step):
        rows, keys = tokens(i, "q", x["q"].shape[2]), tokens(i, "kv", x["k"].shape[2])
        size = min(step, count - i)
        corner = keys.stop - keys.start - rows.stop + rows.start if causal == "bottom_right" else 0
        first = [corner] * size if offsets is None else offsets * size if len(offsets) == 1 else offsets[i : i + size]
        yield slice(i, i + size), rows, keys, torch.tensor(first, device="cpu")


def _recompute(x, wanted, options):
    """Gradients of INPUTS named in `wanted`, as float32, by name. x: BACKWARD_INPUTS by name, [B, H, T, D]."""
    causal, window, softcap, scale = (options[name] for name in ("causal", "window", "softcap", "scale"))
    q, k, v, mask, bias, sinks = (x[name] for name in INPUTS[:6])
    scale = q.shape[3] ** -0.5 if scale is None else scale
    heads, kv_heads, packed = q.shape[1], k.shape[1], x["q_cu_seqlens"] is not None
    grads = {name: _zeros(x[name].shape) for name in {"q", "k", "v", *wanted}}
    delta = (x["grad_out"].float() * x["out"]).sum(-1)
    if x["grad_lse"] is not None:
        delta = delta - x["grad_lse"]
    if sinks is not None:
        share = torch.where(x["lse"] == -torch.inf, 0.0, (sinks[:, None] - x["lse"]).exp())
        grads["sinks"] = -(share * delta).sum((0, 2))
    step = max(1, _BLOCK // max(1, heads * k.shape[2] * min(q.shape[2], 64)))
    for sequences, rows, keys, first in _pieces(x, causal, step):
        part, size = slice(0, 1) if packed else sequences, len(first)
        block = max(1, _BLOCK // max(1, size * heads * (keys.stop - keys.start)))
        for at in range(rows.start, rows.stop, block):
            now = slice(at, min(at + block, rows.stop))
            place, count = first + (at - rows.start), now.stop - at
            low, high = keys.start, keys.stop  # the keys that some row sees
            if causal != "none" or (window and window[1] >= 0):
                more = window[1] if causal == "none" else 0
                high = min(high, low + max(0, int(place.max()) + count + more))
            if window and window[0] >= 0 and options["relative"] != "window_2d":
                low = min(high, max(low, low + int(place.min()) - window[0]))
            if high == low or not heads:
                continue
            seen, place = slice(low, high), place - (low - keys.start)
            scores, group = (part, _ALL, now, seen), (size, kv_heads, heads // kv_heads * count, -1)
            _, p, *capped = attention_recorded(
                q[part, :, now], k[part, :, seen], v[part, :, seen, :1], sinks=sinks, mask=_part(mask, *scores),
                bias=_part(bias, *scores), alibi=_part(x["alibi"], sequences, _ALL), scale=scale, softcap=softcap,
                relative=relative(options, _part(x["table"], sequences, _ALL, _ALL)), window=window and tuple(window),
                causal=None if causal == "none" else place, q_offsets=place if causal == "none" else None,
                return_weights=True, return_scores=softcap and "capped", arithmetic="exact",
            )  # fmt: skip
            go, qs = (y[part, :, now].float().reshape(group) for y in (x["grad_out"], q))
            ks, vs, p = k[part, :, seen].float(), v[part, :, seen].float(), p.view(group)
            gs = (go @ vs.mT).sub_(delta[part, :, now].reshape(group)).mul_(p)
            of_heads = gs.view(size, heads, count, -1)
            if "bias" in wanted:
                to = _part(grads["bias"], *scores)
                to += of_heads.sum_to_size(to.shape)
            if "alibi" in wanted:
                to = _part(grads["alibi"], sequences, _ALL)
                distance = (place.view(-1, 1, 1, 1) + _arange(count)[:, None] - _arange(high - low)).abs()
                to -= (of_heads * distance).sum((2, 3)).sum_to_size(to.shape)
            if "table" in wanted:
                to = _part(grads["table"], sequences, _ALL, _ALL)
                to += _of_entries(of_heads, to.shape[2], place, options).sum_to_size(to.shape)
            if softcap:
                gs = gs.mul_(1 - (capped[0].view(group) / softcap).square_())
            grads["q"][part, :, now] = (gs @ ks).mul_(scale).view(size, heads, count, -1)
            grads["k"][part, :, seen] += (gs.mT @ qs).mul_(scale)
            grads["v"][part, :, seen] += p.mT @ go
    return grads


def _of_entries(gs, entries, place, options):
    """The sums [B, H, entries] of gradients [B, H, rows, keys]. Fovea tells which entry belongs to a row and a key."""
    one = _zeros(gs.shape[0], 1, max(gs.shape[2:]), 1)
    q, k = one[:, :, : gs.shape[2]], one[:, :, : gs.shape[3]]
    numbers = relative(options, _arange(entries))
    entry = attention_recorded(q, k, k, relative=numbers, q_offsets=place, return_scores="biased")[1]
    return _zeros(*gs.shape[:2], entries).scatter_add_(2, entry.long().expand(gs.shape).flatten(2), gs.flatten(2))


def _fused(x, wanted, options):
    """Gradients of q, k and v by torch's kernel, or None where it does not serve, or not fast."""
    causal, (q, k, v, mask, bias) = options["causal"], (x[name] for name in INPUTS[:5])
    if options["window"] or options["softcap"] or "bias" in wanted or not q.dtype == k.dtype == v.dtype:
        return None
    others = any(x[name] is not None for name in ("sinks", "alibi", "table", "q_cu_seqlens", "grad_lse"))
    if others or q.shape[3] != v.shape[3] or 0 in (q.numel(), k.numel()):
        return None
    q_len, kv_len, lse = q.shape[2], k.shape[2], x["lse"]
    lengths = {name: x[name] for name in TENSORS[5:10] if x[name] is not None}
    corner = causal == "top_left" or (causal != "none" and q_len == kv_len and causal != "offset")
    if lengths or (causal != "none" and not (corner and mask is bias is None)):
        if len(q) * q_len * kv_len > 8 * _BLOCK:
            return None
        ones = [_zeros(len(q), 1, tokens, 1) for tokens in (q_len, kv_len, kv_len)]
        lengths.update(causal_of(causal, lengths.pop("q_offsets", None)))
        seen = attention_recorded(*ones, return_scores="biased", **lengths)[1]
        bias, causal = seen if bias is None else bias + seen, "none"
    if mask is not None:
        bias = torch.where(mask, _zeros(()) if bias is None else bias, -torch.inf)
    if bias is not None:  # where nothing is seen, lse is -inf, which the kernel cannot subtract
        bias = bias.to(q.dtype)[(None,) * (4 - bias.dim())].expand(-1, -1, q_len, kv_len)
        lse = torch.where(lse == -torch.inf, 0.0, lse)
    grads = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        x["grad_out"], q, k, v, x["out"], lse, 0.0, causal != "none", attn_mask=bias, scale=options["scale"]
    )
    return dict(zip(("q", "k", "v"), grads))


def backward_cpu(*inputs, wanted, **options):
    """fovea::attention_backward: the gradients of those of INPUTS whose numbers are in `wanted`."""
    options = DEFAULTS | options  # torch leaves out what equals its default
    layout, out_layout = options["layout"], options["out_layout"] or options["layout"]
    x = dict.fromkeys(BACKWARD_INPUTS) | dict(zip(BACKWARD_INPUTS, inputs))
    x["grad_out"] = torch.zeros_like(x["out"]) if x["grad_out"] is None else x["grad_out"]
    x.update((name, _bhtd(x[name], out_layout)) for name in ("out", "grad_out"))
    x.update((name, _finite(_bhtd(x[name], layout))) for name in ("q", "k", "v"))
    if len(layout) == 3:
        x.update((name, x[name] if x[name] is None else x[name][None]) for name in ("lse", "grad_lse"))
    names, result = [INPUTS[i] for i in wanted], []
    with torch.autocast("cpu", enabled=False):
        grads = _fused(x, names, options) or _recompute(x, names, options)
    for i, name in zip(wanted, names):
        grad, to = grads[name], inputs[i + 4]
        grad = grad.transpose(1, 2) if i < 3 and layout.endswith("thd") else grad
        result.append(grad.reshape(to.shape).to(to.dtype).contiguous())
    return result


def backward_fake(_grad_out, _grad_lse, _out, _lse, *inputs, wanted, **_):
    return [inputs[i].new_empty(inputs[i].shape) for i in wanted]


def refuse_tangents(*tensors):
    if forward_ad._current_level >= 0:
        for x in tensors:
            if isinstance(x, torch.Tensor) and forward_ad.unpack_dual(x, level=0).tangent is not None:
                raise NotImplementedError("fovea.torch.attention has no forward-mode derivative: use backward")


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
        return one_by_one(functools.partial(Attention.apply, options), info, in_dims[1:], tensors)


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
        raise NotImplementedError("fovea.torch.attention has no second derivative: use torch's attention")

    @staticmethod
    def vmap(info, in_dims, options, wanted, *tensors):
        return one_by_one(functools.partial(Backward.apply, options, wanted), info, in_dims[2:], tensors)


def attention_autograd(*inputs, **options):
    """fovea::attention where gradients are recorded: compilers and calls of torch.ops come here."""
    refuse_tangents(*inputs)
    if torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in inputs):
        if torch._C._are_functorch_transforms_active():
            raise NotImplementedError("torch.func needs fovea.torch.attention, outside of torch.compile")
        return Attention.apply(DEFAULTS | options, *inputs, *(None,) * (len(INPUTS) - len(inputs)))
    with torch._C._AutoDispatchBelowAutograd():
        return torch.ops.fovea.attention(*inputs, **options)


def one_by_one(function, info, in_dims, tensors):
    """vmap: a call for each entry of the mapped axis."""
    results = [
        function(*(x if dim is None else x.select(dim, i) for x, dim in zip(tensors, in_dims)))
        for i in range(info.batch_size)
    ]
    return tuple(torch.stack(each) for each in zip(*results)), (0,) * len(results[0])
