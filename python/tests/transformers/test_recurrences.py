"""fovea.gated_delta_rule, selective_scan and causal_conv against the functions of transformers' models, which are plain PyTorch."""

import math

import fovea
import pytest
import torch

from fovea.transformers import recurrences

qwen3_next = pytest.importorskip("transformers.models.qwen3_next.modeling_qwen3_next")
kimi = pytest.importorskip("transformers.models.kimi_linear.modeling_kimi_linear")
mamba = pytest.importorskip("transformers.models.mamba.modeling_mamba")
mamba2 = pytest.importorskip("transformers.models.mamba2.modeling_mamba2")


def plain(function):
    """The function of the model's file, without what may replace it by a kernel of another package."""
    return getattr(function, "__wrapped__", function)


def near(got, want, bound=1e-5):
    assert got.shape == want.shape
    assert (got - want).abs().max() <= bound * max(1.0, want.abs().max())


def draw(*shape, low=-1.0, high=1.0, seed=1):
    return torch.empty(shape).uniform_(low, high, generator=torch.Generator().manual_seed(seed + sum(shape)))


@pytest.mark.parametrize("tokens", [1, 7, 100])
@pytest.mark.parametrize("k_heads", [2, 4])
def test_gated_delta_rule(tokens, k_heads):
    q, k, v = draw(2, tokens, k_heads, 32), draw(2, tokens, k_heads, 32, seed=2), draw(2, tokens, 4, 48, seed=3)
    a, b = draw(2, tokens, 4, low=-3, seed=4), draw(2, tokens, 4, seed=5)
    a_log, dt_bias, state = draw(4, low=0.0, seed=6), draw(4, seed=7), draw(2, 4, 32, 48, seed=8)
    g = -a_log.exp() * torch.nn.functional.softplus(a + dt_bias)
    options = dict(initial_state=state, output_final_state=True, use_qk_l2norm_in_kernel=True)
    out, after = fovea.gated_delta_rule(
        q, k, v, a, b, a_log=a_log, dt_bias=dt_bias, beta_sigmoid=True, norm="rsqrt", state=state, layout="bthd"
    )
    for name in ("torch_recurrent_gated_delta_rule", "torch_chunk_gated_delta_rule"):
        want, last = plain(getattr(qwen3_next, name))(q, k, v, g, b.sigmoid(), **options)
        near(out, want)
        near(after, last)
    given, _ = fovea.gated_delta_rule(q, k, v, g, b.sigmoid(), norm="rsqrt", state=state, layout="bthd")
    near(given, out)


@pytest.mark.parametrize("tokens", [1, 70])
def test_kimi_delta_attention(tokens):
    q, k, v = (draw(1, tokens, 3, 16, seed=i) for i in range(3))
    a, b = draw(1, tokens, 3, 16, low=-3, seed=4), draw(1, tokens, 3, seed=5).sigmoid()
    a_log, dt_bias, state = draw(3, low=0.0, seed=6), draw(3 * 16, seed=7), draw(1, 3, 16, 16, seed=8)
    x = a + dt_bias.view(3, 16)
    g = -a_log.exp().view(3, 1) * torch.where(x > 20, x, torch.log(1 + torch.exp(x)))
    want, last = plain(kimi.recurrent_kimi_delta_attention)(q, k, v, g, b, state, True, use_qk_l2norm_in_kernel=True)
    out, after = fovea.gated_delta_rule(
        q, k, v, a, b, a_log=a_log, dt_bias=dt_bias, norm="rsqrt", state=state, layout="bthd"
    )
    near(out, want)
    near(after, last)


