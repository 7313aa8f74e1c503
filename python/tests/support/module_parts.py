"""Parts of random modules besides torch.nn: classes, functions and hooks that a user might write.

Hooks and modules write what they saw into LOG; random_modules.py compares the logs of two models.
"""

import functools
import types

import torch
import torch.nn.functional as F
from torch import nn

LOG: list = []  # (label, tensors that a hook saw, as clones)
FLAG = True  # a global that forward() reads


def _tensors(value):
    if isinstance(value, torch.Tensor):
        return [value.detach().clone()]
    if isinstance(value, dict):
        value = value.values()
    if isinstance(value, (list, tuple)) or type(value).__name__ == "dict_values":
        return [t for item in value for t in _tensors(item)]
    return []


def log(label):
    """A hook of any kind that records what it was given, and changes nothing."""

    def hook(module, *seen):
        LOG.append((label, _tensors(seen)))

    return hook


def scale_output(module, args, output):
    return output * 0.5 if isinstance(output, torch.Tensor) else None


def write_output(module, args, output):
    if isinstance(output, torch.Tensor):
        output.add_(0.25)


def write_input(module, args):
    if args and isinstance(args[0], torch.Tensor):
        args[0].add_(0.25)


def write_input_after(module, args, output):
    write_input(module, args)


def replace_input(module, args):
    return (args[0] * 0.5, *args[1:]) if args and isinstance(args[0], torch.Tensor) else None


def replace_input_kwargs(module, args, kwargs):
    return (replace_input(module, args) or args), kwargs


def scale_output_kwargs(module, args, kwargs, output):
    return scale_output(module, args, output)


def write(t):
    """A function that changes its argument."""
    t.mul_(0.5)
    return t


def causal(t, batch_first):
    """Torch's mask of t's tokens: True hides a key."""
    tokens = t.shape[1 if batch_first and t.dim() == 3 else 0]
    return torch.ones(tokens, tokens, dtype=torch.bool).triu(1)


def padding(t, batch_first):
    """Torch's mask that hides the last of several tokens of each sequence."""
    tokens = t.shape[1 if batch_first and t.dim() == 3 else 0]
    mask = (torch.arange(tokens) > 0) & (torch.arange(tokens) == tokens - 1)
    return mask if t.dim() == 2 else mask.expand(t.shape[0 if batch_first else 1], tokens)


def half_of(module, x):
    """A forward for an instance."""
    return type(module).forward(module, x) * 0.5


def own_forward(module):
    """Gives one module a forward of its own, bound."""
    module.forward = types.MethodType(half_of, module)


def wrapped_forward(module):
    """As accelerate wraps a module: a partial that calls the old forward."""
    old = module.forward

    def new_forward(module, *args, **kwargs):
        LOG.append(("wrapped", _tensors(args)))
        return module._old_forward(*args, **kwargs) * 0.5

    module._old_forward = old
    module.forward = functools.update_wrapper(functools.partial(new_forward, module), old)


class Wrapped(nn.Module):
    """A decorator's forward."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def __call__(self, *args, **kwargs):
        return super().__call__(*args, **kwargs) * 0.5

    def forward(self, x):
        return self.inner(x)


class ReLU_(nn.Module):
    """In place, without a word of it in its arguments."""

    def forward(self, x):
        return x.relu_()


class HalfGELU(nn.GELU):
    def forward(self, x):
        return super().forward(x) * 0.5


class PlainGELU(nn.GELU):
    pass


class HalfLinear(nn.Linear):
    def forward(self, x):
        return super().forward(x) * 0.5


class CalledLinear(nn.Linear):
    def __call__(self, x):
        return super().__call__(x) * 0.5


class BackwardSequential(nn.Sequential):
    def forward(self, x):
        for module in reversed(list(self)):
            x = module(x)
        return x


class Skip(nn.Sequential):
    def forward(self, x):
        return super().forward(x) + x


class Lora(nn.Module):
    """An adapter around a linear map, in the three ways that adapters are written."""

    def __init__(self, base, way="add"):
        super().__init__()
        self.base_layer, self.way = base, way
        self.a = nn.Linear(base.in_features, 2, bias=False)
        self.b = nn.Linear(2, base.out_features, bias=False)
        self.scaling = 0.5

    def merge(self):
        self.base_layer.weight.data += self.scaling * self.b.weight @ self.a.weight
        self.way = "merged"

    def forward(self, x):
        if self.way == "weight":
            return F.linear(
                x, self.base_layer.weight + self.scaling * self.b.weight @ self.a.weight, self.base_layer.bias
            )
        result = self.base_layer(x)
        if self.way == "add":
            result = result + self.b(self.a(x)) * self.scaling
        elif self.way == "in place":
            result += self.b(self.a(x)) * self.scaling
        return result


class Double(nn.Module):
    """A parametrization."""

    def forward(self, weight):
        return weight * 2


class Result:
    """The result of some models: a class of their own."""

    def __init__(self, out, other):
        self.out, self.other = out, other


def log_class(module, args, output):
    """A hook of all modules."""
    LOG.append(("any module", _tensors(output)))
