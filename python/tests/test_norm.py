"""fovea.layer_norm and fovea.rms_norm: formulas, views, types, out, errors."""

import numpy as np
import pytest

import fovea

NORMS = {"layer_norm": fovea.layer_norm, "rms_norm": fovea.rms_norm}


def expected(name, x, weight=1, bias=0, eps=1e-5):
    x = x.astype(np.float64)
    d = x - x.mean(-1, keepdims=True) if name == "layer_norm" else x
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + eps) * weight + bias


@pytest.mark.parametrize("name", NORMS)
def test_formula(name, normal, tiers):
    x, weight, bias = normal(3, 5, 70), normal(70), normal(70)
    found = tiers(lambda: NORMS[name](x, weight, bias, eps=1e-3))
    np.testing.assert_allclose(found, expected(name, x, weight, bias, 1e-3), atol=2e-6)
    np.testing.assert_allclose(NORMS[name](x), expected(name, x), atol=2e-6)


@pytest.mark.parametrize("name", NORMS)
def test_views_and_out(name, normal):
    x = normal(6, 3, 32)
    heads = x.transpose(1, 0, 2)
    wanted = NORMS[name](np.ascontiguousarray(heads))
    assert np.array_equal(NORMS[name](heads), wanted)
    assert NORMS[name](x, out=x) is x
    assert np.array_equal(x.transpose(1, 0, 2), wanted)


@pytest.mark.parametrize("name", NORMS)
def test_errors(name, normal):
    norm = NORMS[name]
    with pytest.raises(ValueError, match="weight has the shape"):
        norm(normal(2, 4), normal(5))
    with pytest.raises(ValueError, match="eps"):
        norm(normal(2, 4), eps=-1.0)
    with pytest.raises(ValueError, match="out has the shape"):
        norm(normal(2, 4), out=normal(2, 5))
    with pytest.raises(TypeError, match="x must be float32"):
        norm(np.zeros((2, 4)))
    with pytest.raises(TypeError, match="no argument 'epsilon'"):
        norm(normal(2, 4), epsilon=1)
