#!/usr/bin/env python3
"""Writes compat_ort.arrays: what GroupQueryAttention of ONNX Runtime gives on the CPU, for test_compat_ort.c, which makes
the same inputs with fill(). Run once, with onnx, onnxruntime (1.32.0) and PyTorch (for fill()):
    python3 tests/data/compat_ort.py
"""
import numpy as np
import onnxruntime
from arrays import Arrays
from mha_torch import fill
from onnx import TensorProto, helper

arrays = Arrays(__file__)
HEADS, KV_HEADS, BATCH, DIM = 4, 2, 2, 8
INPUTS = ["query", "key", "value", "past_key", "past_value", "seqlens_k", "total_sequence_length", "", "", "",
          "attention_bias", "head_sink"]


def array(seed, *shape):
    return fill(seed, *shape).numpy().astype(np.float32)


def attend(name, q_len, past, seqlens_k, total, bias=None, sink=None, **attributes):
    feeds = {"query": array(1, BATCH, q_len, HEADS * DIM) * 4, "key": array(2, BATCH, q_len, KV_HEADS * DIM),
             "value": array(3, BATCH, q_len, KV_HEADS * DIM), "seqlens_k": np.array(seqlens_k, np.int32),
             "total_sequence_length": np.array(total, np.int32)}
    if past:
        feeds["past_key"] = array(4, BATCH, KV_HEADS, past, DIM)
        feeds["past_value"] = array(5, BATCH, KV_HEADS, past, DIM)
    if bias is not None:
        feeds["attention_bias"] = bias
    if sink is not None:
        feeds["head_sink"] = sink
    node = helper.make_node("GroupQueryAttention", [i if i in feeds else "" for i in INPUTS], ["out", "k", "v"],
                            domain="com.microsoft", num_heads=HEADS, kv_num_heads=KV_HEADS, **attributes)
    types = {"float32": TensorProto.FLOAT, "int32": TensorProto.INT32}
    graph = helper.make_graph([node], "graph",
                              [helper.make_tensor_value_info(n, types[a.dtype.name], a.shape) for n, a in feeds.items()],
                              [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("out", "k", "v")])
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21),
                                                                   helper.make_opsetid("com.microsoft", 1)])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    arrays.add(name, session.run(["out"], feeds)[0].flatten())


def main():
    attend("prompt", 5, 0, [4, 2], 5)
    attend("scale", 5, 0, [4, 4], 5, scale=0.25)
    attend("window", 5, 0, [4, 4], 5, local_window_size=2)
    attend("decode", 1, 7, [7, 4], 8)
    attend("decode_window", 1, 7, [7, 4], 8, local_window_size=3)
    attend("softcap", 5, 0, [4, 4], 5, softcap=1.5)
    attend("smooth", 5, 0, [4, 4], 5, smooth_softmax=1)
    attend("sink", 5, 0, [4, 4], 5, sink=array(6, HEADS))
    attend("bias", 5, 0, [4, 4], 5, bias=array(7, BATCH, 1, 5, 5), softcap=1.5)
    arrays.write()


main()
