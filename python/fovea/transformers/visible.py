"""Which keys queries see, as a few numbers: Limits of positions, and Visible, which stands for a whole mask."""

from typing import NamedTuple

import torch

from fovea.transformers.counters import counters


class Limits(NamedTuple):
    """Keys that a query at position i sees: [i - left, i + right], None is no limit. Causal is right = 0."""

    left: int | None = None
    right: int | None = None

    def intersect(self, other):
        sides = ([side for side in pair if side is not None] for pair in zip(self, other, strict=True))
        return Limits(*(min(side, default=None) for side in sides))

    def sees(self, distance):
        """For a tensor of distances, query minus key: which are within the limits."""
        seen = torch.ones_like(distance, dtype=torch.bool)
        if self.left is not None:
            seen &= distance <= self.left
        if self.right is not None:
            seen &= distance >= -self.right
        return seen

    def arguments(self, offsets):
        """As arguments of fovea.attention(), for first queries at these positions: one, or a list [batch]."""
        arguments = {}
        if self.left is not None or self.right:
            arguments["window"] = (self.left, self.right or None)
        if self.right == 0:
            arguments["causal"] = offsets
        elif arguments:
            arguments["q_offsets"] = offsets
        return arguments


class Visible:
    """Which keys the queries of a batch see.

    limits        by position
    q_len, kv_len, batch
    offset        position of the first query, counted from the first column of keys
    padding       None, or bool [batch, kv_len]: the keys that exist
    given         None, or the attention mask [batch, columns] that padding was cut from
    starts, lens  None, or lists [batch]: where the keys of a sequence begin, how many there are. Only if each sequence's keys
                  lie side by side; else padding alone says it.

    limits is None for one that stands for a matrix, as Visible.of() makes it.

    Code of a model that treats it as a tensor gets one: every tensor method, operator and function works on the boolean
    matrix [batch, 1, q_len, kv_len], which is made at that moment. Added to scores it masks them: models whose attention is code
    of their own expect a mask of numbers to add.
    """

    __slots__ = ("_arguments", "_tensor", "batch", "given", "kv_len", "lens", "limits", "offset", "padding", "q_len", "starts")

    def __init__(self, limits, batch, q_len, kv_len, offset, padding=None, given=None):
        self.limits, self.batch, self.q_len, self.kv_len, self.offset, self.given = limits, batch, q_len, kv_len, offset, given
        self.padding = self.starts = self.lens = self._tensor = self._arguments = None
        if padding is not None and not padding.all():
            self.padding = padding
            self._find_runs()

    @classmethod
    def of(cls, matrix):
        """Stands for a boolean matrix [batch, 1 or heads, q_len, kv_len]."""
        made = cls(None, matrix.shape[0], *matrix.shape[2:], 0)
        made._tensor = matrix
        return made

    def _find_runs(self):
        """starts and lens, if the keys of each sequence are one run."""
        counts = self.padding.sum(-1)
        first = self.padding.to(torch.int8).argmax(-1)
        places = torch.arange(self.kv_len)
        runs = (places >= first[:, None]) & (places < (first + counts)[:, None])
        if torch.equal(runs, self.padding):
            self.starts, self.lens = first.tolist(), counts.tolist()

    def over(self, queries, keys):
        """Returns itself if it fits attention of these numbers of queries and keys, else the mask that it should have been.

        Where the first layer of a model caches no keys (MiniMax's linear attention), transformers takes the cache for empty, and asks for
        a mask of the new tokens alone; attention of the other layers then has more keys.
        """
        if (self.q_len, self.kv_len) == (queries, keys):
            return self
        if (self.q_len, self.kv_len) == (1, keys):  # one row for all queries, as BridgeTower has
            return Visible.of(self.tensor())
        known = self.given is None or self.given.shape[-1] == keys
        if self.limits is None or self.limits.right != 0 or not self.q_len == self.kv_len == queries < keys or self.offset or not known:
            raise ValueError(
                f"the mask is for {self.q_len} queries and {self.kv_len} keys, attention has {queries} and {keys}"
            )
        padding = None if self.given is None else self.given.to(torch.bool)
        return Visible(self.limits, self.batch, queries, keys, keys - queries, padding)

    def arguments(self):
        """As arguments of fovea.attention(): the same dictionary for all layers."""
        if self._arguments is None:
            self._arguments = {"mask": self.tensor()} if self.limits is None else self._find_arguments()
        return self._arguments

    def _find_arguments(self):
        arguments = {}
        offsets = self.offset if self.limits.right == 0 else [self.offset] * self.batch
        if self.starts is not None:
            arguments["kv_lens"] = self.lens
            if any(self.starts):
                arguments["kv_starts"] = self.starts
                offsets = [self.offset - start for start in self.starts]
        elif self.padding is not None:
            arguments["mask"] = self.padding[:, None, None, :]
        return arguments | self.limits.arguments(offsets)

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
        return torch.Size((self.batch, 1, self.q_len, self.kv_len)) if self._tensor is None else self._tensor.shape

    ndim = 4
    dtype = torch.bool
    device = torch.device("cpu")

    def numbers(self, dtype):
        """The matrix as numbers to add to scores: 0 = attend, and the lowest of dtype."""
        return torch.zeros((), dtype=dtype).masked_fill(~self.tensor(), torch.finfo(dtype).min)

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        if function.__name__ in _ADDITIONS and isinstance(args[0], torch.Tensor) and args[0].is_floating_point():
            args = (args[0], *(x.numbers(args[0].dtype) if isinstance(x, Visible) else x for x in args[1:]))
        return function(*_tensors(args), **_tensors(kwargs or {}))

    def __getattr__(self, name):
        return getattr(self.tensor(), name)

    def __repr__(self):
        if self.limits is None:
            return f"Visible.of(a matrix {list(self.shape)})"
        return (
            f"Visible({self.batch} sequences, {self.q_len} queries from position {self.offset}, {self.kv_len} keys, "
            f"left {self.limits.left}, right {self.limits.right}, starts {self.starts}, lens {self.lens})"
        )


_ADDITIONS = ("add", "add_", "__add__", "__iadd__", "__radd__")


def _tensors(value):
    """The same, with tensors for descriptions."""
    if isinstance(value, Visible):
        return value.tensor()
    if isinstance(value, (tuple, list)):
        return type(value)(_tensors(item) for item in value)
    return {name: _tensors(item) for name, item in value.items()} if isinstance(value, dict) else value


def _operator(name):
    def operator(self, *args):
        if name in _ADDITIONS and isinstance(args[0], torch.Tensor) and args[0].is_floating_point():
            return self.numbers(args[0].dtype) + args[0]
        return getattr(self.tensor(), name)(*_tensors(args))

    operator.__name__ = name
    return operator


# Python looks operators up in the class, never through __getattr__.
for _name in (
    "__getitem__ __len__ __invert__ __and__ __rand__ __or__ __ror__ __xor__ __rxor__ __add__ __radd__ __sub__ __rsub__ __mul__ "
    "__rmul__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__"
).split():
    setattr(Visible, _name, _operator(_name))
Visible.__hash__ = object.__hash__  # type: ignore[method-assign]
