"""Which weights of a model have their memory in common with something else that may write it.

A packed map has numbers of its own, so such a weight is packed only where a write can be seen: by the version of an
embedding that shares it.
"""

import collections

import torch
from torch import nn

from .exact import python_modules


class Memo(dict):
    """For copy.deepcopy(): counts in how many places each object stands. `kept` ones are not copied."""

    def __init__(self, kept=()):
        super().__init__((id(x), x) for x in kept)
        self.places, self.kept = collections.Counter(), kept

    def get(self, key, default=None):
        self.places[key] += 1
        return super().get(key, default)


def _span(tensor):
    """(first address, address after the last), or None of what has no memory of the CPU."""
    try:
        if tensor.layout is not torch.strided or tensor.device.type != "cpu" or not tensor.numel():
            return None
        start = tensor.data_ptr()
        length = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride())) + 1
        return (start, start + length * tensor.element_size()) if start else None
    except Exception:  # of tensors with a will of their own
        return None


def _is_plain(x) -> bool:
    return isinstance(x, torch.Tensor) and not isinstance(x, nn.Parameter)


def plain_tensors(others) -> list:
    """Those of others_of() that are no parameters: a copy of them would no longer be in that memory."""
    return [*{id(x): x for some in others.values() for x in some if _is_plain(x)}.values()]


def writes_only_in_training(module) -> bool:
    return type(module) is nn.Embedding and module.max_norm is None


def others_of(model, memo) -> dict:
    """{id of a parameter of the copy of `model` that was made with `memo`: other tensors in its memory}. None stands for
    one that the model holds elsewhere than as a parameter of a module."""
    parameters = [p for m in python_modules(model).values() for p in m._parameters.values() if p is not None]
    found: dict = collections.defaultdict(list)
    for key, count in collections.Counter(map(id, parameters)).items():
        if key in memo and memo.places[key] > count:
            found[id(memo[key])].append(None)
    plain = [x for x in [*memo.get(id(memo), ()), *memo.kept] if _is_plain(x)]
    copies = {id(p): p for p in (memo.get(id(p), p) for p in parameters)}
    spans = [(span, tensor) for tensor in [*copies.values(), *plain] if (span := _span(tensor)) is not None]
    open_spans: list = []
    for (start, end), tensor in sorted(spans, key=lambda one: one[0]):
        open_spans = [one for one in open_spans if one[0] > start]
        for _, other in open_spans:
            found[id(tensor)].append(other)
            found[id(other)].append(tensor)
        open_spans.append((end, tensor))
    return found
