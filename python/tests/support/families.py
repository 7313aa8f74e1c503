"""Tiny models of every family that transformers can make from its configuration alone, with random weights and inputs.

    make("bert")        (model, inputs), or Untried with the reason

A configuration has its defaults, but for the sizes in _SIZES, those of its parts likewise, and what _SETTINGS says of single
families. families() names all.
"""

import copy
import inspect
import re

import torch
import transformers
from transformers.models.auto import configuration_auto, modeling_auto

VOCABULARY, BATCH, LENGTH = 120, 2, 11

# Sizes by their name: the first pattern that matches the whole of it.
_SIZES = [
    (r"(\w+_)?(vocab_size|vocabulary_size)(_\w+)?", VOCABULARY),
    (r"\w*(hidden_size|hidden_dim|d_model|embed_dim|embedding_size|embedding_dim|emb_dim)|n_embd|dim|width|hidden_dimension", 64),
    (r"projection_dim|\w*projection_size|output_dim|\w*proj_size", 32),
    (r"\w*(num_key_value_heads|num_kv_heads)", 2),
    (r"linear_num_(key|value)_heads|linear_num_heads", 4),
    (r"\w*num_attention_heads|\w*attention_heads|n_heads?|num_heads|num_q_heads", 4),
    (r"(num_|n_)?(hidden_)?layers?|\w*num_hidden_layers|\w*(encoder|decoder)_layers|depth|num_decoder_layers", 3),
    (r"full_attention_interval|attn_layer_period|layer_group_size", 2),
    (r"attn_layer_offset", 1),
    (r"(moe|shared|shared_expert|expert)_intermediate_size|\w*_latent_dim", 32),
    (r"\w*(intermediate_size|ffn_dim|mlp_dim|feedforward_dim|feed_forward_hidden_size)|d_ff|n_inner|d_inner|hidden_dim_ffn", 64),
    (r"head_dim|d_kv|v_head_dim|global_head_dim|swa_head_dim|qk_head_dim|query_pre_attn_scalar", 16),
    (r"qk_rope_head_dim|qk_nope_head_dim|rotary_dim|index_head_dim|linear_(key|value)_head_dim|linear_head_dim", 8),
    (r"q_lora_rank|kv_lora_rank|o_lora_rank", 16),
    (r"(num|n)_(local_|routed_)?experts|moe_num_experts", 4),
    (r"num_experts_per_tok|moe_top_?k|topk|moe_k|num_selected_experts", 2),
    (r"n_group|topk_group|n_shared_experts|o_groups", 1),
    (r"sliding_window|sliding_window_size|local_attention|attention_window", 6),
    (r"\w*(max_position_embeddings|max_positions?|n_positions|n_ctx|max_seq_len|context_length|max_length)", 128),
    (r"image_size|input_size|crop_size|pretrain_image_size", 32),
    (r"patch_size", 8),
    (r"num_mel_bins|feature_size|num_mel_features|feature_projection_input_dim|input_feat_per_channel", 16),
    (r"max_source_positions", 32),
    (r"\w*(pad|unk)_token_id", 0),
    (r"\w*bos_token_id|decoder_start_token_id", 1),
    (r"\w*eos_token_id", 2),
    (r"num_queries|num_query_tokens", 6),
    (r"initializer_range|init_std|initializer_factor", 0.15),
]
_SIZES = [(re.compile(pattern), size) for pattern, size in _SIZES]

# Further settings of single families.
_SETTINGS: dict[str, dict] = {
    "bamba": {"mamba_n_heads": 4, "mamba_d_head": 32, "mamba_d_state": 16},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "esm": {"vocab_size": VOCABULARY, "pad_token_id": 0, "position_embedding_type": "rotary"},
    "falcon_h1": {"mamba_n_heads": 4, "mamba_d_ssm": 64, "mamba_d_head": 16, "mamba_d_state": 16, "mamba_chunk_size": 8},
    "gpt_neo": {"num_layers": 2, "attention_types": [[["global", "local"], 1]], "window_size": 5},
    "swin": {"image_size": 32, "patch_size": 4, "window_size": 4, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4]},
    "swinv2": {"image_size": 32, "patch_size": 4, "window_size": 4, "embed_dim": 16, "depths": [2, 1], "num_heads": [2, 4]},
    "donut-swin": {"image_size": 32, "patch_size": 4, "window_size": 4, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4]},
}


class Untried(Exception):
    """Why a family is not in the table."""


def families():
    """The names of all configurations that have a model of their own."""
    return [name for name in configuration_auto.CONFIG_MAPPING_NAMES if name in modeling_auto.MODEL_MAPPING_NAMES]


def _default(kind):
    try:
        return kind()
    except Exception:  # some have no defaults
        return None


