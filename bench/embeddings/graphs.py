"""all-MiniLM-L6-v2, from token ids with padding to vectors of length 1, in the operators of ONNX Runtime and OpenVINO, for any batch and
length."""

import json
import pathlib
import struct

import numpy as np
from onnx_graph import CONTRIB, Graph
from openvino_layers import heads, linear

LAYERS, HEADS, WIDTH, EPSILON = 6, 12, 384, 1e-12
NORM = "embeddings.LayerNorm.weight", "embeddings.LayerNorm.bias"


def read_safetensors(path):
    """{name: array} of a file's float32 arrays."""
    blob = pathlib.Path(path).read_bytes()
    size = struct.unpack_from("<Q", blob)[0]
    header, arrays = json.loads(blob[8 : 8 + size]), {}
    for name, entry in header.items():
        if entry.get("dtype") == "F32":
            begin, end = (8 + size + at for at in entry["data_offsets"])
            arrays[name] = np.frombuffer(blob[begin:end], np.float32).reshape(entry["shape"])
    return arrays


def layer(w, i):
    """Weights and biases of a layer by short names; those of queries, keys and values as one."""
    at = f"encoder.layer.{i}."
    parts = [f"{at}attention.self.{name}" for name in ("query", "key", "value")]
    found = {"qkv": tuple(np.concatenate([w[f"{p}.{kind}"] for p in parts]) for kind in ("weight", "bias"))}
    names = {"o": "attention.output.dense", "norm1": "attention.output.LayerNorm", "inner": "intermediate.dense",
             "outer": "output.dense", "norm2": "output.LayerNorm"}
    return found | {short: (w[f"{at}{name}.weight"], w[f"{at}{name}.bias"]) for short, name in names.items()}


def of_onnx(onnx, w):
    """The graph that onnxruntime.transformers.optimizer makes of BERT, in its fused operators, with mean pooling behind."""
    graph = Graph(onnx)
    value, node = graph.value, graph.node
    embeddings = [value(n, w[f"embeddings.{n}"]) for n in ("word_embeddings.weight", "position_embeddings.weight",
                  "token_type_embeddings.weight", "LayerNorm.weight", "LayerNorm.bias")]
    x = node("EmbedLayerNormalization", ["ids", "types", *embeddings, "mask"], ["embedded", "mask_index"], CONTRIB, epsilon=EPSILON)

    def norm(product, x, weights, bias, name):
        return node("SkipLayerNormalization", [product, x, *weights, bias], [name], CONTRIB, epsilon=EPSILON)

    for i in range(LAYERS):
        part = {k: [value(f"{k}{i}.{n}", a.T) for n, a in zip("wb", pair)] for k, pair in layer(w, i).items()}
        attended = node("MatMul", [graph.heads(x, *part["qkv"], HEADS, i, "mask_index"), part["o"][0]], [f"product{i}"])
        y = norm(attended, x, part["norm1"], part["o"][1], f"attended{i}")
        inner = node("BiasGelu", [node("MatMul", [y, part["inner"][0]], [f"inner{i}"]), part["inner"][1]], [f"gelu{i}"], CONTRIB)
        x = norm(node("MatMul", [inner, part["outer"][0]], [f"outer{i}"]), y, part["norm2"], part["outer"][1], f"hidden{i}")
    mean = node("ReduceSum", [node("Mul", [x, "weights"], ["kept"]), value("axis", np.array([1], np.int64))], ["mean"], keepdims=0)
    node("LpNormalization", [mean], ["out"], axis=1, p=2)
    inputs = {name: ("int32", ["b", "t"]) for name in ("ids", "types", "mask")}
    return graph.model({**inputs, "weights": ("float32", ["b", "t", 1])}, {"out": ("float32", ["b", WIDTH])}, 17)


def of_openvino(openvino, w):
    """BERT as a converted model has it; inputs are ids and which of them are tokens, 0 or 1."""
    from openvino import opset13 as op

    ids, kept = op.parameter([-1, -1], np.int64), op.parameter([-1, -1], np.float32)
    norm = lambda x, pair: op.add(op.multiply(op.mvn(x, [-1], True, EPSILON, "inside_sqrt"), op.constant(pair[0])), op.constant(pair[1]))
    count = op.gather(op.shape_of(ids), 1, 0)
    table = w["embeddings.position_embeddings.weight"] + w["embeddings.token_type_embeddings.weight"][0]
    places = op.gather(op.constant(table), op.range(np.int64(0), count, np.int64(1), "i64"), 0)
    x = norm(op.add(op.gather(op.constant(w["embeddings.word_embeddings.weight"]), ids, 0), places), [w[name] for name in NORM])
    visible = op.greater(op.unsqueeze(kept, [1, 2]), np.float32(0))
    mask = op.select(visible, np.float32(0), np.float32(-np.inf))
    for i in range(LAYERS):
        part = layer(w, i)
        x = norm(op.add(linear(op, heads(op, x, *part["qkv"], HEADS, 3, mask), *part["o"]), x), part["norm1"])
        inner = op.gelu(linear(op, x, *part["inner"]), "erf")
        x = norm(op.add(linear(op, inner, *part["outer"]), x), part["norm2"])
    means = op.divide(kept, op.reduce_sum(kept, 1, True))
    mean = op.reduce_sum(op.multiply(x, op.unsqueeze(means, 2)), 1)
    return openvino.Model([op.normalize_l2(mean, 1, 1e-12, "add")], [ids, kept])
