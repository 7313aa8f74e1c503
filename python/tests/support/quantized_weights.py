"""Quantized weights as models store them, written by formula from random integers and scales.

Each function of KINDS gives Given: arguments of fovea.Linear.quantized(), and the float64 numbers that they stand for.
"""

from dataclasses import dataclass, field

import numpy

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


@dataclass
class Given:
    weight: numpy.ndarray
    kind: str
    options: dict  # of quantized()
    numbers: numpy.ndarray  # [out, in]
    bits: int = 4
    integers: dict = field(default_factory=dict)  # as they were before they were packed


def words(integers, bits, axis, order=None):
    """Integers of an axis as int32 words, the first in the lowest bits. order: which of a word's come in which bits."""
    per = 32 // bits
    rows = numpy.moveaxis(integers, axis, -1)
    rows = rows.reshape(*rows.shape[:-1], rows.shape[-1] // per, per)[..., list(order or range(per))]
    packed = (rows.astype(numpy.uint64) << (numpy.arange(per, dtype=numpy.uint64) * numpy.uint64(bits))).sum(-1)
    return numpy.ascontiguousarray(numpy.moveaxis(packed.astype(numpy.uint32).view(numpy.int32), -1, axis))


def _random(rng, inner, out, group, bits, scale_dtype=numpy.float16):
    """Integers and zeros [in, out] and [groups, out], scales."""
    groups = inner // group
    w, z = (rng.integers(0, 1 << bits, (n, out)) for n in (inner, groups))
    return w, z, (rng.random((groups, out)) / 32 + 1e-3).astype(scale_dtype)


def _numbers(w, z, s, g_idx):
    return (s.astype(numpy.float64)[g_idx] * (w - z[g_idx])).T


def gptq(rng, inner, out, group, bits=4, symmetric=False, act_order=False, first_format=False, scale_dtype=numpy.float16):
    w, z, s = _random(rng, inner, out, group, bits, scale_dtype)
    if symmetric:
        z[:] = 1 << bits - 1
    if first_format:
        z = numpy.maximum(z, 1)  # 0 is stored as the largest integer, which has two readings
    g_idx = numpy.arange(inner) // group
    g_idx = rng.permutation(g_idx) if act_order else g_idx
    options = {
        "scales": s,
        "zeros": words(z - first_format, bits, 1),
        "bits": bits,
        "group_size": group,
        "zero_offset": int(first_format),
    }
    if act_order:
        options["g_idx"] = g_idx.astype(numpy.int32)
    return Given(words(w, bits, 0), "gptq", options, _numbers(w, z, s, g_idx), bits, {"zeros": z, "g_idx": g_idx})


def awq(rng, inner, out, group):
    w, z, s = _random(rng, inner, out, group, 4)
    options = {"scales": s, "zeros": words(z, 4, 1, AWQ_ORDER), "group_size": group}
    return Given(words(w, 4, 1, AWQ_ORDER), "awq", options, _numbers(w, z, s, numpy.arange(inner) // group))


def compressed(rng, inner, out, group, bits=4, symmetric=False, act_order=False, scale_dtype=numpy.float16):
    w, z, s = _random(rng, inner, out, group, bits, scale_dtype)
    if symmetric:
        z[:] = 1 << bits - 1
    g_idx = numpy.arange(inner) // group
    g_idx = rng.permutation(g_idx) if act_order else g_idx
    filled = numpy.pad(z.T, ((0, -out % (32 // bits)), (0, 0)))
    options = {"scales": numpy.ascontiguousarray(s.T), "bits": bits, "group_size": group}
    if not symmetric:
        options["zeros"] = words(filled, bits, 0)
    if act_order:
        options["g_idx"] = g_idx.astype(numpy.int32)
    return Given(words(w.T, bits, 1), "compressed-tensors", options, _numbers(w, z, s, g_idx), bits)


def int8(rng, inner, out, group, scale_dtype=numpy.float32):
    w = rng.integers(-128, 128, (out, inner), dtype=numpy.int8)
    s = (rng.random((out, inner // group)) / 256 + 1e-4).astype(scale_dtype)
    return Given(w, "int8", {"scales": s}, s.astype(numpy.float64).repeat(group, 1) * w, 8)


def fp8(rng, inner, out, rows=1, columns=None, scale_dtype=numpy.float32):
    """E4M3FN, a scale for each rows x columns, by default for each row."""
    columns = columns or inner
    w = rng.integers(0, 256, (out, inner), dtype=numpy.uint8)
    w[w & 127 == 127] = 0  # NaN
    exponent, fraction = (w >> 3 & 15).astype(int), w & 7
    numbers = numpy.where(exponent == 0, fraction / 512.0, numpy.ldexp(1 + fraction / 8.0, exponent - 7)) * numpy.where(w > 127, -1, 1)
    s = (rng.random((-(-out // rows), inner // columns)) / 256 + 1e-4).astype(scale_dtype)
    each = s.astype(numpy.float64).repeat(rows, 0)[:out].repeat(columns, 1)
    return Given(w, "fp8", {"scales": s}, each * numbers, 8)


def _f16(rng, *shape):
    return (rng.random(shape) / 32 + 1e-3).astype(numpy.float16)


def _bytes(*parts):
    """Parts of blocks [out, blocks, any], of any type, behind each other in rows of bytes."""
    parts = [numpy.ascontiguousarray(p).view(numpy.uint8) for p in parts]
    return numpy.concatenate(parts, -1).reshape(parts[0].shape[0], -1)


def _low_high(w):
    """32 integers of 4 bits in 16 bytes: byte j has numbers j and j + 16."""
    return (w[..., :16] | w[..., 16:] << 4).astype(numpy.uint8)


def q8_0(rng, inner, out):
    w, d = rng.integers(-128, 128, (out, inner // 32, 32), dtype=numpy.int8), _f16(rng, out, inner // 32, 1)
    return Given(_bytes(d, w), "gguf:Q8_0", {}, (d.astype(float) * w).reshape(out, inner), 8)


def q4_0(rng, inner, out):
    w, d = rng.integers(0, 16, (out, inner // 32, 32)), _f16(rng, out, inner // 32, 1)
    return Given(_bytes(d, _low_high(w)), "gguf:Q4_0", {}, (d.astype(float) * (w - 8)).reshape(out, inner))


def q4_1(rng, inner, out):
    w, d, m = rng.integers(0, 16, (out, inner // 32, 32)), *(_f16(rng, out, inner // 32, 1) for _ in range(2))
    return Given(_bytes(d, m, _low_high(w)), "gguf:Q4_1", {}, (d.astype(float) * w + m).reshape(out, inner))


def _q5(rng, inner, out, minimum):
    """Q5_0, or Q5_1 with a minimum: the fifth bits of 32 numbers are a word of 32 bits."""
    w, (d, m) = rng.integers(0, 32, (out, inner // 32, 32)), (_f16(rng, out, inner // 32, 1) for _ in range(2))
    fifth = numpy.packbits(w >> 4, axis=-1, bitorder="little")
    parts = [d, *([m] if minimum else []), fifth, _low_high(w & 15)]
    numbers = d.astype(float) * w + m if minimum else d.astype(float) * (w - 16)
    return Given(_bytes(*parts), "gguf:Q5_1" if minimum else "gguf:Q5_0", {}, numbers.reshape(out, inner))


def q5_0(rng, inner, out):
    return _q5(rng, inner, out, False)


def q5_1(rng, inner, out):
    return _q5(rng, inner, out, True)


E2M1 = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12]  # doubled
IQ4_NL = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]  # kvalues_iq4nl of ggml


def mxfp4(rng, inner, out):
    w, e = rng.integers(0, 16, (out, inner // 32, 32)), rng.integers(110, 125, (out, inner // 32, 1), dtype=numpy.uint8)
    return Given(_bytes(e, _low_high(w)), "gguf:MXFP4", {}, (2.0 ** (e - 128.0) * numpy.array(E2M1)[w]).reshape(out, inner))


def iq4_nl(rng, inner, out):
    w, d = rng.integers(0, 16, (out, inner // 32, 32)), _f16(rng, out, inner // 32, 1)
    return Given(_bytes(d, _low_high(w)), "gguf:IQ4_NL", {}, (d.astype(float) * numpy.array(IQ4_NL)[w]).reshape(out, inner))


def _scales_of_k(s, m):
    """8 scales and 8 minima of 6 bits in 12 bytes: the last four's upper bits above the first four's."""
    first = [s[..., :4] | s[..., 4:] >> 4 << 6, m[..., :4] | m[..., 4:] >> 4 << 6]
    return numpy.concatenate([*first, (s[..., 4:] & 15) | (m[..., 4:] & 15) << 4], -1).astype(numpy.uint8)


def _k(rng, inner, out, high):
    """Q4_K, or Q5_K with a fifth bit."""
    blocks = inner // 256
    w = rng.integers(0, 32 if high else 16, (out, blocks, 8, 32))
    s, m = (rng.integers(0, 64, (out, blocks, 8)) for _ in range(2))
    d, least = _f16(rng, out, blocks, 1), _f16(rng, out, blocks, 1)
    pairs = (w & 15).reshape(out, blocks, 4, 2, 32)
    low = (pairs[..., 0, :] | pairs[..., 1, :] << 4).astype(numpy.uint8).reshape(out, blocks, 128)
    fifth = ((w >> 4) << numpy.arange(8)[:, None]).sum(2).astype(numpy.uint8)
    parts = [d, least, _scales_of_k(s, m), *([fifth] if high else []), low]
    numbers = (d.astype(float) * s)[..., None] * w - (least.astype(float) * m)[..., None]
    return Given(_bytes(*parts), "gguf:Q5_K" if high else "gguf:Q4_K", {}, numbers.reshape(out, inner))


def q4_k(rng, inner, out):
    return _k(rng, inner, out, False)


def q5_k(rng, inner, out):
    return _k(rng, inner, out, True)


def q6_k(rng, inner, out):
    blocks = inner // 256
    w = rng.integers(0, 64, (out, blocks, 2, 4, 32))
    s, d = rng.integers(-128, 128, (out, blocks, 16), dtype=numpy.int8), _f16(rng, out, blocks, 1) / numpy.float16(64)
    low = [(w[:, :, :, i] & 15) | (w[:, :, :, i + 2] & 15) << 4 for i in range(2)]
    low = numpy.stack(low, 3).astype(numpy.uint8).reshape(out, blocks, 128)
    high = ((w >> 4) << (2 * numpy.arange(4))[:, None]).sum(3).astype(numpy.uint8).reshape(out, blocks, 64)
    numbers = (d.astype(float) * s).repeat(16, -1) * (w.reshape(out, blocks, 256) - 32)
    return Given(_bytes(low, high, s, d), "gguf:Q6_K", {}, numbers.reshape(out, inner))


GROUPED = {
    "gptq": gptq,
    "gptq 8 bits": lambda rng, *sizes: gptq(rng, *sizes, bits=8),
    "gptq symmetric": lambda rng, *sizes: gptq(rng, *sizes, symmetric=True, first_format=True),
    "gptq first format": lambda rng, *sizes: gptq(rng, *sizes, first_format=True),
    "gptq act-order": lambda rng, *sizes: gptq(rng, *sizes, act_order=True),
    "gptq float32 scales": lambda rng, *sizes: gptq(rng, *sizes, scale_dtype=numpy.float32),
    "awq": awq,
    "compressed": compressed,
    "compressed 8 bits": lambda rng, *sizes: compressed(rng, *sizes, bits=8),
    "compressed symmetric": lambda rng, *sizes: compressed(rng, *sizes, symmetric=True),
    "compressed act-order": lambda rng, *sizes: compressed(rng, *sizes, act_order=True),
    "int8 groups": lambda rng, *sizes: int8(rng, *sizes, scale_dtype=numpy.float16),
}
BLOCKS = {"q8_0": q8_0, "q4_0": q4_0, "q4_1": q4_1, "q5_0": q5_0, "q5_1": q5_1, "mxfp4": mxfp4, "iq4_nl": iq4_nl,
          "q4_k": q4_k, "q5_k": q5_k, "q6_k": q6_k}
