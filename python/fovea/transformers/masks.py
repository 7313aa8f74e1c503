"""Masks as descriptions: what transformers' mask functions stand for, without the matrix.

transformers builds masks from functions of (batch, head, query, key) that it combines: causal, sliding windows, overlays. Those
that are causal limits and windows are recognised by their code, and become a Visible: a few numbers that fovea.attention()
takes as such. Any other function is evaluated to a boolean matrix by transformers, as for its sdpa.
"""

import torch
from transformers import masking_utils

from fovea.transformers.counters import counters


class Limits:
    """Keys that a query at position i sees: [i - left, i + right], None is no limit. Causal is right = 0."""

    __slots__ = ("left", "right")

    def __init__(self, left=None, right=None):
        self.left, self.right = left, right

    def intersect(self, other):
        return Limits(_smaller(self.left, other.left), _smaller(self.right, other.right))

    def sees(self, distance):
        """For a tensor of distances, query minus key: which are within the limits."""
        seen = torch.ones_like(distance, dtype=torch.bool)
        if self.left is not None:
            seen &= distance <= self.left
        if self.right is not None:
            seen &= distance >= -self.right
        return seen


def _smaller(a, b):
    return b if a is None else a if b is None else min(a, b)


def _cell(function, name):
    """A variable that a closure holds."""
    return function.__closure__[function.__code__.co_freevars.index(name)].cell_contents


# Closures of one factory share their code, which thereby tells what a mask function is.
_INTERSECTION = masking_utils.and_masks(masking_utils.causal_mask_function).__code__
_PRIMITIVES = {
    masking_utils.causal_mask_function.__code__: lambda function: Limits(right=0),
    masking_utils.bidirectional_mask_function.__code__: lambda function: Limits(),
    masking_utils.sliding_window_overlay(1).__code__: lambda function: Limits(left=_cell(function, "sliding_window") - 1),
    masking_utils.sliding_window_bidirectional_overlay(1).__code__: lambda function: Limits(
        _cell(function, "sliding_window"), _cell(function, "sliding_window")
    ),
}


def limits_of(function):
    """The Limits that a mask function of transformers stands for, or None if it is another function."""
    code = getattr(function, "__code__", None)
    if code is _INTERSECTION:
        limits = Limits()
        for part in _cell(function, "mask_functions"):
            found = limits_of(part)
            if found is None:
                return None
            limits = limits.intersect(found)
        return limits
    primitive = _PRIMITIVES.get(code)
    return primitive(function) if primitive else None


def _check_primitives():
    """Compares what limits_of() says with what the functions themselves say, on a small grid."""
    q, k = torch.arange(9)[:, None], torch.arange(9)[None, :]
    for function in (
        masking_utils.causal_mask_function,
        masking_utils.bidirectional_mask_function,
        masking_utils.sliding_window_causal_mask_function(3),
        masking_utils.sliding_window_bidirectional_mask_function(3),
    ):
        if not torch.equal(limits_of(function).sees(q - k), function(0, 0, q, k).expand(9, 9)):
            raise ImportError(f"transformers' mask function {function.__qualname__} is not the one that Fovea knows")


_check_primitives()


