"""fovea.torch.optimize(): the same numbers as torch, what is fused and what is left, and what the copy refuses."""

import copy
import pickle
import weakref

import pytest
import torch
from optimized import close, packed
from torch import nn

from fovea.torch import optimize
from fovea.torch.packed import Packed


class Straight(nn.Module):
    """Everything that can be fused, and what must not be."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 40), nn.Linear(40, 16)
        self.twice = nn.Linear(16, 16)
        self.drop, self.act, self.norm = nn.Dropout(0.5), nn.GELU(), nn.LayerNorm(16)
        self.seen = nn.Linear(16, 16)

    def forward(self, x, y):
        h = self.drop(self.down(self.act(self.up(x))))
        h = self.norm(y + h)
        h = self.twice(self.act(self.twice(h)))  # one map, once with an activation
        s = self.seen(h)
        return s * torch.nn.functional.relu(s) + h  # s has two users: nothing goes into `seen`


def test_straight_code():
    model = Straight().eval()
    x, y = torch.randn(3, 5, 16), torch.randn(3, 5, 16)
    fast = optimize(model)
    close(fast(x, y), model.double()(x.double(), y.double()))
    assert packed(fast) == {
        "up": "16 -> 40; gelu",
        "down": "40 -> 16; residual",
        "twice": "16 -> 16; gelu",
        "seen": "16 -> 16",
    }


def test_a_residual_that_broadcasts():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 8)

        def forward(self, x, y):
            return self.fc(x) + y

    model = Model()
    fast = optimize(model)
    x = torch.randn(2, 3, 8)
    with torch.no_grad():
        for y in (torch.randn(2, 3, 8), torch.randn(3, 8), torch.randn(8), torch.randn(2, 1, 8), torch.randn(2, 3, 1)):
            close(fast(x, y), model(x, y))
        close(fast(x[0], torch.randn(2, 3, 8).mul_(0)), model(x[0], torch.zeros(2, 3, 8)))
        with pytest.raises((TypeError, RuntimeError)):
            fast(x.double(), y)
        half, y = copy.deepcopy(model).bfloat16(), torch.randn(2, 3, 8)
        got, want = optimize(half)(x.bfloat16(), y), half(x.bfloat16(), y)
        assert got.dtype is want.dtype is torch.float32 and (got - want).abs().max() < 0.05


@pytest.mark.parametrize("register", ["register_forward_hook", "register_forward_pre_hook"])
@pytest.mark.parametrize("kind", [lambda: nn.Linear(8, 8), lambda: nn.MultiheadAttention(8, 2)])
def test_what_has_hooks_is_left_to_torch(kind, register):
    model, called = nn.ModuleDict({"it": kind()}).eval(), []
    getattr(model.it, register)(lambda *_: called.append(1))
    fast = optimize(model)
    assert fast.fovea_report.left == ["it: it has hooks"]
    x = torch.randn(3, 8)
    with torch.no_grad():
        fast.it(x) if isinstance(fast.it, nn.Linear) else fast.it(x, x, x)
    assert called


class Optional(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.act = nn.Linear(8, 8), nn.ReLU()

    def forward(self, x, extra=None):
        y = self.fc(x)
        return self.act(y) if extra is None else y + extra


def test_sequences_are_straight_code():
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU("tanh"), nn.Dropout(0.1), nn.Sequential(nn.Linear(16, 8), nn.Tanh()))
    fast = optimize(model.eval())
    x = torch.randn(5, 8)
    with torch.no_grad():
        close(fast(x), model(x))
    assert packed(fast) == {"0": "8 -> 16; gelu_tanh", "3.0": "16 -> 8"}


def test_code_with_options_is_not_rewritten():
    model = Optional()
    fast = optimize(model)
    assert packed(fast) == {"fc": "8 -> 8"}
    x = torch.randn(2, 8)
    with torch.no_grad():
        close(fast(x), model(x))
        close(fast(x, x), model(x, x))


class Same(nn.Module):
    """Projections of one input, and of one that changes between them."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(16, 16), nn.Linear(16, 8, bias=False), nn.Linear(16, 8)

    def forward(self, x):
        return torch.cat([self.q(x), self.k(x), self.v(x)], -1)


