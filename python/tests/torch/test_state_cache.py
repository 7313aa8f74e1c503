"""fovea.StateCache with tensors: the bits of one call over all tokens, and gradients that would be lost."""

import fovea
import pytest
import torch

MADE = torch.Generator().manual_seed(3)


def normal(*shape):
    return torch.randn(shape, generator=MADE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tensors(dtype):
    cache = fovea.StateCache([2 * 16 * 8, 3 * 6], max_sequences=4)
    sequences = torch.tensor([cache.add(), cache.add()])
    q, v, x, weight = normal(2, 12, 2, 16).to(dtype), normal(2, 12, 2, 8).to(dtype), normal(2, 12, 6).to(dtype), normal(6, 4)
    rule = dict(norm="rsqrt", layout="bthd")
    outs, convolved = [], []
    for part in (slice(0, 7), slice(7, 8), slice(8, 12)):
        given = q[:, part], q[:, part], v[:, part]
        out, state = fovea.gated_delta_rule(*given, cache=cache, cache_state=0, sequences=sequences, **rule)
        assert state is None and out.dtype == dtype
        outs.append(out)
        convolved.append(fovea.causal_conv(x[:, part], weight, cache=cache, cache_state=1, sequences=sequences)[0])
    assert torch.equal(torch.cat(outs, 1), fovea.gated_delta_rule(q, q, v, **rule)[0])
    assert torch.equal(torch.cat(convolved, 1), fovea.causal_conv(x, weight)[0])


def test_gradients_are_refused():
    cache = fovea.StateCache([2 * 16 * 8], max_sequences=1)
    s = cache.add()
    q, v = normal(1, 2, 3, 16).requires_grad_(), normal(1, 2, 3, 8)
    with pytest.raises(ValueError, match="gradient"):
        fovea.gated_delta_rule(q, q, v, cache=cache, cache_state=0, sequences=s)
    assert cache.length(s) == 0
    with torch.no_grad():
        fovea.gated_delta_rule(q, q, v, cache=cache, cache_state=0, sequences=s)
    assert cache.length(s) == 3
