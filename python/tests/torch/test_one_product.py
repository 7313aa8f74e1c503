"""Maps of one input are one product where their method's bytecode proves it, and only while all is as it was proved."""

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from one_products import Gated, Heads, Writes, check
from optimized import close
from torch import nn

from fovea.torch import optimize


class Twice(Heads):
    def forward(self, x):
        y = self.q(x)
        x.mul_(2)
        z = self.k(x)
        x.mul_(2)
        q = self.q(x)
        k = self.k(x)
        return y.sum(-1) + q.sum(-1) + z.sum(-1) + k.sum(-1) + self.last(x)

    def last(self, x):
        v = self.v(x)
        o = self.o(x)
        return v.sum(-1) + o.sum(-1)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Heads().eval()


def test_merged(model):
    fast = optimize(model)
    assert [line.split("; ")[-1] for line in fast.fovea_report.packed] == [
        "one product with k, v)", "one product with q, v)", "one product with q, k)", "o (16 -> 16)",
    ]  # fmt: skip
    check(model, fast, 1)
    check(model, copy.deepcopy(fast), 1)
    assert copy.deepcopy(fast.q)._product is None
    gated = Gated().eval()
    check(gated, optimize(gated))
    with torch.no_grad():  # alone, as anyone may call them
        x = torch.randn(2, 16)
        close(fast.k(x), model.k(x))


def test_called_twice():
    model = Twice().eval()
    check(model, optimize(model), 2)


def test_another_parent(model):
    """A module that has some of the maps, and another one in the place of one."""
    fast, other = optimize(model), Heads().eval()
    check(model, fast, 1)
    other.q, other.k, other.v, other.o = _Wrapper(fast.q), fast.k, fast.v, fast.o
    model.q = _Wrapper(model.q)
    check(model, other)


def test_bits(model):
    fast = optimize(model)
    x = torch.randn(2, 3, 16)
    with torch.no_grad():
        merged = fast(x)
        for m in (fast.q, fast.k, fast.v):
            m._product = None
        assert torch.equal(fast(x), merged)


def _written(lines):
    """A class of Heads with `lines` after each map is called."""
    code = "def forward(self, x):\n q = self.q(x)\n {0}\n k = self.k(x)\n {0}\n"
    code += " return q.sum(-1) + k.sum(-1) + self.v(x).sum(-1)"
    scope = {"torch": torch, "F": F}
    exec(code.format(lines), scope)
    return type("Written", (Heads,), {"forward": scope["forward"], "double": lambda self, x: x.mul_(2), "dirty": property(_dirt)})


def _dirt(self):
    self.seen.mul_(2)
    return 1


WRITES = [
    "x.mul_(2)", "x[0] = 0", "x += 1", "x.data.mul_(2)", "torch.mul(x, 0.5, out=x)", "x.view(-1)[3:9].zero_()", "x.t().zero_()",
    "y = x; y *= 2", "self.double(x)", "F.relu(x, inplace=True)", "x = x * 2", "x.numpy()[:] = 0", "x, y = x * 2, 0",
    "self.act(x)", "q.view(self.dirty, -1)", "self.v(x.mul_(2))", "x.resize_(3, 16).zero_()", "(lambda: x.mul_(2))()", "x.zero_",
    "for y in (x,): y.mul_(2)", "x = x if self.stop else x * 2", "q = q.add_(x)", "torch.relu_(x)", "x[:, 0] += 1",
]  # fmt: skip


@pytest.mark.parametrize("line", WRITES)
def test_not_merged_over(line):
    module = _written(line)().eval()
    module.act.inplace = True
    fast, x = optimize(module), torch.randn(3, 16)
    results = []
    for m in (module, fast):
        m.seen = x.clone()
        with torch.no_grad():
            results.append(m(m.seen))
    close(results[1], results[0])
    if line not in ("x.zero_", "x = x * 2", "x, y = x * 2, 0"):
        assert not any(m._product for m in fast.children() if hasattr(m, "_product"))


