"""A change after optimize() acts in the copy as in the model if a call can see it. docs/python/torch.md lists the rest."""

import pytest
import torch
import torch.nn.functional as F
from optimized import close
from torch import nn
from torch.overrides import TorchFunctionMode

from fovea.torch import optimize
from fovea.torch.packed import ordinary


class Straight(nn.Module):
    def __init__(self, act=nn.ReLU):
        super().__init__()
        self.up, self.act, self.down, self.drop = nn.Linear(16, 16), act(), nn.Linear(16, 16), nn.Dropout(0.5)

    def forward(self, x):
        return F.gelu(self.drop(self.down(self.act(self.up(x)))) + x)


class Functions(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x):
        return torch.add(F.dropout(self.down(F.relu(self.up(x))), 0.5, self.training), x)


class Product(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.act, self.v = nn.Linear(16, 16), nn.Linear(16, 16), nn.SiLU(), nn.Linear(16, 16)

    def forward(self, x):
        k = self.act(self.up(x))
        return k * self.down(x) + self.v(x)


KINDS = {"straight": Straight, "gelu": lambda: Straight(nn.GELU), "functions": Functions, "product": Product}
KINDS["sequence"] = lambda: nn.Sequential(Straight(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16), nn.Dropout(0.5))


def _inner(model):
    return model[0] if isinstance(model, nn.Sequential) else model


def _exchange(model, patch):
    """Names of two maps, in the same order of values."""
    children = _inner(model)._modules
    items = [*children.items()]
    children.clear()
    other = {"up": "down", "down": "up"}
    children.update({other.get(name, name): child for name, child in items})


def _exchange_values(model, patch):
    inner = _inner(model)
    inner.up, inner.down = inner.down, inner.up


def _hooks(name, kind="_forward_hooks", hook=lambda m, args, y: 2 * y):
    return lambda model, patch: vars(getattr(_inner(model), name)).update({kind: {0: hook}})


def _weight(name, *shape):
    return lambda model, patch: vars(_inner(model).up).update({name: torch.ones(shape)})


def _twice(owner, name):
    """A function that is replaced by one with twice its result."""

    def change(model, patch):
        original = getattr(owner, name)
        patch.setattr(owner, name, lambda *args, **options: 2 * original(*args, **options))

    return change


def _act(model):
    return getattr(_inner(model), "act", nn.GELU())


def _own_forward(model, patch):
    down, old = _inner(model).down, _inner(model).down.forward
    down.forward = lambda x: 2 * old(x)


def _code(model, patch):
    def forward(self, x):
        return 3 * self.up(x)

    patch.setattr(type(_inner(model)).forward, "__code__", forward.__code__)


CHANGES = {
    "names exchanged": _exchange,
    "maps exchanged": _exchange_values,
    "hooks of a map": _hooks("up"),
    "hooks of the last map": _hooks("down"),
    "pre-hooks": _hooks("down", "_forward_pre_hooks", lambda m, args: 2 * args[0]),
    "hooks of an activation": _hooks("act"),
    "weight": _weight("weight", 16, 16),
    "bias": _weight("bias", 16),
    "approximation": lambda model, patch: setattr(_act(model), "approximate", "tanh"),
    "act replaced": lambda model, patch: setattr(_inner(model), "act", nn.Tanh()),
    "class of act": lambda model, patch: setattr(_act(model), "__class__", nn.Identity),
    "forward of a map": _own_forward,
    "__code__": _code,
    "F.relu": _twice(F, "relu"),
    "F.gelu": _twice(F, "gelu"),
    "F.silu": _twice(F, "silu"),
    "F.dropout": _twice(F, "dropout"),
    "F.linear": _twice(F, "linear"),
    "torch.add": _twice(torch, "add"),
    "nn.Linear.forward": _twice(nn.Linear, "forward"),
    "nn.ReLU.forward": _twice(nn.ReLU, "forward"),
    "nn.SiLU.forward": _twice(nn.SiLU, "forward"),
    "nn.Dropout.forward": _twice(nn.Dropout, "forward"),
    "nn.Sequential.forward": _twice(nn.Sequential, "forward"),
    "nn.Module.__call__": _twice(nn.Module, "__call__"),
}


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS)
def test_changed(kind, change, first, monkeypatch):
    """first: the copy was called before."""
    model, x = KINDS[kind]().eval(), torch.randn(3, 16)
    fast = optimize(model)
    if "of an activation" in change and not hasattr(_inner(model), "act"):
        return
    results = []
    with torch.no_grad():
        if first:
            close(fast(x), model(x))
        for one in (model, fast):
            with monkeypatch.context() as patch:
                CHANGES[change](one, patch)
                results.append(one(x))
    close(results[1], results[0])


class Seen(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.calls.append(getattr(function, "__name__", ""))
        result = function(*args, **(kwargs or {}))
        return 2 * result if function is F.linear else result


@pytest.mark.parametrize("kind", [*KINDS, "attention"])
def test_a_mode_that_sees_functions(kind):
    if kind == "attention":
        model, x = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval(), torch.randn(2, 3, 16)
        torch.backends.mha.set_fastpath_enabled(False)
    else:
        model, x = KINDS[kind]().eval(), torch.randn(3, 16)
    fast, calls = optimize(model), []
    try:
        with torch.no_grad():
            for one in (model, fast):
                with Seen() as mode:
                    calls.append((one(x), mode.calls))
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    close(calls[1][0], calls[0][0], 2e-5)
    assert "linear" in calls[1][1] or kind == "attention"


def test_a_default_device_is_no_such_mode():
    with torch.device("cpu"):
        assert ordinary()
        with Seen():
            assert not ordinary()
    assert ordinary()


def _in_proj(m, patch):
    vars(m)["in_proj_weight"] = torch.ones(48, 16) / 16


def _out_proj(m, patch):
    vars(m.out_proj)["weight"] = torch.ones(16, 16)


ATTENTION = {"in_proj_weight": _in_proj, "out_proj": _out_proj, "forward": None}


@pytest.mark.parametrize("change", ATTENTION)
def test_attention_changed(change, monkeypatch):
    model, x, results = nn.MultiheadAttention(16, 2, batch_first=True).eval(), torch.randn(2, 3, 16), []
    fast, forward = optimize(model), nn.MultiheadAttention.forward
    with torch.no_grad():
        close(fast(x, x, x)[0], model(x, x, x)[0])
        for one in (model, fast):
            with monkeypatch.context() as patch:
                if change == "forward":
                    twice = lambda *args, **options: [2 * y for y in forward(*args, **options)]  # noqa: E731
                    patch.setattr(nn.MultiheadAttention, "forward", twice)
                else:
                    ATTENTION[change](one, patch)
                results.append(one(x, x, x)[0])
    close(results[1], results[0])


def test_conv1d_with_another_weight():
    pytest.importorskip("transformers")
    from transformers.pytorch_utils import Conv1D

    model, x = nn.Sequential(Conv1D(8, 16)).eval(), torch.randn(3, 16)
    fast = optimize(model)
    for one in (model, fast):
        vars(one[0])["weight"] = torch.ones(16, 8)
    with torch.no_grad():
        close(fast(x), model(x))
