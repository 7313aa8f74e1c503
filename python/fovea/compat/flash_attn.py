"""The functions of flash-attn 2.8 on the CPU: their names, arguments, layouts and corners.

    from fovea.compat.flash_attn import flash_attn_func
    sys.modules["flash_attn"] = fovea.compat.flash_attn    # before code that does `from flash_attn import ...`

Tensors are torch's, in bfloat16, float16 or float32. What flash-attn refuses because it means nothing is refused; what
only its CUDA kernels refuse works: head dims over 256, pages of any size, any even number of rotary channels. Nothing
that changes a result is ignored. Errors are a TypeError, ValueError or NotImplementedError; nothing was written then.

Gradients are those of fovea.torch.attention. docs/compat.md goes through the arguments.
"""

import contextlib
import itertools
import numbers
import operator

with contextlib.suppress(ImportError):  # only calls need it
    import torch

__version__ = "2.8.4"  # of flash-attn, for code that asks


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
                    alibi_slopes=None, deterministic=False, return_attn_probs=False):  # fmt: skip
    """q [batch, queries, heads, head_dim], k and v [batch, keys, kv_heads, head_dim]; out as q.

    causal, window_size and alibi_slopes count from the bottom right: query i stands at key i + keys - queries. A row
    that sees no key is 0. deterministic: results always are. return_attn_probs: also softmax_lse [batch, heads,
    queries], +inf where a row sees no key, and an empty tensor, which is flash-attn's S_dmask without dropout.
    """
    _check(q, 4, q=q)
    _check(q, 4, k=k, v=v)
    batch = q.shape[0]
    if batch == 0 or k.shape[0] != batch:
        raise ValueError(f"q has {batch} sequences, k has {k.shape[0]}: they must be as many, and at least one")
    lens = [q.shape[1]] * batch, [k.shape[1]] * batch
    options = _options(*lens, softmax_scale, causal, window_size, softcap, alibi_slopes, dropout_p)
    out, lse = _attention(q, k, v, options, return_attn_probs)
    return (out, lse, q.new_empty(0)) if return_attn_probs else out


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0,
                           softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
                           deterministic=False, return_attn_probs=False, block_table=None):  # fmt: skip
    """Packed sequences: q [total_q, heads, head_dim], k and v [total_k, kv_heads, head_dim], int32 cu_seqlens.

    With block_table, k and v are pages, as of flash_attn_with_kvcache, and cu_seqlens_k counts the keys of sequences.
    max_seqlen_q and max_seqlen_k must be no less than the longest sequence has, and change nothing. softmax_lse is
    [heads, total_q]. Tokens of no sequence are 0.
    """
    _check(q, 3, q=q)
    _check(q, 3 if block_table is None else 4, k=k, v=v)
    starts_q, lens_q = _sequences("q", cu_seqlens_q, max_seqlen_q, q.shape[0])
    starts_k, lens_k = _sequences("k", cu_seqlens_k, max_seqlen_k, k.shape[0] if block_table is None else 2**31 - 1)
    if len(lens_q) != len(lens_k):
        raise ValueError(f"cu_seqlens_q is of {len(lens_q)} sequences, cu_seqlens_k of {len(lens_k)}")
    options = _options(lens_q, lens_k, softmax_scale, causal, window_size, softcap, alibi_slopes, dropout_p)
    if block_table is not None:
        k, v, starts_k = _gather(k, v, _table(block_table, len(lens_k)), [0] * len(lens_k), lens_k)
    out, lse = _attention(q, k, v, options, return_attn_probs, q_cu_seqlens=starts_q, kv_cu_seqlens=starts_k)
    return (out, lse, q.new_empty(0)) if return_attn_probs else out


