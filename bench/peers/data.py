"""The operands of a case, and its exact result."""

import copy

import numpy as np

from cases import TOLERANCES
from halves import rounded

BUCKETS, MAX_DISTANCE = 32, 128  # of T5


class Data:
    """The operands of a case, the same for all engines, in float32 but numbers of its type, and its exact result."""

    def __init__(self, case):
        self.tolerance = TOLERANCES[case.dtype]
        self.make(case)
        for name in ("q", "k", "v", "x", "w", "b", "wo", "bo"):
            if hasattr(self, name):
                setattr(self, name, rounded(getattr(self, name), case.dtype))

    def make(self, case):
        self.case, random = case, np.random.default_rng(1)
        if case.kind == "exp":
            self.x = (-20 * random.random(case.q_len)).astype(np.float32)
            return
        if case.kind == "linear":
            self.x, self.w, self.b = self.normal(random, (case.rows, case.channels), (case.columns, case.channels))
            return
        if case.kind == "mha":
            d = case.model
            self.x, self.w, self.b = self.normal(random, (case.batch, case.q_len, d), (3 * d, d))
            _, self.wo, self.bo = self.normal(random, (1,), (d, d))
            return
        q_shape = (case.batch, case.heads, case.q_len, case.head_dim)
        k_shape = (case.batch, case.groups, case.kv_len, case.head_dim)
        self.q, self.k, self.v = (random.standard_normal(shape, np.float32) for shape in (q_shape, k_shape, k_shape))
        square = (case.q_len, case.kv_len)
        self.seen = random.random(square) < 7 / 8 if case.mask else None
        self.biases = random.standard_normal((1, case.heads, *square), np.float32) if case.bias else None
        self.sinks = random.standard_normal(case.heads, np.float32) if case.sinks else None
        self.table = self.relative_table(random) if case.relative else None

    def copies(self):
        """Data with the same numbers, as many as the case says, each with keys and values of its own."""
        for i in range(self.case.copies):
            one = copy.copy(self)
            if i > 0:
                one.k, one.v = self.k.copy(), self.v.copy()
            yield one

    def relative_table(self, random):
        """Slopes or a table for each head, [1, head, 1, entries]."""
        case = self.case
        if case.relative == "alibi":
            return (2.0 ** (-8 * np.arange(1, case.heads + 1) / case.heads)).astype(np.float32).reshape(1, -1, 1, 1)
        entries = BUCKETS if case.relative == "t5" else 2 * case.kv_len + 1
        return random.standard_normal((1, case.heads, 1, entries), np.float32)

    def relative(self, rows, head):
        """A relative bias of a head, [rows, key] in float64."""
        case, table = self.case, self.table[0, head, 0].astype(np.float64)
        distance = np.asarray(rows)[:, None] - np.arange(case.kv_len)[None]
        if case.relative == "alibi":
            return -table[0] * np.abs(distance)
        if case.relative == "toeplitz":
            return table[case.kv_len + distance]
        half, exact, n = BUCKETS // 2, BUCKETS // 4, np.abs(distance)
        far = exact + np.log(np.maximum(n, 1) / exact) / np.log(MAX_DISTANCE / exact) * (half - exact) + 1e-9
        return table[np.where(n < exact, n, np.minimum(far, half - 1).astype(int)) + half * (distance < 0)]

    def added(self, masked=True):
        """All that is added to scores, [1, head, row, key]; with the mask, as -inf, if there is one."""
        case, total = self.case, np.zeros((1, self.case.heads, self.case.q_len, self.case.kv_len), np.float32)
        for head in range(case.heads if case.relative else 0):
            total[0, head] = self.relative(np.arange(case.q_len), head)
        total += self.biases if case.bias else 0
        return np.where(self.mask(), total, -np.inf).astype(np.float32) if masked else total

    def seen_keys(self):
        """True where a key of a padded batch is one, [batch, 1, 1, key]."""
        return np.arange(self.case.kv_len) < np.array(self.case.lengths)[:, None, None, None]

    def pack(self, array):
        """A padded [batch, head, token, channel] as [1, head, token, channel] without padding."""
        return np.ascontiguousarray(np.concatenate([a[:, :n] for a, n in zip(array, self.case.lengths)], axis=1)[None])

    def unpack(self, packed):
        """The same back, padded with zeros."""
        case, at = self.case, 0
        out = np.zeros((case.batch, packed.shape[1], case.q_len, packed.shape[3]), packed.dtype)
        for b, n in enumerate(case.lengths):
            out[b, :, :n], at = packed[0, :, at : at + n], at + n
        return out

    @staticmethod
    def normal(random, x_shape, w_shape):
        """An input, a weight [out, in] that keeps its size, and a bias."""
        w = random.standard_normal(w_shape, np.float32) / np.float32(w_shape[1] ** 0.5)
        return random.standard_normal(x_shape, np.float32), w, random.standard_normal(w_shape[0], np.float32)

    def layer_row(self, b, rows):
        """Rows of a layer's output in float64."""
        case, d = self.case, self.case.model
        qkv = (self.x[b].astype(np.float64) @ self.w.T.astype(np.float64) + self.b).reshape(-1, 3, case.heads, d // case.heads)
        q, k, v = (qkv[:, i].transpose(1, 0, 2) for i in range(3))
        scores = q[:, rows] @ k.transpose(0, 2, 1) / case.head_dim**0.5
        p = np.exp(scores - scores.max(axis=-1, keepdims=True))
        heads = (p @ v / p.sum(axis=-1, keepdims=True)).transpose(1, 0, 2).reshape(len(rows), d)
        return heads @ self.wo.T.astype(np.float64) + self.bo

    def mask(self, rows=None):
        """True where a row attends to a key."""
        i = np.arange(self.case.q_len)[rows if rows is not None else slice(None), None]
        j = np.arange(self.case.kv_len)[None]
        allowed = j <= i if self.case.causal else np.ones((len(i), self.case.kv_len), bool)
        if self.seen is not None:
            allowed = allowed & (self.seen if rows is None else self.seen[rows])
        return allowed & (j > i - self.case.window) if self.case.window else allowed

    def bias(self):
        return np.where(self.mask(), 0, -np.inf).astype(np.float32)

    def key_sums(self, b, head):
        """The sum of the weights of each key of a head, in float64."""
        q, k = self.q[b, head].astype(np.float64), self.k[b, head // (self.case.heads // self.case.groups)].astype(np.float64)
        scores = q @ k.T / self.case.head_dim**0.5
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        return (p / p.sum(axis=1, keepdims=True)).sum(axis=0)

    def error(self, out):
        """How far a result is from float64's: all of an exp, relatively; sums of keys of two heads; some rows of anything else."""
        case = self.case
        if case.kind == "exp":
            return float(np.max(np.abs(out / np.exp(self.x.astype(np.float64)) - 1)))
        count = case.rows if case.kind == "linear" else case.q_len
        rows, worst = np.unique(np.linspace(0, count - 1, 16).astype(int)), 0.0
        if case.kind == "linear":
            return float(np.max(np.abs(out[rows] - (self.x[rows].astype(np.float64) @ self.w.T + self.b))))
        if case.key_sums:
            return max(float(np.max(np.abs(out[b, h, 0] - self.key_sums(b, h)))) for b in range(case.batch) for h in (0, case.heads - 1))
        if case.kind == "mha":
            return max(float(np.max(np.abs(out[b, rows] - self.layer_row(b, rows)))) for b in range(case.batch))
        all_rows = rows
        for b in range(case.batch):
            n = case.lengths[b] if case.lengths else case.kv_len
            rows = all_rows[all_rows < n] if case.lengths else all_rows
            allowed = self.mask(rows)[:, :n]
            for h in range(case.heads):
                g = h // (case.heads // case.groups)
                q, k, v = (a.astype(np.float64) for a in (self.q[b, h, rows], self.k[b, g, :n], self.v[b, g, :n]))
                scores = q @ k.T / case.head_dim**0.5
                scores = case.softcap * np.tanh(scores / case.softcap) if case.softcap else scores
                scores = scores + self.biases[0, h, rows] if case.bias else scores
                scores = scores + self.relative(rows, h) if case.relative else scores
                most = scores.max(axis=1, keepdims=True)
                p = np.exp(np.where(allowed, scores, -np.inf) - most)
                sink = np.exp(float(self.sinks[h]) - most) if case.sinks else 0.0
                exact = p @ v / (p.sum(axis=1, keepdims=True) + sink)
                worst = max(worst, float(np.max(np.abs(out[b, h, rows] - exact))))
        return worst
