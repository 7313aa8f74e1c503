"""Encoders on packed sequences: all tokens of a pack lie one after the other, cu_seqlens says where sequences begin,
and no padding is computed. A layer has one of three orders:

    post      x = norm(x + attention(x)); x = norm(x + mlp(x))                                BERT and its kin
    pre       x = x + attention(norm(x)); x = x + mlp(norm(x)), and a norm at the end         ModernBERT, Qwen3
    sandwich  x = x + norm(attention(norm(x))); x = x + norm(mlp(norm(x))), likewise          Gemma

families.py fills these in from config.json and the weights.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import _operations as op


@dataclass
class Norm:
    """layer norm, or RMS norm where rms."""

    weight: Any
    bias: Any
    eps: float
    rms: bool = False

    def __call__(self, x, out):
        if self.rms:
            return op.rms_norm(x, self.weight, self.eps, out)
        return op.layer_norm(x, self.weight, self.bias, self.eps, out)


@dataclass
class Layer:
    qkv: Any
    output: Any
    up: Any  # with the activation; of a gated MLP both of its maps
    down: Any
    attention_norm: Norm | None
    mlp_norm: Norm | None
    after_attention: Norm | None = None  # of the order sandwich
    after_mlp: Norm | None = None
    q_norm: Norm | None = None
    k_norm: Norm | None = None
    rope: Any = None
    options: dict = field(default_factory=dict)  # of attention: window, causal, scale, relative


class Memory:
    """Arrays of a pack, as parts of memory that is kept from pack to pack."""

    def __init__(self, dtype):
        self._dtype, self._kept, self._views, self._tokens = np.dtype(dtype), {}, {}, 0

    def begin(self, tokens):
        if tokens != self._tokens:
            self._views, self._tokens = {}, tokens

    def take(self, name, *shape):
        view = self._views.get((name, shape))  # all layers ask for the same
        if view is None:
            count = math.prod(shape)
            kept = self._kept.get(name)
            if kept is None or kept.size < count:
                kept = self._kept[name] = np.empty(count, self._dtype)
            view = self._views[name, shape] = kept[:count].reshape(shape)
        return view


@dataclass
class Backbone:
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    order: str
    tables: dict  # of embeddings: "words", "positions", "types"
    layers: list
    embedding_norm: Norm | None = None
    final_norm: Norm | None = None
    embedding_scale: float = 1.0
    pad: int | None = None  # positions count from pad + 1 and skip this token, as in RoBERTa
    limit: int | None = None  # tokens that the table of positions has room for
    dtype: Any = np.float32

    def __post_init__(self):
        self._memories = []  # those that no call uses

    def maps(self):
        return [m for layer in self.layers for m in (layer.qkv, layer.output, layer.up, layer.down)]

    @property
    def nbytes(self):
        return sum(m.nbytes for m in self.maps()) + sum(t.nbytes for t in self.tables.values())

    def _embed(self, ids, types, positions, x):
        tables = [(self.tables["words"], ids)]
        if "types" in self.tables:
            tables.append((self.tables["types"], types))
        if "positions" in self.tables:
            tables.append((self.tables["positions"], positions))
        op.embedding_sum(tables, self.embedding_scale, x)
        return self.embedding_norm(x, x) if self.embedding_norm else x

    def _positions(self, ids, starts):
        """The position of each token in its sequence."""
        lengths = np.diff(starts)
        if self.pad is None:
            return np.arange(len(ids)) - np.repeat(starts[:-1], lengths)
        real = ids != self.pad
        count = np.concatenate([[0], np.cumsum(real)])
        return np.where(real, count[1:] - np.repeat(count[starts[:-1]], lengths), 0) + self.pad

    def run(self, ids, types, starts, use):
        """use(hidden states [tokens, width]) of a pack, its result; the array is only valid meanwhile. types:
        of tokens, or None for 0."""
        try:
            memory = self._memories.pop()
        except IndexError:
            memory = Memory(self.dtype)
        try:
            memory.begin(len(ids))
            positions = self._positions(ids, starts)
            x = self._embed(ids, types, positions, memory.take("x", len(ids), self.width))
            for layer in self.layers:
                x = self._layer(layer, x, positions, starts, memory)
            if self.final_norm:
                self.final_norm(x, x)
            return use(x)
        finally:
            self._memories.append(memory)

    def _attention(self, layer, x, positions, starts, memory):
        tokens = len(x)
        q = memory.take("q", 1, self.heads, tokens, self.head_dim)
        k, v = (memory.take(name, 1, self.kv_heads, tokens, self.head_dim) for name in "kv")
        layer.qkv(x, out=[q, k, v])
        q, k, v = q[0], k[0], v[0]
        if layer.q_norm:
            layer.q_norm(q, q)
            layer.k_norm(k, k)
        if layer.rope:
            layer.rope.apply(q, positions, layout="htd", out=q)
            layer.rope.apply(k, positions, layout="htd", out=k)
        out = memory.take("a", tokens, self.heads, self.head_dim)
        op.attention(q, k, v, starts, out, **layer.options)
        return out.reshape(tokens, self.heads * self.head_dim)

    def _mlp(self, layer, x, residual, out, memory):
        return layer.down(layer.up(x, out=memory.take("m", len(x), layer.down.in_features)), residual, out=out)

    def _layer(self, layer, x, positions, starts, memory):
        y, n = memory.take("y", *x.shape), memory.take("n", *x.shape)
        if self.order == "post":
            layer.output(self._attention(layer, x, positions, starts, memory), x, out=y)
            layer.attention_norm(y, y)
            return layer.mlp_norm(self._mlp(layer, y, y, x, memory), x)
        before = layer.attention_norm(x, n) if layer.attention_norm else x
        a = self._attention(layer, before, positions, starts, memory)
        if self.order == "pre":
            layer.output(a, x, out=y)
            return self._mlp(layer, layer.mlp_norm(y, n), y, x, memory)
        layer.output(a, out=y)
        layer.after_attention(y, y)
        op.activate(y, None, y, residual=x)
        self._mlp(layer, layer.mlp_norm(y, n), None, x, memory)
        layer.after_mlp(x, x)
        return op.activate(x, None, x, residual=y)
