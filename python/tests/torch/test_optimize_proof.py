"""fovea.torch.optimize() leaves alone what it cannot prove: a copy gives the numbers of its model, whatever the code between maps writes,
and what is put on modules before or after still acts."""

import copy
import types

import pytest
import torch
import torch.nn.functional as F
from optimized import close, packed
from torch import nn

from fovea.torch import optimize
from fovea.torch.fused import Fused


def same(model, *inputs, fast=None):
    """That the copy gives what the model gives, and writes what it writes."""
    fast = optimize(model) if fast is None else fast
    for x in inputs or (torch.randn(3, 16),):
        got, want = x.clone(), x.clone()
        with torch.no_grad():
            close(fast(got), model(want))
        assert torch.equal(got, want)
    return fast


class PreActivation(nn.Module):
    """A residual block whose activation comes first, in place."""

    def __init__(self, act):
        super().__init__()
        self.act, self.fc, self.out = act, nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x):
        x = self.out(x)
        y = self.fc(x)
        return y + self.act(x)


@pytest.mark.parametrize("act", [nn.ReLU(inplace=True), nn.ReLU(), nn.SiLU(inplace=True), nn.GELU()], ids=str)
def test_no_map_moves_past_an_activation(act):
    same(PreActivation(act).eval())


class Functions(PreActivation):
    def forward(self, x):
        return self.fc(F.relu(x, inplace=True)) + x


def test_functions_in_place_are_not_moved():
    same(Functions(nn.ReLU()).eval())


class Between(nn.Module):
    """The activation between a map and the addition of y writes y."""

    def __init__(self):
        super().__init__()
        self.fc, self.norm, self.act = nn.Linear(16, 16), nn.LayerNorm(16), nn.ReLU(inplace=True)

    def forward(self, x):
        y = x * 1
        h = self.fc(x)
        z = self.act(y)
        return h + y * z


def test_nothing_moves_past_what_writes():
    assert not same(Between().eval()).fovea_report.fused


class Straight(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.act, self.drop, self.down = nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.5), nn.Linear(32, 16)

    def forward(self, x):
        return self.drop(self.down(self.act(self.up(x)))) + x


def test_hooks_on_what_is_fused_fire():
    model, seen = Straight().eval(), []
    fast = optimize(model)
    assert [line.split(": ")[1] for line in fast.fovea_report.fused] == ["gelu", "residual"]
    for name in ("up", "act", "drop", "down"):
        for module in (model, fast):
            getattr(module, name).register_forward_hook(lambda m, args, y, name=name: seen.append(name))
        same(model, fast=fast)
        assert seen.count(name) == 2 and seen[: len(seen) // 2] == seen[len(seen) // 2 :]
        seen.clear()
    handle = nn.modules.module.register_module_forward_hook(lambda m, args, y: seen.append(type(m).__name__))
    try:
        same(model, fast=fast)
    finally:
        handle.remove()
    names = [name for name in seen if name in ("Linear", "GELU", "Dropout")]
    assert names[:4] == names[4:] == ["Linear", "GELU", "Linear", "Dropout"]

def test_dropouts_in_training_drop():
    fast = optimize(Straight().eval())
    fast.drop.train()
    x = torch.randn(64, 16)
    with torch.no_grad():
        assert ((fast(x) - x) == 0).float().mean() > 0.3


def test_an_instance_s_own_forward_stays():
    model = Straight().eval()
    old = model.up.forward
    model.up.forward = lambda x: 3 * old(x)
    fast = same(model)
    assert fast.fovea_report.left == ["up: it has attributes that nn.Linear has not: forward"]
    model = Straight().eval()
    model.forward = types.MethodType(lambda self, x: self.down(self.up(x)) - x, model)
    assert not same(model).fovea_report.fused


def test_state_that_is_no_linear_s_own_is_left():
    class Sub(nn.Linear):
        pass

    for make, words in (
        (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(16, 16)), "class of its own"),
        (lambda: Sub(16, 16), "Sub is a class of its own"),
        (lambda: nn.Linear(16, 16).double(), "float64"),
        (lambda: nn.Linear(16, 16, device="meta"), "on meta"),
    ):
        model = nn.ModuleDict({"it": make()})
        assert words in optimize(model).fovea_report.left[0]
    linear = nn.Linear(16, 16)
    linear.weight = nn.Parameter(torch._neg_view(linear.weight.detach()))
    assert "negative" in optimize(nn.Sequential(linear)).fovea_report.left[0]


