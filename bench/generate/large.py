"""A llama of 1.1 billion random weights in Q4_K, its words in Q6_K, with the tokenizer of another GGUF file: for bench/generate.sh --large.

    python3 large.py TOKENIZER.gguf MODEL.gguf        needs nothing; 630 MB
"""

import pathlib
import random
import struct
import sys

WIDTH, INNER, LAYERS, HEADS, KV_HEADS, HEAD_DIM, CONTEXT = 2048, 8192, 16, 32, 8, 64, 16384
U32, F32, TEXT, ARRAY = 4, 6, 8, 9
KIND_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
F32S, Q4_K, Q6_K = 0, 12, 14
BLOCK_BYTES = {Q4_K: 144, Q6_K: 210}
POOL = 4096  # blocks that are drawn; matrices are pieces of them


def text(value):
    return struct.pack("<Q", len(value)) + value


def tokenizer(path):
    """The settings of a file that begin with "tokenizer.", as they are, and the number of its tokens."""
    data, at, kept, tokens = pathlib.Path(path).read_bytes(), 24, [], 0

    def number(form):
        nonlocal at
        at += struct.calcsize(form)
        return struct.unpack_from(form, data, at - struct.calcsize(form))[0]

    def skip(kind):
        """Behind a value; how many it holds."""
        nonlocal at
        if kind == ARRAY:
            kind, count = number("<I"), number("<Q")
            for _ in range(count):
                skip(kind)
            return count
        size = number("<Q") if kind == TEXT else KIND_BYTES[kind]
        at += size
        return 1

    for _ in range(struct.unpack_from("<Q", data, 16)[0]):
        begin, length = at, number("<Q")
        key = data[at:at + length]
        at += length
        count = skip(number("<I"))
        if key.startswith(b"tokenizer."):
            kept.append(data[begin:at])
        if key == b"tokenizer.ggml.tokens":
            tokens = count
    return kept, tokens


def blocks(draw, kind):
    """Scales are such that weights have a mean of 0 and a deviation of about 0.02."""
    for _ in range(POOL):
        if kind == Q4_K:
            yield struct.pack("<ee", 1e-4, 7.5e-4) + draw.randbytes(BLOCK_BYTES[kind] - 4)
        else:
            yield draw.randbytes(BLOCK_BYTES[kind] - 2) + struct.pack("<e", 1.5e-5)


def arrays(tokens):
    kv = KV_HEADS * HEAD_DIM
    yield "token_embd.weight", (WIDTH, tokens), Q6_K
    yield "output_norm.weight", (WIDTH,), F32S
    for i in range(LAYERS):
        for name, shape in (("attn_norm", (WIDTH,)), ("ffn_norm", (WIDTH,)), ("attn_q", (WIDTH, WIDTH)), ("attn_k", (WIDTH, kv)),
                            ("attn_v", (WIDTH, kv)), ("attn_output", (WIDTH, WIDTH)), ("ffn_gate", (WIDTH, INNER)),
                            ("ffn_up", (WIDTH, INNER)), ("ffn_down", (INNER, WIDTH))):
            yield f"blk.{i}.{name}.weight", shape, Q4_K if len(shape) == 2 else F32S


def main():
    kept, tokens = tokenizer(sys.argv[1])
    settings = {"block_count": LAYERS, "context_length": CONTEXT, "embedding_length": WIDTH, "feed_forward_length": INNER,
                "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS, "vocab_size": tokens}
    header = [text(b"general.architecture") + struct.pack("<I", TEXT) + text(b"llama"),
              text(b"llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", F32, 1e-5),
              text(b"llama.rope.freq_base") + struct.pack("<If", F32, 5e5)]
    header += [text(b"llama." + key.encode()) + struct.pack("<II", U32, value) for key, value in settings.items()] + kept
    sizes, table, at = [], [], 0
    for name, shape, kind in arrays(tokens):
        elements = shape[0] * (shape[1] if len(shape) == 2 else 1)
        sizes.append((kind, elements // 256 * BLOCK_BYTES[kind] if kind != F32S else 4 * elements))
        table.append(text(name.encode()) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, at))
        at += -(-sizes[-1][1] // 32) * 32
    draw = random.Random(1)
    pools = {kind: b"".join(blocks(draw, kind)) for kind in BLOCK_BYTES}
    with open(sys.argv[2] + ".part", "wb") as file:
        file.write(struct.pack("<4sIQQ", b"GGUF", 3, len(table), len(header)) + b"".join(header + table))
        for kind, size in sizes:
            file.write(bytes(-file.tell() % 32))
            while kind == F32S and size:
                file.write(struct.pack("<f", 1.0))
                size -= 4
            while size:
                begin = draw.randrange(POOL) * BLOCK_BYTES[kind]
                piece = pools[kind][begin:begin + size]
                file.write(piece)
                size -= len(piece)
    pathlib.Path(sys.argv[2] + ".part").rename(sys.argv[2])


if __name__ == "__main__":
    main()
