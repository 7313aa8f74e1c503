"""bfloat16 and float16 in numpy: as float32 arrays whose numbers they hold, or as their bits in uint16."""

import numpy as np


def narrow(array, dtype):
    """float32 as elements of a type, to nearest even: bits of 16, or float32 as it is."""
    if dtype == "f32":
        return array
    if dtype == "f16":
        return np.ascontiguousarray(array).astype(np.float16).view(np.uint16)
    bits = np.ascontiguousarray(array).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def widen(bits, dtype):
    """The result of narrow() as float32."""
    if dtype == "f32":
        return bits
    if dtype == "f16":
        return bits.view(np.float16).astype(np.float32)
    return (bits.astype(np.uint32) << 16).view(np.float32)


def rounded(array, dtype):
    return widen(narrow(array, dtype), dtype)
