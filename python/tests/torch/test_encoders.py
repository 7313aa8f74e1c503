"""Copies of torch's encoders: padded tokens are zeros where torch drops them, and an example tells if they are not."""

import copy
import pickle

import pytest
import torch
from optimized import close
from torch import nn

from fovea.torch import optimize
from fovea.torch.packed import Packed

X, PADDING = torch.randn(3, 5, 16), torch.tensor([[0, 0, 0, 0, 0], [0, 0, 0, 1, 1], [0, 1, 1, 1, 1]]).bool()


def encoder(kind=nn.TransformerEncoder, batch_first=True, activation="relu", **options):
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=batch_first, activation=activation)
    return kind(layer, 2, **options).eval()


CALLS = {
    "padding": {"src_key_padding_mask": PADDING},
    "floats": {"src_key_padding_mask": torch.zeros(3, 5).masked_fill(PADDING, float("-inf"))},
    "not at the end": {"src_key_padding_mask": PADDING.flip(1)},
    "with a mask": {"src_key_padding_mask": PADDING, "mask": torch.zeros(5, 5).bool()},
    "no padding": {},
}


OPTIONS = [{}, {"norm": nn.LayerNorm(16)}, {"enable_nested_tensor": False}, {"batch_first": False}]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("call", CALLS)
def test_padded_tokens(call, options):
    model, given = encoder(**options), CALLS[call]
    x = X if options.get("batch_first", True) else X.transpose(0, 1)
    fast = optimize(model, example={"src": x, **given})
    with torch.no_grad():
        want = model(x, **given)
        for one in (fast, copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
            close(one(x, **given), want)
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            close(fast(x, **given), model(x, **given))
        finally:
            torch.backends.mha.set_fastpath_enabled(True)
    if call == "padding" and options == {}:
        assert not want[1, 3:].any() and want[1, :3].all()


def test_an_example_sees_other_padding(monkeypatch):
    """Attention with no quantized weight is compared with torch's own path."""
    from fovea.torch import encoders

    monkeypatch.setattr(encoders, "_gives_zeros", lambda *_: False)
    with pytest.raises(RuntimeError, match="differs by"):
        optimize(encoder(), example=(X, None, PADDING))


def test_quantized_weights_and_padding():
    layer = nn.TransformerEncoderLayer(64, 4, 96, activation="gelu", batch_first=True)
    model, x = nn.TransformerEncoder(layer, 2).eval(), torch.randn(3, 5, 64)
    fast = optimize(model, example=(x, None, PADDING), weights="int8")
    with torch.no_grad():
        assert not fast(x, src_key_padding_mask=PADDING)[PADDING].any()


def test_gelu_by_tanh_is_no_difference():
    """torch's fast path takes it for the exact GELU; the copy and what it is compared with do not."""
    optimize(encoder(activation=nn.GELU("tanh")), example=(3 * X, None, PADDING))


class Own(nn.TransformerEncoder):
    def forward(self, src, padding):
        return super().forward(2 * src, src_key_padding_mask=padding)


def test_an_encoder_with_a_forward_of_its_own():
    model = nn.Sequential(encoder(Own), nn.Linear(16, 16)).eval()
    fast = optimize(model)
    assert isinstance(fast[1], Packed) and not any(isinstance(m, Packed) for m in fast[0].modules())
    assert "0.layers.0.linear1: it is in Own, which has a forward of its own" in fast.fovea_report.left
    with torch.no_grad():
        close(fast[0](X, PADDING), model[0](X, PADDING))


def test_a_layer_alone_keeps_padded_tokens():
    model = encoder()
    fast, x, y = optimize(model), X, X
    with torch.no_grad():
        for layer, other in zip(fast.layers, model.layers):
            x, y = layer(x, src_key_padding_mask=PADDING), other(y, src_key_padding_mask=PADDING)
    close(x, y)
