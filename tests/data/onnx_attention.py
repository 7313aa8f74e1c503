#!/usr/bin/env python3
"""Writes onnx_attention.h: the node tests of the ONNX operator Attention (opset 23 to 25), as the onnx package makes
them, for tests/test_compat_onnx.c. Run once, with onnx (pip install onnx):
    python3 tests/data/onnx_attention.py > tests/data/onnx_attention.h
Elements lie in one pool of 32-bit words: floats as their bits (16-bit ones as the float32 that they equal), booleans
and integers as numbers. Tensors that are equal, or part of another, share words.
"""
import struct
import warnings

import numpy as np
import onnx
from onnx.backend.test.case.node import collect_testcases

INPUTS = ["Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen"]
OUTPUTS = ["Y", "present_key", "present_value", "qk_matmul_output"]
TYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "bool": "BOOL", "int64": "INT64"}
# What an absent attribute means.
ATTRIBUTES = {"is_causal": 0, "scale": 0.0, "softcap": 0.0, "q_num_heads": 0, "kv_num_heads": 0,
              "left_window_size": -1, "right_window_size": -1, "qk_matmul_output_mode": 0}
IGNORED = {"softmax_precision"}  # the exponentials are float32's at least


class Pool:
    def __init__(self):
        self.bytes = bytearray()

    def place(self, words):
        """The index of the first of these words in the pool."""
        data = words.astype("<u4").tobytes()
        at = self.bytes.find(data)
        while at >= 0 and at % 4:
            at = self.bytes.find(data, at + 1)
        if at < 0:
            at = len(self.bytes)
            self.bytes += data
        return at // 4

    def words(self):
        return struct.unpack(f"<{len(self.bytes) // 4}I", bytes(self.bytes))


def tensor(pool, array):
    if array is None:
        return "{0}"
    if array.dtype.name in ("bool", "int64"):
        words = array.astype(np.int64).astype(np.uint32).flatten()
    else:
        words = np.ascontiguousarray(array.astype(np.float32)).view(np.uint32).flatten()
    shape = ", ".join(str(n) for n in array.shape)
    return f"{{ONNX_{TYPES[array.dtype.name]}, {array.ndim}, {{{shape}}}, {pool.place(words)}}}"


def case(pool, test):
    node = test.model.graph.node[0]
    given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    unknown = set(given) - set(ATTRIBUTES) - IGNORED
    assert not unknown, f"{test.name}: {unknown}"
    assert "scale" not in given or given["scale"] != 0.0
    inputs, outputs = test.data_sets[0]
    named = {}
    for names, arrays in ((node.input, iter(inputs)), (node.output, iter(outputs))):
        for name in names:  # an absent one has no name and no array
            if name:
                named[name] = next(arrays)
    assert set(named) <= set(INPUTS + OUTPUTS), test.name
    opset = next(o.version for o in test.model.opset_import if o.domain == "")
    print(f'    {{"{test.name}", {opset},')
    print("     {" + ", ".join(f".{name} = {given.get(name, absent):.9g}" for name, absent in ATTRIBUTES.items()
                                if given.get(name, absent) != absent or name.endswith("window_size")) + "},")
    for names in (INPUTS, OUTPUTS):
        print("     {" + ", ".join(tensor(pool, named.get(name)) for name in names) + "}" +
              ("," if names is INPUTS else "},"))


def main():
    warnings.filterwarnings("ignore")
    tests = [t for t in collect_testcases("Attention") if t.model.graph.node[0].op_type == "Attention"]
    pool = Pool()
    np.random.seed(0)  # as each of them begins: most inputs are parts of this
    pool.place(np.random.rand(2048).astype(np.float32).view(np.uint32))
    print(f"/* Made by onnx_attention.py with onnx {onnx.__version__}; not edited by hand. */\n"
          "/* clang-format off */\n"
          "static const onnx_case onnx_cases[] = {")
    for test in tests:
        case(pool, test)
    print("};\n\nstatic const uint32_t onnx_pool[] = {")
    words = pool.words()
    for i in range(0, len(words), 12):
        print("    " + " ".join(f"0x{w:x}," for w in words[i : i + 12]))
    print("};\n/* clang-format on */")


main()