class Cross(Same):
    def forward(self, x, z=None):
        z = x if z is None else z
        return torch.cat([self.q(x), self.k(z), self.v(z)], -1)


@pytest.mark.parametrize("kind", [Same, Cross])
def test_maps_of_one_input(kind):
    model = kind().eval()
    fast = optimize(model)
    assert all(isinstance(getattr(fast, n), Packed) for n in "qkv")
    with torch.inference_mode():
        for _ in range(2):
            x = torch.randn(2, 5, 16)
            close(fast(x), model(x))
        x = torch.randn(1, 16)
        fast(x)
        gone = weakref.ref(x)
        del x
        assert gone() is None  # no input is kept


def test_memory_is_told():
    model = nn.Sequential(nn.Linear(8, 4), nn.LayerNorm(4), nn.Linear(4, 4).double()).train()
    fast = optimize(model)
    assert not any(p.requires_grad for p in fast.parameters())
    assert fast[1].weight.data_ptr() == model[1].weight.data_ptr()
    report = fast.fovea_report
    assert report.packed_bytes == 4 * (8 * 4 + 4)
    assert report.shared_bytes == 4 * 8 + 8 * (16 + 4)
    assert len(report.left) == 1 and "2: its weights are torch.float64" in report.left[0]
    assert "linear maps on packed weights" in str(report) and "2: its weights" in str(report)


def test_the_weights_of_the_original_can_be_freed():
    import gc
    import weakref

    model = nn.Sequential(nn.Linear(8, 4))
    weight = weakref.ref(model[0].weight.untyped_storage())
    fast = optimize(model)
    del model
    gc.collect()
    assert weight() is None
    assert fast(torch.randn(2, 8)).shape == (2, 4)


def test_one_module_in_two_places_is_packed_once():
    linear = nn.Linear(8, 8)
    fast = optimize(nn.ModuleList([nn.Sequential(linear, nn.ReLU()), nn.Sequential(linear)]))
    assert fast[0][0] is fast[1][0] and isinstance(fast[0][0], Packed)


def test_one_module_of_two_parents_gets_the_fusion_of_neither():
    class Parent(nn.Module):
        def __init__(self, fc, act):
            super().__init__()
            self.fc, self.act = fc, act

        def forward(self, x):
            return self.act(self.fc(x))

    fc = nn.Linear(8, 8)
    model = nn.ModuleList([Parent(fc, nn.ReLU()), Parent(fc, nn.Tanh())])
    fast = optimize(model)
    x = torch.randn(3, 8)
    with torch.no_grad():
        for got, want in zip(fast, model):
            close(got(x), want(x))


def test_no_gradients_and_no_training():
    fast = optimize(nn.Sequential(nn.Linear(8, 8)))
    with pytest.raises(RuntimeError, match="no gradients"):
        fast(torch.randn(2, 8, requires_grad=True))
    with torch.no_grad():
        fast(torch.randn(2, 8, requires_grad=True))
    with pytest.raises(RuntimeError, match="train the original"):
        fast.train()
    fast.eval()
    assert not fast(torch.randn(2, 8)).requires_grad


@pytest.mark.parametrize("shape", [(8,), (0, 8), (3, 8), (2, 3, 8), (2, 2, 3, 8)])
def test_shapes(shape):
    model = nn.Linear(8, 4)
    fast = optimize(model)
    x = torch.randn(shape)
    with torch.no_grad():
        assert fast(x).shape == model(x).shape
        if x.numel():
            close(fast(x), model(x))
            close(fast(x.unsqueeze(-1).expand(*shape, 2)[..., 1]), model(x))


MHA = [{}, {"batch_first": True}, {"kdim": 12, "vdim": 12}, {"bias": False}, {"add_bias_kv": True}]


