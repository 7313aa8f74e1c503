"""Element types that run on Fovea, and whether tensors are no more than numbers in memory."""

import torch
from torch import _C
from torch.autograd import forward_ad

from fovea._core import models_arithmetic

FLOATS = (torch.float32, torch.bfloat16, torch.float16)
_Keys = _C.DispatchKeySet
_PLAIN = _C._dispatch_keys(torch.empty(0)).raw_repr()
_QUIET = (_Keys(_C.DispatchKey.BackendSelect) | _Keys(_C.DispatchKey.ADInplaceOrView)).raw_repr()


def plain(*tensors):
    """Whether torch's dispatcher has nothing to do but to find the CPU's kernel: no layout, subclass or lazy bit of a
    tensor, and no torch.func, forward mode, jit.trace, make_fx or FakeTensorMode that would have to see the call."""
    if forward_ad._current_level >= 0 or _C._dispatch_tls_local_include_set().raw_repr() & ~_QUIET:
        return False
    for x in tensors:
        if not isinstance(x, torch.Tensor) or _C._dispatch_keys(x).raw_repr() & ~_PLAIN:
            return False
    return True


def wide(bias):
    """A bias as Fovea takes it: float32. Axes that repeat stay of one element."""
    if bias.dtype is torch.float32:
        return bias
    once = [slice(0, 1) if stride == 0 else slice(None) for stride in bias.stride()]
    return bias[tuple(once)].float()


def arithmetic(dtype):
    """arithmetic= of what a model asks for: what fovea.config() says, else the fastest, as torch promises no bits either."""
    return models_arithmetic() if dtype is torch.bfloat16 else None
