"""nn.MultiheadAttention and nn.TransformerEncoderLayer with fovea.torch.enable(): both paths, weights and masks."""

import pytest
import torch
from torch import nn

import fovea.torch

INF = float("inf")


def modules(**options):
    """(MultiheadAttention in float32, the same in float64), both in eval mode."""
    module = nn.MultiheadAttention(24, 4, **options).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, 0.3)
    double = nn.MultiheadAttention(24, 4, **options).double().eval()
    double.load_state_dict(module.state_dict())
    return module, double


def masks(kind, batch=3, tokens=7):
    padding = torch.zeros(batch, tokens, dtype=torch.bool)
    padding[0, 5:] = padding[1, 2:] = True
    pairs = torch.rand(tokens, tokens) > 0.6
    pairs[:, 0] = False
    return {
        "none": {},
        "padding": {"key_padding_mask": padding},
        "pairs": {"attn_mask": pairs},
        "pairs of heads": {"attn_mask": (torch.rand(batch * 4, tokens, tokens) > 0.5) & (torch.arange(tokens) > 0)},
        "both": {"key_padding_mask": padding, "attn_mask": pairs},
        "causal": {"attn_mask": torch.ones(tokens, tokens, dtype=torch.bool).triu(1), "is_causal": True},
        "added": {"attn_mask": torch.randn(tokens, tokens)},
    }[kind]


def close(got, want):
    assert got.shape == want.shape
    assert (got - want).abs().max() < 3e-6 * want.abs().max()


@pytest.mark.parametrize("weights", ["none", "mean", "heads"])
@pytest.mark.parametrize("kind", ["none", "padding", "pairs", "pairs of heads", "both", "causal", "added"])
@pytest.mark.parametrize("batch_first", [True, False])
def test_self_attention(kind, batch_first, weights):
    module, double = modules(batch_first=batch_first)
    x = torch.randn(3, 7, 24) if batch_first else torch.randn(7, 3, 24)
    options = masks(kind)
    wide = {n: m.double() if isinstance(m, torch.Tensor) and m.is_floating_point() else m for n, m in options.items()}
    wants = {"need_weights": weights != "none", "average_attn_weights": weights == "mean"}
    torch.backends.mha.set_fastpath_enabled(False)
    y = x.double()
    want = double(y, y, y, **wide, **wants)
    torch.backends.mha.set_fastpath_enabled(True)
    with fovea.torch.enable(), torch.no_grad():
        got = module(x, x, x, **options, **wants)
    close(got[0], want[0])
    if weights == "none":
        assert got[1] is None
    else:
        close(got[1], want[1])
    fast = batch_first and kind != "added"
    assert fovea.torch.counters() == {"fovea": {"mha" if fast else "sdpa": 1}, "torch": {}}


@pytest.mark.parametrize("options", [{}, {"kdim": 10, "vdim": 12}, {"add_bias_kv": True}, {"add_zero_attn": True}])
def test_cross_attention_with_weights(options):
    module, double = modules(**options)
    q = torch.randn(5, 3, 24)
    k, v = torch.randn(7, 3, options.get("kdim", 24)), torch.randn(7, 3, options.get("vdim", 24))
    want = double(q.double(), k.double(), v.double())
    with fovea.torch.enable(), torch.no_grad():
        got = module(q, k, v)
        one = module(q[:, 0], k[:, 0], v[:, 0])
    for ours, theirs in zip(got, want):
        close(ours, theirs)
    close(one[0], want[0][:, 0])
    close(one[1], want[1][0])
    assert fovea.torch.counters() == {"fovea": {"sdpa": 2}, "torch": {}}


def test_gradients_with_and_without_weights():
    module, double = modules()
    x = torch.randn(7, 3, 24, requires_grad=True)
    want = torch.autograd.grad(double(x.double(), x.double(), x.double())[0].square().sum(), x)[0]
    with fovea.torch.enable():
        for need_weights in (False, True):
            got = torch.autograd.grad(module(x, x, x, need_weights=need_weights)[0].square().sum(), x)[0]
            assert (got - want).abs().max() < 1e-5 * want.abs().max()
    assert fovea.torch.counters() == {"fovea": {"sdpa": 1}, "torch": {"mha: gradient with weights": 1}}


def test_dropout_goes_to_torch_with_its_random_numbers():
    module = nn.MultiheadAttention(24, 4, dropout=0.5)
    x = torch.randn(7, 3, 24)
    with torch.no_grad():
        torch.manual_seed(3)
        want = module(x, x, x)
        torch.manual_seed(3)
        with fovea.torch.enable():
            got = module(x, x, x)
    assert all(torch.equal(*pair) for pair in zip(got, want))
    assert fovea.torch.counters()["torch"] == {"mha: dropout": 1}


def test_wrong_arguments_are_torch_s_errors():
    module, _ = modules()
    x = torch.randn(7, 3, 24)
    with fovea.torch.enable(), torch.no_grad(), pytest.raises(RuntimeError, match="attn_mask"):
        module(x, x, x, is_causal=True)


def test_the_hint_is_causal_does_not_replace_a_mask_where_weights_are_wanted():
    module, double = modules()
    x, mask = torch.randn(7, 3, 24), masks("pairs")["attn_mask"]
    want = double(x.double(), x.double(), x.double(), attn_mask=mask, is_causal=True)
    with fovea.torch.enable(), torch.no_grad():
        got = module(x, x, x, attn_mask=mask, is_causal=True)
    for ours, theirs in zip(got, want):
        close(ours, theirs)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("kind", ["none", "padding", "causal"])
def test_encoder_layer(kind, norm_first):
    layer = nn.TransformerEncoderLayer(24, 4, 40, batch_first=True, norm_first=norm_first, activation="gelu").eval()
    double = nn.TransformerEncoderLayer(24, 4, 40, batch_first=True, norm_first=norm_first, activation="gelu").double()
    double.load_state_dict(layer.state_dict())
    double.eval()
    x = torch.randn(3, 7, 24)
    options = {
        "none": {},
        "padding": {"src_key_padding_mask": masks("padding").get("key_padding_mask")},
        "causal": {"src_mask": torch.ones(7, 7, dtype=torch.bool).triu(1)},
    }[kind]
    want = double(x.double(), **options)
    with fovea.torch.enable(), torch.no_grad():
        got = layer(x, **options)
    if kind == "padding":  # rows past the end may hold anything
        keep = ~options["src_key_padding_mask"]
        got, want = got[keep], want[keep]
    close(got, want)
    assert fovea.torch.counters()["torch"] == {} and sum(fovea.torch.counters()["fovea"].values()) == 1


def test_float64_and_nested_go_to_torch():
    layer = nn.TransformerEncoder(nn.TransformerEncoderLayer(24, 4, 40, batch_first=True), 2).eval()
    x = torch.randn(3, 7, 24)
    padding = masks("padding")["key_padding_mask"]
    with torch.no_grad():
        want = layer(x, src_key_padding_mask=padding)  # this one uses nested tensors
        with fovea.torch.enable():
            assert torch.equal(layer(x, src_key_padding_mask=padding), want)
            module, double = modules(batch_first=True)
            y = x.double()
            assert torch.equal(double(y, y, y)[0], double(y, y, y)[0])
    assert fovea.torch.counters() == {"fovea": {}, "torch": {"mha: dtype torch.float64": 2}}
