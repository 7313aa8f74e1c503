"""Model files that tests and references are made of.

model_files.py LAYERS HEADS D_MODEL D_K FILE: a large one of random attention weights, in LLaMA's names and bfloat16."""

import json
import random
import struct
import sys


def safetensors(arrays, dtype="F32"):
    """The bytes of a file of {name: (shape, bytes)} of one type, or of {name: (shape, bytes, type)}."""
    header, at = {}, 0
    for name, (shape, data, *own) in arrays.items():
        header[name] = {"dtype": own[0] if own else dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(array[1] for array in arrays.values())


def floats(numbers):
    return struct.pack(f"<{len(numbers)}f", *numbers)


U32, F32, TEXT, ARRAY, U64 = 4, 6, 8, 9, 10  # types of GGUF's settings


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def setting(key, kind, value):
    """ARRAY: value is the type of elements, their number and bytes."""
    if kind == ARRAY:
        element, count, data = value
        return text(key) + struct.pack("<IIQ", ARRAY, element, count) + data
    formats = {U32: "<I", F32: "<f", U64: "<Q"}
    return text(key) + struct.pack("<I", kind) + (text(value) if kind == TEXT else struct.pack(formats[kind], value))


def gguf(settings, arrays):
    """The bytes of a file of {name: (sizes, innermost first; number of the type; bytes, of which there are whole 32)}."""
    head, at = b"GGUF" + struct.pack("<IQQ", 3, len(arrays), len(settings)) + b"".join(settings), 0
    for name, (sizes, kind, data) in arrays.items():
        head += text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, at)
        at += len(data)
    return head + bytes(-len(head) % 32) + b"".join(array[2] for array in arrays.values())


def q4_k(draw, blocks):
    """Blocks of any integers, whose numbers are small."""
    return b"".join(struct.pack("<2H", 0x200 + draw.randrange(512), 0xA00 + draw.randrange(512)) + draw.randbytes(140)
                    for _ in range(blocks))  # fmt: skip


def wide_llama(quantized=False, quantized_words=False):
    """A LLaMA in GGUF of one layer with rows of 256 random weights, float32 or Q4_K, and a few words. quantized_words: these are Q4_K
    and apart from the head; settings say what is computed anyway."""
    draw, width = random.Random(1), 256
    words = ["a", "b", "c", "d", "<s>", "</s>", "ab", "s"]
    sizes = {"block_count": 1, "embedding_length": width, "feed_forward_length": width, "context_length": 1024,
             "attention.head_count": 4, "attention.head_count_kv": 4}  # fmt: skip
    settings = [
        setting("general.architecture", TEXT, "llama"), *(setting("llama." + k, U32, v) for k, v in sizes.items()),
        setting("llama.attention.layer_norm_rms_epsilon", F32, 1e-5), setting("llama.rope.freq_base", F32, 10000.0),
        setting("tokenizer.ggml.model", TEXT, "gpt2"), setting("tokenizer.ggml.pre", TEXT, "smollm"),
        setting("tokenizer.ggml.tokens", ARRAY, (TEXT, len(words), b"".join(map(text, words)))),
        setting("tokenizer.ggml.token_type", ARRAY, (5, len(words), struct.pack("<8i", *[1] * len(words)))),
        setting("tokenizer.ggml.merges", ARRAY, (TEXT, 1, text("a b"))),
    ]  # fmt: skip
    arrays = {"token_embd.weight": ([width, len(words)], 0, floats([draw.gauss(0, 0.05) for _ in range(8 * width)]))}
    if quantized_words:
        arrays = {"output.weight": arrays["token_embd.weight"], "token_embd.weight": ([width, len(words)], 12, q4_k(draw, len(words)))}
        settings += [setting("llama.rope.scaling.type", TEXT, "none"), setting("llama.expert_count", U32, 0)]
    for name in "output_norm", "blk.0.attn_norm", "blk.0.ffn_norm":
        arrays[name + ".weight"] = [width], 0, floats([1.0] * width)
    for name in "attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down":
        data = q4_k(draw, width) if quantized else floats([draw.gauss(0, 0.05) for _ in range(width * width)])
        arrays[f"blk.0.{name}.weight"] = [width, width], 12 if quantized else 0, data
    return gguf(settings, arrays)


def main(layers, heads, d_model, d_k, path):
    draw, count = random.Random(1), heads * d_k * d_model
    arrays = {}
    for i in range(3 * layers):
        numbers = bytearray(draw.randbytes(2 * count))  # from -1 to -0.5, and from 0.5 to 1
        numbers[1::2] = numbers[1::2].translate(bytes(0x3F | byte & 0x80 for byte in range(256)))
        numbers[::2] = numbers[::2].translate(bytes(byte & 0x7F for byte in range(256)))
        arrays[f"l.{i // 3}.self_attn.{'qkv'[i % 3]}_proj.weight"] = (heads * d_k, d_model), bytes(numbers)
    with open(path, "wb") as file:
        file.write(safetensors(arrays, "BF16"))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:5]), sys.argv[5])