def _write(module, args, *_):
    args[0].mul_(2)


def _write_once(module):
    def write(_, args, *__):
        handle.remove()
        args[0].mul_(2)

    handle = module.register_forward_hook(write)


def _replace_once(module):
    def replace(_, args):
        handle.remove()
        return (args[0] * 2,)

    handle = module.register_forward_pre_hook(replace)


def _own(name):
    def change(m):
        child, of_class = m.get_submodule(name), type(m.get_submodule(name)).forward

        def forward(x):
            y = of_class(child, x)
            x.mul_(2)
            return y

        child.forward = forward

    return change


class _Wrapper(nn.Module):
    """Calls a map two frames below the method, as torch does, and writes its input."""

    def __init__(self, m):
        super().__init__()
        self.m = m

    def __call__(self, x):
        return self.below(x)

    def below(self, x):
        y = type(self.m).forward(self.m, x)
        x.mul_(2)
        return y


CHANGES = {
    "hook of q": lambda m: m.q.register_forward_hook(_write),
    "hook of q, which goes": lambda m: _write_once(m.q),
    "hook before q, which replaces x and goes": lambda m: _replace_once(m.q),
    "hook before k": lambda m: m.k.register_forward_pre_hook(_write),
    "hook of k": lambda m: m.k.register_forward_hook(_write),
    "forward of q": _own("q"),
    "forward of k": _own("k"),
    "k replaced": lambda m: setattr(m, "k", nn.Sequential(nn.ReLU(inplace=True), nn.Linear(16, 8)).eval()),
    "q wrapped": lambda m: setattr(m, "q", _Wrapper(m.q)),
    "k wrapped": lambda m: setattr(m, "k", _Wrapper(m.k)),
    "k and v swapped": lambda m: m.__dict__["_modules"].update(k=m.v, v=m.k),
    "k is v": lambda m: setattr(m, "k", m.v),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("called", [False, True])
def test_changed(model, name, called):
    fast = optimize(model)
    if called:
        check(model, fast, 1)
    for m in (model, fast):
        torch.manual_seed(1)
        CHANGES[name](m)
    check(model, fast)
    check(model, fast)


@pytest.mark.parametrize("how", ["class", "hook", "replaced", "forward"])
def test_activation_changed(how):
    model = Gated().eval()
    fast, x = optimize(model), torch.randn(2, 3, 16)
    check(model, fast, 1)
    for m in (model, fast):
        if how == "class":
            m.act.__class__ = Writes
        elif how == "hook":
            m.act.register_forward_hook(lambda *_, m=m: [m.of.mul_(2)] and None)
        elif how == "forward":
            m.act.forward = lambda y, m=m: nn.SiLU.forward(m.act, y + 0 * m.of.mul_(2).sum())
        else:
            m.act = Writes()
        m.of = x.clone()
        m.act.__dict__["of"] = [m.of]
    with torch.no_grad():
        close(fast(fast.of), model(model.of))


def test_interrupted(model):
    """Results left by a run that ended in an exception are not used by another."""
    fast, x = optimize(model), torch.randn(2, 3, 16)
    check(model, fast, 1)
    good, fast.scale = fast.scale, "no number"
    with torch.no_grad(), pytest.raises(TypeError):
        fast(x)
    fast.scale = good
    x.mul_(2)
    with torch.no_grad():
        close(fast.k(x), model.k(x))
        fast.q = model.q = nn.Identity()  # the next run does not come by q
        close(fast(x), model(x))


def test_threads(model):
    fast, wrong = optimize(model), []

    def run(seed):
        x = torch.randn(2, 3, 16, generator=torch.Generator().manual_seed(seed))
        with torch.no_grad():
            want = model(x)
            for _ in range(40):
                wrong.extend([seed] * (not torch.allclose(fast(x), want, atol=1e-5)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(4)))
    assert not wrong
