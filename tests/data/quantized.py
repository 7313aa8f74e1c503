#!/usr/bin/env python3
"""Writes quantized.arrays: weights as models store them, and the numbers that they stand for, for test_quantization.c and
test_quantize.c. Blocks by the gguf package, words of GPTQ, AWQ and compressed-tensors by the formulas of GPTQModel
(TorchLinear) and compressed-tensors (pack_to_int32). Run once, with numpy and gguf (0.19.0):
    python3 tests/data/quantized.py
Arrays NAME/data, NAME/scales ...; quantized/NAME: fill(7, 256), element i times (1 + i / 32 % 4) / 3, as blocks.
"""
import gguf.quants as quants
import numpy as np
from arrays import Arrays

rng = np.random.default_rng(46)
arrays = Arrays(__file__)


def add(name, data, numbers, **more):
    for part, array in {"data": data, "numbers": numbers.astype(np.float32), **more}.items():
        if array is not None:
            arrays.add(f"{name}/{part}", np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8))


def blocks(name, elements, size, halves):
    """A row of 256 elements of any bytes; halves: where float16 numbers are, which are finite."""
    data = rng.integers(0, 256, (256 // elements, size), dtype=np.uint8)
    if name == "MXFP4":  # the package has no NaN
        data[:, 0] = np.minimum(data[:, 0], 254)
    for at in halves:
        data[:, at : at + 2] = (rng.normal(size=len(data)) / 8).astype(np.float16).view(np.uint8).reshape(-1, 2)
    add(name, data, getattr(quants, name).dequantize_blocks(data))


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
    add(f"{packing} {bits}{' act-order' if act_order else ''}", words(w, 0 if gptq else 1, order, bits), numbers, scales=s,
        zeros=words(z - offset, 1, order, bits), group_of=of.astype(np.int32) if act_order else None)


def compressed():
    w = rng.integers(-8, 8, (8, 32))
    s = (rng.normal(size=(8, 2)) / 8).astype(np.float32).view(np.uint32) & 0xFFFF0000
    numbers = np.repeat(s.view(np.float32), 16, axis=1) * w.astype(np.float32)
    add("pack-quantized", words(w + 8, 1), numbers, scales=(s >> 16).astype(np.uint16))


def fill(seed, n):
    """As in recorded.h."""
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
blocks("Q5_0", 32, 22, [0])
blocks("Q5_1", 32, 24, [0, 2])
blocks("IQ4_NL", 32, 18, [0])
blocks("MXFP4", 32, 17, [])
x = (fill(7, 256) * ((1 + np.arange(256) // 32 % 4).astype(np.float32) / np.float32(3))).reshape(-1, 32)
for name in ("Q8_0", "Q4_0", "Q4_1"):
    arrays.add(f"quantized/{name}", getattr(quants, name).quantize_blocks(x))
arrays.write()
