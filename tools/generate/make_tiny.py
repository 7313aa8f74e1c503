#!/usr/bin/env python3
"""Makes tiny models with random weights, in several files, and what transformers computes with them in float64.

    python3 make_tiny.py           needs torch, transformers and gguf; writes tiny/ in its folder

tiny/llama and tiny/gpt2 are what save_pretrained() writes: LLaMA's and GPT-2's names, shards with an index, bfloat16. LLaMA has
grouped heads, a head of its own, and a rotary embedding scaled as in Llama 3. tiny/NAME.gguf are models of each architecture that is
read in GGUF, by the rules of llama.cpp's converter, that of Llama 3's scaling in four files; together they have each scaling of
rotary embeddings, each norm, bias, window and cap. tiny/NAME.txt: the ids, and for each the logits that follow. test_decoder.c reads
them.
"""
import pathlib

import gguf
import gguf.quants
import torch
from transformers import (Gemma3ForCausalLM, Gemma3TextConfig, GPT2Config, GPT2LMHeadModel, GptOssConfig, GptOssForCausalLM, LlamaConfig,
                          LlamaForCausalLM, MistralConfig, MistralForCausalLM, MixtralConfig, MixtralForCausalLM, Qwen2Config,
                          Qwen2ForCausalLM, Qwen3_5ForCausalLM, Qwen3_5MoeForCausalLM, Qwen3_5MoeTextConfig, Qwen3_5TextConfig, Qwen3Config,
                          Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM, Qwen3NextConfig, Qwen3NextForCausalLM)

WORDS, TOKENS = 61, 23
FOLDER = pathlib.Path(__file__).parent / "tiny"
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}
SIZES = dict(vocab_size=WORDS, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=64, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2, pad_token_id=0)

DELTA = dict(**{**SIZES, "num_hidden_layers": 4}, head_dim=16, full_attention_interval=2, linear_num_key_heads=2, linear_num_value_heads=6,
             linear_key_head_dim=8, linear_value_head_dim=8, linear_conv_kernel_dim=4,
             rope_parameters={"rope_type": "default", "rope_theta": 1000.0, "partial_rotary_factor": 0.5, "mrope_section": [2, 1, 1]})
SHARED = dict(num_experts=6, num_experts_per_tok=3, moe_intermediate_size=16, shared_expert_intermediate_size=24)
RECURRENT = ("qwen35", "qwen35moe", "qwen3next")


def llama():
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=WORDS, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
        max_position_embeddings=64, rms_norm_eps=1e-5, rope_parameters=LLAMA3, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2))


def gpt2():
    return GPT2LMHeadModel(GPT2Config(vocab_size=WORDS, n_embd=40, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2))


def llama3():
    return LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=LLAMA3, tie_word_embeddings=True, mlp_bias=True))


def mistral():
    return MistralForCausalLM(MistralConfig(**SIZES, head_dim=12, sliding_window=7, tie_word_embeddings=False))


def qwen2():
    rope = {"rope_type": "yarn", "rope_theta": 700.0, "factor": 4.0, "original_max_position_embeddings": 16}
    return Qwen2ForCausalLM(Qwen2Config(**SIZES, rope_parameters=rope, tie_word_embeddings=True))


def qwen3():
    rope = {"rope_type": "linear", "rope_theta": 1000.0, "factor": 2.0}
    return Qwen3ForCausalLM(Qwen3Config(**SIZES, head_dim=16, rope_parameters=rope, tie_word_embeddings=False))


def mixtral():
    return MixtralForCausalLM(MixtralConfig(**SIZES, num_local_experts=4, num_experts_per_tok=2, tie_word_embeddings=False))


def qwen3moe():
    return Qwen3MoeForCausalLM(Qwen3MoeConfig(**SIZES, head_dim=16, moe_intermediate_size=24, num_experts=6, num_experts_per_tok=3,
                                              norm_topk_prob=True, tie_word_embeddings=True))


def qwen35():
    return Qwen3_5ForCausalLM(Qwen3_5TextConfig(**DELTA, tie_word_embeddings=True))


def qwen35moe():
    return Qwen3_5MoeForCausalLM(Qwen3_5MoeTextConfig(**DELTA, **SHARED, tie_word_embeddings=False))


