"""fovea.Linear with tensors of torch."""

import pytest
import torch

import fovea


@pytest.fixture
def module():
    torch.manual_seed(5)
    return torch.nn.Linear(33, 50)


def test_like_nn_linear(module):
    x = torch.randn(2, 7, 33)
    linear = fovea.Linear(module.weight, module.bias, activation="gelu")
    with torch.no_grad():
        expected = torch.nn.functional.gelu(module.double()(x.double()))
    y = linear(x)
    assert isinstance(y, torch.Tensor) and y.dtype is torch.float32
    assert torch.allclose(y.double(), expected, rtol=0, atol=3e-6)
    assert torch.equal(torch.from_numpy(linear(x.numpy())), y)


def test_views(module):
    x = torch.randn(2, 7, 99)
    linear = fovea.Linear(module.weight, module.bias)
    for part in x.chunk(3, -1):
        assert torch.equal(linear(part), linear(part.contiguous()))
    assert torch.equal(linear(x[..., ::3]), linear(x[..., ::3].contiguous()))


def test_gradients_are_not_lost_silently(module):
    linear = fovea.Linear(module.weight, module.bias)
    x = torch.randn(2, 33, requires_grad=True)
    with pytest.raises(ValueError, match="grad"):
        linear(x)
    with pytest.raises(ValueError, match="grad"):
        linear(x.detach(), torch.zeros(2, 50, requires_grad=True))
    with torch.no_grad():
        assert torch.equal(linear(x), linear(x.detach()))


def test_out_and_residual(module):
    x, out = torch.randn(2, 7, 33), torch.randn(2, 7, 50)
    linear = fovea.Linear(module.weight, module.bias)
    expected = linear(x) + out
    assert linear(x, out, out=out) is out and torch.equal(out, expected)


def test_other_types_are_refused(module):
    with pytest.raises(TypeError, match="bfloat16"):
        fovea.Linear(module.weight, module.bias)(torch.zeros(2, 33, dtype=torch.bfloat16))
