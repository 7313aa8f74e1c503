"""Element types that run on Fovea."""

import torch

from fovea._core import models_arithmetic

FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def wide(bias):
    """A bias as Fovea takes it: float32. Axes that repeat stay of one element."""
    if bias.dtype is torch.float32:
        return bias
    once = [slice(0, 1) if stride == 0 else slice(None) for stride in bias.stride()]
    return bias[tuple(once)].float()


def arithmetic(dtype):
    """arithmetic= of what a model asks for: what fovea.config() says, else the fastest, as torch promises no bits either."""
    return models_arithmetic() if dtype is torch.bfloat16 else None
