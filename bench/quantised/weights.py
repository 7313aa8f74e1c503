"""Quantised weights by formula, the same for all engines: integers of any bits, scales such that outputs are of ordinary size."""

import numpy as np

FORMATS = ("i8", "u4_32", "u4_64", "u4_128", "q8_0", "q4_0", "q4_1", "q4_k", "q6_k")


class Weights:
    """dtype, shape [out, in]; data and scales as fovea_matrix has them; group (0: a scale for each row); and of formats of one scale a
    group, `integers` less their zero, [out, in]. numbers(first, last): what rows stand for, in float64."""

    def __init__(self, name, out, channels):
        self.name, self.shape, self.scales, self.integers = name, (out, channels), None, None
        self.dtype, _, group = name.partition("_") if name.startswith("u4") else (name, "", 0)
        self.group, random = int(group), np.random.default_rng(1)
        getattr(self, f"_make_{self.dtype}")(random, out, channels)

    def _scales(self, random, *shape):
        return random.uniform(0.5, 1, shape).astype(np.float16) * np.float16(0.01)

    def _make_i8(self, random, out, channels):
        self.integers = random.integers(-127, 128, (out, channels), np.int8)
        self.data, self.scales = self.integers, (self._scales(random, out) / np.float16(16)).astype(np.float32)

    def _make_u4(self, random, out, channels):
        stored = random.integers(0, 16, (out, channels), np.uint8)
        self.integers, self.data = stored.astype(np.int8) - 8, stored[:, ::2] | stored[:, 1::2] << 4
        self.scales = self._scales(random, out, channels // self.group)

    def _blocks(self, random, out, channels, fields, block=32):
        """Rows of blocks, a structured array whose bytes are any bits."""
        kind = np.dtype(fields)
        self.data = random.integers(0, 256, (out, channels // block * kind.itemsize), np.uint8)
        return self.data.view(kind)

    def _make_q8_0(self, random, out, channels):
        blocks = self._blocks(random, out, channels, [("d", "<f2"), ("q", "i1", 32)])
        blocks["d"] = self.scales_inside = self._scales(random, *blocks.shape) / np.float16(16)
        blocks["q"] = np.maximum(blocks["q"], -127)  # -128 is in no file, and ik_llama.cpp multiplies it wrongly
        self.integers, self.group = blocks["q"].reshape(out, channels), 32

    def _make_q4_0(self, random, out, channels):
        blocks = self._blocks(random, out, channels, [("d", "<f2"), ("q", "u1", 16)])
        blocks["d"] = self.scales_inside = self._scales(random, *blocks.shape)
        q = blocks["q"]
        self.integers, self.group = (np.concatenate((q & 15, q >> 4), -1).astype(np.int8) - 8).reshape(out, channels), 32

    def _make_q4_1(self, random, out, channels):
        self.blocks = self._blocks(random, out, channels, [("d", "<f2"), ("m", "<f2"), ("q", "u1", 16)])
        self.blocks["d"] = self._scales(random, *self.blocks.shape)
        self.blocks["m"] = np.float16(-7.5) * self.blocks["d"]

    def _make_q4_k(self, random, out, channels):
        self.blocks = self._blocks(random, out, channels, [("d", "<f2"), ("e", "<f2"), ("s", "u1", 12), ("q", "u1", 128)], 256)
        self.blocks["d"] = self._scales(random, *self.blocks.shape) / np.float16(32)
        self.blocks["e"] = np.float16(7.5) * self.blocks["d"]

    def _make_q6_k(self, random, out, channels):
        fields = [("low", "u1", (2, 64)), ("high", "u1", (2, 32)), ("s", "i1", 16), ("d", "<f2")]
        self.blocks = self._blocks(random, out, channels, fields, 256)
        self.blocks["d"] = self._scales(random, *self.blocks.shape) / np.float16(256)

    def group_scales(self):
        """[out, groups]"""
        scales = self.scales_inside if self.scales is None else self.scales
        return scales.reshape(self.shape[0], -1)

    def numbers(self, first, last):
        if self.integers is not None:
            scales = self.group_scales()[first:last].astype(np.float64)
            return self.integers[first:last] * np.repeat(scales, self.shape[1] // scales.shape[1], 1)
        blocks = self.blocks[first:last]
        d = blocks["d"].astype(np.float64)[..., None]
        return getattr(self, f"_numbers_{self.dtype}")(blocks, d).reshape(last - first, self.shape[1])

    def _numbers_q4_1(self, blocks, d):
        q = blocks["q"]
        return d * np.concatenate((q & 15, q >> 4), -1) + blocks["m"].astype(np.float64)[..., None]

    def _numbers_q4_k(self, blocks, d):
        s, low = blocks["s"], blocks["s"][..., :8] & 63
        scales = np.concatenate((low[..., :4], s[..., 8:] & 15 | s[..., :4] >> 6 << 4), -1)[..., None]
        minimums = np.concatenate((low[..., 4:], s[..., 8:] >> 4 | s[..., 4:8] >> 6 << 4), -1)[..., None]
        q = blocks["q"].reshape(*blocks.shape, 4, 1, 32)
        q = np.concatenate((q & 15, q >> 4), -2).reshape(*blocks.shape, 8, 32)
        return d[..., None] * scales * q - blocks["e"].astype(np.float64)[..., None, None] * minimums

    def _numbers_q6_k(self, blocks, d):
        low, high = blocks["low"].reshape(*blocks.shape, 2, 2, 32), blocks["high"][..., None, :]
        low = np.concatenate((low & 15, low >> 4), -2)
        q = (low | (high >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3) << 4).astype(np.int8) - 32
        return d[..., None] * blocks["s"][..., None] * q.reshape(*blocks.shape, 16, 16)

    def product(self, x):
        """x @ numbers.T in float64."""
        step = 512
        parts = [x.astype(np.float64) @ self.numbers(i, min(i + step, self.shape[0])).T for i in range(0, self.shape[0], step)]
        return np.concatenate(parts, 1)
