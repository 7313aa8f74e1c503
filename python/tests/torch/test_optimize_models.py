"""fovea.torch.optimize() of transformers' models: the same numbers, what is fused in each layer, and generation."""

import pytest
import torch
import transformers
from optimized import close, packed

from fovea.torch import optimize

MODELS = {
    "bert": lambda t: t.BertModel(t.BertConfig(**SMALL, intermediate_size=64)),
    "minilm": lambda t: t.BertModel(t.BertConfig(**SMALL, intermediate_size=64), add_pooling_layer=False),
    "roberta": lambda t: t.RobertaModel(t.RobertaConfig(**SMALL, intermediate_size=64)),
    "distilbert": lambda t: t.DistilBertModel(t.DistilBertConfig(vocab_size=99, dim=32, n_layers=2, n_heads=4, hidden_dim=64)),
    "llama": lambda t: t.LlamaForCausalLM(
        t.LlamaConfig(**SMALL, intermediate_size=64, num_key_value_heads=2, tie_word_embeddings=True)
    ),
    "gpt2": lambda t: t.GPT2LMHeadModel(t.GPT2Config(vocab_size=99, n_embd=32, n_layer=2, n_head=4)),
    "vit": lambda t: t.ViTModel(t.ViTConfig(**IMAGE, intermediate_size=64)),
    "t5": lambda t: t.T5EncoderModel(t.T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)),
}
SMALL = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
IMAGE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32, "patch_size": 8}
# Linear maps of a layer: how many have an activation, have a residual.
FUSED = {
    "bert": (1, 2),
    "minilm": (1, 2),
    "roberta": (1, 2),
    "distilbert": (1, 0),
    "llama": (0, 0),
    "gpt2": (1, 0),
    "vit": (1, 0),
    "t5": (0, 0),
}


@pytest.mark.parametrize("name", MODELS)
def test_models(name):
    model = MODELS[name](transformers).eval()
    fast = optimize(model)
    assert type(fast) is type(model) and "fovea" in fast.config._attn_implementation
    assert model.config._attn_implementation != "fovea"
    if name == "vit":
        inputs = {"pixel_values": torch.randn(2, 3, 32, 32)}
    else:
        inputs = {"input_ids": torch.randint(0, 99, (2, 12)), "attention_mask": torch.ones(2, 12, dtype=torch.long)}
        inputs["attention_mask"][0, 7:] = 0
    with torch.inference_mode():
        want = model(**inputs)[0]
        got = fast(**inputs)[0]
    if "attention_mask" in inputs:
        keep = inputs["attention_mask"].bool()
        got, want = got[keep], want[keep]
    close(got, want)
    lines = packed(fast).values()
    counts = tuple(
        sum(any(word in line for word in words) for line in lines)
        for words in (("gelu", "relu"), ("residual",))
    )
    assert counts == tuple(2 * n for n in FUSED[name])
    assert not fast.fovea_report.left


def test_generation():
    model = MODELS["llama"](transformers).eval()
    fast = optimize(model)
    ids = torch.randint(3, 99, (2, 5))
    options = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    assert torch.equal(fast.generate(ids, **options), model.generate(ids, **options))