def _shrunk(kind, name=None):
    """Settings of a configuration class that make it small."""
    settings = {}
    for field, parameter in inspect.signature(kind.__init__).parameters.items():
        if type(parameter.default) not in (int, float):
            continue
        for pattern, size in _SIZES:
            if pattern.fullmatch(field):
                small = type(size) is float or "token_id" in field or parameter.default > size
                if small:
                    settings[field] = size
                break
    for field, part in (getattr(kind, "sub_configs", None) or {}).items():
        if part is transformers.AutoConfig:
            given = getattr(_default(kind), field, None)
            if given is None:
                continue
            part = type(given)
        settings[field] = _shrunk(part) | {"model_type": part.model_type}
    if "kv_lora_rank" in settings and "num_key_value_heads" in settings:
        settings["num_key_value_heads"] = 4  # keys are projected for each head
    kinds = getattr(_default(kind), "layer_types", None) or []
    if "num_hidden_layers" in settings and kinds:  # at least one layer of each type
        settings["num_hidden_layers"] = next(n for n in range(3, len(kinds) + 4) if set(kinds[:n]) == set(kinds))
    if "mrope_section" in (getattr(kind, "ignore_keys_at_rope_validation", None) or ()):
        rope = getattr(_default(kind), "rope_parameters", None) or {"rope_type": "default", "rope_theta": 1e4}
        half = int(16 * rope.get("partial_rotary_factor", 1.0)) // 2
        settings["rope_parameters"] = rope | {"mrope_section": [half - half // 3 * 2] + [half // 3] * 2}
    return settings | _SETTINGS.get(name or kind.model_type, {})


def config_of(name):
    """The family's small configuration."""
    kind = configuration_auto.CONFIG_MAPPING[name]
    return kind(**_shrunk(kind, name))


def _class_of(name):
    """The model class: with a language head where there is one, since that can generate."""
    for task in ("FOR_SEQ_TO_SEQ_CAUSAL_LM_", "FOR_SPEECH_SEQ_2_SEQ_", "FOR_CAUSAL_LM_", ""):
        found = getattr(modeling_auto, f"MODEL_{task}MAPPING_NAMES").get(name)
        if found:
            return getattr(transformers, found if isinstance(found, str) else found[0])
    raise Untried("transformers has no class for it")


def make(name):
    """(model, inputs) of a family: random weights, the same in every call. inputs has a padded attention_mask for texts."""
    try:
        config = config_of(name)
        torch.manual_seed(7)
        model = _class_of(name)._from_config(config, attn_implementation="eager").eval()
    except Exception as error:
        raise Untried(f"{type(error).__name__}: {error}") from error
    with torch.no_grad():
        for weight in model.parameters():
            if weight.is_floating_point():
                if weight.dim() == 1 and not (weight == 1).all():
                    weight.normal_(std=0.2)
                elif weight.dim() > 1 and weight.std() < 0.1:
                    weight.normal_(std=0.15)
    model.set_attn_implementation("eager")
    why = None
    for inputs in _candidates(model):
        try:
            with torch.inference_mode():
                model(**inputs)
            return model, inputs
        except Exception as error:
            why = why or error
    raise Untried(f"its inputs: {type(why).__name__}: {why}" if why else f"no inputs are known for {model.main_input_name}")


def twin(model):
    """The same model with eager attention, its weights shared."""
    made = copy.deepcopy(model, {id(p): p for p in model.parameters()})
    made.set_attn_implementation("eager")
    return made


def _ids(length, seed):
    return torch.randint(3, VOCABULARY - 10, (BATCH, length), generator=torch.Generator().manual_seed(seed))


def _candidates(model):
    """Arguments of a forward call, the likeliest first."""
    parameters = inspect.signature(model.forward).parameters
    numbers = torch.Generator().manual_seed(11)
    config = model.config
    text = {}
    if "input_ids" in parameters:
        text["input_ids"] = _ids(LENGTH, 3)
        if "attention_mask" in parameters:
            text["attention_mask"] = (torch.arange(LENGTH) < torch.tensor([[LENGTH], [LENGTH - 4]])).long()
        if "bbox" in parameters:
            corners = torch.randint(0, 50, (BATCH, LENGTH, 2), generator=numbers)
            text["bbox"] = torch.cat([corners, corners + 9], -1)
    if "decoder_input_ids" in parameters:
        text["decoder_input_ids"] = _ids(7, 5)
    if "input_ids" in text:
        yield text
    vision = getattr(config, "vision_config", config)
    size = getattr(vision, "image_size", 32) or 32
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    channels = getattr(vision, "num_channels", 3)
    mels = getattr(getattr(config, "encoder_config", getattr(config, "audio_config", config)), "num_mel_bins", 16)
    if "pixel_values" in parameters:
        yield text | {"pixel_values": torch.randn(BATCH, channels, height, width, generator=numbers)}
        yield text | {"pixel_values": torch.randn(BATCH, 3, 64, 64, generator=numbers)}
        yield text | {"pixel_values": torch.randn(BATCH, 4, channels, height, width, generator=numbers)}
    if "input_values" in parameters:
        yield text | {"input_values": torch.randn(BATCH, 4000, generator=numbers)}
        yield text | {"input_values": torch.randn(BATCH, 1, 4000, generator=numbers)}
        yield text | {"input_values": torch.randn(BATCH, 128, mels, generator=numbers)}
    if "input_features" in parameters:
        yield text | {"input_features": torch.randn(BATCH, mels, 64, generator=numbers)}
        yield text | {"input_features": torch.randn(BATCH, 64, mels, generator=numbers)}
        yield text | {"input_features": torch.randn(BATCH, 64, 80, generator=numbers)}
        yield text | {"input_features": torch.randn(BATCH, 64, 128, generator=numbers)}
    if "inputs_embeds" in parameters and "input_ids" not in parameters:
        yield {"inputs_embeds": torch.randn(BATCH, LENGTH, config.hidden_size, generator=numbers)}
    if "query_embeds" in parameters:
        yield {"query_embeds": torch.randn(BATCH, LENGTH, config.hidden_size, generator=numbers)}
