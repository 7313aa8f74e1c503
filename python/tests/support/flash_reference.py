"""flash-attn's attention in float64, row by row as it is defined: what fovea.compat.flash_attn is measured against."""

import numpy as np


def sequence(q, k, v, *, scale=None, causal=False, window=(-1, -1), softcap=0.0, slopes=None):
    """One sequence: q [queries, heads, dim], k and v [keys, kv_heads, dim]. Returns out, and lse [heads, queries]."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    queries, heads, dim = q.shape
    keys, group = k.shape[0], heads // k.shape[1]
    out, lse = np.zeros(q.shape), np.full((heads, queries), np.inf)
    for h in range(heads):
        for i in range(queries):
            at = i + keys - queries
            seen = [j for j in range(keys)
                    if (j <= at or not causal)
                    and (window[0] < 0 or j >= at - window[0])
                    and (window[1] < 0 or j <= at + window[1])]  # fmt: skip
            if not seen:
                continue
            scores = k[seen, h // group] @ q[i, h] * (dim**-0.5 if scale is None else scale)
            if softcap > 0:
                scores = softcap * np.tanh(scores / softcap)
            if slopes is not None:
                scores = scores - slopes[h] * np.abs(at - np.array(seen))
            top = scores.max()
            p = np.exp(scores - top)
            out[i, h] = p @ v[seen, h // group] / p.sum()
            lse[h, i] = top + np.log(p.sum())
    return out, lse


def rotate(x, cos, sin, position, interleaved):
    """One token x [heads, dim]."""
    x, half = np.array(x, np.float64), cos.shape[1]
    for c in range(half):
        a, b = (2 * c, 2 * c + 1) if interleaved else (c, c + half)
        one, other = x[:, a].copy(), x[:, b].copy()
        x[:, a] = one * cos[position, c] - other * sin[position, c]
        x[:, b] = one * sin[position, c] + other * cos[position, c]
    return x
