"""The modules that optimize() puts in place of nn.Linear: products with weights that were packed once.

They hold no parameters. `weight` and `bias` are tensors of the device "meta": shape and type for those who ask, and an
error of torch's for those who compute with them.
"""

import threading

import torch
from torch import nn

import fovea

from .types import arithmetic


class _Inference(nn.Module):
    """What has neither gradients nor training."""

    def train(self, mode: bool = True):
        if mode:
            raise RuntimeError("this model was made by fovea.torch.optimize(): it is for inference; train the original")
        return super().train(False)

    def __deepcopy__(self, memo):
        return self  # it never changes

    def _save_to_state_dict(self, *_):
        raise RuntimeError(
            "this model was made by fovea.torch.optimize(), and its packed weights are in no state_dict(): save the original"
        )

    def _load_from_state_dict(self, *_):
        raise RuntimeError(
            "this model was made by fovea.torch.optimize(), and its weights are packed: load into the original, and optimize that"
        )


def _no_gradient():
    raise RuntimeError(
        "this model was made by fovea.torch.optimize() and has no gradients: use torch.no_grad(), or the original"
    )


class PackedLinear(_Inference):
    """y = activation(x W + b) + residual."""

    def __init__(self, weight, bias=None, activation=None, layout="out_in"):
        super().__init__()
        self.out_features, self.in_features = weight.shape if layout == "out_in" else weight.shape[::-1]
        self.activation = activation
        self.weight = torch.empty_like(weight, device="meta")
        self.bias = None if bias is None else torch.empty_like(bias, device="meta")
        packed = fovea.Linear(weight, bias, activation=activation, layout=layout, arithmetic=arithmetic(weight.dtype))
        self._execute = packed.execute
        self.training = False

    def forward(self, x, residual=None):
        if x.requires_grad and torch.is_grad_enabled():
            _no_gradient()
        if residual is None:
            return self._execute(x)
        if residual.requires_grad and torch.is_grad_enabled():
            _no_gradient()
        if residual.shape != (*x.shape[:-1], self.out_features) or residual.dtype is not x.dtype:  # one that broadcasts
            return self._execute(x) + residual
        return self._execute(x, residual)

    def extra_repr(self) -> str:
        activation = "" if self.activation is None else f", activation={self.activation}"
        return f"in_features={self.in_features}, out_features={self.out_features}{activation}"


class _Shared(threading.local):
    """One product of several matrices: what one thread computed of the input `x`, for the parts not yet asked for."""

    x = None
    pending: dict = {}


class SharedLinear:
    """Several linear maps of one input as one product; SharedPart is the module that stands for one of them."""

    def __init__(self, weights, biases, layout="out_in"):
        if all(bias is None for bias in biases):
            biases = None
        self._execute = fovea.Linear(weights, biases, layout=layout, arithmetic=arithmetic(weights[0].dtype)).execute
        self._local = _Shared()

    def part(self, index, x):
        local = self._local
        if local.x is x and index in local.pending:
            y = local.pending.pop(index)
            if not local.pending:
                local.x = None
            return y
        if x.requires_grad and torch.is_grad_enabled():
            _no_gradient()
        ys = self._execute(x)
        local.x, local.pending = x, {i: y for i, y in enumerate(ys) if i != index}
        return ys[index]


class SharedPart(_Inference):
    """One of the maps of a SharedLinear."""

    def __init__(self, shared, index, weight, bias=None, layout="out_in"):
        super().__init__()
        self._shared, self._index = shared, index
        self.out_features, self.in_features = weight.shape if layout == "out_in" else weight.shape[::-1]
        self.weight = torch.empty_like(weight, device="meta")
        self.bias = None if bias is None else torch.empty_like(bias, device="meta")
        self.training = False

    def forward(self, x):
        return self._shared.part(self._index, x)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, part {self._index} of a product"
