"""Scores of queries and keys that are not computed: softmax(QK^T)V step by step, as one call of fovea.attention().

matmul(), bmm(), softmax() and sdpa() stand for torch's in a forward() that is served (own_attention.py). A product of
queries and keys becomes a Scores. Scaling it, adding a bias, hiding keys, the softmax make others of it, and its
product with values runs on Fovea. Whatever else is done with a Scores has it computed, by the steps that were noted: a step
that is not known here is computed as it is written. No tensor that Scores are made of may change meanwhile.
"""

import functools
import math
import operator
import threading

import torch
import torch.nn.functional as F

import fovea
from fovea._core import models_arithmetic
from fovea.torch import sdpa as torch_sdpa
from fovea.torch.types import FLOATS, wide
from fovea.transformers.attention import _MAX_CHANNELS as MAX_CHANNELS

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_LARGE = 1 << 14  # additive masks of more scores than these are worth a look whether they only hide keys


class _Done(threading.local):
    calls = 0  # of Fovea, in this thread


done = _Done()


def _usable(*tensors):
    for x in tensors:
        if type(x) not in _PLAIN or not x.is_cpu or (x.requires_grad and torch.is_grad_enabled()):
            return False
    return True


class Scores:
    """Scores [*lead, queries, keys], or, after the softmax, weights.

    made   (function, arguments, keywords) that compute it, of which the first argument may be another Scores
    heads  lead when it was of two axes: batch and heads
    terms  (kind, tensor, lead at that time): a "bias" was added, "keep" hides where it is False, a "factor" multiplied
    """

    def __init__(self, made, q, k, scale, terms=()):
        self.made, self.q, self.k, self.scale, self.terms = made, q, k, scale, terms
        self.dtype, self.lead, self.tail = q.dtype, q.shape[:-2], (q.shape[-2], k.shape[-2])
        self.heads, self.weights = None, False

    shape = property(lambda self: torch.Size((*self.lead, *self.tail)))
    device = property(lambda self: self.q.device)
    ndim = property(lambda self: len(self.lead) + 2)

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def _then(self, function, *args, **changes):
        """The Scores that a function makes of this one."""
        new = object.__new__(Scores)
        new.__dict__.update(self.__dict__, made=(function, (self, *args), {}), **changes)
        new.__dict__.pop("value", None)
        return new

    @functools.cached_property
    def value(self):
        """The tensor, by the steps that the module took."""
        function, args, kwargs = self.made
        return function(*_values(args), **_values(kwargs))

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if args and type(args[0]) is Scores:
            if function is F.dropout and not (kwargs["training"] and kwargs["p"]):
                return args[0]
            if function is F.softmax:
                return softmax(*args, dim=kwargs["dim"], dtype=kwargs["dtype"])
        return function(*_values(args), **_values(kwargs))

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.value, name)

    def _fits(self, x):
        return x.dim() <= self.ndim and all(a in (1, b) for a, b in zip(x.shape[::-1], self.shape[::-1]))

    def _scaled(self, function, y, divides):
        kinds = {term[0] for term in self.terms}
        if self.weights or "keep" in kinds:
            return function(self.value, y)
        if isinstance(y, (int, float)):
            factor = 1 / y if divides else y
            terms = tuple((kind, wide(x) * factor if kind == "bias" else x, lead) for kind, x, lead in self.terms)
            return self._then(function, y, scale=self.scale * factor, terms=terms)
        if kinds or not _usable(y) or y.dtype is not self.dtype or y.shape[-2:].numel() != 1 or not self._fits(y):
            return function(self.value, y)
        return self._then(function, y, terms=(("factor", 1 / y if divides else y, self.lead),))

    def __mul__(self, y):
        return self._scaled(operator.mul, y, False)

    def __truediv__(self, y):
        return self._scaled(operator.truediv, y, True)

    def __add__(self, y):
        if self.weights or not _usable(y) or not y.is_floating_point() or not self._fits(y):
            return self.value + _values(y)
        dtype = torch.promote_types(self.dtype, y.dtype) if y.dim() else self.dtype
        return self._then(operator.add, y, terms=(*self.terms, ("bias", y, self.lead)), dtype=dtype)

    def __matmul__(self, v):
        return _product(operator.matmul, self, v)

    def masked_fill(self, hidden, value):
        known = type(value) is float and -math.inf < value <= torch.finfo(self.q.dtype).min and _usable(hidden)
        if self.weights or not known or not self._fits(hidden):
            return self.value.masked_fill(hidden, value)
        return self._then(torch.masked_fill, hidden, value, terms=(*self.terms, ("keep", ~hidden, self.lead)))

    def view(self, *shape):
        total = math.prod(self.lead) * self.tail[0] * self.tail[1]
        new = shape
        if -1 in shape:
            rest, place = -math.prod(shape), shape.index(-1)
            new = (*shape[:place], total // rest if rest > 0 else 0, *shape[place + 1 :])
        if new[-2:] != self.tail or math.prod(new) != total:
            return self.value.view(*shape)
        lead = new[:-2]
        return self._then(torch.Tensor.view, *shape, lead=lead, heads=lead if len(lead) == 2 else self.heads)

    def to(self, dtype):
        if dtype == self.device:
            return self
        return self._then(torch.Tensor.to, dtype, dtype=dtype) if type(dtype) is torch.dtype else self.value.to(dtype)

    def float(self):
        return self.to(torch.float32)


def _values(value):
    """The same, with tensors for Scores and Operands."""
    if isinstance(value, (tuple, list)):
        return type(value)(_values(x) for x in value)
    if isinstance(value, dict):
        return {name: _values(x) for name, x in value.items()}
    return value.value if type(value) in (Scores, Operand) else value


class Operand:
    """A tensor that knows its products with keys: by @, or added to one."""

    def __init__(self, tensor):
        self.value = tensor

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return function(*_values(args), **_values(kwargs or {}))

    def __getattr__(self, name):
        return getattr(self.value, name)

    def __matmul__(self, other):
        return _product(operator.matmul, self.value, _values(other))

    def baddbmm(self, batch1, batch2, *, beta=1, alpha=1):
        bias = self.value
        if not _usable(bias):
            return bias.baddbmm(batch1, batch2, beta=beta, alpha=alpha)
        added = bias if beta == 1 else wide(bias) * beta
        add = functools.partial(torch.baddbmm, bias, beta=beta, alpha=alpha)
        return _product(add, batch1, batch2, alpha, (("bias", added, batch1.shape[:-2]),))


def matmul(a, b):
    return _product(torch.matmul, a, b)


def bmm(a, b):
    return _product(torch.bmm, a, b)


def softmax(x, dim=None, dtype=None, **others):
    if type(x) is not Scores or x.weights or dim not in (-1, x.ndim - 1) or others:
        return F.softmax(_values(x), dim=dim, dtype=dtype, **others)
    take = functools.partial(F.softmax, dim=dim, dtype=dtype)
    return x._then(take, weights=True, dtype=dtype or x.dtype)


def sdpa(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, **others):
    """F.scaled_dot_product_attention."""
    query = _values(query)
    tensors = [x for x in (query, key, value, attn_mask) if x is not None]
    unknown = others or (is_causal and attn_mask is not None) or not _usable(*tensors)
    unknown = unknown or torch_sdpa.why_not(query, key, value, attn_mask, dropout_p)
    if unknown or key.shape[1] not in (1, query.shape[1]) or (attn_mask is not None and attn_mask.dim() != 4):
        arguments = {"attn_mask": attn_mask, "dropout_p": dropout_p, "is_causal": is_causal, "scale": scale}
        return F.scaled_dot_product_attention(query, key, value, **arguments, **others)
    done.calls += 1
    return torch_sdpa.run(query, key, value, attn_mask, is_causal, scale)[0]


def _product(function, a, b, scale=1.0, terms=()):
    """Of queries [.., queries, channels] and keys [.., channels, keys], or weights and values; else function(a, b)."""
    if type(a) is Scores:
        return _attend(a, b) if a.weights and _usable(b) and _multiplies(a, b) else function(a.value, b)
    if not _usable(a, b) or a.dim() != b.dim() or a.dim() not in (3, 4) or not a.numel() or not b.numel():
        return function(_values(a), _values(b))
    keys = b.shape[:-2] == a.shape[:-2] or (a.dim() == 4 and (a.shape[0], 1) == b.shape[:2])
    known = a.dtype is b.dtype and a.dtype in FLOATS and a.shape[-1] == b.shape[-2] <= MAX_CHANNELS
    if not (keys and known and a.stride(-1) == b.stride(-2) == 1):
        return function(a, b)
    return Scores((function, (a, b), {}), a, b.mT, scale, terms)


def _multiplies(weights, v):
    """Whether Fovea knows the product of weights and values."""
    same = weights.dtype is v.dtype is weights.q.dtype and weights.lead == weights.q.shape[:-2]
    return same and v.shape[:-1] == weights.k.shape[:-1] and v.stride(-1) == 1 and 0 < v.shape[-1] <= MAX_CHANNELS


def _attend(weights, v):
    """The product of weights and values: one call of Fovea."""
    q, k, lead = weights.q, weights.k, weights.lead
    if len(lead) == 1:
        lead = weights.heads or (*lead, 1)
        q, k, v = (x.unflatten(0, lead) for x in (q, k, v))
    for kind, x, old in weights.terms:
        if kind == "factor":
            q = q * _regroup(x, old, lead)
    mask, bias = _mask_and_bias(weights, lead)
    arguments = {"mask": mask, "bias": bias, "scale": weights.scale}
    if q.dtype is torch.bfloat16:
        arguments["arithmetic"] = models_arithmetic()
    done.calls += 1
    if len(weights.lead) == 1:
        return fovea.attention(q, k, v, **arguments).flatten(0, 1)
    # Heads are merged next: in this layout that copies nothing.
    return fovea.attention(q, k, v, out_layout="bthd", **arguments).transpose(1, 2)


def _regroup(x, old, new):
    """A tensor that broadcasts to [*old, queries, keys] as one that broadcasts to [*new, queries, keys].

    old and new are the same elements in other axes. Axes at the end that are equal stay, those of one element, too.
    """
    if old == new and x.dim() == 4:
        return x
    if len(old) == 1 and x.dim() == 3 and x.shape[0] == old[0]:
        return x.view(*new, *x.shape[-2:])
    x = x.reshape((1,) * (len(old) + 2 - x.dim()) + x.shape)
    old, new, mine, kept = list(old), list(new), list(x.shape[:-2]), []
    while old and new and old[-1] == new[-1]:
        kept.insert(0, mine.pop())
        old.pop(), new.pop()
    if any(size != 1 for size in mine):
        return x.expand(*old, *kept, *x.shape[-2:]).reshape(*new, *kept, *x.shape[-2:])
    return x.reshape(*(1 for _ in new), *kept, *x.shape[-2:])


def _mask_and_bias(weights, lead):
    """(boolean mask or None, bias or None) of what was added to scores and hidden among them."""
    mask = bias = None
    least = torch.finfo(weights.q.dtype).min
    large = math.prod(weights.shape) >= _LARGE
    for kind, x, old in weights.terms:
        if kind == "factor":
            continue
        x = _regroup(x, old, lead)
        keep = x if kind == "keep" else None
        if keep is None and large and x.shape[1] == 1 < lead[1]:
            keep = x == 0
            keep = keep if (keep | (x <= least)).all() else None
        if keep is not None:
            both = keep if mask is None else mask & keep
            if both.any(-1).all():
                mask = both
                continue
            # A row without a key: models make it the mean of all values.
            x = torch.zeros((), dtype=torch.float32).masked_fill(~keep, torch.finfo(torch.float32).min)
        x = wide(x)
        bias = x if bias is None else bias + x
    return mask, bias