@pytest.mark.parametrize("tokens", [2, 90])
def test_mamba(tokens):
    x, dt, z = (draw(2, 40, tokens, seed=i) for i in range(3))
    a, d, bias = draw(40, 16, low=-3, high=-0.1), draw(40), draw(40, seed=2)
    b, c = draw(2, 16, tokens, seed=5), draw(2, 16, tokens, seed=6)
    want, last = plain(mamba.mamba_selective_scan)(
        x, dt, a, b, c, d, z, delta_bias=bias, delta_softplus=True, return_last_state=True
    )
    turned = [t.transpose(1, 2)[:, None] for t in (x, dt, b, c, z)]
    out, state = fovea.selective_scan(turned[0], turned[1], a, turned[2], turned[3], d, z=turned[4], dt_bias=bias)
    near(out[:, 0].transpose(1, 2), want)
    near(state[:, 0], last)
    step = last.clone()
    want = plain(mamba.mamba_selective_state_update)(
        step, x[..., 0], dt[..., 0], a, b[..., 0], c[..., 0], d, dt_bias=bias, dt_softplus=True, z=z[..., 0]
    )
    out, state = fovea.selective_scan(
        *(t[:, :, :1] for t in turned[:2]), a, *(t[:, :, :1] for t in turned[2:4]), d, z=turned[4][:, :, :1],
        dt_bias=bias, state=state, state_out=state,
    )
    near(out[:, 0, 0], want)
    near(state[:, 0], step)


@pytest.mark.parametrize("tokens", [1, 80])
def test_mamba2(tokens):
    x, dt = draw(2, tokens, 4, 24), draw(2, tokens, 4)
    a, d, bias, state = draw(4, low=-3, high=-0.1), draw(4), draw(4, seed=2), draw(2, 4, 24, 16)
    b, c = draw(2, tokens, 2, 16, seed=5), draw(2, tokens, 2, 16, seed=6)
    limit = (0.2, 1.0)
    want, last = plain(mamba2.mamba2_chunk_scan)(
        x, dt, a, b, c, 32, D=d, dt_bias=bias, initial_states=state, dt_softplus=True, dt_limit=limit, return_final_states=True
    )
    out, after = fovea.selective_scan(
        x, dt, a, b, c, d, dt_bias=bias, dt_min=limit[0], dt_max=limit[1], state=state, layout="bthd"
    )
    near(out, want)
    near(after, last)


@pytest.mark.parametrize("tokens", [1, 2, 50])
@pytest.mark.parametrize("turned", [False, True])
def test_causal_conv(tokens, turned):
    x = draw(2, tokens, 70).transpose(1, 2) if turned else draw(2, 70, tokens)
    weight, bias, state = draw(70, 4), draw(70), draw(2, 70, 3)
    kept = state.clone()
    want = plain(mamba.causal_conv1d_update)(x, kept, weight, bias, "silu")
    out, after = fovea.causal_conv(x, weight, bias, silu=True, channels_first=True, state=state)
    near(out, want)
    assert torch.equal(after, kept)
    want = plain(mamba.causal_conv1d_fn)(x, weight, bias, None)
    out, _ = fovea.causal_conv(x.transpose(1, 2), weight.unsqueeze(1), bias)
    near(out.transpose(1, 2), want)


def test_steps_may_be_negative():
    """Without softplus, transformers limits dt in a prompt of Mamba 2 alone."""
    x, dt, z, b, c = (draw(2, n, 5, seed=i) for i, n in enumerate((8, 8, 8, 16, 16)))
    a, d, state = draw(8, 16, low=-3, high=-0.1), draw(8), draw(2, 8, 16, seed=7)
    near(recurrences._scan_1(x, dt, a, b, c, d, z), plain(mamba.mamba_selective_scan)(x, dt, a, b, c, d, z))
    one, ours, theirs = [t[..., 0] for t in (x, dt, b, c)], state.clone(), state.clone()
    want = plain(mamba.mamba_selective_state_update)(theirs, *one[:2], a, *one[2:], d)
    near(recurrences._step_1(ours, *one[:2], a, *one[2:], d), want)
    near(ours, theirs)
    x, dt, b, c, ours = draw(2, 4, 2), draw(2, 4)[..., None].expand(2, 4, 2), draw(2, 1, 16), draw(2, 1, 16, seed=2), draw(2, 4, 2, 16)
    a, d, theirs = draw(4, low=-3, high=-0.1)[:, None, None].expand(4, 2, 16), draw(4)[:, None].expand(4, 2), ours.clone()
    want = plain(mamba2.mamba2_selective_state_update)(theirs, x, dt, a, b, c, d)
    near(recurrences._step_2(ours, x, dt, a, b, c, d), want)
    near(ours, theirs)