def flash_attn_with_kvcache(q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None, cache_seqlens=None,
                            cache_batch_idx=None, cache_leftpad=None, block_table=None, softmax_scale=None,
                            causal=False, window_size=(-1, -1), softcap=0.0, rotary_interleaved=True,
                            alibi_slopes=None, num_splits=0, return_softmax_lse=False):  # fmt: skip
    """Attention of q [batch, queries, heads, head_dim] over a cache, to which k and v are appended first, in place.

    The caches are [rows, capacity, kv_heads, head_dim], a row for each sequence, or the one that cache_batch_idx says;
    or, with block_table [batch, pages of a sequence], [pages, page size, kv_heads, head_dim]. cache_seqlens says how
    many keys are there, those before cache_leftpad included. Where two tokens are appended at one place, the last
    stays. num_splits: no bit depends on it. There are no gradients, as in flash-attn.
    """
    new = {} if k is None and v is None else {"k": k, "v": v}
    _check(q, 4, q=q)
    _check(q, 4, k_cache=k_cache, v_cache=v_cache)
    _check(q, 4, **new)
    tensors = (q, k_cache, v_cache, *new.values())
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        raise ValueError("flash_attn_with_kvcache has no gradient: call it under torch.no_grad(), or detach tensors")
    (batch, queries), (rows, size) = q.shape[:2], k_cache.shape[:2]
    if batch == 0 or (new and (k.shape[0] != batch or k.shape[2] != k_cache.shape[2])):
        raise ValueError("q must be of one sequence or more, and k of as many, with the heads of k_cache")
    for cache in (k_cache, v_cache):
        if cache.stride(-1) != 1 or (new and any(n > 1 and not by for n, by in zip(cache.shape, cache.stride()))):
            raise ValueError("the channels of k_cache and v_cache must be contiguous, and no axis expanded")
        if new and cache.is_inference() and not torch.is_inference_mode_enabled():
            raise ValueError("k_cache and v_cache were made under torch.inference_mode(): append to them there, too")
    if block_table is not None:
        if cache_batch_idx is not None or cache_leftpad is not None:
            raise ValueError("block_table does not go with cache_batch_idx or cache_leftpad")
        table = _table(block_table, batch)
    elif cache_batch_idx is not None:
        table = torch.tensor(_integers("cache_batch_idx", cache_batch_idx, rows - 1, batch))[:, None]
    elif rows < batch:
        raise ValueError(f"k_cache has {rows} rows, q has {batch} sequences")
    else:
        table = torch.arange(batch)[:, None]
    capacity, added = size * table.shape[1], k.shape[1] if new else 0
    if new and (cache_seqlens is None or max(queries, added) > capacity):
        raise ValueError(f"k needs cache_seqlens, where it is appended; q and k may have {capacity} tokens at most")
    if cache_seqlens is None:
        cache_seqlens = capacity
    if not isinstance(cache_seqlens, (list, torch.Tensor)):
        cache_seqlens = [_integer("cache_seqlens", cache_seqlens)] * batch
    lens = _integers("cache_seqlens", cache_seqlens, capacity - added, batch)
    first = [0] * batch if cache_leftpad is None else _integers("cache_leftpad", cache_leftpad, lens, batch)
    keys = [n + added - begin for n, begin in zip(lens, first)]
    options = _options([queries] * batch, keys, softmax_scale, causal, window_size, softcap, alibi_slopes)
    if rotary_cos is not None or rotary_sin is not None:
        ahead = causal or "window" in options  # else all queries stand at the first new key
        at = torch.tensor(lens)[:, None]
        _check_rotary(q, rotary_cos, rotary_sin, max(capacity, max(lens) + queries), new)
        _flag("rotary_interleaved", rotary_interleaved)
        k = _rotate(k, rotary_cos, rotary_sin, at + torch.arange(added), rotary_interleaved)
        q = _rotate(q, rotary_cos, rotary_sin, at + torch.arange(queries) if ahead else at, rotary_interleaved)
    in_order, undo = block_table is None and cache_batch_idx is None, []
    try:
        if added and in_order and min(lens) == max(lens):
            _write(k_cache, v_cache, (slice(batch), slice(lens[0], lens[0] + added)), k, v, undo)
        elif added:
            _append(k_cache, v_cache, _slots(table, k_cache, lens, [added] * batch), k, v, undo)
        if in_order:
            options.update(kv_lens=keys, kv_starts=first if any(first) else None)
            out, lse = _attention(q, k_cache[:batch], v_cache[:batch], options, return_softmax_lse)
        else:
            k, v, starts = _gather(k_cache, v_cache, table, first, keys)
            options.update(q_cu_seqlens=[queries * b for b in range(batch + 1)], kv_cu_seqlens=starts)
            out, lse = _attention(q.flatten(0, 1), k, v, options, return_softmax_lse)
            out = out.view(q.shape)
            if return_softmax_lse:
                lse = lse.view(q.shape[2], batch, queries).transpose(0, 1).contiguous()
    except BaseException:
        for cache, slots, old in reversed(undo):
            cache[slots] = old
        raise
    return (out, lse) if return_softmax_lse else out


def flash_attn_qkvpacked_func(qkv, *args, **options):
    """flash_attn_func() of qkv [batch, tokens, 3, heads, head_dim]."""
    return flash_attn_func(*_unpack("qkv", qkv, 5, 3), *args, **options)


def flash_attn_kvpacked_func(q, kv, *args, **options):
    """flash_attn_func() of q and kv [batch, keys, 2, kv_heads, head_dim]."""
    return flash_attn_func(q, *_unpack("kv", kv, 5, 2), *args, **options)


def flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, max_seqlen, *args, **options):
    """flash_attn_varlen_func() of qkv [total, 3, heads, head_dim]."""
    cu_seqlens, max_seqlen = [cu_seqlens] * 2, [max_seqlen] * 2
    return flash_attn_varlen_func(*_unpack("qkv", qkv, 4, 3), *cu_seqlens, *max_seqlen, *args, **options)


def flash_attn_varlen_kvpacked_func(q, kv, *args, **options):
    """flash_attn_varlen_func() of q and kv [total_k, 2, kv_heads, head_dim]."""
    return flash_attn_varlen_func(q, *_unpack("kv", kv, 4, 2), *args, **options)


def _check(q, dims, /, **tensors):
    """Refuses what are no tensors of the CPU, of one shape of `dims` axes, that fit the queries q."""
    from fovea.torch.types import FLOATS

    for name, x in tensors.items():
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name} must be a torch.Tensor, not {type(x).__name__}")
        if x.dtype not in FLOATS or x.dtype is not q.dtype:
            raise TypeError(f"{name} is {x.dtype}: all must be bfloat16, all float16, or all float32")
        if x.device.type != "cpu" or x.layout is not torch.strided or x.is_nested:
            raise ValueError(f"{name} must be a dense tensor of the CPU; it is {x.layout} on {x.device}")
        if x.dim() != dims:
            raise ValueError(f"{name} has {x.dim()} dimensions, not {dims}")
        if x.shape[-1] != q.shape[-1] or x.shape[-2] == 0 or q.shape[-2] % x.shape[-2]:
            raise ValueError(f"{name} is {list(x.shape)} and q {list(q.shape)}: head dims must be equal, and q's "
                             "heads a multiple of the others'")  # fmt: skip
    if len({x.shape for x in tensors.values()}) > 1:
        raise ValueError(f"{' and '.join(tensors)} differ in shape: {[list(x.shape) for x in tensors.values()]}")


def _integers(name, x, high, count=None):
    """The numbers of an int32 tensor [count], or of a list, each from 0 to high; high may be a list, too."""
    if not isinstance(x, list) or not all(type(n) is int for n in x):
        if not isinstance(x, torch.Tensor) or x.dtype is not torch.int32 or x.dim() != 1 or x.device.type != "cpu":
            raise TypeError(f"{name} must be an int32 tensor of one dimension on the CPU")
        x = x.tolist()
    if count not in (None, len(x)):
        raise ValueError(f"{name} has {len(x)} numbers, and there are {count} sequences")
    for i, (n, most) in enumerate(zip(x, high if isinstance(high, list) else [high] * len(x))):
        if not 0 <= n <= most:
            raise ValueError(f"{name}[{i}] is {n}: it must be from 0 to {most}")
    return x


def _integer(name, x):
    try:
        return operator.index(x)
    except TypeError:
        raise TypeError(f"{name} must be an int, not {type(x).__name__}") from None


def _real(name, x):
    if not isinstance(x, numbers.Real):
        raise TypeError(f"{name} must be a number, not {type(x).__name__}")
    return x


def _flag(name, x):
    if not isinstance(x, (bool, int)):
        raise TypeError(f"{name} must be True or False, not {type(x).__name__}")
    return x


def _sequences(side, starts, longest, total):
    """(where sequences start and the last ends, their lengths) of cu_seqlens_q or cu_seqlens_k."""
    starts = _integers(f"cu_seqlens_{side}", starts, total)
    lens = [end - begin for begin, end in zip(starts, starts[1:])]
    if not lens or min(lens) < 0:
        raise ValueError(f"cu_seqlens_{side} must never decrease, and be of one sequence or more")
    if max(lens) > _integer(f"max_seqlen_{side}", longest):
        raise ValueError(f"max_seqlen_{side} is {longest}, but a sequence has {max(lens)} tokens")
    return starts, lens


def _unpack(name, x, dims, count):
    if getattr(x, "ndim", None) != dims or x.shape[-3] != count:
        raise ValueError(f"{name} must have {dims} dimensions, the third last of size {count}")
    return x.unbind(-3)


