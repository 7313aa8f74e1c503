"""Copies by fovea.torch.optimize() among other code: what weights say and refuse, saving, copying, conversions, compilers, adapters."""

import copy
import io
import os
import pickle
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from optimized import close
from torch import nn

from fovea.torch import optimize


class Block(nn.Module):
    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.up, self.act, self.down = nn.Linear(16, 32, bias=False), nn.GELU(), nn.Linear(32, 16)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.to(dtype)

    def forward(self, x):
        return self.attention(x, x, x)[0] + self.mlp(x)

    def mlp(self, x):
        return self.down(self.act(self.up(x))) + x


@pytest.fixture
def model():
    return Block().eval()


@pytest.fixture
def x():
    return torch.randn(2, 5, 16)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_weights_tell_the_truth(dtype):
    model = Block(dtype).eval()
    fast = optimize(model)
    for (name, got), (same_name, want) in zip(fast.named_parameters(), model.named_parameters(), strict=True):
        assert name == same_name and isinstance(got, nn.Parameter) and not got.requires_grad
        assert (got.shape, got.dtype, got.device, got.stride()) == (want.shape, want.dtype, want.device, want.stride())
        assert torch.equal(got, want.detach())
    assert sum(p.numel() for p in fast.parameters()) == sum(p.numel() for p in model.parameters())
    weight, real = fast.up.weight, model.up.weight.detach()
    x = torch.randn(3, 16).to(dtype)
    assert torch.equal(F.linear(x, weight), F.linear(x, real)) and torch.equal(weight @ x.t(), real @ x.t())
    assert torch.equal(torch.cat([weight, weight]), torch.cat([real, real])) and weight.tolist() == real.tolist()
    assert torch.equal(torch.from_dlpack(weight), real) and torch.equal(weight[2:5].float(), real[2:5].float())
    assert repr(weight) and type(copy.deepcopy(weight)) is type(weight)
    if dtype is torch.float32:
        assert (weight.numpy() == real.numpy()).all() and not weight.numpy().flags.writeable


WRITES = {
    "mul_": lambda m, w: w.mul_(2),
    "item": lambda m, w: w.__setitem__(0, 0),
    "view": lambda m, w: w.view(-1).zero_(),
    "transpose": lambda m, w: w.T[0].add_(1),
    "data": lambda m, w: w.data.mul_(2),
    "set data": lambda m, w: setattr(w, "data", torch.zeros(32, 16)),
    "copy_": lambda m, w: w.copy_(torch.zeros(32, 16)),
    "out": lambda m, w: torch.add(w.clone(), 1, out=w),
    "foreach": lambda m, w: torch._foreach_add_([w], 1.0),
    "init": lambda m, w: nn.init.zeros_(w),
    "parameter": lambda m, w: setattr(m, "weight", nn.Parameter(torch.zeros(32, 16))),
    "None": lambda m, w: setattr(m, "weight", None),
    "del": lambda m, w: delattr(m, "weight"),
    "functional_call": lambda m, w: torch.func.functional_call(m, {"weight": torch.zeros(32, 16)}, torch.zeros(1, 16)),
    "weight_norm": lambda m, w: nn.utils.parametrizations.weight_norm(m),
    "optimizer": lambda m, w: (setattr(w, "grad", torch.ones(32, 16)), torch.optim.SGD([w], lr=1.0).step()),
    "requires_grad_": lambda m, w: m.requires_grad_(),
    "load_state_dict": lambda m, w: m.load_state_dict({"weight": torch.zeros(32, 16)}),
    "train": lambda m, w: m.train(),
    "half": lambda m, w: m.half(),
    "meta": lambda m, w: m.to("meta"),
}


@pytest.mark.parametrize("write", WRITES)
def test_weights_are_not_written(model, write):
    fast = optimize(model)
    with torch.no_grad(), pytest.raises(RuntimeError, match=r"fovea\.torch\.optimize\(\)"):
        WRITES[write](fast.up, fast.up.weight)
    assert torch.equal(fast.up.weight, model.up.weight) and not fast.up.training


