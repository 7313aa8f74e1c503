"""generate_batch(): requests side by side, by their lengths, against one request after another."""

import logging

import pytest
import tiny_models
import torch
from transformers import ContinuousBatchingConfig, GenerationConfig

from fovea.transformers import counters

NEW_TOKENS = 12
LENGTHS = (5, 19, 3, 11, 1)

# Without the package psutil it asks for it, and goes on.
logging.getLogger("ContinuousBatchingLogger").setLevel(logging.CRITICAL)


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma2", "gemma3", "gpt_oss"])
def test_requests(family):
    model = tiny_models.make(family, "eager")
    prompts = [tiny_models.tokens(1, length, seed=length)[0].tolist() for length in LENGTHS]
    options = {"max_new_tokens": NEW_TOKENS, "do_sample": False}
    wanted = []
    for prompt in prompts:
        whole = model.generate(torch.tensor([prompt]), min_new_tokens=NEW_TOKENS, **options)[0]
        wanted.append(whole[len(prompt) :].tolist())
    model.set_attn_implementation("fovea")
    counters.reset()
    generation = GenerationConfig(**options, eos_token_id=-1, pad_token_id=0)
    # Prompts in pieces of 8 tokens, together with requests that are further on.
    batching = ContinuousBatchingConfig(max_batch_tokens=8, num_blocks=64)
    results = model.generate_batch(prompts, generation_config=generation, continuous_batching_config=batching)
    results = sorted(results.values(), key=lambda result: int(result.request_id.rpartition("_")[2]))
    assert [result.generated_tokens for result in results] == wanted
    assert model.config._attn_implementation == "fovea"
    assert counters.fused > 0 and not counters.fallbacks
    # Until 5.23 a model makes a mask of its requests, which attention does not need.
    assert counters.mask_tensors == 0 or tiny_models.CACHE == "past_key_values"


def test_other_implementations_are_as_before():
    """The names that transformers does not batch are still refused."""
    model = tiny_models.make("llama", "flex_attention")
    with pytest.raises(ValueError, match="flex_attention is not supported for continuous batching"):
        model.generate_batch([[3, 4, 5]], generation_config=GenerationConfig(max_new_tokens=2, eos_token_id=-1, pad_token_id=0))
