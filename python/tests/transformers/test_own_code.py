"""Families whose models mix attention of their own with the interface, against eager attention."""

import families
import pytest
import torch
import transformers

import fovea.transformers  # noqa: F401 - registers the name
from fovea.transformers import Visible, counters
from fovea.transformers.visible import Limits

BOUND = 2e-6


@pytest.mark.parametrize(("name", "fused", "fallbacks"), [
    ("bigbird_pegasus", 6, {}),  # the encoder adds its mask to scores; the decoder's attention calls the interface
    ("git", 0, {}),  # adds a mask that is a matrix
    ("bridgetower", 15, {}),  # one row of a mask for all queries; modules that say is_causal and are not
    ("inkling2", 12, {"argument": 6}),  # text layers pass `sinks` that differ by token
])  # fmt: skip
@pytest.mark.filterwarnings("ignore::fovea.transformers.FallbackWarning")
def test_padded(name, fused, fallbacks):
    model, inputs = families.make(name)
    logits = []
    for attention in ("eager", "fovea"):
        model.set_attn_implementation(attention)
        counters.reset()
        with torch.inference_mode():
            logits.append(model(**inputs)[0])
    where = inputs["attention_mask"].bool() if logits[0].shape[1] == families.LENGTH else slice(None)
    wanted, got = (x[where] for x in logits)
    assert (wanted - got).abs().max() <= BOUND * wanted.abs().max()
    assert (counters.fused, dict(counters.fallbacks)) == (fused, fallbacks)


def test_first_layer_without_keys():
    """MiniMax, whose first layer caches no keys: what is padded and what is not give the tokens of sequences alone."""
    config = transformers.MiniMaxConfig(
        **{"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
        | {"vocab_size": 99, "head_dim": 8, "num_local_experts": 4, "layer_types": ["linear_attention", "full_attention"]}
    )
    torch.manual_seed(3)
    model = transformers.MiniMaxForCausalLM._from_config(config, attn_implementation="fovea").eval()
    ids, mask = torch.randint(3, 99, (2, 9)), torch.ones(2, 9, dtype=torch.long)
    mask[1, :4] = 0
    options = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    got = model.generate(ids, attention_mask=mask, **options)
    model.set_attn_implementation("eager")
    for row, length in ((0, 9), (1, 5)):
        alone = model.generate(ids[row : row + 1, -length:], attention_mask=mask[row : row + 1, -length:], **options)
        assert torch.equal(got[row, 9:], alone[0, length:])


def test_added_to_scores():
    """A description that code adds to scores is a mask of numbers; a plain sum of booleans is not."""
    visible = Visible(Limits(right=0), 1, 3, 3, 0)
    scores = torch.randn(1, 2, 3, 3)
    wanted = scores.masked_fill(~torch.ones(3, 3).tril().bool(), torch.finfo(torch.float32).min)
    for got in (scores + visible, visible + scores, torch.add(scores, visible), scores.clone().add_(visible)):
        assert torch.equal(got.softmax(-1), wanted.softmax(-1))
    scores += visible
    assert torch.equal(scores.softmax(-1), wanted.softmax(-1))
    assert torch.equal(visible + torch.ones(1, dtype=torch.long), visible.tensor() + 1)
