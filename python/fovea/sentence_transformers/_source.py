"""A model's config.json and weights, as _families.py reads them: numbers and words of the right kind, tensors of the
shape that the config says. Where the two contradict each other the model is refused."""

import math
import re

import numpy as np

import fovea

from . import _operations as op
from ._backbone import Norm

_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
_OF_LAYERS = re.compile(r"(^|\.)layers?\.\d+\.")
_CONSTANTS = ("inv_freq", "position_ids", "masked_bias")  # buffers that old files have, and the code computes


def activation_of(word):
    if word not in _ACTIVATIONS:
        raise NotImplementedError(f"the activation {word!r} is not served: {', '.join(sorted(_ACTIVATIONS))} are")
    return _ACTIVATIONS[word]


class Config:
    """The values of a JSON file, each of the kind that is asked for."""

    def __init__(self, config, folder, file="config.json"):
        self.config, self.folder, self.file = config, folder, file

    def _of(self, names, default, right, what):
        """The value by the first of these names that the file has."""
        for name in names:
            value = self.config.get(name)
            if value is not None:
                if not right(value):
                    raise ValueError(f"{self.file} in {self.folder} has {name} = {value!r}, which is not {what}")
                return value
        if default is ...:
            raise ValueError(f"{self.file} in {self.folder} lacks {names[0]}")
        return default

    def count(self, *names, default=..., least=1):
        right = lambda n: isinstance(n, int) and not isinstance(n, bool) and n >= least  # noqa: E731
        return self._of(names, default, right, f"a whole number of at least {least}")

    def number(self, *names, default=...):
        right = lambda n: isinstance(n, (int, float)) and not isinstance(n, bool) and math.isfinite(n)  # noqa: E731
        return self._of(names, default, right, "a number")

    def flag(self, *names, default=...):
        return self._of(names, default, lambda n: isinstance(n, bool), "true or false")

    def word(self, *names, default=...):
        return self._of(names, default, lambda n: isinstance(n, str), "a word")

    def words(self, *names, default=...):
        right = lambda n: isinstance(n, list) and all(isinstance(word, str) for word in n)  # noqa: E731
        return self._of(names, default, right, "a list of words")

    def object(self, *names):
        return self._of(names, {}, lambda n: isinstance(n, dict), "an object")

    def known(self, names):
        """Refuses other keys: what they ask for would be ignored."""
        if unknown := sorted(set(self.config) - set(names)):
            raise NotImplementedError(
                f"{self.file} in {self.folder} has {unknown[0]!r}, not served: only {', '.join(names)}"
            )


