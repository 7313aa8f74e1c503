"""The operands of a case, and its exact result."""

import numpy as np

import encoder

TOLERANCE = 1e-4


def data_of(case):
    return encoder.Data(case) if case.kind == "encoder" else Data(case)


class Data:
    """The operands of a case, the same for all engines, and its exact result."""

    tolerance = TOLERANCE

    def __init__(self, case):
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
        return allowed & (j > i - self.case.window) if self.case.window else allowed

    def bias(self):
        return np.where(self.mask(), 0, -np.inf).astype(np.float32)

    def error(self, out):
        """How far a result is from float64's: all of an exp, relatively; some rows of anything else."""
        case = self.case
        if case.kind == "exp":
            return float(np.max(np.abs(out / np.exp(self.x.astype(np.float64)) - 1)))
        count = case.rows if case.kind == "linear" else case.q_len
        rows, worst = np.unique(np.linspace(0, count - 1, 16).astype(int)), 0.0
        if case.kind == "linear":
            return float(np.max(np.abs(out[rows] - (self.x[rows].astype(np.float64) @ self.w.T + self.b))))
        if case.kind == "mha":
            return max(float(np.max(np.abs(out[b, rows] - self.layer_row(b, rows)))) for b in range(case.batch))
        allowed = self.mask(rows)
        for b in range(case.batch):
            for h in range(case.heads):
                g = h // (case.heads // case.groups)
                q, k, v = (a.astype(np.float64) for a in (self.q[b, h, rows], self.k[b, g], self.v[b, g]))
                scores = q @ k.T / case.head_dim**0.5
                p = np.exp(np.where(allowed, scores, -np.inf) - scores.max(axis=1, keepdims=True))
                exact = p @ v / p.sum(axis=1, keepdims=True)
                worst = max(worst, float(np.max(np.abs(out[b, h, rows] - exact))))
        return worst