def test_who_holds_a_module_elsewhere_has_the_same():
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(16, 16)
            self.plain = [self.fc]

        def forward(self, x):
            return self.plain[0](x)

    fast = same(Holder().eval())
    assert fast.plain[0] is fast.fc and isinstance(fast.fc, nn.Linear) and type(fast.fc).__name__ == "Linear"


def test_the_fused_code_has_guards_for_arguments():
    model = Straight().eval()
    fast = optimize(model)
    assert isinstance(vars(fast)["forward"], Fused)
    x = torch.randn(2, 16)
    with torch.no_grad():
        close(fast(x=x), model(x=x))
        with torch.autocast("cpu"):
            got, want = fast(x), model(x)
            assert got.dtype is want.dtype and torch.allclose(got, want, atol=0.05)
        close(torch.vmap(fast)(x[None]), model(x[None]))
    for wrong in ((), (x, x)):
        with pytest.raises(TypeError, match="argument"):
            fast(*wrong)
    got, want = (torch.func.grad(lambda x, m=m: m(x).sum())(x) for m in (fast, model))
    close(got, want)


def test_side_effects_are_not_recorded_away():
    counted = []

    def helper(x):
        counted.append(1)
        return F.relu(x)

    class Helped(Straight):
        def forward(self, x):
            return helper(self.up(x))

    fast = optimize(Helped().eval())
    assert not counted and not fast.fovea_report.fused
    fast(torch.randn(2, 16))
    assert counted == [1]


def test_the_model_is_not_touched():
    model = Straight().train()
    model.register_buffer("table", torch.zeros(3))
    before = {name: dict(vars(m)) for name, m in model.named_modules()}
    x, state, random = torch.randn(2, 16), copy.deepcopy(model.state_dict()), torch.get_rng_state()
    optimize(model, x)
    for name, m in model.named_modules():
        assert vars(m).keys() == before[name].keys() and m.training
        assert all(vars(m)[key] is value for key, value in before[name].items())
    assert all(torch.equal(state[name], x) for name, x in model.state_dict().items())
    assert torch.equal(random, torch.get_rng_state()) and all(p.requires_grad for p in model.parameters())


@pytest.mark.parametrize("kind", ["forward", "fused"])
def test_an_example_names_the_module_that_differs(kind, monkeypatch):
    from fovea.torch.packed import Linear

    model = nn.Sequential(nn.LayerNorm(16), Straight(), nn.Linear(16, 16), nn.Identity()).eval()
    x = torch.randn(3, 16)
    for example in (x, (x,), {"input": x}):
        optimize(model, example=example)
    right = getattr(Linear, kind)
    monkeypatch.setattr(Linear, kind, lambda *args: right(*args) * 1.01)
    with pytest.raises(RuntimeError, match={"forward": r"of 2 \(Linear\)", "fused": r"of 1 \(Straight\)"}[kind]):
        optimize(model, example=x)


def test_optimized_twice():
    model = nn.Sequential(Straight(), nn.Linear(16, 16)).eval()
    fast = optimize(model)
    again = optimize(fast)
    assert str(again.fovea_report) == str(fast.fovea_report)
    whole = optimize(nn.Sequential(fast, nn.Linear(16, 16)))
    assert packed(whole).keys() == {"0.0.up", "0.0.down", "0.1", "1"}
    x = torch.randn(2, 16)
    with torch.no_grad():
        assert torch.equal(again(x), fast(x)) and torch.equal(whole[0](x), fast(x))


def test_a_changed_input_between_projections_of_llama():
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 99, "num_hidden_layers": 1}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes)).eval()
    found = []
    for one in (model, optimize(model)):
        attention, x = one.model.layers[0].self_attn, torch.arange(64.0).view(2, 32) / 64
        with torch.no_grad():
            found.append([attention.q_proj(x), attention.k_proj(x.mul_(2)), attention.v_proj(x)])
    for got, want in zip(*reversed(found)):
        close(got, want)
