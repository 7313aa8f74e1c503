"""experts_implementation="fovea": families with experts against their eager selves, at once and token by token."""

import warnings

import pytest
import torch
from expert_models import model_of

import fovea
import fovea.torch
import fovea.transformers
from fovea.transformers import experts
from fovea.transformers.counters import _told


@pytest.fixture(autouse=True)
def nothing_told():
    """Each test gets its warnings."""
    _told.clear()


@pytest.mark.parametrize("name", ["mixtral", "qwen3_moe", "qwen2_moe", "olmoe", "gpt_oss", "deepseek_v3", "granitemoe"])
def test_family(name):
    model = model_of(name)
    ids = torch.randint(3, 60, (2, 9), generator=torch.Generator().manual_seed(1))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", fovea.transformers.FallbackWarning)
        want = model(ids).logits
        model.set_experts_implementation("fovea")
        got = model(ids).logits
        assert torch.allclose(got, want, rtol=1e-5, atol=1e-5 * want.abs().max().item())
        past, one = None, []
        for token in range(9):
            step = model(ids[:, token : token + 1], past_key_values=past, use_cache=True)
            past = step.past_key_values
            one.append(step.logits)
        assert torch.allclose(torch.cat(one, 1), want, rtol=1e-5, atol=1e-5 * want.abs().max().item())
    packed = [module for module in model.modules() if module in experts._packed]
    assert len(packed) == 2 and all(isinstance(experts._packed[module][1], fovea.Experts) for module in packed)


def test_weights_that_change_are_packed_again():
    model = model_of("mixtral")
    model.set_experts_implementation("fovea")
    ids = torch.tensor([[5, 7, 9]])
    with torch.no_grad():
        before = model(ids).logits
        for module in model.modules():
            if hasattr(module, "down_proj") and module.down_proj.__class__ is torch.nn.Parameter:
                module.down_proj.mul_(1.5)
        after = model(ids).logits
        model.set_experts_implementation("eager")
        assert not torch.equal(before, after) and torch.allclose(after, model(ids).logits, rtol=1e-5, atol=1e-5 * after.abs().max().item())


def test_gradients_are_refused():
    model = model_of("qwen3_moe")
    model.set_experts_implementation("fovea")
    with pytest.raises(RuntimeError, match="no gradients"):
        model(torch.tensor([[5, 7, 9]]))


def test_an_activation_of_its_own_falls_back():
    model = model_of("mixtral", hidden_act="quick_gelu")
    ids = torch.tensor([[5, 7, 9]])
    with torch.no_grad():
        want = model(ids).logits
        model.set_experts_implementation("fovea")
        with pytest.warns(fovea.transformers.FallbackWarning, match="another activation"):
            assert torch.equal(model(ids).logits, want)


@pytest.mark.parametrize("name", ["mixtral", "qwen3_moe", "gpt_oss"])
def test_optimize_packs_experts(name):
    model, ids = model_of(name), torch.randint(3, 60, (4, 9), generator=torch.Generator().manual_seed(2))
    fast = fovea.torch.optimize(model, example=ids)
    packed = [module for module in fast.modules() if module in experts._packed]
    assert len(packed) == 2 and sum("(8 experts, 32 -> 32)" in line for line in fast.fovea_report.packed) == 2
    outputs = []
    for module in packed:
        module.register_forward_hook(lambda module, inputs, output: outputs.append(output))
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("error", fovea.transformers.FallbackWarning)
        want, got = model(ids).logits, fast(ids).logits
        assert torch.allclose(got, want, rtol=1e-5, atol=1e-5 * want.abs().max().item())
        batch = [output.view(4, 9, 32) for output in outputs]
        for row in range(4):
            outputs.clear()
            fast(ids[row : row + 1])
            assert all(torch.equal(one.view(9, 32), rows[row]) for one, rows in zip(outputs, batch))
    assert model.config._experts_implementation == "eager"


def test_optimize_leaves_experts_of_another_kind():
    model = model_of("mixtral", hidden_act="quick_gelu")
    fast = fovea.torch.optimize(model)
    assert any("mlp.experts: MixtralExperts has another activation" in line for line in fast.fovea_report.left)


