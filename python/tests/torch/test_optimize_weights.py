"""fovea.torch.optimize(weights=...): which weights are quantized, what is told, and what the copy then is."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fovea.torch

WORDS = ["int8", "int4", "q8_0", "q4_0", "q4_1", "q4_k"]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 256)
        self.q, self.k = nn.Linear(256, 64), nn.Linear(256, 64)
        self.up, self.down = nn.Linear(256, 48), nn.Linear(48, 256)
        self.head = nn.Linear(256, 50, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        x = self.embed(tokens)
        q = self.q(x)
        k = self.k(x)
        x = x + self.down(F.gelu(self.up(x)))
        return self.head(x) + (q * k).sum(-1, keepdim=True)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model().eval()


tokens = torch.arange(40).reshape(2, 20)


def rounded(model, fast):
    """The model with the rounded weights, in float64."""
    model = copy.deepcopy(model).double()
    for name, module in fast.named_modules():
        if getattr(getattr(module, "packed", None), "quantization", None):
            model.get_submodule(name).weight = nn.Parameter(module.weight.clone().double())
    return model


@pytest.mark.parametrize("word", WORDS)
def test_words(model, word):
    fast = fovea.torch.optimize(model, example=tokens, weights=word)
    report = fast.fovea_report
    names = {line.split(":")[0] for line in report.quantized}
    fits = word == "int8"
    assert names == {"q", "k", "up"} | ({"down"} if fits else set())
    kept = {line.split(": ")[0]: line for line in report.not_quantized}
    assert kept.keys() == {"head"} | (set() if fits else {"down"})
    assert "is an embedding's, too" in kept["head"] and (fits or "48 input channels are no multiple" in kept["down"])
    assert all("rms error" in line for line in report.quantized) and "Quantized:" in str(report)
    assert any("one product with k" in line for line in report.packed) and report.packed_bytes < 500_000
    with torch.no_grad():
        got, want = fast(tokens), rounded(model, fast)(tokens)
        assert (got - want).abs().max() < 2e-5 * want.abs().max()
        assert 1e-4 < (got - model(tokens)).abs().max()
        assert torch.equal(fast(tokens[:1, 5:9]), got[:1, 5:9])
        assert torch.equal(pickle.loads(pickle.dumps(fast))(tokens), got)
    weight = fast.q.weight
    assert weight.dtype is torch.float32 and torch.equal(fast.state_dict()["q.weight"], weight.clone())
    assert f"weights {word}" in repr(fast.q) and fast.q.packed.arithmetic == "default"


def test_a_dict_chooses(model):
    fast = fovea.torch.optimize(model, example=tokens, weights={"": "q4_0", "head": "int8", "k": None})
    words = {line.split(":")[0]: line.split(": ")[1] for line in fast.fovea_report.quantized}
    assert words == {"q": "q4_0", "up": "q4_0", "head": "int8"}
    assert torch.equal(fast.embed.weight, model.embed.weight)
    with torch.no_grad():
        want = rounded(model, fast)(tokens)
        assert (fast(tokens) - want).abs().max() < 2e-5 * want.abs().max()


def test_nothing_is_asked(model):
    fast = fovea.torch.optimize(model, weights=None)
    assert not fast.fovea_report.quantized and not fast.fovea_report.not_quantized


def test_weights_that_cannot_be_rounded(model):
    with torch.no_grad():
        model.k.weight[0, 0] = float("inf")
    fast = fovea.torch.optimize(model, weights="int4")
    (line,) = [line for line in fast.fovea_report.not_quantized if line.startswith("k: ")]
    assert "infinite" in line
    assert {line.split(":")[0] for line in fast.fovea_report.quantized} == {"q", "up"}
    assert fast.k.packed.quantization is None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half(model, dtype):
    model = model.to(dtype)
    fast = fovea.torch.optimize(model, example=tokens, weights="int4")
    assert fast.q.weight.dtype is dtype and fast.q.packed.dtype == str(dtype).removeprefix("torch.")
    with torch.no_grad():
        want = rounded(model, fast)(tokens)
        assert (fast(tokens) - want).abs().max() < 4 * torch.finfo(dtype).eps * want.abs().max()


def test_refused(model):
    with pytest.raises(ValueError, match="weights must be None, 'int8', .*, not 'int3'"):
        fovea.torch.optimize(model, weights="int3")
    with pytest.raises(ValueError, match=r"weights must be None, .*, not \['int8'\]"):
        fovea.torch.optimize(model, weights=["int8"])
    with pytest.raises(ValueError, match="weights names 'heads', which is no module"):
        fovea.torch.optimize(model, weights={"heads": "int8"})
    with pytest.raises(ValueError, match="quantize the weights of the original"):
        fovea.torch.optimize(fovea.torch.optimize(model), weights="int8")


ATTENTION = [{}, {"batch_first": True}, {"kdim": 96, "vdim": 32}, {"bias": False}]


@pytest.mark.parametrize("kind", ["none", "padding", "pairs", "floats"])
@pytest.mark.parametrize("options", ATTENTION, ids=str)
@pytest.mark.parametrize("word", ["int8", "int4", "q4_1"])
def test_attention_of_torch(word, options, kind):
    torch.manual_seed(0)
    model = nn.ModuleDict({"a": nn.MultiheadAttention(64, 4, **options)}).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    q, k, v = torch.randn(5, 3, 64), torch.randn(7, 3, options.get("kdim", 64)), torch.randn(7, 3, options.get("vdim", 64))
    if "batch_first" in options:
        q, k, v = (x.transpose(0, 1) for x in (q, k, v))
    masks = {
        "none": {},
        "padding": {"key_padding_mask": torch.arange(7).expand(3, 7) > torch.tensor([[6], [3], [5]])},
        "pairs": {"attn_mask": (torch.rand(5, 7) > 0.6) & (torch.arange(7) > 0)},
        "floats": {"attn_mask": torch.randn(5, 7)},
    }[kind]
    fast = fovea.torch.optimize(model, weights=word)
    alone = fovea.torch.optimize(model["a"], weights=word, example={"query": q, "key": k, "value": v, **masks})
    names = ["q_proj_weight", "k_proj_weight", "v_proj_weight"] if "kdim" in options else ["in_proj_weight"]
    told = [line.split(":")[0] for line in fast.fovea_report.quantized]
    assert told == [f"a.{name}" for name in [*names, "out_proj.weight"]] and not fast.fovea_report.not_quantized
    floats = sum(p.numel() for p in model.parameters() if p.dim() == 2) * 4
    assert fast.fovea_report.packed_bytes < floats / (3 if word == "int8" else 5)
    with torch.no_grad():
        want = rounded_attention(model["a"], fast["a"])(q.double(), k.double(), v.double(), **wide_masks(masks))
        got = fast["a"](q, k, v, **masks)
        for one, other in zip(got, want):
            assert (one - other).abs().max() < 2e-4 * other.abs().max()
        assert torch.equal(alone(q, k, v, **masks)[0], got[0])
        stored = pickle.loads(pickle.dumps(fast))
        assert torch.equal(stored["a"](q, k, v, **masks)[0], got[0])
        assert torch.equal(copy.deepcopy(fast)["a"](q, k, v, **masks)[0], got[0])
    state = fast.state_dict()
    assert state.keys() == model.state_dict().keys()
    for name, value in state.items():
        other = model.state_dict()[name]
        assert value.dtype is other.dtype and value.shape == other.shape
        assert torch.equal(value, other) == ("bias" in name)
    model.load_state_dict(state)  # of the rounded weights, which are rounded to themselves
    assert {n: v for n, v in fovea.torch.optimize(model).state_dict().items()}.keys() == state.keys()


def rounded_attention(model, fast):
    model = copy.deepcopy(model).double()
    for name, value in fast.state_dict().items():
        model.get_parameter(name).data = value.double()
    return model


def wide_masks(masks):
    return {name: m.double() if m.is_floating_point() else m for name, m in masks.items()}


@pytest.mark.parametrize("word", ["int8", "int4"])
def test_layers_of_torch(word):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(64, 4, 96, activation="gelu", batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(2, 9, 64)
    fast = fovea.torch.optimize(model, example=(x, None, torch.arange(9).expand(2, 9) > torch.tensor([[8], [5]])), weights=word)
    assert len(fast.fovea_report.quantized) == 8 and not fast.fovea_report.not_quantized
    with torch.no_grad():
        assert 1e-3 < (fast(x) - model(x)).abs().max() < 1.0


def test_words_of_attention():
    torch.manual_seed(0)
    model = nn.Sequential(nn.MultiheadAttention(64, 4), nn.MultiheadAttention(40, 2, kdim=64, vdim=16)).eval()
    fast = fovea.torch.optimize(model, weights={"": "int4", "0.out_proj": "int8", "0": "q8_0"})
    words = [line.split(":")[0] + line.split(":")[1] for line in fast.fovea_report.quantized]
    assert words == ["0.in_proj_weight q8_0", "0.out_proj.weight int8", "1.k_proj_weight int4"]
    kept = [line.split(":")[0] for line in fast.fovea_report.not_quantized]
    assert kept == ["1.q_proj_weight", "1.v_proj_weight", "1.out_proj.weight"]
    with torch.no_grad():
        model[0].in_proj_weight[3, 3] = float("nan")
    fast = fovea.torch.optimize(model, weights="q8_0")
    (line,) = [line for line in fast.fovea_report.not_quantized if line.startswith("0.")]
    assert line.startswith("0.in_proj_weight: ") and "NaN" in line and fast[0].out_proj.packed.quantization == "q8_0"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_attention(dtype):
    torch.manual_seed(0)
    model = nn.MultiheadAttention(64, 4).to(dtype).eval()
    x = torch.randn(9, 2, 64).to(dtype)
    fast = fovea.torch.optimize(model, example=(x, x, x), weights="int4")
    assert fast.in_proj_weight.dtype is dtype and fast(x, x, x)[0].dtype is dtype


class Shared(nn.Module):
    """A model with a part in two places: modules, a parameter, or the last map of attention."""

    def __init__(self, kind):
        super().__init__()
        self.a, self.b = nn.Linear(64, 64), nn.Linear(64, 64)
        self.m, self.n = (nn.MultiheadAttention(64, 4, batch_first=True) for _ in range(2))
        if kind == "modules":
            self.b, self.n = self.a, self.m
        elif kind == "parameter":
            self.b.weight = self.a.weight
        elif kind == "last map":
            self.n.out_proj = self.m.out_proj
        elif kind == "last map alone":
            self.b = self.m.out_proj

    def forward(self, x):
        x = x + self.b(self.a(x))
        x = x + self.m(x, x, x)[0]
        return x + self.n(x, x, x)[0]


@pytest.mark.parametrize("kind", ["modules", "parameter", "last map", "last map alone"])
@pytest.mark.parametrize("word", [None, "int4"])
def test_shared(kind, word):
    torch.manual_seed(0)
    fast = fovea.torch.optimize(Shared(kind).eval(), example=torch.randn(2, 5, 64), weights=word)
    left = [line.split(":")[0] for line in fast.fovea_report.left]
    wanted = {"modules": [], "parameter": ["a", "b"], "last map": ["m", "n"], "last map alone": ["m"]}
    assert left == wanted[kind]
    assert (fast.a is fast.b) == (kind == "modules") == (fast.m is fast.n)


def test_inference_alone():
    torch.manual_seed(0)
    model, x = nn.TransformerEncoderLayer(64, 4, 96, batch_first=True).train(), torch.randn(2, 5, 64)
    fast = fovea.torch.optimize(model, example=x, weights="int8")
    assert model.training and not fast.training
    for call in (fast.train, fast.requires_grad_, fast.double, lambda: fast(x.clone().requires_grad_()),
                 lambda: fast.self_attn.in_proj_weight.data.zero_(), lambda: fast.load_state_dict(model.state_dict())):  # fmt: skip
        with pytest.raises(RuntimeError, match=r"made by fovea.torch.optimize\(\)"):
            call()
    compiled = torch.compile(fast, backend="aot_eager")
    with torch.no_grad():
        assert torch.equal(compiled(x), fast(x))
