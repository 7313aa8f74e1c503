"""Recurrent layers of hybrid models on Fovea, against the same models as transformers computes them."""

import copy
import functools
import inspect
import pickle
import sys
import threading
import warnings

import pytest
import torch
from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

import fovea.torch
from fovea.transformers import FallbackWarning, counters, recurrences, report, set_recurrence_implementation

SIZES = dict(
    vocab_size=64, hidden_size=32, intermediate_size=48, moe_intermediate_size=24, num_hidden_layers=4, num_attention_heads=4,
    num_key_value_heads=2, head_dim=8, num_local_experts=4, num_experts=4, num_experts_per_tok=4, max_position_embeddings=128,
    pad_token_id=0, bos_token_id=1, eos_token_id=2,  # all experts: choices are no numbers that can be near
)  # fmt: skip
LINEAR = dict(layer_types=["linear_attention", "linear_attention", "full_attention", "linear_attention"])
DELTA = dict(linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=12, linear_conv_kernel_dim=4)
SSM = dict(mamba_n_heads=8, mamba_d_head=8, mamba_d_state=16, mamba_n_groups=2, mamba_d_conv=4, mamba_expand=2, mamba_chunk_size=8)
MAMBA = dict(state_size=8, conv_kernel=4, expand=2, time_step_rank=4)
FAMILIES = {
    "qwen3_next": LINEAR | DELTA,
    "qwen3_5_text": LINEAR | DELTA,
    "qwen3_5_moe_text": LINEAR | DELTA,
    "olmo_hybrid": LINEAR | DELTA | dict(linear_num_key_heads=4),
    "kimi_linear": LINEAR | dict(
        linear_num_heads=4, linear_head_dim=8, linear_conv_kernel_dim=4, kv_lora_rank=16, q_lora_rank=None, qk_nope_head_dim=8,
        qk_rope_head_dim=8, v_head_dim=8, n_group=1, topk_group=1, n_shared_experts=1, num_key_value_heads=4,
    ),
    "granitemoehybrid": SSM | dict(layer_types=["mamba", "mamba", "attention", "mamba"], shared_intermediate_size=32),
    "bamba": SSM | dict(attn_layer_indices=[2], time_step_limit=(0.0, 2.0)),
    "nemotron_h": dict(
        hybrid_override_pattern="MM*E", mamba_num_heads=8, mamba_head_dim=8, ssm_state_size=16, n_groups=2, conv_kernel=4,
        chunk_size=8, n_routed_experts=4, moe_shared_expert_intermediate_size=24, n_group=1, topk_group=1,
    ),
    "mamba2": dict(num_heads=8, head_dim=8, state_size=16, n_groups=2, conv_kernel=4, expand=2, chunk_size=8),
    "jamba": dict(
        mamba_d_state=8, mamba_d_conv=4, mamba_expand=2, mamba_dt_rank=4, attn_layer_period=4, attn_layer_offset=2,
        expert_layer_period=2, expert_layer_offset=1,
    ),
    "falcon_mamba": MAMBA,
    "mamba": MAMBA,
}  # fmt: skip
# transformers begins each chunk of a prompt of these with a state of zeros: its function takes no other.
NO_CHUNKS = ("jamba", "falcon_mamba", "mamba")


@functools.cache
@torch.inference_mode(False)
def model_of(name):
    if name not in CONFIG_MAPPING:
        pytest.skip(f"this transformers has no {name}")
    torch.manual_seed(0)
    config = CONFIG_MAPPING[name](**(SIZES | FAMILIES[name]))
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", experts_implementation="eager").eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1 and not name.endswith("A_log"):
                parameter.normal_(0, 0.1)
            elif not torch.isfinite(parameter).all():
                parameter.fill_(0.1)
    return model


@functools.cache
@torch.inference_mode(False)
def served_of(name, dtype=torch.float32):
    model = copy.deepcopy(model_of(name)).to(dtype)
    set_recurrence_implementation(model, "fovea")
    return model


def ids(batch=3, tokens=21):
    return torch.randint(3, 60, (batch, tokens), generator=torch.Generator().manual_seed(batch))


