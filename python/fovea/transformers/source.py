"""Reads the code of transformers' classes and functions."""

import functools
import hashlib
import inspect

from torch import nn


def _names(code):
    """Names that compiled code reads, with those of the functions inside it."""
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            yield from _names(constant)
    yield from code.co_names


def names_read(kind):
    """Names that the methods of a class of modules read."""
    read = set()
    for base in kind.__mro__[: kind.__mro__.index(nn.Module)]:
        for function in vars(base).values():
            while hasattr(function, "__wrapped__"):
                function = function.__wrapped__
            if hasattr(function, "__code__"):
                read.update(_names(function.__code__))
    return read


@functools.cache
def is_known(function, sources):
    """Whether the source of a function is one of `sources`: SHA-256, cut short."""
    try:
        return hashlib.sha256(inspect.getsource(inspect.unwrap(function)).encode()).hexdigest()[:12] in sources
    except (OSError, TypeError):
        return False
