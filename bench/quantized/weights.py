"""Quantized weights, the same for all engines: integers of any bits, scales such that outputs are of ordinary size. What blocks stand for
says the package gguf."""

import numpy as np

FORMATS = ("i8", "u4_32", "u4_64", "u4_128", "q8_0", "q4_0", "q4_1", "q4_k", "q6_k")
# Elements and bytes of a block; where its scale is, by what it is divided; where the minimum is, its multiple of the scale.
BLOCKS = {"q8_0": (32, 34, 0, 16), "q4_0": (32, 18, 0, 1), "q4_1": (32, 20, 0, 1, 2, -7.5), "q4_k": (256, 144, 0, 32, 2, 7.5),
          "q6_k": (256, 210, 208, 256)}


class Weights:
    """dtype, shape [out, in]; data and scales as fovea_matrix has them; group (0: a scale for each row); and of formats of one scale a
    group, `integers` less their zero, [out, in]. numbers(first, last): what rows stand for, in float64."""

    def __init__(self, name, out, channels):
        self.name, self.shape, self.scales, self.integers = name, (out, channels), None, None
        self.dtype, _, group = name.partition("_") if name.startswith("u4") else (name, "", 0)
        self.group, random = int(group), np.random.default_rng(1)
        draw = lambda *shape: random.uniform(0.5, 1, shape).astype(np.float16) * np.float16(0.01)
        if self.dtype == "i8":
            self.data = self.integers = random.integers(-127, 128, (out, channels), np.int8)
            self.scales = (draw(out) / np.float16(16)).astype(np.float32)
        elif self.dtype == "u4":
            stored = random.integers(0, 16, (out, channels), np.uint8)
            self.integers, self.data = stored.astype(np.int8) - 8, stored[:, ::2] | stored[:, 1::2] << 4
            self.scales = draw(out, channels // self.group)
        else:
            self._make_blocks(random, draw, *BLOCKS[name])

    def _make_blocks(self, random, draw, elements, size, at, divisor, minimum_at=None, factor=0):
        out, channels = self.shape
        blocks = random.integers(0, 256, (out, channels // elements, size), np.uint8)
        put = lambda at, numbers: np.copyto(blocks[:, :, at : at + 2], numbers[..., None].view(np.uint8))
        scales = draw(out, channels // elements) / np.float16(divisor)
        put(at, scales)
        if minimum_at is not None:
            put(minimum_at, np.float16(factor) * scales)
        if self.dtype == "q8_0":
            blocks[:, :, 2:][blocks[:, :, 2:] == 128] = 129  # -128 is in no file, and ik_llama.cpp multiplies it wrongly
            self.integers = blocks[:, :, 2:].view(np.int8).reshape(self.shape)
        if self.dtype == "q4_0":
            q = blocks[:, :, 2:]
            self.integers = (np.concatenate((q & 15, q >> 4), -1).astype(np.int8) - 8).reshape(self.shape)
        if self.integers is not None:
            self.group, self.scales_inside = elements, scales
        self.data = blocks.reshape(out, -1)

    def group_scales(self):
        """[out, groups]"""
        scales = self.scales_inside if self.scales is None else self.scales
        return scales.reshape(self.shape[0], -1)

    def numbers(self, first, last):
        if self.integers is not None:
            scales = self.group_scales()[first:last].astype(np.float64)
            return self.integers[first:last] * np.repeat(scales, self.shape[1] // scales.shape[1], 1)
        from gguf import quants

        kind = getattr(quants, self.dtype.upper())
        blocks = self.data[first:last].reshape(-1, BLOCKS[self.dtype][1])
        return kind.dequantize_blocks(blocks).reshape(last - first, self.shape[1]).astype(np.float64)

    def product(self, x):
        """x @ numbers.T in float64."""
        step = 512
        parts = [x.astype(np.float64) @ self.numbers(i, min(i + step, self.shape[0])).T for i in range(0, self.shape[0], step)]
        return np.concatenate(parts, 1)
