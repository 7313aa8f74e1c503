"""Attention by torch operations, written for reading: a sequence at a time, in the type of its tensors."""

import torch


def entry(kind, numbers, entries, d, i, j):
    """The entry of a table for query i (its position) and key j, d = i - j."""
    if kind == "toeplitz":
        return entries // 2 + min(max(d, -(entries // 2)), entries // 2)
    if kind == "window_2d":
        (yi, xi), (yj, xj) = divmod(i, numbers["width"]), divmod(j, numbers["width"])
        return (yi - yj + numbers["height"] - 1) * (2 * numbers["width"] - 1) + xi - xj + numbers["width"] - 1
    half = entries // 2 if numbers["bidirectional"] else entries
    first = half if numbers["bidirectional"] and d < 0 else 0
    n = abs(d) if numbers["bidirectional"] else max(d, 0)
    exact, most = half // 2, numbers["max_distance"]
    more = 0
    while n >= exact and exact + more < half - 1:
        if n ** (half - exact) < most ** (more + 1) * exact ** (half - exact - more - 1):
            break
        more += 1
    return first + (n if n < exact else exact + more)


def one(q, k, v, add, seen, scale, softcap, sinks):
    """(out, lse) of one sequence: [H, T, D] each, add and seen [H, T_q, T_k]."""
    k, v = (x.repeat_interleave(q.shape[0] // k.shape[0], 0) for x in (k, v))
    s = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap is not None:
        s = softcap * (s / softcap).tanh()
    s = (s + add).masked_fill(~seen, -torch.inf)
    if sinks is not None:
        s = torch.cat([s, sinks.to(s)[:, None, None].expand(*s.shape[:2], 1)], -1)
        v = torch.cat([v, v.new_zeros(v.shape[0], 1, v.shape[2])], 1)
    some = (s > -torch.inf).any(-1, keepdim=True)
    s = torch.where(some, s, 0.0)
    return (s.softmax(-1) * some) @ v, torch.where(some[..., 0], s.logsumexp(-1), -torch.inf)


def tokens(i, cu, starts, lens, count):
    """[first, stop) of a sequence."""
    first, stop = (cu[i], cu[i + 1]) if cu is not None else (starts[i] if starts else 0, count)
    return first, first + lens[i] if lens else stop


def bhtd(x, layout):
    x = x if len(layout) == 4 else x[None]
    return x.transpose(1, 2) if layout.endswith("thd") else x


def attention(q, k, v, *, mask=None, bias=None, sinks=None, alibi=None, relative=None, causal=None, window=None,
              scale=None, softcap=None, q_lens=None, kv_lens=None, q_starts=None, kv_starts=None, q_offsets=None,
              q_cu_seqlens=None, kv_cu_seqlens=None, layout="bhtd", out_layout=None):  # fmt: skip
    """(out, lse). relative: (kind, table, parameters). Lengths and such are lists."""
    q, k, v = (bhtd(x, layout) for x in (q, k, v))
    (batch, heads, q_tokens, _), kv_tokens = q.shape, k.shape[2]
    packed = q_cu_seqlens is not None
    out = q.new_zeros(batch, heads, q_tokens, v.shape[3])
    lse = q.new_full((batch, heads, q_tokens), -torch.inf)
    if sinks is not None and not packed:  # rows of padding
        lse = lse.clone().zero_() + sinks[:, None].to(q)
    every = torch.ones(batch, heads, q_tokens, kv_tokens, dtype=torch.bool)
    added = torch.zeros(every.shape) if bias is None else bias.expand(every.shape)
    allowed = every if mask is None else every & mask
    for i in range(len(q_cu_seqlens) - 1 if packed else batch):
        at = 0 if packed else i
        q0, q1 = tokens(i, q_cu_seqlens, q_starts, q_lens, q_tokens)
        k0, k1 = tokens(i, kv_cu_seqlens, kv_starts, kv_lens, kv_tokens)
        offset = q_offsets[i] if q_offsets is not None else 0
        if causal == "bottom_right":
            offset = (k1 - k0) - (q1 - q0)
        elif causal is not None and not isinstance(causal, (str, bool)):
            offset = causal if isinstance(causal, int) else causal[i]
        row, col = torch.arange(q1 - q0)[:, None] + offset, torch.arange(k1 - k0)
        seen, add = allowed[at, :, q0:q1, k0:k1], added[at, :, q0:q1, k0:k1]
        left, right = window or (None, None)
        seen = seen if causal is None else seen & (col <= row)
        seen = seen if left is None else seen & (col >= row - left)
        seen = seen if right is None else seen & (col <= row + right)
        if alibi is not None:
            slopes = alibi if alibi.dim() == 1 else alibi[i]
            add = add - slopes[:, None, None].to(q) * (row - col).abs()
        if relative is not None:
            kind, table, numbers = relative
            table = table[i % len(table)] if table.dim() == 3 else table
            pairs = [(r, c) for r in row[:, 0].tolist() for c in col.tolist()]
            entries = [entry(kind, numbers, table.shape[-1], r - c, r, c) for r, c in pairs]
            add = add + table.to(q)[..., torch.tensor(entries, dtype=torch.int64).view(len(row), len(col))]
        heads_of = (x[at, :, a:b] for x, a, b in ((q, q0, q1), (k, k0, k1), (v, k0, k1)))
        out[at, :, q0:q1], lse[at, :, q0:q1] = one(*heads_of, add, seen, scale, softcap, sinks)
    out = out.transpose(1, 2) if (out_layout or layout).endswith("thd") else out
    return (out, lse) if len(layout) == 4 else (out[0], lse[0])
