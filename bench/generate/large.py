"""A llama of 1.1 billion random weights in Q4_K, its words in Q6_K, with the tokenizer of another GGUF file: for bench/generate.sh --large.

    python3 large.py TOKENIZER.gguf MODEL.gguf        needs the package gguf; 630 MB
"""

import pathlib
import sys

import gguf
import numpy as np

WIDTH, INNER, LAYERS, HEADS, KV_HEADS, HEAD_DIM, CONTEXT = 2048, 8192, 16, 32, 8, 64, 16384
Q4_K, Q6_K = gguf.GGMLQuantizationType.Q4_K, gguf.GGMLQuantizationType.Q6_K


def copy_tokenizer(path, writer):
    """Returns the number of its tokens."""
    fields = gguf.GGUFReader(path).fields
    for name, field in fields.items():
        if name.startswith("tokenizer."):
            kind = field.types[0]
            writer.add_key_value(name, field.contents(), kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    return len(fields["tokenizer.ggml.tokens"].data)


def blocks(draw, rows, channels, kind):
    """Any bits, with scales such that weights have a mean of 0 and a deviation of about 0.02."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    found = np.frombuffer(draw.bytes(rows * channels // elements * size), np.uint8).reshape(-1, size).copy()
    at, scales = (0, [1e-4, 7.5e-4]) if kind == Q4_K else (size - 2, [1.5e-5])
    found[:, at : at + 2 * len(scales)] = np.array(scales, "<f2").view(np.uint8)
    return found.reshape(rows, -1)


def main():
    draw, partial = np.random.default_rng(1), sys.argv[2] + ".part"
    writer = gguf.GGUFWriter(partial, "llama")
    tokens = copy_tokenizer(sys.argv[1], writer)
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_vocab_size(tokens)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(5e5)
    kv = KV_HEADS * HEAD_DIM
    shapes = {"attn_q": (WIDTH, WIDTH), "attn_k": (kv, WIDTH), "attn_v": (kv, WIDTH), "attn_output": (WIDTH, WIDTH),
              "ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH), "ffn_down": (WIDTH, INNER)}
    writer.add_tensor("token_embd.weight", blocks(draw, tokens, WIDTH, Q6_K), raw_dtype=Q6_K)
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    for i in range(LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{i}.{name}.weight", np.ones(WIDTH, np.float32))
        for name, shape in shapes.items():
            writer.add_tensor(f"blk.{i}.{name}.weight", blocks(draw, *shape, Q4_K), raw_dtype=Q4_K)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    pathlib.Path(partial).rename(sys.argv[2])


if __name__ == "__main__":
    main()
