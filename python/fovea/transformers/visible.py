"""Which keys queries see, as a few numbers: Limits of positions, and Visible, which stands for a whole mask."""

import torch

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

    def contiguous(self):
        """Itself: generate() of transformers up to 5.23 asks for it with static caches."""
        return self

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
