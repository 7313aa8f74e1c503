"""Counts what ran on Fovea, and what did not."""

import collections
import dataclasses
import warnings
import weakref


class FallbackWarning(UserWarning):
    """Attention, experts or a recurrent layer ran on transformers' own code instead of Fovea."""


@dataclasses.dataclass
class Counters:
    """Calls since the program's start, or since reset(). Exact with one calling thread, a near count with several.

    fused         calls of attention, and of functions of recurrent layers, that Fovea computed
    fallbacks     those that it did not, by reason: "gradients", "dropout", "element type", ...
    described     masks that were described by numbers
    mask_tensors  masks that were made as a matrix
    """

    fused: int = 0
    described: int = 0
    mask_tensors: int = 0
    fallbacks: collections.Counter = dataclasses.field(default_factory=collections.Counter)

    def reset(self):
        """Sets all counts to 0. Warnings that were given are not given again."""
        self.fused = self.described = self.mask_tensors = 0
        self.fallbacks.clear()


counters = Counters()
_told: set = set()
_calls: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # a module that called: its Counters


def calls_of(module):
    """The Counters of one module."""
    found = _calls.get(module)
    return _calls.setdefault(module, Counters()) if found is None else found


def fuse(module):
    """Counts a call of a module that Fovea computes."""
    counters.fused += 1
    calls_of(module).fused += 1


def leave(module, reason):
    """Counts a call that Fovea does not compute."""
    counters.fallbacks[reason] += 1
    calls_of(module).fallbacks[reason] += 1


def fall_back(module, reason, sentence, what="attention falls"):
    """Counts a fallback, and warns of the first one for this reason."""
    leave(module, reason)
    if (what, reason) not in _told:
        _told.add((what, reason))
        warnings.warn(f"{what} back from Fovea to transformers: {sentence}", FallbackWarning, stacklevel=2)
