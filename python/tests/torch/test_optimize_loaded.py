"""load_state_dict() and torch.func.functional_call() of copies by optimize(): the same numbers are taken, others refused
before anything has changed."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.func import functional_call

from fovea.torch import optimize

SENTENCE = r"made by fovea\.torch\.optimize\(\), and"


class Model(nn.Module):
    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32, bias=False), nn.Linear(32, 16)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.register_buffer("shift", torch.ones(16))
        self.to(dtype)

    def forward(self, x):
        x = self.norm(x) + self.shift
        return self.attention(x, x, x)[0] + self.down(self.up(x))


@pytest.fixture(params=[torch.float32, torch.bfloat16])
def both(request):
    model = Model(request.param).eval()
    return model, optimize(model), torch.randn(2, 5, 16).to(request.param)


def others(state, name):
    state = {key: value.clone() for key, value in state.items()}
    state[name].view(-1)[-1] += 1
    return state


NAMES = ["up.weight", "down.bias", "attention.in_proj_weight", "attention.in_proj_bias", "attention.out_proj.weight"]


def test_the_same_numbers_are_loaded(both):
    model, fast, x = both
    with torch.no_grad():
        want = fast(x)
        for one in (fast, copy.deepcopy(fast), pickle.loads(pickle.dumps(fast)), fast.up):
            for state in (one.state_dict(), (model.up if one is fast.up else model).state_dict()):
                assert str(one.load_state_dict(state)) == "<All keys matched successfully>"
                assert not any(one.load_state_dict(state, strict=False))
        assert torch.equal(fast(x), want)


@pytest.mark.parametrize("name", NAMES)
def test_other_numbers_are_not(both, name):
    """And neither is anything else of such a dict: the norm is the original's."""
    model, fast, x = both
    state = others(others(model.state_dict(), name), "norm.weight")
    before = {key: value.clone() for key, value in model.state_dict().items()}
    for one in (fast, copy.deepcopy(fast)):
        for strict in (True, False):
            with pytest.raises(RuntimeError, match=f"{SENTENCE} its weights are packed, not those of {name}: load into"):
                one.load_state_dict(state, strict=strict)
    with pytest.raises(RuntimeError, match="load without assign=True"):
        fast.load_state_dict(model.state_dict(), assign=True)
    with pytest.raises(RuntimeError, match="packed, not those of up.weight"):
        fast.load_state_dict({"up.weight": torch.zeros(16, 32)}, strict=False)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_what_else_may_be_loaded(both):
    """Other parameters, which are the original's too, and buffers, which are not."""
    model, fast, x = both
    fast.load_state_dict(others(others(model.state_dict(), "norm.weight"), "shift"))
    assert torch.equal(fast.norm.weight, model.norm.weight)
    model.shift = fast.shift
    close(fast(x.detach()), model(x))


def close(found, expected):
    tolerance = 1e-4 if found.dtype is torch.float32 else 5e-2
    torch.testing.assert_close(found, expected.detach(), atol=tolerance, rtol=tolerance)


def test_keys(both):
    model, fast, _ = both
    state = model.state_dict()
    del state["up.weight"], state["attention.in_proj_bias"]
    state |= {"down.other": torch.ones(1), "attention.more": torch.ones(1)}
    for one in (model, fast):
        with pytest.raises(RuntimeError, match="up.weight") as raised:
            one.load_state_dict(state)
        assert all(key in str(raised.value) for key in ("attention.in_proj_bias", "down.other", "attention.more"))
    missing, unexpected = fast.load_state_dict(state, strict=False)
    assert sorted(missing) == ["attention.in_proj_bias", "up.weight"]
    assert sorted(unexpected) == ["attention.more", "down.other"]


def test_a_tied_head():
    """Which watches the embedding: the same numbers are no change, others are."""
    model, x = nn.Sequential(nn.Embedding(11, 16), nn.Linear(16, 11, bias=False)).eval(), torch.arange(11)
    model[1].weight = model[0].weight
    fast = optimize(model)
    with torch.no_grad():
        want = fast(x)
        fast.load_state_dict(fast.state_dict())
        assert torch.equal(fast(x), want)
        with pytest.raises(RuntimeError, match=f"{SENTENCE} its weights are packed, not those of 1.weight"):
            fast.load_state_dict({name: 2 * value for name, value in model.state_dict().items()})
        assert torch.equal(fast(x), want)


def test_functional_call(both):
    model, fast, x = both
    with torch.no_grad():
        want = fast(x)
        own = dict(fast.named_parameters())
        detached = ({n: p.detach() for n, p in parameters} for parameters in (own.items(), model.named_parameters()))
        for values in (own, fast.state_dict(), *detached):
            assert torch.equal(functional_call(fast, values, (x,)), want)
        shifted = functional_call(fast, {"norm.weight": 2 * model.norm.weight.detach()}, (x,))
        expected = functional_call(model, {"norm.weight": 2 * model.norm.weight.detach()}, (x,))
        close(shifted, expected)
        assert torch.equal(fast(x), want)


@pytest.mark.parametrize("name", NAMES)
def test_functional_call_of_other_numbers(both, name):
    model, fast, x = both
    with torch.no_grad():
        want = fast(x)
        with pytest.raises(RuntimeError, match=rf"{SENTENCE} functional_call\(\) cannot replace its packed weights"):
            functional_call(fast, others(others(model.state_dict(), name), "norm.weight"), (x,))
        assert torch.equal(fast(x), want)


def test_gradients_of_packed_weights(both):
    model, fast, x = both
    values = {name: p.detach() for name, p in model.named_parameters()}
    with pytest.raises(RuntimeError, match=rf"{SENTENCE}"):
        torch.func.grad(lambda values: functional_call(fast, values, (x,)).sum())(values)
    with pytest.raises(RuntimeError, match=rf"{SENTENCE}"):
        functional_call(fast, {name: p.clone().requires_grad_() for name, p in values.items()}, (x,))
    with torch.no_grad():
        assert torch.equal(fast(x), optimize(model)(x))