def padded(tokens=21):
    """(ids, mask): 3 rows that begin with padding of 0, 5 and 20 tokens."""
    mask = (torch.arange(tokens) >= torch.tensor([[0], [5], [tokens - 1]])).long()
    return ids(3, tokens) * mask, mask


def in_steps(model, tokens, sizes, **options):
    """Logits of chunks of a prompt, and of its last tokens."""
    cache, parts, mask = None, [], options.pop("attention_mask", None)
    for size in sizes:
        end = sum(p.shape[1] for p in parts) + size
        given = {} if mask is None else {"attention_mask": mask[:, :end]}
        names = inspect.signature(model.forward).parameters
        name = next(name for name in ("cache", "past_key_values", "cache_params") if name in names)  # of versions of transformers
        out = model(tokens[:, end - size : end], use_cache=True, **{name: cache}, **given)
        cache = getattr(out, name)
        parts.append(out.logits)
    return torch.cat(parts, 1)


def near(got, want, bound=1e-5):
    assert got.shape == want.shape
    assert (got - want).abs().max() <= bound * max(1.0, want.abs().max())


@pytest.fixture(autouse=True)
def no_fallbacks():
    """Nothing falls back where a test does not say so."""
    counters.reset()
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        yield


@pytest.mark.parametrize("name", FAMILIES)
def test_at_once(name):
    model, served = model_of(name), served_of(name)
    assert recurrences.layers(served) and all(recurrences.is_served(layer) for _, layer in recurrences.layers(served))
    assert not any(recurrences.is_served(layer) for _, layer in recurrences.layers(model))
    near(served(ids()).logits, model(ids()).logits)
    assert counters.fused == 2 * len(recurrences.layers(served))  # a convolution and a recurrence of each
    tokens, mask = padded()
    near(served(tokens, attention_mask=mask).logits, model(tokens, attention_mask=mask).logits)
    assert not counters.fallbacks


@pytest.mark.parametrize("name", FAMILIES)
def test_token_by_token(name):
    model, served = model_of(name), served_of(name)
    sizes = [7] + 14 * [1]
    want = in_steps(model, ids(), sizes)
    near(want, model(ids()).logits, 0.1)  # it goes on from its cache; Bamba limits dt of prompts alone
    near(in_steps(served, ids(), sizes), want)
    tokens, mask = padded()
    options = dict(attention_mask=mask, max_new_tokens=6, min_new_tokens=6, do_sample=False)
    assert torch.equal(served.generate(tokens, **options), model.generate(tokens, **options))
    assert not counters.fallbacks


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in NO_CHUNKS])
def test_a_prompt_in_chunks(name):
    sizes = [5, 1, 9, 2, 4]
    near(in_steps(served_of(name), ids(), sizes), in_steps(model_of(name), ids(), sizes))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", FAMILIES)
def test_16_bits(name, dtype):
    """As near to float32 as transformers is."""
    want, half, served = model_of(name)(ids()).logits, copy.deepcopy(model_of(name)).to(dtype), served_of(name, dtype)
    for sizes in ([21], [6] + 15 * [1]):
        theirs, ours = (in_steps(model, ids(), sizes).float() for model in (half, served))
        assert (ours - want).square().mean() <= 1.5 * (theirs - want).square().mean() + 1e-6 * want.square().mean()


@pytest.mark.parametrize("name", FAMILIES)
def test_optimize(name):
    """A copy by optimize() has the model's results. Its rows do not depend on the batch."""
    model, fast = model_of(name), fovea.torch.optimize(model_of(name), example=ids())
    near(fast(ids()).logits, model(ids()).logits)
    states, whole = [], ids(5, 32)
    for layer in (layer for _, layer in recurrences.layers(fast)):
        layer.register_forward_hook(lambda module, inputs, output: states.append(output))
    fast(whole)
    batch, states = states, []
    for row in range(5):
        fast(whole[row : row + 1])
        for one, all_rows in zip(states, batch):
            assert torch.equal(one[0], all_rows[row])
        states.clear()