@pytest.mark.parametrize("kind", ["none", "padding", "pairs", "heads", "both", "floats"])
@pytest.mark.parametrize("options", MHA, ids=str)
def test_multihead_attention(options, kind):
    model = nn.ModuleDict({"a": nn.MultiheadAttention(16, 4, **options)}).eval()
    assert isinstance(optimize(model["a"]), Packed) != ("add_bias_kv" in options)
    fast = optimize(model)
    assert bool(fast.fovea_report.left) == ("add_bias_kv" in options)
    q, k = torch.randn(5, 3, 16), torch.randn(7, 3, options.get("kdim", 16))
    if "batch_first" in options:
        q, k = q.transpose(0, 1), k.transpose(0, 1)
    padding = torch.zeros(3, 7, dtype=torch.bool)
    padding[1, 4:] = True
    pairs = (torch.rand(5, 7) > 0.6) & (torch.arange(7) > 0)
    masks = {
        "none": {},
        "padding": {"key_padding_mask": padding},
        "pairs": {"attn_mask": pairs},
        "heads": {"attn_mask": (torch.rand(12, 5, 7) > 0.6) & (torch.arange(7) > 0)},
        "both": {"key_padding_mask": padding, "attn_mask": pairs},
        "floats": {"key_padding_mask": padding.float(), "attn_mask": torch.randn(5, 7)},
    }[kind]
    with torch.no_grad():
        for wants in ({}, {"need_weights": False}, {"average_attn_weights": False}):
            got, want = (m["a"](q, k, k, **masks, **wants) for m in (fast, model))
            close(got[0], want[0])
            if want[1] is None:
                assert got[1] is None
            else:
                close(got[1], want[1])
        if kind in ("none", "pairs"):
            first = (lambda x: x[0]) if "batch_first" in options else (lambda x: x[:, 0])
            got, want = (m["a"](first(q), first(k), first(k), **masks) for m in (fast, model))
            close(got[0], want[0])
            close(got[1], want[1])


@pytest.mark.parametrize("activation", ["relu", "gelu", nn.GELU("tanh"), nn.functional.silu])
@pytest.mark.parametrize("norm_first", [False, True])
def test_torch_s_own_transformer(norm_first, activation):
    options = {"batch_first": True, "norm_first": norm_first, "activation": activation}
    model = nn.Transformer(16, 4, 2, 2, 32, **options).eval()
    fast = optimize(model)
    source, target = torch.randn(3, 7, 16), torch.randn(3, 5, 16)
    padding = torch.zeros(3, 7, dtype=torch.bool)
    padding[1, 4:] = True
    masks = {"src_key_padding_mask": padding, "memory_key_padding_mask": padding}
    masks["tgt_mask"] = torch.ones(5, 5, dtype=torch.bool).triu(1)
    with torch.no_grad():
        torch.backends.mha.set_fastpath_enabled(False)  # which takes GELU for its exact form always
        want = model(source, target, **masks)
        torch.backends.mha.set_fastpath_enabled(True)
        close(fast(source, target, **masks), want)
    assert not fast.fovea_report.left
    fused = [line for line in packed(fast).values() if "elu" in line]
    assert len(fused) == (0 if activation is nn.functional.silu else 4)
    assert all(isinstance(m, Packed) for m in fast.modules() if isinstance(m, (nn.Linear, nn.MultiheadAttention)))


class Projections(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(24, 20), nn.Linear(24, 7, bias=False), nn.Linear(24, 33)
        self.other = nn.Linear(20, 24)

    def forward(self, x):
        return torch.cat([self.q(x), self.k(x), self.v(x), self.other(self.q(x))], -1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_maps_that_are_packed_together_compute_alone(dtype):
    model, x = Projections().to(dtype).eval(), torch.randn(3, 24).to(dtype)
    fast = optimize(model)
    assert fast.q.packed is fast.k.packed is fast.v.packed is not fast.other.packed
    with torch.no_grad():
        for name, alone in (("q", model.q), ("k", model.k), ("v", model.v)):
            assert torch.equal(getattr(fast, name)(x), optimize(alone)(x))  # in bits
            assert torch.equal(getattr(fast, name).weight, alone.weight)
        stored = pickle.loads(pickle.dumps(fast))
        assert stored.q.packed is stored.v.packed and torch.equal(stored(x), fast(x))
