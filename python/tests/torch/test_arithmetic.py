"""The arithmetic of bfloat16: exact in calls of fovea's own functions, the fastest in models, and config()'s in both."""

import pytest
import torch
import torch.nn.functional as F

import fovea
import fovea.torch

NAMED = ("exact", "bf16", "bf16_tile")


@pytest.fixture(autouse=True)
def default():
    with fovea.config(arithmetic="default"):
        yield


@pytest.fixture
def qkv():
    return [torch.randn(2, 4, n, 64).bfloat16() for n in (70, 300, 300)]


def same(a, b):
    return torch.equal(a.view(torch.int16), b.view(torch.int16))


def exact(q, k, v):
    return fovea.attention(q.float(), k.float(), v.float()).to(q.dtype)


@pytest.mark.parametrize("name", NAMED)
def test_tiers(qkv, name, tiers):
    """Each is one definition: the same bits on every tier, with any number of threads, of a row alone."""
    run = lambda: fovea.attention(*qkv, arithmetic=name).view(torch.int16)
    whole = tiers(run)
    with fovea.config(threads=1):
        assert torch.equal(run(), whole)
    q, k, v = qkv
    alone = fovea.attention(q[:, :, 5:6], k, v, arithmetic=name)
    assert torch.equal(alone.view(torch.int16), whole[:, :, 5:6])
    if name == "exact":
        assert torch.equal(exact(*qkv).view(torch.int16), whole)


def test_calls_are_exact(qkv):
    assert same(fovea.attention(*qkv), exact(*qkv))
    assert fovea.info()["arithmetic"] == "exact"


@pytest.mark.parametrize("name", NAMED)
def test_config(qkv, name):
    with fovea.config(arithmetic=name):
        info = fovea.info()
        assert {info[f"{which}arithmetic"] for which in ("", "models_", "models_linear_")} == {name}
        assert same(fovea.attention(*qkv), fovea.attention(*qkv, arithmetic=name))
        with fovea.config(threads=1):  # leaves it
            assert fovea.info()["arithmetic"] == name
        assert same(fovea.attention(*qkv, arithmetic="exact"), exact(*qkv))  # a call's own goes first
        plan = fovea.Plan(batch=2, q_heads=4, q_len=70, kv_len=300, head_dim=64, dtype="bfloat16")
        wide = [x.float() for x in qkv]
        expected = fovea.attention(*wide)  # config is for bfloat16 alone
    assert same(plan.execute(*qkv), fovea.attention(*qkv, arithmetic=name))
    assert torch.equal(fovea.attention(*wide), expected)
    assert fovea.info()["arithmetic"] == "exact"


def test_fastest(qkv):
    """As info() says, and never bf16_tile, which has not been timed on a CPU with AMX; exact for other types."""
    named = fovea.info()["models_arithmetic"]
    assert named in ("exact", "bf16") and fovea.info()["models_linear_arithmetic"] == "exact"
    x, w = torch.randn(3, 64).bfloat16(), torch.randn(40, 64).bfloat16()
    of_maps = fovea.info()["models_linear_arithmetic"]
    assert same(fovea.Linear(w, arithmetic="fastest")(x), fovea.Linear(w, arithmetic=of_maps)(x))
    assert same(fovea.attention(*qkv, arithmetic="fastest"), fovea.attention(*qkv, arithmetic=named))
    for dtype in (torch.float32, torch.float16):
        x = [x.to(dtype) for x in qkv]
        assert torch.equal(fovea.attention(*x, arithmetic="fastest"), fovea.attention(*x))
        for name in ("bf16", "bf16_tile"):
            with pytest.raises((TypeError, ValueError), match="arithmetic is FOVEA_ARITHMETIC_BF16"):
                fovea.attention(*x, arithmetic=name)


@pytest.mark.parametrize("name", NAMED)
def test_models_run_by_the_fastest(qkv, name):
    """Torch's own attention, nn.Linear in a copy by optimize(), and fovea.torch.attention."""
    linear = torch.nn.Linear(64, 48).bfloat16()
    x = qkv[0]

    def results():
        with fovea.torch.enable(), torch.no_grad():
            attended = F.scaled_dot_product_attention(*qkv)
        return attended, fovea.torch.attention(*qkv), fovea.torch.optimize(linear)(x)

    def wanted(name):
        attended = fovea.attention(*qkv, arithmetic=name)
        return attended, attended, fovea.Linear(linear.weight, linear.bias, arithmetic=name)(x)

    assert all(map(same, results(), wanted("fastest")))
    with fovea.config(arithmetic=name):
        assert all(map(same, results(), wanted(name)))


@pytest.mark.parametrize("name", ["bf16", "bf16_tile"])
def test_errors_are_not_larger_than_torchs(qkv, name):
    wide = F.scaled_dot_product_attention(*(x.double() for x in qkv))
    error = lambda y: (y.double() - wide).square().mean().sqrt().item()
    assert error(fovea.attention(*qkv, arithmetic=name)) <= error(F.scaled_dot_product_attention(*qkv))


@pytest.mark.parametrize("name", NAMED)
def test_layers(name, tiers):
    w = {n: (torch.randn(64, 64) / 8).bfloat16() for n in "qkvo"}
    x = torch.randn(2, 90, 64).bfloat16()

    def steps(name):
        q, k, v = fovea.Linear([w[n] for n in "qkv"], heads=[4, 4, 4], arithmetic=name)(x)
        out = fovea.attention(q, k, v, out_layout="bthd", arithmetic=name)
        return fovea.Linear(w["o"], arithmetic=name)(out.flatten(2))

    layer = tiers(lambda: fovea.MultiHead(q_heads=4, **w, arithmetic=name)(x).view(torch.int16))
    assert torch.equal(layer, steps(name).view(torch.int16))
    with fovea.config(arithmetic=name):
        assert torch.equal(fovea.MultiHead(q_heads=4, **w)(x).view(torch.int16), layer)


@pytest.mark.parametrize("wrong, error", [("float32", ValueError), (16, TypeError)])
def test_wrong_words(qkv, wrong, error):
    words = "'default', 'exact', 'bf16', 'bf16_tile' or 'fastest', not"
    for call in (
        lambda: fovea.attention(*qkv, arithmetic=wrong),
        lambda: fovea.config(arithmetic=wrong),
        lambda: fovea.Linear(torch.zeros(4, 4), arithmetic=wrong),
        lambda: fovea.Plan(q_heads=1, q_len=1, kv_len=1, head_dim=8, arithmetic=wrong),
    ):
        with pytest.raises(error, match=words):
            call()
    plan = fovea.Plan(q_heads=4, q_len=70, kv_len=300, head_dim=64, dtype="bfloat16")
    with pytest.raises(TypeError, match="the plan's"):
        plan.execute(*qkv, arithmetic="exact")