def test_eager_undoes_it():
    model = copy.deepcopy(model_of("qwen3_next"))
    want = model(ids()).logits
    set_recurrence_implementation(model, "fovea")
    assert "3 recurrent Qwen3NextGatedDeltaNet run on Fovea" in str(report(model))
    assert not torch.equal(model(ids()).logits, want)
    set_recurrence_implementation(model, "eager")
    assert 'transformers\' code: set_recurrence_implementation(model, "fovea") changes that' in str(report(model))
    assert torch.equal(model(ids()).logits, want)
    with pytest.raises(ValueError, match="'fovea' or 'eager', not 'sdpa'"):
        set_recurrence_implementation(model, "sdpa")


def test_other_models_and_threads_are_not_changed():
    model, served = model_of("bamba"), served_of("bamba")
    want, got = model(ids()).logits, []

    @torch.inference_mode()
    def run(m):
        got.append((m, m(ids()).logits))

    threads = [threading.Thread(target=run, args=[m]) for m in (model, served, model, served)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(logits, want) == (m is model) for m, logits in got) and len(got) == 4


def test_gradients_are_pytorchs():
    served = served_of("falcon_mamba")
    with torch.inference_mode(False), torch.enable_grad():
        tokens = ids().clone()
        with pytest.warns(FallbackWarning, match="a recurrence falls back from Fovea to transformers: it is recorded for gradients"):
            served(tokens).logits.sum().backward()
        got = [p.grad.clone() for p in served.parameters()]
        served.zero_grad()
        model = model_of("falcon_mamba")
        model(tokens).logits.sum().backward()
        assert all(torch.equal(g, p.grad) for g, p in zip(got, model.parameters()))
        model.zero_grad()
    assert counters.fallbacks["gradients"] == 2 * 4 and not counters.fused


def test_an_activation_of_its_own():
    config = CONFIG_MAPPING["falcon_mamba"](**(SIZES | MAMBA | dict(hidden_act="gelu", num_hidden_layers=1)))
    model = AutoModelForCausalLM.from_config(config).eval()
    want = model(ids()).logits
    set_recurrence_implementation(model, "fovea")
    with pytest.warns(FallbackWarning, match="the activation after a convolution is gelu"):
        near(model(ids()).logits, want)
    assert "1 modules called Fovea: 1 calls ran on it, 1 fell back (activation)" in str(report(model))


def test_a_source_that_is_not_known(monkeypatch):
    model = copy.deepcopy(model_of("mamba2"))
    file = sys.modules[type(model).__module__]

    def mamba2_chunk_scan(*args, **kwargs):
        raise AssertionError

    monkeypatch.setattr(file, "mamba2_chunk_scan", mamba2_chunk_scan)
    recurrences._install.cache_clear()
    set_recurrence_implementation(model, "fovea")
    assert "4 recurrent Mamba2Mixer run on transformers' code: the source of mamba2_chunk_scan is not one" in str(report(model))
    assert not any(recurrences.is_served(layer) for _, layer in recurrences.layers(model))
    recurrences._install.cache_clear()


def test_a_forward_of_its_own_is_left():
    model = copy.deepcopy(model_of("bamba"))
    name, layer = recurrences.layers(model)[0]
    own = layer.forward = functools.partial(type(layer).forward, layer)
    set_recurrence_implementation(model, "fovea")
    assert layer.forward is own
    assert "1 recurrent BambaMixer run on transformers' code: it has a forward of its own" in str(report(model))


def test_copies_and_pickles_are_served():
    served = served_of("kimi_linear")
    want = served(ids()).logits
    for again in (copy.deepcopy(served), pickle.loads(pickle.dumps(served))):
        counters.reset()
        assert torch.equal(again(ids()).logits, want)
        assert counters.fused == 6
        assert all(layer.forward.args[0] is layer for _, layer in recurrences.layers(again))


def test_compile():
    served = copy.deepcopy(served_of("qwen3_next"))
    with torch.inference_mode(False), torch.no_grad():
        graph = torch.compile(served, backend="eager")
        near(graph(ids().clone()).logits, model_of("qwen3_next")(ids()).logits, 1e-4)