class Visible:
    """Which keys the queries of a batch see.

    limits        by position
    q_len, kv_len, batch
    offset        position of the first query, counted from the first column of keys
    padding       None, or bool [batch, kv_len]: the keys that exist
    starts, lens  None, or lists [batch]: where the keys of a sequence begin, how many there are. Only if each sequence's keys
                  lie side by side; else padding alone says it.

    Code of a model that treats it as a tensor gets one: every tensor method, operator and function works on the boolean
    matrix [batch, 1, q_len, kv_len], which is made at that moment.
    """

    __slots__ = ("_tensor", "batch", "kv_len", "lens", "limits", "offset", "padding", "q_len", "starts")

    def __init__(self, limits, batch, q_len, kv_len, offset, padding=None):
        self.limits, self.batch, self.q_len, self.kv_len, self.offset = limits, batch, q_len, kv_len, offset
        self.padding = self.starts = self.lens = self._tensor = None
        if padding is not None and not padding.all():
            self.padding = padding
            self._find_runs()

    def _find_runs(self):
        """starts and lens, if the keys of each sequence are one run."""
        counts = self.padding.sum(-1)
        first = self.padding.to(torch.int8).argmax(-1)
        places = torch.arange(self.kv_len)
        runs = (places >= first[:, None]) & (places < (first + counts)[:, None])
        if torch.equal(runs, self.padding):
            self.starts, self.lens = first.tolist(), counts.tolist()

    def arguments(self):
        """As arguments of fovea.attention()."""
        arguments = {}
        left, right = self.limits.left, self.limits.right
        offsets = self.offset
        if self.starts is not None:
            arguments["kv_lens"] = self.lens
            if any(self.starts):
                arguments["kv_starts"] = self.starts
                offsets = [self.offset - start for start in self.starts]
        elif self.padding is not None:
            arguments["mask"] = self.padding[:, None, None, :]
        if left is not None or right:
            arguments["window"] = (left, right or None)
        if right == 0:
            arguments["causal"] = offsets
        elif "window" in arguments:
            arguments["q_offsets"] = offsets if isinstance(offsets, list) else [offsets] * self.batch
        return arguments

    def tensor(self):
        """The boolean matrix [batch, 1, q_len, kv_len], True = attend."""
        if self._tensor is None:
            counters.mask_tensors += 1
            queries = torch.arange(self.q_len) + self.offset
            seen = self.limits.sees(queries[:, None] - torch.arange(self.kv_len)[None, :])[None, None]
            if self.padding is not None:
                seen = seen & self.padding[:, None, None, :]
            self._tensor = seen.expand(self.batch, 1, self.q_len, self.kv_len)
        return self._tensor

    @property
    def shape(self):
        """That of the matrix, which is not made for it."""
        return torch.Size((self.batch, 1, self.q_len, self.kv_len))

    ndim = 4
    dtype = torch.bool
    device = torch.device("cpu")

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return function(*_tensors(args), **_tensors(kwargs or {}))

    def __getattr__(self, name):
        return getattr(self.tensor(), name)

    def __repr__(self):
        return (
            f"Visible({self.batch} sequences, {self.q_len} queries from position {self.offset}, {self.kv_len} keys, "
            f"left {self.limits.left}, right {self.limits.right}, starts {self.starts}, lens {self.lens})"
        )


def _tensors(value):
    """The same, with tensors for descriptions."""
    if isinstance(value, Visible):
        return value.tensor()
    if isinstance(value, (tuple, list)):
        return type(value)(_tensors(item) for item in value)
    return {name: _tensors(item) for name, item in value.items()} if isinstance(value, dict) else value


def _operator(name):
    def operator(self, *args):
        return getattr(self.tensor(), name)(*_tensors(args))

    operator.__name__ = name
    return operator


# Python looks operators up in the class, never through __getattr__.
for _name in (
    "__getitem__ __len__ __invert__ __and__ __rand__ __or__ __ror__ __xor__ __rxor__ __add__ __radd__ __sub__ __rsub__ __mul__ "
    "__rmul__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__"
).split():
    setattr(Visible, _name, _operator(_name))
Visible.__hash__ = object.__hash__


def _stands_in(value):
    """Whether a tensor stands in for one, as those of tracing do, and has no numbers to look at."""
    return isinstance(value, torch.Tensor) and type(value) is not torch.Tensor or isinstance(value, torch.fx.Proxy)


def mask(
    batch_size,
    q_length,
    kv_length,
    q_offset=0,
    kv_offset=0,
    mask_function=masking_utils.causal_mask_function,
    attention_mask=None,
    device="cpu",
    **kwargs,
):
    """The mask function that transformers calls for attn_implementation="fovea" (AttentionMaskInterface).

    Returns a Visible, or a boolean tensor [batch, 1, q_length, kv_length] for mask functions that it does not know, other
    devices, and while a graph is traced.
    """
    if isinstance(attention_mask, Visible):
        # generate() makes masks for static caches ahead, and models give them back in place of the padding.
        return attention_mask
    limits = limits_of(mask_function)
    traced = torch.compiler.is_compiling() or torch.jit.is_tracing() or _stands_in(attention_mask) or _stands_in(q_offset)
    if limits is None or traced or torch.device(device).type != "cpu":
        if not traced:
            counters.mask_tensors += 1
        kwargs.update(allow_is_causal_skip=False, allow_is_bidirectional_skip=False)
        return masking_utils.sdpa_mask(
            batch_size=batch_size,
            q_length=q_length,
            kv_length=kv_length,
            q_offset=q_offset,
            kv_offset=kv_offset,
            mask_function=mask_function,
            attention_mask=attention_mask,
            device=device,
            **kwargs,
        )
    padding = masking_utils.prepare_padding_mask(attention_mask, kv_length, kv_offset)
    if padding is not None:
        padding = padding[:, kv_offset : kv_offset + kv_length].to(torch.bool)
    counters.described += 1
    return Visible(limits, batch_size, q_length, kv_length, int(q_offset) - int(kv_offset), padding)