def _options(lens_q, lens_k, scale, causal, window_size, softcap, alibi, dropout=0.0):
    """Keywords of fovea.torch.attention."""
    if _real("dropout_p", dropout) != 0:
        raise NotImplementedError(f"dropout_p is {dropout}: Fovea has no dropout; pass 0.0, as for evaluation")
    if not isinstance(window_size, (tuple, list)) or [isinstance(side, int) for side in window_size] != [True, True]:
        raise TypeError("window_size must be a pair of ints (left, right); -1 is no limit")
    left, right = (None if side < 0 else side for side in window_size)
    if not _real("softcap", softcap) >= 0:
        raise ValueError(f"softcap is {softcap}: it must be positive, or 0.0 for none")
    scale = scale if scale is None else _real("softmax_scale", scale)
    options = {"scale": scale, "alibi": alibi, "softcap": softcap or None}
    if _flag("causal", causal):
        options["causal"], right = "bottom_right", None
    if left is not None or right is not None:
        options["window"] = (left, right)
    if not causal and lens_q != lens_k and ("window" in options or alibi is not None):
        options["q_offsets"] = [keys - queries for queries, keys in zip(lens_q, lens_k)]
    return options


def _attention(q, k, v, options, wants_lse, **more):
    """(out, lse or None). flash-attn's lse of a row that sees no key is +inf."""
    from fovea.torch import attention

    layout = "bthd" if q.dim() == 4 else "thd"
    result = attention(q, k, v, layout=layout, return_lse=bool(wants_lse), **options, **more)
    if not wants_lse:
        return result, None
    return result[0], result[1].detach().masked_fill(result[1] == -torch.inf, torch.inf)


def _table(block_table, batch):
    if not isinstance(block_table, torch.Tensor) or block_table.dtype is not torch.int32 or block_table.dim() != 2:
        raise TypeError("block_table must be an int32 tensor [batch, pages of a sequence]")
    if len(block_table) != batch or block_table.device.type != "cpu":
        raise ValueError(f"block_table is of {len(block_table)} sequences on {block_table.device}, q of {batch} on cpu")
    return block_table


def _slots(table, cache, first, lens):
    """(pages, places in them) of the keys [first, first + lens) of each sequence, one sequence after another."""
    pages, size = cache.shape[:2]
    if max(begin + n for begin, n in zip(first, lens)) > table.shape[1] * size:
        raise ValueError(f"a sequence has more keys than {table.shape[1]} pages of {size}, its row of block_table")
    lens, first = torch.tensor(lens), torch.tensor(first)
    sequence = torch.arange(len(lens)).repeat_interleave(lens)
    position = torch.arange(len(sequence)) + (first + lens - lens.cumsum(0))[sequence]
    page = table[sequence, position // size].long()
    wrong = page[(page < 0) | (page >= pages)]
    if len(wrong):
        raise ValueError(f"block_table has page {int(wrong[0])}: there are {pages} pages")
    return page, position % size


def _gather(k_cache, v_cache, table, first, lens):
    """These keys and values packed, and where sequences begin."""
    slots = _slots(table, k_cache, first, lens)
    return k_cache[slots], v_cache[slots], [0, *itertools.accumulate(lens)]


def _append(k_cache, v_cache, slots, k, v, undo):
    """Writes new tokens to slots. Of those that go to one place, the last stays, with any number of threads."""
    places = (slots[0] * k_cache.shape[1] + slots[1]).tolist()
    last = list({place: i for i, place in enumerate(places)}.values())
    slots = tuple(x[last] for x in slots)
    _write(k_cache, v_cache, slots, k.flatten(0, 1)[last], v.flatten(0, 1)[last], undo)


def _write(k_cache, v_cache, slots, k, v, undo):
    for cache, new in ((k_cache, k), (v_cache, v)):
        undo.append((cache, slots, cache[slots].clone()))
        cache[slots] = new


def _check_rotary(q, cos, sin, positions, new):
    _check(cos, 2, rotary_cos=cos, rotary_sin=sin)
    if not new or cos.dtype is not q.dtype:
        raise ValueError("rotary_cos and rotary_sin must be of q's type, and go with k and v")
    if 2 * cos.shape[1] > q.shape[-1] or cos.shape[0] < positions:
        raise ValueError(f"rotary_cos is {list(cos.shape)}: it needs {positions} rows, as there may be positions, "
                         f"and at most {q.shape[-1] // 2} columns")  # fmt: skip


def _rotate(x, cos, sin, positions, interleaved):
    """Rotary embedding, computed in float32: channel 2i with 2i + 1 if interleaved, else i with i + half."""
    cos, sin = (table[positions].float()[:, :, None] for table in (cos, sin))
    channels = 2 * cos.shape[-1]
    part = x[..., :channels].float()
    a, b = (part[..., ::2], part[..., 1::2]) if interleaved else part.chunk(2, -1)
    pair = a * cos - b * sin, a * sin + b * cos
    rotated = torch.stack(pair, -1).flatten(-2) if interleaved else torch.cat(pair, -1)
    return torch.cat((rotated.to(x.dtype), x[..., channels:]), -1)
