#!/usr/bin/env python3
"""Writes quantised.h: weights as models store them, and the numbers that they stand for, for tests/test_quantisation.c and
tests/test_quantize.c. Blocks by the gguf package, words of GPTQ, AWQ and compressed-tensors by the formulas of GPTQModel
(TorchLinear) and compressed-tensors (pack_to_int32). Run once, with numpy and gguf:
    python3 tests/data/quantised.py > tests/data/quantised.h
"""
from importlib.metadata import version

import gguf.quants as quants
import numpy as np

rng = np.random.default_rng(46)
rows = []


def text(array):
    """Bytes of an array in hexadecimal, as string literals."""
    if array is None:
        return "NULL"
    digits = np.ascontiguousarray(array).tobytes().hex()
    return "\n     ".join('"' + digits[i : i + 104] + '"' for i in range(0, len(digits), 104))


def row(name, dtype, size, group, data, numbers, packing="PLAIN", scale="F32", scales=None, zeros=None, offset=0, group_of=None):
    rows.append(
        f'    {{"{name}", FOVEA_DTYPE_{dtype}, FOVEA_PACKING_{packing}, FOVEA_DTYPE_{scale}, {size[0]}, {size[1]}, {group}, '
        f"{offset},\n     {text(data)},\n     {text(scales)},\n     {text(zeros)},\n     {text(group_of)},\n     "
        f"{text(numbers.astype(np.float32))}}},\n"
    )


def blocks(name, elements, size, halves):
    """A row of 256 elements of any bytes; halves: where float16 numbers are, which are finite."""
    data = rng.integers(0, 256, (256 // elements, size), dtype=np.uint8)
    for at in halves:
        data[:, at : at + 2] = (rng.normal(size=len(data)) / 8).astype(np.float16).view(np.uint8).reshape(-1, 2)
    row(name, name, (256, 1), 0, data, getattr(quants, name).dequantize_blocks(data))


def words(integers, axis, order=None, bits=4):
    """Integers along an axis in words of 32 bits; order: which of them comes first, second ..."""
    per = 32 // bits
    x = np.moveaxis(integers, axis, -1).astype(np.uint32)
    x = x.reshape(*x.shape[:-1], -1, per)[..., order or range(per)]
    return np.moveaxis(np.bitwise_or.reduce(x << (bits * np.arange(per, dtype=np.uint32)), axis=-1), -1, axis)


def groups(bits, packing, offset=0, act_order=False, symmetric=False):
    size, out, group = 32, 8, 16
    most = 1 << bits
    w = rng.integers(0, most, (size, out))
    z = np.full((2, out), most // 2) if symmetric else rng.integers(offset, most, (2, out))
    s = (rng.normal(size=(2, out)) / 8).astype(np.float16)
    of = np.arange(size) // group
    if act_order:
        of = rng.permutation(of)
    numbers = (s.astype(np.float32)[of] * (w - z[of]).astype(np.float32)).T
    gptq, order = packing == "GPTQ", None if packing == "GPTQ" else [0, 2, 4, 6, 1, 3, 5, 7]
    row(f"{packing} {bits}{' act-order' if act_order else ''}", f"U{bits}", (size, out), group,
        words(w, 0 if gptq else 1, order, bits), numbers, packing, "F16", s, words(z - offset, 1, order, bits), offset,
        of.astype(np.int32) if act_order else None)


def compressed():
    w = rng.integers(-8, 8, (8, 32))
    s = (rng.normal(size=(8, 2)) / 8).astype(np.float32).view(np.uint32) & 0xFFFF0000
    numbers = np.repeat(s.view(np.float32), 16, axis=1) * w.astype(np.float32)
    row("pack-quantized", "U4", (32, 8), 16, words(w + 8, 1), numbers, scale="BF16", scales=(s >> 16).astype(np.uint16))


def fill(seed, n):
    """As in tests/recorded.h."""
    state, x = seed, []
    for _ in range(n):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        x.append(((state >> 16) % 129 - 64) / 64)
    return np.array(x, dtype=np.float32)


blocks("Q8_0", 32, 34, [0])
blocks("Q4_0", 32, 18, [0])
blocks("Q4_1", 32, 20, [0, 2])
blocks("Q4_K", 256, 144, [0, 2])
blocks("Q5_K", 256, 176, [0, 2])
blocks("Q6_K", 256, 210, [208])
groups(4, "GPTQ", offset=1)
groups(4, "GPTQ", act_order=True)
groups(8, "GPTQ")
groups(4, "AWQ")
compressed()
print(f"/* Made by quantised.py with gguf {version('gguf')}; not edited by hand. Bytes in hexadecimal. */")
print("static const struct recorded_weights {\n    const char *name;\n    fovea_dtype dtype;\n    fovea_packing packing;")
print("    fovea_dtype scale_dtype;\n    int64_t in, out, group;\n    int zero_offset;")
print("    const char *data, *scales, *zeros, *group_of, *numbers;\n} recorded_weights[] = {")
print("".join(rows) + "};\n")
print("/* fill(7, 256), element i times (1 + i / 32 % 4) / 3, as blocks. */\nstatic const struct recorded_blocks {")
print("    fovea_dtype dtype;\n    const char *data;\n} recorded_blocks[] = {")
x = (fill(7, 256) * ((1 + np.arange(256) // 32 % 4).astype(np.float32) / np.float32(3))).reshape(-1, 32)
for name in ("Q8_0", "Q4_0", "Q4_1"):
    print(f"    {{FOVEA_DTYPE_{name},\n     {text(getattr(quants, name).quantize_blocks(x))}}},")
print("};")
