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
