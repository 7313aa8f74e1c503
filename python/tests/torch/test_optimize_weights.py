"""fovea.torch.optimize(weights=...): which weights are quantised, what is told, and what the copy then is."""

import copy
import pickle

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import fovea.torch  # noqa: E402

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
        if getattr(getattr(module, "packed", None), "quant", None):
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
    assert all("rms error" in line for line in report.quantized) and "Quantised:" in str(report)
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
    assert fast.k.packed.quant is None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half(model, dtype):
    model = model.to(dtype)
    fast = fovea.torch.optimize(model, example=tokens, weights="int4")
    assert fast.q.weight.dtype is dtype and fast.q.packed.dtype == str(dtype).removeprefix("torch.")
    with torch.no_grad():
        want = rounded(model, fast)(tokens)
        assert (fast(tokens) - want).abs().max() < 4 * torch.finfo(dtype).eps * want.abs().max()


def test_attention_of_torch_keeps_floats():
    fast = fovea.torch.optimize(nn.Sequential(nn.MultiheadAttention(64, 4), nn.Linear(64, 64)), weights="int8")
    assert fast.fovea_report.not_quantized == ["0: nn.MultiheadAttention is packed as floats"]


def test_refused(model):
    with pytest.raises(ValueError, match="weights must be None, 'int8', .*, not 'int3'"):
        fovea.torch.optimize(model, weights="int3")
    with pytest.raises(ValueError, match="weights names 'heads', which is no module"):
        fovea.torch.optimize(model, weights={"heads": "int8"})
    with pytest.raises(ValueError, match="quantise the weights of the original"):
        fovea.torch.optimize(fovea.torch.optimize(model), weights="int8")


def test_the_example_is_compared_with_rounded_weights(model, monkeypatch):
    monkeypatch.setitem(fovea.torch.optimize.__globals__, "of_the_same_weights", lambda plain, fast: plain)
    with pytest.raises(RuntimeError, match="differs by"):
        fovea.torch.optimize(model, example=tokens, weights="int4")
