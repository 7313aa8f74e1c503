"""Modules that fovea.torch.optimize() takes: numbers added from the left, methods without self, parts of torch.jit."""

import pytest
import torch
from optimized import close, packed
from torch import nn

from fovea.torch import optimize
from fovea.torch.packed import Packed


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(8, 8), nn.Linear(8, 8)


class Left(Two):
    def forward(self, x):
        return 2 + self.q(x)


class Right(Two):
    def forward(self, x):
        return self.q(x) + 2


class Function(Two):
    def forward(self, x):
        return torch.add(3, self.q(x)) * torch.add(self.k(x), 0.5)


class NumberThenResidual(Two):
    def forward(self, x):
        return x + (1 + self.q(x))


class Static(Two):
    @staticmethod
    def both(module, x):
        return module.q(x) + module.k(x)

    def forward(self, x):
        return self.both(self, x)


class StaticOfOther(Two):
    @staticmethod
    def both(x, q, k):
        return q(x) + k(x)

    def forward(self, x):
        return self.both(x, self.q, self.k)


class OfClass(Two):
    @classmethod
    def both(cls, module, x):
        return module.q(x) + module.k(x)

    def forward(self, x):
        return self.both(self, x)


class ByClass(Two):
    both = Static.both

    def forward(self, x):
        return self.both(x)


@pytest.mark.parametrize("kind", [Left, Right, Function, NumberThenResidual, Static, StaticOfOther, OfClass, ByClass])
def test_methods(kind):
    model, x = kind().eval(), torch.randn(3, 8)
    fast = optimize(model, example=x)
    assert packed(fast).keys() == {"q", "k"}
    with torch.no_grad():
        close(fast(x), model(x))


SCRIPTS = {
    "script": lambda: torch.jit.script(nn.Sequential(nn.Linear(8, 8), nn.ReLU())),
    "trace": lambda: torch.jit.trace(nn.Linear(8, 8), torch.randn(2, 8)),
    "layer": lambda: torch.jit.script(nn.TransformerEncoderLayer(8, 2, 16)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("weights", [None, "int8"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_parts_of_torch_jit(name, weights):
    model, x = nn.Sequential(nn.Linear(8, 8), SCRIPTS[name](), nn.Linear(8, 8)).eval(), torch.randn(3, 8)
    before = [p.requires_grad for p in model.parameters()]
    fast = optimize(model, example=x, weights=weights)
    assert isinstance(fast[0], Packed) and isinstance(fast[2], Packed) and isinstance(fast[1], torch.jit.ScriptModule)
    assert fast.fovea_report.left == ["1: it is compiled by torch.jit"]
    assert [p.requires_grad for p in model.parameters()] == before
    assert not any(p.requires_grad for p in fast.parameters())
    with torch.no_grad():
        close(fast(x), model(x), 4e-6 if weights is None else 0.05)


@pytest.mark.filterwarnings("ignore")
def test_a_whole_of_torch_jit():
    model, x = torch.jit.script(nn.Linear(8, 8)).eval(), torch.randn(3, 8)
    fast = optimize(model, example=x)
    assert fast.fovea_report.left == ["RecursiveScriptModule: it is compiled by torch.jit"]
    with torch.no_grad():
        assert torch.equal(fast(x), model(x))