def test_inference_mode():
    """Weights are seen to change under inference_mode(), too; those that were made there have no versions."""
    model, ids = model_of("mixtral"), torch.tensor([[5, 7, 9]])
    want = model(ids).logits
    model.set_experts_implementation("fovea")
    with torch.inference_mode():
        assert torch.allclose(model(ids).logits, want, rtol=1e-5, atol=1e-5 * want.abs().max().item())
        for module in model.modules():
            if hasattr(module, "has_gate"):
                module.down_proj.mul_(1.5)
        changed = model(ids).logits
        model.set_experts_implementation("eager")
        assert torch.allclose(changed, model(ids).logits, rtol=1e-5, atol=1e-5 * want.abs().max().item())
        assert not torch.allclose(changed, want, rtol=1e-3, atol=1e-3 * want.abs().max().item())
        inner = model_of("mixtral")
        eager = inner(ids).logits
        inner.set_experts_implementation("fovea")
        with pytest.warns(fovea.transformers.FallbackWarning, match="MixtralExperts was made under torch.inference_mode"):
            assert torch.equal(inner(ids).logits, eager)


def test_mxfp4_of_gpt_oss():
    """Tensors of gpt-oss's files, against transformers' dequantized weights."""
    mxfp4 = pytest.importorskip("transformers.integrations.mxfp4")
    draw = torch.Generator().manual_seed(0)
    integers = lambda low, high, *shape: torch.randint(low, high, shape, dtype=torch.uint8, generator=draw)
    both, both_scales = integers(0, 256, 8, 64, 2, 16), integers(116, 124, 8, 64, 2)
    down, down_scales = integers(0, 256, 8, 64, 1, 16), integers(116, 124, 8, 64, 1)
    bias = torch.randn(8, 64, generator=draw)
    numbers = [mxfp4.convert_moe_packed_tensors(*pair, dtype=torch.float32) for pair in ((both, both_scales), (down, down_scales))]
    form = {"limit": 7.0, "alpha": 1.702, "up_offset": 1.0}
    plain = fovea.Experts(*numbers, up_bias=bias, down_bias=bias, gate_up="interleaved", layout="in_out", **form)
    packed = fovea.Experts(
        both[:, 1::2], down, both[:, ::2], kind="gguf:MXFP4", arithmetic="exact", down_bias=bias, gate_bias=bias[:, ::2],
        up_bias=bias[:, 1::2], up_scales=both_scales[:, 1::2], gate_scales=both_scales[:, ::2], down_scales=down_scales, **form,
    )  # fmt: skip
    x, logits = torch.randn(9, 64, generator=draw), torch.randn(9, 8, generator=draw)
    chosen, weights = fovea.route(logits, 4, after_top_k=True)
    assert torch.equal(packed(x, chosen, weights), plain(x, chosen, weights)) and packed.nbytes < plain.nbytes / 6


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_tensors(dtype):
    """Strided weights and inputs of each type, under inference_mode() or not, are the same numbers in rows."""
    draw = torch.Generator().manual_seed(1)
    up, down = torch.randn(48, 64, 8, generator=draw).to(dtype).transpose(0, 2), torch.randn(8, 64, 48, generator=draw).to(dtype)[:, ::2]
    x = torch.randn(64, 11, generator=draw).to(dtype).t()[::2]
    chosen = torch.randint(0, 9, (3, 6), generator=draw).t()
    weights = torch.rand(6, 6, generator=draw).to(dtype)[:, ::2]
    experts = fovea.Experts(up.transpose(1, 2), down, activation="relu")
    want = fovea.Experts(up.transpose(1, 2).contiguous(), down.contiguous(), activation="relu")(
        x.contiguous(), chosen.contiguous(), weights.contiguous()
    )
    assert want.dtype is dtype and want.shape == (6, 32) and want.abs().max() > 0
    assert torch.equal(experts(x, chosen, weights), want) and torch.equal(experts(x, chosen.int(), weights.float()), want)
    with torch.inference_mode():
        inner = fovea.Experts(up.clone().transpose(1, 2), down.clone(), activation="relu")
        assert torch.equal(inner(x.clone(), chosen.clone(), weights.clone()), want)
    with pytest.raises(ValueError, match="gradient"):
        experts(x.clone().requires_grad_(), chosen, weights)
