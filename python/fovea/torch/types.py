"""Element types that run on Fovea."""

import torch

FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def wide(bias):
    """A bias as Fovea takes it: float32. Axes that repeat stay of one element."""
    if bias.dtype is torch.float32:
        return bias
    once = [slice(0, 1) if stride == 0 else slice(None) for stride in bias.stride()]
    return bias[tuple(once)].float()