def test_token_by_token():
    q, k, v = (draw(1, 2, 30, 16, seed=i) for i in range(3))
    gate, beta = draw(1, 2, 30, low=-2, high=0), draw(1, 2, 30, low=0)
    whole, state = fovea.gated_delta_rule(q, k, v, gate, beta, norm="max")
    kept, parts = torch.zeros(1, 2, 16, 16), []
    for t in range(30):
        one = [x[:, :, t : t + 1] for x in (q, k, v, gate, beta)]
        out, same = fovea.gated_delta_rule(*one, norm="max", state=kept, state_out=kept)
        assert same is kept
        parts.append(out)
    assert torch.equal(torch.cat(parts, 2), whole)
    assert torch.equal(kept, state)


def test_numpy():
    q = draw(1, 2, 5, 8).numpy()
    out, state = fovea.gated_delta_rule(q, q, q, delta=False, scale=1.0)
    want = (torch.from_numpy(q) @ torch.from_numpy(q).transpose(2, 3)).tril() @ torch.from_numpy(q)
    near(torch.from_numpy(out), want)
    assert state.shape == (1, 2, 8, 8)
    assert math.isclose(state[0, 0, 1, 2], float((q[0, 0, :, 1] * q[0, 0, :, 2]).sum()), abs_tol=1e-6)


def spread(x):
    """The same numbers, with a gap behind each."""
    return torch.stack([x, x + 1], -1).flatten(-2)[..., ::2]


def test_strides():
    q, k, v, gate = (draw(2, 3, 9, 16, seed=i) for i in range(4))
    a_log, dt_bias, state = draw(3), draw(3, 16), draw(2, 3, 16, 16)
    options = dict(norm="max", dt_bias=dt_bias, a_log=a_log)
    want, after = fovea.gated_delta_rule(q, k, v, gate, **options, state=state)
    apart = {name: spread(x) if torch.is_tensor(x) else x for name, x in options.items()}
    into = torch.empty(3, 2, 16, 16).transpose(0, 1)
    for given in (spread(state), into):
        into.copy_(state)
        out, same = fovea.gated_delta_rule(spread(q), k, spread(v), gate, **apart, state=given, state_out=into)
        assert torch.equal(out, want) and same is into and torch.equal(into, after)


def test_refused():
    q = draw(1, 2, 5, 8)
    with pytest.raises(ValueError, match="no multiple"):
        fovea.gated_delta_rule(q, draw(1, 3, 5, 8), q)
    with pytest.raises(ValueError, match="norm must be 'rsqrt' or 'max'"):
        fovea.gated_delta_rule(q, q, q, norm="l2")
    with pytest.raises(ValueError, match="state has the shape"):
        fovea.gated_delta_rule(q, q, q, state=draw(1, 2, 8, 7))
    with pytest.raises(ValueError, match="gradient"):
        fovea.gated_delta_rule(q.clone().requires_grad_(), q, q)
    with pytest.raises(ValueError, match="a_log has 3 numbers, not 2"):
        fovea.gated_delta_rule(q, q, q, q[..., 0], a_log=draw(3))
    with pytest.raises(ValueError, match="lens.0. is 6"):
        fovea.gated_delta_rule(q, q, q, lens=[6])
    with pytest.raises(TypeError, match="float64"):
        fovea.causal_conv(draw(1, 5, 8).double(), draw(8, 4))
    with pytest.raises(ValueError, match="taps is 65"):
        fovea.causal_conv(draw(1, 5, 8), draw(8, 65))
    with pytest.raises(ValueError, match="weight is one number, not"):
        fovea.causal_conv(draw(1, 5, 1), torch.tensor(1.0))
    with pytest.raises(ValueError, match="cu_seqlens is empty"):
        fovea.gated_delta_rule(q, q, q, cu_seqlens=torch.zeros(0, dtype=torch.int64))
    with pytest.raises(TypeError, match="a_log must be float32"):
        fovea.gated_delta_rule(q, q, q, q[..., 0], a_log=draw(2).half())
