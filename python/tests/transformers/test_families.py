"""attn_implementation="fovea" against "eager" in models of 18 families: logits, padding, generate, beams, attentions."""

import warnings

import pytest
import tiny_models
import torch
from transformers.utils import logging

import fovea.transformers
from fovea.transformers import counters

# Relative to the largest logit or weight.
BOUND = 2e-6
NEW_TOKENS = 16

logging.set_verbosity_error()


@pytest.fixture(autouse=True)
def all_fused():
    """In these tests nothing falls back, and no mask becomes a matrix."""
    counters.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error", fovea.transformers.FallbackWarning)
        yield
    assert counters.fused > 0
    assert not counters.fallbacks
    assert counters.mask_tensors == 0


def both(family, run):
    """run(model) with eager and with fovea."""
    model = tiny_models.model_of(family)
    results = []
    for implementation in ("eager", "fovea"):
        model.set_attn_implementation(implementation)
        with torch.inference_mode():
            results.append(run(model))
    return results


def logits_of(output):
    return output.logits_per_image if hasattr(output, "logits_per_image") else output.logits


def assert_near(wanted, got, where=None):
    """Equal to BOUND of the largest, at the places where a mask is true."""
    assert wanted.shape == got.shape
    if where is not None:
        wanted, got = wanted[where], got[where]
    assert torch.isfinite(wanted).all()
    error = (wanted - got).abs().max() / wanted.abs().max()
    assert error <= BOUND, f"{error:.2e} of the largest"


@pytest.mark.parametrize("family", tiny_models.FAMILIES)
def test_forward(family):
    inputs = tiny_models.inputs_of(family)
    assert_near(*both(family, lambda model: logits_of(model(**inputs))))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", tiny_models.TEXTS)
def test_padding(family, side):
    mask = tiny_models.padding(side)
    inputs = tiny_models.inputs_of(family, mask)
    wanted, got = both(family, lambda model: logits_of(model(**inputs)))
    # Logits of padding have no meaning. If the padded text is another's context, all logits count.
    assert_near(wanted, got, mask.bool() if wanted.shape[:2] == mask.shape else None)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", [name for name in tiny_models.GENERATING if name not in tiny_models.DECODERS])
def test_decoder_padding(family, side):
    inputs = tiny_models.inputs_of(family)
    mask = tiny_models.padding(side, length=9)
    wanted, got = both(family, lambda model: logits_of(model(**inputs, decoder_attention_mask=mask)))
    assert_near(wanted, got, mask.bool())


def generate(family, **options):
    inputs = tiny_models.inputs_of(family, tiny_models.padding("left"))
    inputs.pop("decoder_input_ids", None)
    options = {"max_new_tokens": NEW_TOKENS, "do_sample": False, "use_cache": True} | options
    return both(family, lambda model: model.generate(**inputs, **options))


@pytest.mark.parametrize("family", tiny_models.GENERATING)
def test_greedy(family):
    wanted, got = generate(family, min_new_tokens=NEW_TOKENS)
    assert torch.equal(wanted, got)


@pytest.mark.parametrize("family", tiny_models.GENERATING)
def test_beams(family):
    wanted, got = generate(family, num_beams=3, num_return_sequences=2, length_penalty=0.5)
    assert torch.equal(wanted, got)


@pytest.mark.parametrize("family", tiny_models.FAMILIES)
def test_output_attentions(family):
    inputs = tiny_models.inputs_of(family)

    def run(model):
        output = model(**inputs, output_attentions=True)
        if family == "clip":
            return [*output.text_model_output.attentions, *output.vision_model_output.attentions]
        names = ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions")
        return [weights for name in names for weights in getattr(output, name, None) or ()]

    wanted, got = both(family, run)
    assert len(wanted) == len(got) > 1
    for a, b in zip(wanted, got, strict=True):
        assert_near(a, b)


@pytest.mark.parametrize("family", ["llama", "gpt_oss", "bart"])
def test_generate_with_attentions(family):
    options = {"output_attentions": True, "return_dict_in_generate": True, "max_new_tokens": 4}
    wanted, got = generate(family, **options)
    assert torch.equal(wanted.sequences, got.sequences)
    name = "decoder_attentions" if family == "bart" else "attentions"
    for step, (a, b) in enumerate(zip(getattr(wanted, name), getattr(got, name), strict=True)):
        if step or family == "bart":
            for weights, ours in zip(a, b, strict=True):
                assert_near(weights, ours)