@pytest.mark.parametrize("change", ["train", "half", "to"])
def test_a_refusal_changes_nothing(x, change):
    model = nn.Sequential(nn.LayerNorm(16), nn.Dropout(0.5), nn.Linear(16, 16), nn.LayerNorm(16)).eval()
    fast = optimize(model)
    for one in (fast, copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
        with pytest.raises(RuntimeError, match=r"fovea\.torch\.optimize\(\)"):
            getattr(one, change)(*(["meta"] if change == "to" else []))
        assert not any(module.training for module in one.modules())
        assert all((p.dtype, p.device.type) == (torch.float32, "cpu") for p in one.parameters())
        with torch.no_grad():
            assert one.eval() is one and one.float() is one
            close(one(x), model(x))


def test_conversions_to_the_same(model, x):
    fast = optimize(model)
    with torch.no_grad():
        want = fast(x)
        for convert in (fast.float, fast.cpu, fast.share_memory, fast.eval, lambda: fast.to(torch.float32), fast.requires_grad_):
            if convert == fast.requires_grad_:
                fast.requires_grad_(False)
            else:
                assert convert() is fast
        assert torch.equal(fast(x), want)


def test_a_zero_key_asked_for_later(model, x):
    fast = optimize(model)
    with torch.no_grad():
        for one in (model, fast):
            one.attention.add_zero_attn = True
        for got, want in zip(fast.attention(x, x, x), model.attention(x, x, x)):
            close(got, want)


def test_state_dicts_are_the_original_s(model, x):
    fast, file = optimize(model), io.BytesIO()
    torch.save(fast.state_dict(), file)
    file.seek(0)
    state = torch.load(file)
    assert all(type(t) is torch.Tensor for t in state.values())
    fresh = Block().eval()
    fresh.load_state_dict(state)
    with torch.no_grad():
        assert torch.equal(fresh(x), model(x))


def test_copies_and_pickles(model, x):
    fast, file = optimize(model), io.BytesIO()
    torch.save(fast, file)
    file.seek(0)
    with torch.no_grad():
        want = fast(x), fast.mlp(x)
        for again in (copy.deepcopy(fast), pickle.loads(pickle.dumps(fast)), torch.load(file, weights_only=False)):
            assert again.fovea_report == fast.fovea_report and again is not fast and again.up is not fast.up
            assert torch.equal(again(x), want[0]) and torch.equal(again.mlp(x), want[1])
            assert again.mlp.module is again and again.mlp._bound
            assert torch.equal(again.down.weight, model.down.weight)
            again.up.register_forward_hook(lambda m, args, y: 0 * y)
            assert not torch.equal(again.mlp(x), want[1]) and torch.equal(fast.mlp(x), want[1])
    assert len(pickle.dumps(fast)) < 1.5 * len(pickle.dumps(model))


def test_another_process(tmp_path):
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)).eval()
    fast, x = optimize(model), torch.randn(3, 16)
    torch.save((fast, x, fast(x)), tmp_path / "copy.pt")
    code = "import sys, torch; f, x, y = torch.load(sys.argv[1], weights_only=False); assert torch.equal(f(x), y)"
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "copy.pt")], check=True, env=environment)


def test_compiled(model, x):
    from torch._dynamo.testing import CompileCounter
    from torch.fx.experimental.proxy_tensor import make_fx

    counter = CompileCounter()
    plain = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)).eval()
    fast = optimize(plain)
    with torch.no_grad():
        compiled = torch.compile(fast, backend=counter, fullgraph=True)
        close(compiled(x), fast(x))
        assert counter.frame_count == 1
        close(torch.compile(optimize(model), backend="eager")(x), model(x))
        close(torch.jit.trace(fast, x, check_trace=False)(x), plain(x))
        close(torch.jit.trace(lambda x: F.linear(x, fast[0].weight, fast[0].bias), x, check_trace=False)(x), plain[0](x))
        for run in (fast, lambda x: F.linear(x, fast[0].weight)):
            close(make_fx(run)(x)(x), run(x))
    with pytest.raises(RuntimeError, match="export the original"):
        torch.export.export(fast, (x,))


def test_forward_mode_and_maps(x):
    plain = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)).eval()
    fast = optimize(plain)
    for got, want in zip(torch.func.jvp(fast, (x,), (x,)), torch.func.jvp(plain, (x,), (x,))):
        close(got, want)
    close(torch.func.jacrev(fast)(x[0, 0]), torch.func.jacrev(plain)(x[0, 0]))


def test_a_model_that_reads_weights():
    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.called = nn.Linear(16, 16), nn.Linear(16, 16)

        def forward(self, x):
            x = x.to(self.called.weight.dtype)
            return self.called(F.linear(x, self.fc.weight, self.fc.bias))

    model, x = Reader().eval(), torch.randn(2, 16)
    fast = optimize(model)
    with torch.no_grad():
        close(fast(x), model(x))
    assert fast.fovea_report.left == ["fc: its weight is read by Reader"] and len(fast.fovea_report.packed) == 1
