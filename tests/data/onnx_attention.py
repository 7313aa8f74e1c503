#!/usr/bin/env python3
"""Writes onnx_attention.arrays: the node tests of the ONNX operator Attention (opset 23 to 25), as the onnx package makes
them, for test_compat_onnx.c. Run once (onnx 1.23.2):
    python3 tests/data/onnx_attention.py
Arrays CASE/attributes, CASE/Q ...; those of 16 bits as the float32 that they equal.
"""
import warnings

import numpy as np
import onnx
from arrays import Arrays
from onnx.backend.test.case.node import collect_testcases

INPUTS = ["Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen"]
OUTPUTS = ["Y", "present_key", "present_value", "qk_matmul_output"]
# What an absent attribute means.
ATTRIBUTES = {"is_causal": 0, "scale": 0.0, "softcap": 0.0, "q_num_heads": 0, "kv_num_heads": 0,
              "left_window_size": -1, "right_window_size": -1, "qk_matmul_output_mode": 0}
IGNORED = {"softmax_precision"}  # the exponentials are float32's at least


def case(arrays, test):
    node = test.model.graph.node[0]
    given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    unknown = set(given) - set(ATTRIBUTES) - IGNORED
    assert not unknown, f"{test.name}: {unknown}"
    assert "scale" not in given or given["scale"] != 0.0
    inputs, outputs = test.data_sets[0]
    name = test.name.removeprefix("test_attention_")
    arrays.add(f"{name}/attributes", np.array([given.get(a, absent) for a, absent in ATTRIBUTES.items()], np.float64))
    for names, known, values in ((node.input, INPUTS, iter(inputs)), (node.output, OUTPUTS, iter(outputs))):
        assert set(names) <= {*known, ""}, test.name
        given = {part: next(values) for part in names if part}  # an absent one has no name and no array
        for part in (part for part in known if part in given):
            x = given[part]
            arrays.add(f"{name}/{part}", x.astype(np.float32) if "float" in x.dtype.name else x, x.dtype.name)


def main():
    warnings.filterwarnings("ignore")
    arrays = Arrays(__file__)
    np.random.seed(0)  # as each of them begins: most inputs are parts of this
    arrays.add("random", np.random.rand(2048).astype(np.float32))
    for test in collect_testcases("Attention"):
        if test.model.graph.node[0].op_type == "Attention":
            case(arrays, test)
    arrays.write()


main()
