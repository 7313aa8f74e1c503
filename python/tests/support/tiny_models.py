"""Random models of transformers' families, small enough for tests, made without a network.

Weights are larger than at the start of a training, so that attention is far from uniform: a mask, cap, window or bias that goes
missing then shows in the results.
"""

import functools
import inspect

import torch
import transformers

# The argument that gives a model its cache has another name until 5.23.
CACHE = "cache" if "cache" in inspect.signature(transformers.LlamaForCausalLM.forward).parameters else "past_key_values"
VOCABULARY, PROMPT, BATCH = 120, 13, 3
_TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_ENCODER = {
    "vocab_size": VOCABULARY,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "initializer_range": 0.15,
    **_TOKENS,
}
_DECODER = _ENCODER | {"num_key_value_heads": 2, "max_position_embeddings": 128}
_LAYERS = ["sliding_attention", "full_attention", "sliding_attention"]

# family: (kind, model, config, settings). Kinds: encoder, decoder, seq2seq, and names of their own where inputs differ.
_FAMILIES = {
    "bert": ("encoder", "BertForMaskedLM", "BertConfig", _ENCODER),
    "roberta": ("encoder", "RobertaForMaskedLM", "RobertaConfig", _ENCODER),
    "distilbert": (
        "encoder",
        "DistilBertForMaskedLM",
        "DistilBertConfig",
        {"vocab_size": VOCABULARY, "dim": 48, "hidden_dim": 64, "n_layers": 3, "n_heads": 4, "max_position_embeddings": 64}
        | {"initializer_range": 0.15, "pad_token_id": 0},
    ),
    "modernbert": (
        "encoder",
        "ModernBertForMaskedLM",
        "ModernBertConfig",
        _ENCODER | {"local_attention": 6, "global_attn_every_n_layers": 2, "cls_token_id": 1, "sep_token_id": 2},
    ),
    "albert": ("encoder", "AlbertForMaskedLM", "AlbertConfig", _ENCODER | {"embedding_size": 24}),
    "gpt2": (
        "decoder",
        "GPT2LMHeadModel",
        "GPT2Config",
        {"vocab_size": VOCABULARY, "n_embd": 48, "n_layer": 3, "n_head": 4, "n_positions": 128, "initializer_range": 0.15}
        | _TOKENS,
    ),
    "llama": ("decoder", "LlamaForCausalLM", "LlamaConfig", _DECODER),
    "qwen3": ("decoder", "Qwen3ForCausalLM", "Qwen3Config", _DECODER | {"head_dim": 20}),
    "mistral": ("decoder", "MistralForCausalLM", "MistralConfig", _DECODER | {"sliding_window": 7}),
    "gemma2": (
        "decoder",
        "Gemma2ForCausalLM",
        "Gemma2Config",
        _DECODER
        | {"head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 7, "layer_types": _LAYERS}
        | {"attn_logit_softcapping": 1.5},
    ),
    "gemma3": (
        "decoder",
        "Gemma3ForCausalLM",
        "Gemma3TextConfig",
        _DECODER | {"head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 7, "layer_types": _LAYERS},
    ),
    "gpt_oss": (
        "decoder",
        "GptOssForCausalLM",
        "GptOssConfig",
        _DECODER
        | {"head_dim": 16, "sliding_window": 7, "layer_types": _LAYERS, "num_local_experts": 4, "num_experts_per_tok": 2},
    ),
    "deepseek_v3": (
        "decoder",
        "DeepseekV3ForCausalLM",
        "DeepseekV3Config",
        _DECODER
        | {"num_key_value_heads": 4, "q_lora_rank": 24, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8}
        | {"v_head_dim": 12, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1}
        | {"first_k_dense_replace": 1, "moe_intermediate_size": 32, "n_shared_experts": 1},
    ),
    "t5": (
        "seq2seq",
        "T5ForConditionalGeneration",
        "T5Config",
        {"vocab_size": VOCABULARY, "d_model": 48, "d_kv": 12, "d_ff": 64, "num_layers": 2, "num_heads": 4}
        | {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 12, "initializer_factor": 1.0}
        | {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 2},
    ),
    "bart": (
        "seq2seq",
        "BartForConditionalGeneration",
        "BartConfig",
        {"vocab_size": VOCABULARY, "d_model": 48, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 64}
        | {"decoder_ffn_dim": 64, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "init_std": 0.15}
        | {"max_position_embeddings": 64, "decoder_start_token_id": 2, "forced_eos_token_id": None, **_TOKENS},
    ),
    "whisper": (
        "speech",
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        {"vocab_size": VOCABULARY, "d_model": 48, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 64}
        | {"decoder_ffn_dim": 64, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "init_std": 0.15}
        | {"num_mel_bins": 8, "max_source_positions": 24, "max_target_positions": 64, "decoder_start_token_id": 1}
        | {"suppress_tokens": None, "begin_suppress_tokens": None, **_TOKENS},
    ),
    "vit": (
        "image",
        "ViTForImageClassification",
        "ViTConfig",
        {"hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64, "image_size": 32}
        | {"patch_size": 8, "num_labels": 10, "initializer_range": 0.15},
    ),
    "clip": ("clip", "CLIPModel", "CLIPConfig", {}),
}
FAMILIES = list(_FAMILIES)
GENERATING = [name for name, (kind, *_) in _FAMILIES.items() if kind in ("decoder", "seq2seq", "speech")]
DECODERS = [name for name, (kind, *_) in _FAMILIES.items() if kind == "decoder"]
TEXTS = [name for name, (kind, *_) in _FAMILIES.items() if kind in ("encoder", "decoder", "seq2seq", "clip")]


def kind_of(family):
    return _FAMILIES[family][0]


def _clip_config():
    tower = {"hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    return transformers.CLIPConfig(
        text_config=tower | {"vocab_size": VOCABULARY, "max_position_embeddings": 32, **_TOKENS},
        vision_config=tower | {"image_size": 32, "patch_size": 8},
        projection_dim=32,
    )


def make(family, attention="eager"):
    """A new model with the family's weights, the same in every call."""
    _, model, config, settings = _FAMILIES[family]
    config = _clip_config() if family == "clip" else getattr(transformers, config)(**settings)
    torch.manual_seed(7)
    made = getattr(transformers, model)._from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for name, weight in made.named_parameters():
            # Weights that start as zeros or ones, or, in CLIP, too small to matter.
            if name.endswith("sinks") or (weight.dim() == 1 and name.endswith("bias")):
                weight.normal_(std=0.3)
            elif family == "clip" and weight.dim() == 2 and "proj" in name:
                weight.normal_(std=0.2)
    made.set_attn_implementation(attention)
    return made


@functools.cache
def model_of(family):
    """The family's model, shared by tests: set its attention before each use."""
    return make(family)


def tokens(batch=BATCH, length=PROMPT, seed=3):
    """Token ids [batch, length] without special tokens."""
    return torch.randint(3, VOCABULARY - 1, (batch, length), generator=torch.Generator().manual_seed(seed))


def padding(side, batch=BATCH, length=PROMPT):
    """An attention mask [batch, length] of sequences of different lengths, padded on a side."""
    missing = torch.tensor([0, 5, 2, 7][:batch])[:, None]
    places = torch.arange(length)[None, :]
    return (places >= missing if side == "left" else places < length - missing).long()


def inputs_of(family, mask=None):
    """Arguments of a forward call. mask: an attention mask of the text, or of the encoder's text."""
    kind = kind_of(family)
    numbers = torch.Generator().manual_seed(11)
    if kind == "image":
        return {"pixel_values": torch.randn(BATCH, 3, 32, 32, generator=numbers)}
    if kind == "speech":
        return {
            "input_features": torch.randn(BATCH, 8, 48, generator=numbers),
            "decoder_input_ids": tokens(length=9, seed=5),
        }
    inputs = {"input_ids": tokens()}
    if mask is not None:
        inputs["attention_mask"] = mask
    if kind == "clip":
        # The largest id is where CLIP takes its text vector from: inside every sequence, whichever side is padded.
        inputs["input_ids"][:, 6] = VOCABULARY - 1
        inputs["pixel_values"] = torch.randn(BATCH, 3, 32, 32, generator=numbers)
    if kind == "seq2seq":
        inputs["decoder_input_ids"] = tokens(length=9, seed=5)
    return inputs


def caching(cache):
    """The argument of a call or of generate() that gives a model its cache, by the name that this transformers has for it."""
    return {CACHE: cache}