def qwen3next():
    rope = {"rope_type": "default", "rope_theta": 1000.0, "partial_rotary_factor": 0.5}
    return Qwen3NextForCausalLM(Qwen3NextConfig(**DELTA | SHARED | {"rope_parameters": rope}, tie_word_embeddings=False))


def gpt_oss():
    rope = {"rope_type": "yarn", "rope_theta": 150.0, "factor": 4.0, "beta_fast": 2.0, "beta_slow": 0.5, "truncate": False,
            "original_max_position_embeddings": 16}
    return GptOssForCausalLM(GptOssConfig(**{**SIZES, "intermediate_size": 64}, head_dim=16, sliding_window=7, num_local_experts=5,
                                          num_experts_per_tok=2, swiglu_limit=7.0, rope_parameters=rope))


def gemma3():
    rope = {"full_attention": {"rope_type": "linear", "rope_theta": 900.0, "factor": 8.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}
    return Gemma3ForCausalLM(Gemma3TextConfig(**{**SIZES, "num_hidden_layers": 3}, head_dim=12, query_pre_attn_scalar=12, sliding_window=6,
                                              layer_types=["sliding_attention", "sliding_attention", "full_attention"],
                                              rope_parameters=rope, final_logit_softcapping=2.0, tie_word_embeddings=True))


def permuted(weight, heads):
    """Rows of q or k for rotations of adjacent channels."""
    return weight.reshape(heads, 2, -1, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
LAYER = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down", "mlp.gate": "ffn_gate_inp", "mlp.router": "ffn_gate_inp",
         "mlp.shared_expert.gate_proj": "ffn_gate_shexp", "mlp.shared_expert.up_proj": "ffn_up_shexp",
         "mlp.shared_expert.down_proj": "ffn_down_shexp", "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
         "linear_attn.in_proj_qkv": "attn_qkv", "linear_attn.in_proj_z": "attn_gate", "linear_attn.in_proj_b": "ssm_beta",
         "linear_attn.in_proj_qkvz": "ssm_in", "linear_attn.in_proj_ba": "ssm_ba", "linear_attn.in_proj_a": "ssm_alpha",
         "linear_attn.conv1d": "ssm_conv1d", "linear_attn.norm": "ssm_norm", "linear_attn.out_proj": "ssm_out",
         "input_layernorm": "attn_norm"}
BEHIND = {"post_attention_layernorm": "post_attention_norm"}
AFTER = {"post_attention_layernorm": "ffn_norm"}
AROUND = {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
          "post_feedforward_layernorm": "post_ffw_norm"}


def tiled(name, value, config):
    """Heads of values in the order of GGUF: the first of each head of keys, the second of each, ..."""
    keys, heads, channels = config.linear_num_key_heads, config.linear_num_value_heads, config.linear_value_head_dim

    def rows(part):
        return part.reshape(keys, heads // keys, -1, *part.shape[1:]).swapaxes(0, 1).reshape(part.shape)

    if name.endswith(("attn_qkv", "ssm_conv1d")):
        value = value.reshape(value.shape[0], -1)
        return torch.cat((value[: -heads * channels], rows(value[-heads * channels:])))
    if name.endswith("ssm_out"):
        return rows(value.T.contiguous()).T
    return rows(value) if name.endswith(("attn_gate", "ssm_beta", "ssm_alpha", "ssm_dt", "ssm_a")) else value


def apart(block, value, config):
    """q, k, v and z, each of all heads, of a matrix that has them for one head of keys after another."""
    keys, channels = config.linear_num_key_heads, config.linear_key_head_dim
    *qkv, z = value.reshape(keys, -1, value.shape[1]).tensor_split((channels, 2 * channels, value.shape[0] // keys // 2 + channels), dim=1)
    yield f"{block}.attn_qkv.weight", torch.cat([part.flatten(0, 1) for part in qkv])
    yield f"{block}.attn_gate.weight", z.flatten(0, 1)


def experts(block, kind, value, interleaved, fused):
    """Stacks of all experts, gate and up apart unless fused."""
    suffix = "bias" if kind.endswith("_bias") else "weight"
    if interleaved and suffix == "weight":
        value = value.transpose(1, 2)
    if kind.startswith("down_proj"):
        yield f"{block}.ffn_down_exps.{suffix}", value
    elif fused:
        yield f"{block}.ffn_gate_up_exps.{suffix}", value
    else:
        for part, half in zip(("gate", "up"), (value[:, ::2], value[:, 1::2]) if interleaved else value.chunk(2, dim=1)):
            yield f"{block}.ffn_{part}_exps.{suffix}", half


def arrays(model, architecture, fused):
    """Names and values as GGUF has them."""
    config, layer = model.config, LAYER | {"gemma3": AROUND, **dict.fromkeys(("gpt-oss", *RECURRENT), BEHIND)}.get(architecture, AFTER)
    for name, value in model.state_dict().items():
        if name.startswith("lm_head") and config.tie_word_embeddings:
            continue
        stem, suffix = name.rsplit(".", 1)
        if stem.endswith(".mlp.experts"):
            yield from experts(f"blk.{stem.split('.')[2]}", suffix, value, architecture == "gpt-oss", fused)
            continue
        if suffix == "sinks":
            yield f"blk.{stem.split('.')[2]}.attn_sinks.weight", value
            continue
        if suffix in ("A_log", "dt_bias"):
            block = f"blk.{stem.split('.')[2]}"
            learned = value if architecture == "qwen3next" else tiled("ssm_a", value, config)
            yield (f"{block}.ssm_a", -learned.double().exp()) if suffix == "A_log" else (f"{block}.ssm_dt.bias", learned)
            continue
        if stem.startswith("model.layers."):
            _, _, number, part = stem.split(".", 3)
            stem = f"blk.{number}.{layer[part]}"
        else:
            stem = NAMES[stem]
        if architecture == "qwen35moe" and stem.endswith("inp_shexp"):
            value = value[0]  # or a matrix of one row: converters wrote both
        if architecture == "llama" and stem.endswith(("attn_q", "attn_k")):
            value = permuted(value, config.num_attention_heads if stem.endswith("q") else config.num_key_value_heads)
        if architecture == "qwen3next" and stem.endswith("ssm_in") and stem != "blk.0.ssm_in":  # which is as in older files
            yield from apart(stem.removesuffix(".ssm_in"), value, config)
            continue
        if architecture == "qwen3next":
            value = value.squeeze(1) if stem.endswith("ssm_conv1d") else value
        elif architecture in RECURRENT:
            value = tiled(stem, value, config)
        if (architecture == "gemma3" and "norm" in stem) or (architecture in RECURRENT and "norm" in stem and "ssm" not in stem):
            value = value + 1
        yield f"{stem}.{suffix}", value


def settings(writer, config, rope):
    writer.add_block_count(config.num_hidden_layers)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(rope["rope_theta"])
    if getattr(config, "head_dim", None):
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
    if getattr(config, "sliding_window", None):
        writer.add_sliding_window(config.sliding_window)
    if getattr(config, "num_experts_per_tok", None):
        writer.add_expert_count(getattr(config, "num_local_experts", None) or config.num_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        tokenizer(writer)
    if writer.arch == "qwen35":
        tokenizer(writer)
    if writer.arch in RECURRENT:
        writer.add_rope_dimension_count(int(config.head_dim * rope["partial_rotary_factor"]))
        if "mrope_section" in rope:
            writer.add_rope_dimension_sections([*rope["mrope_section"], 0])
        writer.add_ssm_conv_kernel(config.linear_conv_kernel_dim)
        writer.add_ssm_state_size(config.linear_key_head_dim)
        writer.add_ssm_group_count(config.linear_num_key_heads)
        writer.add_ssm_time_step_rank(config.linear_num_value_heads)
        writer.add_ssm_inner_size(config.linear_num_value_heads * config.linear_value_head_dim)
        writer.add_uint32(f"{writer.arch}.full_attention_interval", 2)
    if writer.arch in ("qwen3moe", "qwen35moe", "qwen3next", "gpt-oss"):
        writer.add_expert_feed_forward_length(getattr(config, "moe_intermediate_size", config.intermediate_size))
    if getattr(config, "shared_expert_intermediate_size", None):
        writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)
    if rope.get("rope_type") in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])
    if rope.get("rope_type") == "yarn":
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        for beta in ("beta_fast", "beta_slow"):
            if beta in rope:
                writer.add_float32(f"{writer.arch}.rope.scaling.yarn_{beta}", rope[beta])


def tokenizer(writer):
    """A token for each of some characters, so that the program can run the model."""
    words = [*map(chr, range(ord("A"), ord("A") + WORDS - 2)), "\u0120", "ab"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen35" if writer.arch.startswith("qwen35") else "qwen2")
    writer.add_token_list(words)
    writer.add_token_types([gguf.TokenType.NORMAL] * WORDS)
    writer.add_token_merges(["a b"])


def write_gguf(path, model, architecture, split, fused=False):
    config = model.config
    rope = config.rope_parameters.get("full_attention", config.rope_parameters)
    writer = gguf.GGUFWriter(path, architecture, split_max_tensors=split, use_temp_file=False)
    settings(writer, config, rope)
    if architecture == "gemma3":
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
        writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config.layer_types])
        writer.add_rope_freq_base_swa(config.rope_parameters["sliding_attention"]["rope_theta"])
    if rope.get("rope_type") == "llama3":
        unscaled = 1.0 / rope["rope_theta"] ** (torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim)
        frequencies = model.model.rotary_emb.inv_freq.double()
        writer.add_tensor("rope_freqs.weight", (unscaled / frequencies).float().numpy())
    for name, value in arrays(model, architecture, fused):
        value = value.contiguous()
        if value.dim() == 1 or name.endswith(("bias", "ssm_conv1d.weight")):
            writer.add_tensor(name, value.float().numpy())
        elif architecture == "gpt-oss" and "_exps" in name:
            kind = gguf.GGMLQuantizationType.MXFP4
            writer.add_tensor(name, gguf.quants.quantize(value.float().numpy(), kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, value.bfloat16().view(torch.uint16).numpy().view("uint8"), raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def randomize(model):
    """Numbers of bfloat16, experts of gpt-oss in MXFP4; float32's rotary frequencies."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_((parameter + torch.randn_like(parameter) * 0.1).bfloat16())
        for name, parameter in model.named_parameters():
            if isinstance(model, GptOssForCausalLM) and name.endswith(("experts.gate_up_proj", "experts.down_proj")):
                kind = gguf.GGMLQuantizationType.MXFP4
                blocks = gguf.quants.quantize(parameter.transpose(1, 2).float().contiguous().numpy(), kind)
                parameter.copy_(torch.from_numpy(gguf.quants.dequantize(blocks, kind)).transpose(1, 2))
    return model


def record(name, model):
    ids = torch.randint(WORDS, (1, TOKENS))
    model.double()
    if hasattr(model, "model"):  # whose frequencies double() did not make more exact
        model.model.rotary_emb = type(model.model.rotary_emb)(model.config)
    with torch.inference_mode():
        logits = model(ids).logits[0]
    with open(FOLDER / f"{name}.txt", "w") as file:
        print(" ".join(map(str, ids[0].tolist())), file=file)
        for row in logits.tolist():
            print(" ".join(f"{x:.9g}" for x in row), file=file)


def main():
    for name, make in (("llama", llama), ("gpt2", gpt2)):
        torch.manual_seed(37)
        model = randomize(make().eval())
        model.bfloat16().save_pretrained(FOLDER / name, max_shard_size="20KB")
        for file in (FOLDER / name).iterdir():
            file.chmod(0o644)
        (FOLDER / name / "generation_config.json").unlink()
        record(name, model)
    for name, make, architecture in (("llama3", llama3, "llama"), ("mistral", mistral, "llama"), ("qwen2", qwen2, "qwen2"),
                                     ("qwen3", qwen3, "qwen3"), ("gemma3", gemma3, "gemma3"), ("mixtral", mixtral, "llama"),
                                     ("qwen3moe", qwen3moe, "qwen3moe"), ("gptoss", gpt_oss, "gpt-oss"), ("qwen35", qwen35, "qwen35"),
                                     ("qwen35moe", qwen35moe, "qwen35moe"), ("qwen3next", qwen3next, "qwen3next")):
        torch.manual_seed(37)
        model = randomize(make().eval())
        write_gguf(FOLDER / f"{name}.gguf", model, architecture, split=8 if name == "llama3" else 0)
        if name == "qwen35moe":
            write_gguf(FOLDER / f"{name}-fused.gguf", model, architecture, split=0, fused=True)
        model.set_attn_implementation("eager")
        if getattr(model.config, "num_experts_per_tok", None):
            model.set_experts_implementation("eager")  # others have no float64
        record(name, model)


if __name__ == "__main__":
    main()
