"""Models of true widths, few layers and random weights, with the tokenizer of another GGUF file, for bench/llama.sh --model:

    python3 mixture.py TOKENIZER.gguf MODEL.gguf qwen3moe|gpt-oss|qwen35 [LAYERS]        needs the package gguf; 0.4 GB a layer of experts

qwen3moe is that of 30B-A3B in Q4_K_M, gpt-oss that of 20B in MXFP4 with Q8_0, qwen35 the dense hybrid of 4B in Q4_K_M: recurrent layers,
and each fourth one has attention."""

import pathlib
import sys

import gguf
import numpy as np
from large import TYPES, blocks, copy_tokenizer, mixed

CONTEXT = 16384


def weights(draw, shape, kind):
    """[..., out, in], any bits with scales that make the deviation about 0.02."""
    rows = int(np.prod(shape[:-1]))
    if kind == TYPES.MXFP4:
        found = np.frombuffer(draw.bytes(rows * shape[-1] // 32 * 17), np.uint8).reshape(-1, 17).copy()
        found[:, 0] = 120
        return found.reshape(*shape[:-1], -1)
    if kind == TYPES.F32:
        return draw.standard_normal(shape, np.float32) * np.float32(0.02)
    return blocks(draw, rows, shape[-1], kind).reshape(*shape[:-1], -1)


def attention(width, heads, kv_heads, dim, gates=1):
    return {"attn_q": (gates * heads * dim, width), "attn_k": (kv_heads * dim, width), "attn_v": (kv_heads * dim, width),
            "attn_output": (width, heads * dim)}


def experts(width, inner, count):
    return {"ffn_gate_inp": (count, width), "ffn_gate_exps": (count, inner, width), "ffn_up_exps": (count, inner, width),
            "ffn_down_exps": (count, width, inner)}


def qwen3moe(_):
    return attention(2048, 32, 4, 128) | experts(2048, 768, 128), {"attn_norm": 2048, "ffn_norm": 2048, "attn_q_norm": 128,
                                                                   "attn_k_norm": 128}


def gpt_oss(_):
    return attention(2880, 64, 8, 64) | experts(2880, 2880, 32), {"attn_norm": 2880, "post_attention_norm": 2880, "attn_sinks": 64}


def qwen35(layer):
    norms = {"attn_norm": 2560, "post_attention_norm": 2560}
    inner = {"ffn_gate": (9216, 2560), "ffn_up": (9216, 2560), "ffn_down": (2560, 9216)}
    if layer % 4 == 3:
        return attention(2560, 16, 4, 256, 2) | inner, norms | {"attn_q_norm": 256, "attn_k_norm": 256}
    return ({"attn_qkv": (8192, 2560), "attn_gate": (4096, 2560), "ssm_beta": (32, 2560), "ssm_alpha": (32, 2560),
             "ssm_out": (2560, 4096), "ssm_conv1d": (8192, 4)} | inner, norms | {"ssm_norm": 128, "ssm_a": 32})


MODELS = {
    "qwen3moe": (qwen3moe, "Q4_K_M", {"embedding_length": 2048, "feed_forward_length": 6144, "attention.head_count": 32,
                                      "attention.head_count_kv": 4, "attention.key_length": 128, "attention.value_length": 128,
                                      "expert_count": 128, "expert_used_count": 8, "expert_feed_forward_length": 768}),
    "gpt-oss": (gpt_oss, "MXFP4", {"embedding_length": 2880, "feed_forward_length": 2880, "attention.head_count": 64,
                                   "attention.head_count_kv": 8, "attention.key_length": 64, "attention.value_length": 64,
                                   "expert_count": 32, "expert_used_count": 4, "expert_feed_forward_length": 2880,
                                   "attention.sliding_window": 128}),
    "qwen35": (qwen35, "Q4_K_M", {"embedding_length": 2560, "feed_forward_length": 9216, "attention.head_count": 16,
                                  "attention.head_count_kv": 4, "attention.key_length": 256, "attention.value_length": 256,
                                  "rope.dimension_count": 64, "full_attention_interval": 4, "ssm.conv_kernel": 4,
                                  "ssm.inner_size": 4096, "ssm.state_size": 128, "ssm.time_step_rank": 32, "ssm.group_count": 16}),
}


def kind_of(mix, name, shape, layer, layers):
    if name in ("ffn_gate_inp", "ssm_conv1d", "ssm_beta", "ssm_alpha"):
        return TYPES.F32
    if mix == "MXFP4":
        return TYPES.MXFP4 if len(shape) == 3 else TYPES.Q8_0
    return mixed(mix, name.removesuffix("_exps"), layer, layers)


def main():
    draw, (tokenizer, path, name), partial = np.random.default_rng(1), sys.argv[1:4], sys.argv[2] + ".part"
    parts, mix, settings = MODELS[name]
    layers = int(sys.argv[4]) if len(sys.argv) > 4 else 8
    writer = gguf.GGUFWriter(partial, name)
    words = copy_tokenizer(tokenizer, writer)
    for key, value in (settings | {"block_count": layers, "context_length": CONTEXT, "vocab_size": words}).items():
        writer.add_uint32(f"{name}.{key}", value)
    writer.add_float32(f"{name}.attention.layer_norm_rms_epsilon", 1e-6)
    writer.add_float32(f"{name}.rope.freq_base", 1e6)
    if name == "qwen35":
        writer.add_array("qwen35.rope.dimension_sections", [11, 11, 10, 0])
    width, of_words = settings["embedding_length"], TYPES.Q8_0 if mix == "MXFP4" else TYPES.Q6_K
    for tensor in ("token_embd", "output"):
        writer.add_tensor(f"{tensor}.weight", weights(draw, (words, width), of_words), raw_dtype=of_words)
    writer.add_tensor("output_norm.weight", np.ones(width, np.float32))
    for i in range(layers):
        shapes, norms = parts(i)
        for tensor, size in norms.items():
            value = np.full(size, -0.5 if tensor == "ssm_a" else 1.0, np.float32)
            writer.add_tensor(f"blk.{i}.{tensor}" + ("" if tensor == "ssm_a" else ".weight"), value)
        if "ssm_a" in norms:
            writer.add_tensor(f"blk.{i}.ssm_dt.bias", np.zeros(32, np.float32))
        for tensor, shape in shapes.items():
            kind = kind_of(mix, tensor, shape, i, layers)
            writer.add_tensor(f"blk.{i}.{tensor}.weight", weights(draw, shape, kind), raw_dtype=kind)
            if name == "gpt-oss":
                writer.add_tensor(f"blk.{i}.{tensor}.bias", np.zeros(shape[:-1], np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    pathlib.Path(partial).rename(path)


if __name__ == "__main__":
    main()
