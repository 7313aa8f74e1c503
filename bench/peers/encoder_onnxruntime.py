"""The sentence encoder by ONNX Runtime: the graph that onnxruntime.transformers.optimizer makes of BERT, in its fused
operators, with mean pooling behind."""

import numpy as np

from encoder import EPSILON, HEADS, LAYERS, WIDTH, split_label
from forms import Form
from onnx_graph import CONTRIB, Graph


def model(onnx, data, whole):
    graph, w = Graph(onnx), data.weights
    value, node = graph.value, graph.node
    embeddings = [value(n, w[f"embeddings.{n}"]) for n in ("word_embeddings.weight", "position_embeddings.weight",
                  "token_type_embeddings.weight", "LayerNorm.weight", "LayerNorm.bias")]
    x = node("EmbedLayerNormalization", ["ids", "types", *embeddings, "mask"], ["embedded", "mask_index"], CONTRIB,
             epsilon=EPSILON)
    for i in range(LAYERS):
        layer = {k: [value(f"{k}{i}.{n}", a.T) for n, a in zip("wb", pair)] for k, pair in data.layer(i).items()}
        heads = graph.heads(x, *layer["qkv"], HEADS, i, "mask_index", whole)
        product = node("MatMul", [heads, layer["o"][0]], [f"product{i}"])
        y = node("SkipLayerNormalization", [product, x, *layer["norm1"], layer["o"][1]], [f"attended{i}"], CONTRIB,
                 epsilon=EPSILON)
        inner = node("MatMul", [y, layer["inner"][0]], [f"inner{i}"])
        inner = node("BiasGelu", [inner, layer["inner"][1]], [f"gelu{i}"], CONTRIB)
        outer = node("MatMul", [inner, layer["outer"][0]], [f"outer{i}"])
        x = node("SkipLayerNormalization", [outer, y, *layer["norm2"], layer["outer"][1]], [f"hidden{i}"], CONTRIB,
                 epsilon=EPSILON)
    kept = node("Mul", [x, "weights"], ["kept"])
    mean = node("ReduceSum", [kept, value("axis", np.array([1], np.int64))], ["mean"], keepdims=0)
    node("LpNormalization", [mean], ["out"], axis=1, p=2)
    inputs = {name: ("int32", ["b", "t"]) for name in ("ids", "types", "mask")}
    return graph.model({**inputs, "weights": ("float32", ["b", "t", 1])}, {"out": ("float32", ["b", WIDTH])}, 17)


def forms(engine, data):
    for label, whole in (("fused BERT", True), ("fused BERT, MultiHeadAttention", False)):
        session = engine.session(model(engine.onnx, data, whole))
        for count in data.splits():
            yield Form(label + split_label(count), *batches(engine.ort, session, data, count))


def batches(ort, session, data, count):
    bindings, results, places = [], [], []
    for where, ids, lens in data.rectangles(count):
        mask = (np.arange(ids.shape[1])[None] < lens[:, None]).astype(np.int32)
        inputs = {"ids": ids, "types": np.zeros_like(ids), "mask": mask,
                  "weights": (mask / lens[:, None]).astype(np.float32)[:, :, None]}
        binding = session.io_binding()
        for name, array in inputs.items():
            binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(array))
        out = ort.OrtValue.ortvalue_from_numpy(np.zeros((len(lens), WIDTH), np.float32))
        binding.bind_ortvalue_output("out", out)
        bindings.append(binding)
        results.append(out)
        places.append(where)
    back = np.argsort(np.concatenate(places))

    def run():
        for binding in bindings:
            session.run_with_iobinding(binding)

    return run, lambda: np.concatenate([out.numpy() for out in results])[back]
