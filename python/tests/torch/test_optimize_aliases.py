"""Weights with two names: what writes one of them is seen by the other, or refused; else their map is left to torch."""

import copy
import pickle

import pytest
import torch
from optimized import close
from torch import nn

from fovea.torch import optimize
from fovea.torch.packed import Packed

TOKENS = torch.arange(20)[None]


class Tied(nn.Module):
    def __init__(self, max_norm=None, parameter=True):
        super().__init__()
        self.embed, self.head = nn.Embedding(20, 16, max_norm=max_norm), nn.Linear(16, 20, bias=False)
        nn.init.normal_(self.embed.weight, std=3)
        self.head.weight = self.embed.weight if parameter else nn.Parameter(self.embed.weight.data)

    def forward(self, tokens):
        return self.head(self.embed(tokens))


@pytest.mark.parametrize("parameter", [True, False])
def test_an_embedding_that_normalizes_as_it_reads(parameter):
    model = Tied(1.0, parameter).eval()
    fast = optimize(model)
    assert len(fast.fovea_report.left) == 1 and not isinstance(fast.head, Packed)
    with torch.no_grad():
        want = Tied(1.0, parameter).eval()
        want.embed.weight.copy_(model.embed.weight)
        want.head.weight = want.embed.weight
        for _ in range(2):
            close(fast(TOKENS), want(TOKENS))


@pytest.mark.parametrize("weights", [None, {"head": "int8"}])
@pytest.mark.parametrize("parameter", [True, False])
def test_a_tied_embedding_that_is_written(parameter, weights):
    model = Tied(parameter=parameter).eval()
    fast = optimize(model, example=TOKENS, weights=weights)
    assert isinstance(fast.head, Packed)
    compiled = torch.compile(fast, backend="aot_eager")
    with torch.no_grad():
        compiled(TOKENS)
    for one in (fast, copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
        with torch.no_grad():
            want = one(TOKENS)
            assert torch.equal(one(TOKENS), want)
            (model if one is fast and parameter else one).embed.weight[0, 0] += 1.0
            with pytest.raises(RuntimeError, match="optimize the original again"):
                one(TOKENS)
    with torch.no_grad(), pytest.raises(RuntimeError, match="optimize the original again"):
        compiled(TOKENS)
    close(optimize(model)(TOKENS), model(TOKENS))


def test_training_the_original_is_no_write_to_the_copy():
    model, x = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16)), torch.randn(3, 16)
    fast = optimize(model)
    want = fast(x)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model(x).square().sum().backward()
    optimizer.step()
    assert torch.equal(fast(x), want) and not torch.equal(model(x), want)


class Written(nn.Module):
    """Its forward doubles a weight by another name."""

    def __init__(self, how):
        super().__init__()
        self.fc, self.other = nn.Linear(8, 8), nn.Linear(8, 8)
        if how == "flat parameter":
            self.flat = nn.Parameter(torch.randn(144))
            self.fc.weight = nn.Parameter(self.flat.data[:64].view(8, 8))
            self.fc.bias = nn.Parameter(self.flat.data[64:72])
            self.alias = self.flat
        elif how == "flat tensor":
            self.alias = torch.randn(72)
            self.fc.weight = nn.Parameter(self.alias[:64].view(8, 8))
        else:
            weight = self.fc.weight
            held = {"list": [weight], "dict": {"it": (1, weight)}, "data": [weight.data], "view": [weight.detach()[1:]]}
            self.held = held[how]

    def forward(self, x):
        with torch.no_grad():
            names = vars(self).get("held", [self.alias] if hasattr(self, "alias") else None)
            alias = names["it"][1] if isinstance(names, dict) else names[0]
            alias.mul_(2)
        return self.other(self.fc(x))


@pytest.mark.parametrize("how", ["list", "dict", "data", "view", "flat parameter", "flat tensor"])
def test_a_forward_that_writes_by_another_name(how):
    models, x = [], torch.randn(3, 8)
    for _ in range(2):
        torch.manual_seed(5)
        models.append(Written(how).eval())
    fast = optimize(models[0])
    assert isinstance(fast.other, Packed) and not isinstance(fast.fc, Packed)
    assert fast.fovea_report.left == ["fc: its weight is in memory that the model holds elsewhere, too"]
    with torch.no_grad():
        for _ in range(2):
            close(fast(x), models[1](x))
