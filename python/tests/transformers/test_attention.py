"""attn_implementation="fovea" in cases that cannot run on Fovea, and with masks and lengths that users give."""

import sys
import warnings

import pytest
import tiny_models
import torch
from transformers import AttentionInterface

import fovea.transformers
from fovea.transformers import FallbackWarning, counters

BOUND = 2e-6
ATTENTION = AttentionInterface()["fovea"]


@pytest.fixture(autouse=True)
def from_zero():
    sys.modules["fovea.transformers.counters"]._told.clear()
    counters.reset()


def logits(model, **inputs):
    return model(**inputs).logits


def near(a, b):
    return (a - b).abs().max() <= BOUND * b.abs().max()


def pair(family):
    return tiny_models.make(family, "fovea"), tiny_models.make(family, "eager")


def told(run, reason, words, count=None):
    """run() falls back for this reason alone, and says so once. Returns its result."""
    with pytest.warns(FallbackWarning, match=words) as caught:
        result = run()
    assert list(counters.fallbacks) == [reason]
    assert count is None or counters.fallbacks[reason] == count
    assert len([warning for warning in caught if warning.category is FallbackWarning]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        run()
    return result


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt_oss", "t5"])
def test_gradients(family):
    ours, theirs = pair(family)
    mask = tiny_models.padding("right")
    inputs = tiny_models.inputs_of(family, mask)
    labels = inputs.get("decoder_input_ids", inputs["input_ids"].masked_fill(mask == 0, -100))

    def gradients(model):
        model.zero_grad()
        model(**inputs, labels=labels).loss.backward()
        return [weight.grad for weight in model.parameters() if weight.grad is not None]

    got = told(lambda: gradients(ours), "gradients", "inference_mode")
    wanted = gradients(theirs)
    largest = max(gradient.abs().max() for gradient in wanted)
    assert all((a - b).abs().max() <= 1e-5 * largest for a, b in zip(got, wanted, strict=True))


def test_training_without_gradients():
    """Dropout falls back; a model in training mode without dropout does not."""
    model = tiny_models.make("llama", "fovea").train()
    with torch.no_grad():
        logits(model, input_ids=tiny_models.tokens())
        assert counters.fused == 3 and not counters.fallbacks
        model.config.attention_dropout = 0.5
        for layer in model.model.layers:
            layer.self_attn.attention_dropout = 0.5
        told(lambda: logits(model, input_ids=tiny_models.tokens()), "dropout", "eval")


def test_element_type():
    ours, theirs = (model.to(torch.float64) for model in pair("llama"))
    with torch.no_grad():
        got = told(lambda: logits(ours, input_ids=tiny_models.tokens()), "element type", "float32", 3)
        # LLaMA's norms are float32.
        assert torch.allclose(got, logits(theirs, input_ids=tiny_models.tokens()), atol=1e-5)


@pytest.mark.parametrize("arithmetic", ["exact", "default"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("family", ["bert", "llama", "gemma2", "t5"])
def test_narrow_types(family, dtype, arithmetic):
    """Fused, and as near to the float32 model as eager attention is; where weights are rounded to bfloat16, which eager BERT
    does not do, within a quarter of that."""
    ours, theirs = (model.to(dtype) for model in pair(family))
    mask = tiny_models.padding("right")
    inputs = tiny_models.inputs_of(family, mask)
    with torch.inference_mode(), fovea.config(arithmetic=arithmetic):
        exact = logits(tiny_models.make(family), **inputs)
        errors = [(logits(model, **inputs).float() - exact).abs() for model in (ours, theirs)]
    where = mask.bool() if exact.shape[:2] == mask.shape else slice(None)
    assert errors[0][where].mean() <= (1.1 if arithmetic == "exact" else 1.25) * errors[1][where].mean()
    assert counters.fused > 0 and not counters.fallbacks


@pytest.mark.parametrize("family", ["gemma2", "gpt_oss"])
def test_fallback_keeps_softcap_and_sinks(family):
    ours, theirs = (model.to(torch.float64) for model in pair(family))
    if family == "gpt_oss":
        for model in (ours, theirs):
            model.set_experts_implementation("eager")
    inputs = tiny_models.inputs_of(family, tiny_models.padding("right"))
    with torch.no_grad():
        got = told(lambda: logits(ours, **inputs), "element type", "float32")
        where = inputs["attention_mask"].bool()
        # GPT-OSS takes softmax in float32.
        assert torch.allclose(got[where], logits(theirs, **inputs)[where], atol=1e-5)


def test_fallback_keeps_attentions():
    model = tiny_models.make("bert", "fovea").to(torch.float64)
    with torch.no_grad():
        output = told(lambda: model(tiny_models.tokens(), output_attentions=True), "element type", "float32")
    assert len(output.attentions) == 3 and torch.allclose(output.attentions[0].sum(-1), torch.ones(()).double())


def test_large_heads():
    q = torch.randn(1, 1, 3, 600)
    out, weights = told(
        lambda: ATTENTION(torch.nn.Module(), q, q, q, None, is_causal=False), "head size", "576", 1
    )
    assert out.shape == (1, 3, 1, 600) and weights is None


@pytest.mark.parametrize("kind", ["bool", "int", "additive"])
def test_masks_of_the_user(kind):
    ours, theirs = pair("llama")
    ids = tiny_models.tokens()
    seen = torch.rand(3, 1, 13, 13, generator=torch.Generator().manual_seed(2)) < 0.6
    seen |= torch.eye(13, dtype=torch.bool)
    added = torch.zeros(()).masked_fill(~seen, torch.finfo(torch.float32).min)
    with torch.no_grad():
        wanted = logits(theirs, input_ids=ids, attention_mask=added)
        mask = {"bool": seen, "int": seen.long(), "additive": added}[kind]
        assert near(logits(ours, input_ids=ids, attention_mask=mask), wanted)
    assert not counters.fallbacks


def test_without_a_mask():
    """Causal from the top left where the call says so, as sdpa, also with more keys than queries; else all is seen, as in eager."""
    module = tiny_models.model_of("llama").model.layers[0].self_attn
    q, k = torch.randn(2, 4, 5, 12), torch.randn(2, 2, 9, 12)
    sdpa = AttentionInterface()["sdpa"]
    for q_len in (5, 1):
        for causal in (None, True, False):
            got = ATTENTION(module, q[:, :, :q_len], k, k, None, is_causal=causal)[0]
            assert near(got, sdpa(module, q[:, :, :q_len], k, k, None, is_causal=bool(causal))[0])


def test_packed_sequences_by_position():
    """Several texts in one row, told apart by their positions alone, are masked by a matrix."""
    ours, theirs = pair("llama")
    inputs = {"input_ids": tiny_models.tokens(1), "position_ids": torch.tensor([[*range(5), *range(8)]]), "use_cache": False}
    with torch.no_grad():
        assert near(logits(ours, **inputs), logits(theirs, **inputs))
    assert counters.mask_tensors == 1 and not counters.fallbacks


def test_packed_sequences_by_length():
    """cu_seq_lens: as flash attention takes them, for padding-free batches."""
    ours, theirs = pair("gemma2")
    ids = tiny_models.tokens(1)
    ends = torch.tensor([0, 5, 13], dtype=torch.int32)
    packed = {"cu_seq_lens_q": ends, "cu_seq_lens_k": ends, "max_length_q": 8, "max_length_k": 8}
    with torch.no_grad():
        got = logits(ours, input_ids=ids, position_ids=torch.tensor([[*range(5), *range(8)]]), use_cache=False, **packed)
        wanted = torch.cat([logits(theirs, input_ids=ids[:, :5]), logits(theirs, input_ids=ids[:, 5:])], 1)
    assert near(got, wanted)


def test_packed_tokens_of_no_sequence(monkeypatch):
    """They are zeros, in memory that was not zero before."""
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda self, shape: self.new_full(shape, torch.nan))
    module = tiny_models.make("llama", "fovea").model.layers[0].self_attn
    q, ends = torch.randn(1, 4, 9, 8), torch.tensor([0, 2, 7])
    out, _ = ATTENTION(module, q, q, q, None, cu_seq_lens_q=ends, cu_seq_lens_k=ends)
    assert out[:, :7].all() and not out[:, 7:].any()


def test_image_blocks():
    """Gemma 3: tokens of an image see each other."""
    ours, theirs = pair("gemma3")
    blocks = torch.full((3, 13), -1)
    blocks[:, 2:7] = 0
    from transformers.masking_utils import create_causal_mask

    results = []
    with torch.no_grad():
        for model in (ours, theirs):
            ids = tiny_models.tokens()
            embeds = model.model.embed_tokens(ids)
            mask = create_causal_mask(model.config, embeds, None, None, block_sequence_ids=blocks)
            results.append(logits(model, input_ids=ids, attention_mask={"full_attention": mask, "sliding_attention": mask}))
        plain = logits(ours, input_ids=ids)
    assert near(*results)
    assert not near(results[0], plain)
    assert not counters.fallbacks


@pytest.mark.parametrize("family", ["llama", "gemma2", "bert"])
def test_compiled(family):
    """Compiled as one graph, with nothing left to Python."""
    model = tiny_models.make(family, "fovea")
    inputs = tiny_models.inputs_of(family, tiny_models.padding("right"))
    inputs |= {"use_cache": False} if family != "bert" else {}
    with torch.no_grad():
        wanted = logits(model, **inputs)
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        got = logits(compiled, **inputs)
    where = inputs["attention_mask"].bool()
    assert near(got[where], wanted[where])
    assert not counters.fallbacks


def test_wrong_mask_is_refused():
    model = tiny_models.make("llama", "fovea")
    q, k, causal = torch.randn(1, 1, 3, 8), torch.randn(1, 1, 5, 8), fovea.transformers.visible.Limits(right=0)
    for sizes, given, keys, words in (
        ((4, 5, 1), None, q, "4 queries and 5 keys, attention has 3 and 3"),
        ((3, 3, 0), torch.ones(1, 4), k, "3 queries and 3 keys, attention has 3 and 5"),  # padding of other keys
    ):
        visible = fovea.transformers.Visible(causal, 1, *sizes, given=given)
        with pytest.raises(ValueError, match=f"the mask is for {words}"):
            ATTENTION(model.model.layers[0].self_attn, q, keys, keys, visible)


@pytest.mark.parametrize("name", ["default", "exact", "fastest"])
def test_arithmetic_of_bfloat16(name):
    """That of fovea.config(), else the fastest."""
    q, k, v = (torch.randn(1, 2, n, 64).bfloat16() for n in (9, 300, 300))
    with fovea.config(arithmetic=name):
        out, _ = ATTENTION(torch.nn.Identity(), q, k, v, None, is_causal=False)
    wanted = fovea.attention(q, k, v, out_layout="bthd", arithmetic="fastest" if name == "default" else name)
    assert torch.equal(out.view(torch.int16), wanted.view(torch.int16))
