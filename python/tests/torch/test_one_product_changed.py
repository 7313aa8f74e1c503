"""Changes between a proof of one_product.py and a call, and other ways by which the same code is reached."""

import pytest
import torch
import torch.nn.functional as F
from one_products import Gated, Heads, Writes, check
from optimized import close
from torch import nn

from fovea.torch import optimize


class Looped(Heads):
    def forward(self, x):
        y = 0
        for _ in range(2):
            q = self.q(x)
            k = self.k(x)
            v = self.v(x)
            y = y + q.sum(-1) * k.sum(-1) * v.sum(-1)
            x.mul_(2)
        return y


class OtherSelf(Gated):
    """Calls its act of another self once it has one: by a name that is bound again, or by whoever calls the method."""

    other = None

    def forward(self, x):
        if self.other is not None:
            self = self.other[0]
        if x is None:
            return None
        return self.act(self.k(x)) * self.v(x)


class GivenSelf(Gated):
    other = None

    def __call__(self, x):
        return Gated.forward(self if self.other is None else self.other[0], x)


class Scaled(Heads):
    def forward(self, x):
        k = self.k(x) * self.scale
        return k * self.v(x)


class ByLocal(Heads):
    def forward(self, x):
        factor = self.scale
        if x is None:
            return None
        k = self.k(x) * (factor,)[0]
        return k * self.v(x)


class _Factor:
    def __init__(self, model):
        self.model = model

    def __rmul__(self, y):
        self.model.of.mul_(2)
        return y


def _hook_moves(m):
    def move(*_):
        handle.remove()
        m.q.register_forward_hook(lambda *_: None)

    handle = m.k.register_forward_hook(move)


def _other_act(m):
    other = Gated().eval()
    other.k, other.v, other.act = m.k, m.v, Writes()
    other.act.__dict__["of"] = [m.of]
    m.other = [other]


def _derived(m):
    kind = type(m.k)
    m.k.__class__ = type("Derived", (kind,), {"forward": lambda self, x: kind.forward(self, x) * 2})


def _shadowed(m):
    m.__dict__["act"] = lambda y: F.silu(y + 0 * m.of.mul_(2).sum())


def _property(m):
    m.__class__ = type("Derived", (type(m),), {"scale": property(lambda self: self.of.mul_(2).new_tensor(0.5))})


BETWEEN = {
    "hook that moves in a loop": (Looped, _hook_moves),
    "self bound again": (OtherSelf, _other_act),
    "self given": (GivenSelf, _other_act),
    "class of a map": (Gated, _derived),
    "act shadowed": (Gated, _shadowed),
    "scale is a property": (Scaled, _property),
    "scale writes": (Scaled, lambda m: setattr(m, "scale", _Factor(m))),
    "local writes": (ByLocal, lambda m: setattr(m, "scale", _Factor(m))),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_changed_between(name):
    kind, change = BETWEEN[name]
    model, x = kind().eval(), torch.randn(2, 3, 16)
    fast, results = optimize(model), []
    check(model, fast)
    for m in (model, fast):
        m.of = x.clone()
        change(m)
        with torch.no_grad():
            results.append(m(m.of))
    close(results[1], results[0])


def test_class_of_activation_changed(monkeypatch):
    model = Gated().eval()
    fast, x, forward = optimize(model), torch.randn(2, 3, 16), nn.SiLU.forward
    check(model, fast, 1)
    results = []
    for m in (model, fast):
        of = x.clone()
        monkeypatch.setattr(nn.SiLU, "forward", lambda self, y, of=of: forward(self, y + 0 * of.mul_(2).sum()))
        with torch.no_grad():
            results.append(m(of))
    close(results[1], results[0])
