"""A llama of random weights with the tokenizer of another GGUF file: of 1.1 billion in Q4_K, its words in Q6_K, for bench/generate.sh
--large; or of 0.4 billion (5 layers) in a type, as llama.cpp's quantize mixes them, for bench/llama.sh --types.

    python3 large.py TOKENIZER.gguf MODEL.gguf [Q4_K_M|Q5_K_M|Q6_K|Q8_0|F16|BF16 [LAYERS]]

Needs the package gguf; writes 630 MB, or 250 to 850 for 5 layers.
"""

import pathlib
import sys

import gguf
import numpy as np

WIDTH, INNER, HEADS, KV_HEADS, HEAD_DIM, CONTEXT = 2048, 8192, 32, 8, 64, 16384
TYPES = gguf.GGMLQuantizationType
# Where scales are in a block, and such that weights have a mean of 0 and a deviation of about 0.02.
SCALES = {TYPES.Q4_K: (0, [1e-4, 7.5e-4]), TYPES.Q5_K: (0, [5e-5, 7.5e-4]), TYPES.Q6_K: (208, [1.5e-5]), TYPES.Q8_0: (0, [2.7e-4])}


def copy_tokenizer(path, writer):
    """Returns the number of its tokens."""
    fields = gguf.GGUFReader(path).fields
    for name, field in fields.items():
        if name.startswith("tokenizer."):
            kind = field.types[0]
            writer.add_key_value(name, field.contents(), kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    return len(fields["tokenizer.ggml.tokens"].data)


def blocks(draw, rows, channels, kind):
    """Any bits with those scales, or floats."""
    if kind not in SCALES:
        floats = (draw.standard_normal((rows, channels), np.float32) * 0.02).astype(np.float16 if kind == TYPES.F16 else np.float32)
        return floats if kind == TYPES.F16 else (floats.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    found = np.frombuffer(draw.bytes(rows * channels // elements * size), np.uint8).reshape(-1, size).copy()
    at, scales = SCALES[kind]
    found[:, at : at + 2 * len(scales)] = np.array(scales, "<f2").view(np.uint8)
    return found.reshape(rows, -1)


def mixed(mix, name, layer, layers):
    """The type of a layer's matrix: _M has values and ffn_down of half of the layers in Q6_K."""
    more = mix.endswith("_M") and name in ("attn_v", "ffn_down")
    eighth = layers // 8
    if more and (layer < eighth or layer >= 7 * eighth or (layer - eighth) % 3 == 2):
        return TYPES.Q6_K
    return TYPES[mix.removesuffix("_M")]


def main():
    draw, partial = np.random.default_rng(1), sys.argv[2] + ".part"
    mix = sys.argv[3] if len(sys.argv) > 3 else "Q4_K"
    layers = int(sys.argv[4]) if len(sys.argv) > 4 else 16 if mix == "Q4_K" else 5
    words = TYPES.Q6_K if mix.startswith("Q4") or mix.endswith("_M") else TYPES[mix]
    writer = gguf.GGUFWriter(partial, "llama")
    tokens = copy_tokenizer(sys.argv[1], writer)
    writer.add_block_count(layers)
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
    writer.add_tensor("token_embd.weight", blocks(draw, tokens, WIDTH, words), raw_dtype=words)
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    for i in range(layers):
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{i}.{name}.weight", np.ones(WIDTH, np.float32))
        for name, shape in shapes.items():
            kind = mixed(mix, name, i, layers)
            writer.add_tensor(f"blk.{i}.{name}.weight", blocks(draw, *shape, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    pathlib.Path(partial).rename(sys.argv[2])


if __name__ == "__main__":
    main()