class Source(Config):
    """A model's config.json and weights, and the options by which maps are packed."""

    def __init__(self, config, weights, quant=None, dtype=np.dtype(np.float32), arithmetic=None):
        super().__init__(config, weights.folder)
        self.weights, self.quant, self.dtype, self.prefix = weights, quant, dtype, ""
        self.arithmetic = arithmetic

    def layer_types(self, count, default):
        """The kind of each layer: full_attention or sliding_attention."""
        kinds = ("full_attention", "sliding_attention")
        right = lambda n: isinstance(n, list) and len(n) == count and all(kind in kinds for kind in n)  # noqa: E731
        return self._of(["layer_types"], default, right, f"a list of {count} words, each one of {', '.join(kinds)}")

    def rope(self, theta, kind=None):
        """kind: of layer whose rope it is, where a model has several."""
        given = self.object("rope_parameters")
        given = given.get(kind, given) if kind else given
        scaling = self.object("rope_scaling") or given
        of = Config({"rope_theta": theta} | given | scaling, self.folder)
        word = of.word("rope_type", "type", default="default")
        if word not in ("default", "linear"):
            raise NotImplementedError(f"rotary embedding scaled by {word!r} is not served")
        if of.number("partial_rotary_factor", default=1.0) != 1:
            raise NotImplementedError("rotary embedding of a part of the channels is not served")
        factor = {"scaling": "linear", "factor": float(of.number("factor"))} if word == "linear" else {}
        return fovea.Rope(self.head_dim, base=float(of.number("rope_theta")), **factor)

    def sizes(self, *heads_names, kv_heads=(), head_dim=()):
        self.width = self.count("hidden_size", "dim", "n_embd")
        self.heads = self.count(*heads_names)
        self.kv_heads = self.count(*kv_heads, default=self.heads) if kv_heads else self.heads
        self.head_dim = self.count(*head_dim, default=None) if head_dim else None
        if self.head_dim is None and self.width % self.heads or self.heads % self.kv_heads:
            raise ValueError(
                f"config.json in {self.folder} has a width of {self.width}, {self.heads} heads and "
                f"{self.kv_heads} key heads: they do not divide"
            )
        self.head_dim = self.head_dim or self.width // self.heads
        self.all_heads = [self.heads, self.kv_heads, self.kv_heads]
        self.rows = [heads * self.head_dim for heads in self.all_heads]
        return {
            "width": self.width,
            "heads": self.heads,
            "kv_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "dtype": self.dtype,
        }

    # ---------------------------------------------------------------------------------------------------------- weights

    def look_for(self, name):
        """Finds what stands before the backbone's names: nothing, "bert.", "model." ..."""
        found = [n for n in self.weights if n == name or n.endswith("." + name)]
        if not found:
            raise ValueError(f"the weights in {self.folder} lack {name}")
        self.prefix = min(found, key=len)[: -len(name)]

    def has(self, name):
        return self.prefix + name in self.weights

    def tensor(self, name, *shape, optional=False):
        return self.weights.get(self.prefix + name, shape or None, optional)

    def _agree(self, name, shape, said):
        """said: the shape by config.json, None for a size that it does not say."""
        wanted = tuple(given if size is None else size for given, size in zip(shape, said)) + said[len(shape) :]
        if shape != wanted:
            raise ValueError(f"{self.prefix}{name} in {self.folder} has the shape {shape}, config.json says {wanted}")

    def table(self, name, rows):
        """A table of embeddings. rows: the name of their number in config.json. With quantized maps the table is float16, which rounds less
        than they do."""
        table = self.tensor(name)
        self._agree(name, table.shape, (self.count(rows, default=None), self.width))
        most = np.finfo(np.float16).max
        half = self.quant and self.dtype == np.float32 and -most < table.min(initial=0) <= table.max(initial=0) < most
        return table.astype(np.float16) if half else self.typed(table)

    def typed(self, array):
        return np.ascontiguousarray(array, dtype=self.dtype)

    def norm(self, name, size, eps, rms=False, one=False, bias=True):
        """one: the stored weight lacks 1."""
        old = not self.has(f"{name}.weight") and self.has(f"{name}.gamma")
        weight = self.tensor(f"{name}.{'gamma' if old else 'weight'}", size)
        bias = self.tensor(f"{name}.{'beta' if old else 'bias'}", size) if bias and not rms else None
        return Norm(weight + np.float32(1) if one else weight, bias, eps, rms)

    def map(self, *names, rows=None, columns=None, bias=True, activation=None, heads=None, parts=None):
        """The maps of these names, of one input, as one product. rows: of each map, or a list of them; parts: sizes
        into which a stored map is split."""
        weights, biases = [], []
        rows = rows if isinstance(rows, list) else [sum(parts) if parts else rows] * len(names)
        for name, count in zip(names, rows, strict=True):
            weight = self.tensor(f"{name}.weight")
            if weight.ndim != 2:
                raise ValueError(f"{self.prefix}{name}.weight in {self.folder} is no matrix")
            self._agree(f"{name}.weight", weight.shape, (count, columns))
            ends = np.cumsum(parts or [len(weight)])[:-1]
            weights += np.split(weight, ends)
            biases += np.split(self.tensor(f"{name}.bias", len(weight)), ends) if bias else [None] * (len(ends) + 1)
        options = {"dtype": self.dtype.name, "activation": activation}
        if self.quant:
            options |= {"quantization": self.quant, "arithmetic": self.arithmetic}
        if self.dtype != np.float32:
            weights = [self.typed(weight) for weight in weights]
        if heads:
            return op.linear(weights, biases, heads=heads, **options)
        several = activation and activation.endswith("_gated")
        return op.linear(weights if several else weights[0], biases if several else biases[0], **options)

    def all_read(self):
        """Refuses weights of layers that nothing has read: the config is of fewer layers, or of other ones."""
        for name in self.weights:
            if name not in self.weights.read and _OF_LAYERS.search(name) and not name.endswith(_CONSTANTS):
                raise ValueError(f"the weights in {self.folder} have {name}, which the model of config.json lacks")
