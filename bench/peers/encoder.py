"""The sentence encoder of examples/minilm as a case: all-MiniLM-L6-v2 over token ids, one vector of length 1 for each
sentence. Making tokens is left out for all.

A peer takes rectangles of sentences with padding and a mask. Many sentences of different length are therefore tried in
one rectangle and in several, sorted by length, as sentence-transformers does; the worker goes on with the fastest.
Fovea's encoder takes the same rectangle of ids and lengths. The model is the one that examples/minilm/fetch.py fetches;
the sentences are those of examples/minilm/reference.safetensors, whose vectors in float64 are what all must give.
"""

import ctypes
import json
import os
import pathlib
import struct

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = pathlib.Path(os.environ.get("FOVEA_MODELS", ROOT / "build/models")) / "all-MiniLM-L6-v2/model.safetensors"
REFERENCE = ROOT / "examples/minilm/reference.safetensors"
LAYERS, HEADS, WIDTH, EPSILON = 6, 12, 384, 1e-12
SPLITS = (1, 2, 4, 8, 16)  # rectangles that are tried


def read_safetensors(path):
    """{name: array} of a file's float32 and int32 arrays."""
    blob = path.read_bytes()
    size = struct.unpack_from("<Q", blob)[0]
    header, arrays = json.loads(blob[8 : 8 + size]), {}
    for name, entry in header.items():
        if entry.get("dtype") in ("F32", "I32"):
            begin, end = (8 + size + at for at in entry["data_offsets"])
            kind = np.float32 if entry["dtype"] == "F32" else np.int32
            arrays[name] = np.frombuffer(blob[begin:end], kind).reshape(entry["shape"])
    return arrays


class Data:
    """Sentences of a case: ids [batch, longest] with zeros behind, lens [batch], and what they must become."""

    tolerance = 1e-5  # cosines above 0.99999

    def __init__(self, case):
        rows, self.lens, self.exact = self.sentences(case)
        self.ids = np.zeros((len(rows), self.lens.max()), np.int32)
        for place, row in zip(self.ids, rows):
            place[: len(row)] = row
        self.weights = read_safetensors(MODEL)

    @staticmethod
    def sentences(case):
        """Tokens, lengths and exact vectors. A sentence alone is one whose length is the mean of the many."""
        reference = read_safetensors(REFERENCE)
        chosen = slice(case.batch) if case.batch > 1 else slice(14, 15)
        rows = np.split(reference["tokens"], np.cumsum(reference["lengths"])[:-1])
        return rows[chosen], reference["lengths"][chosen].astype(np.int64), reference["embeddings"][chosen].astype(np.float64)

    def error(self, out):
        """1 - the least cosine of a vector with float64's; lengths other than 1 are an error, too."""
        out = out.astype(np.float64)
        lengths = np.linalg.norm(out, axis=1)
        cosines = np.sum(out * self.exact, axis=1) / lengths / np.linalg.norm(self.exact, axis=1)
        return float(max(np.max(1 - cosines), np.max(np.abs(lengths - 1))))

    def rectangles(self, count):
        """The sentences, sorted by length, in that many batches: (places, ids, lens) of each."""
        order = np.argsort(self.lens, kind="stable")
        for places in np.array_split(order, count):
            lens = self.lens[places]
            yield places, np.ascontiguousarray(self.ids[places, : lens.max()]), lens

    def splits(self):
        return [n for n in SPLITS if n == 1 or 2 * n <= len(self.lens)]

    def layer(self, i):
        """Weights of a layer by short names; those of queries, keys and values as one."""
        w, at = self.weights, f"encoder.layer.{i}."
        parts = [f"{at}attention.self.{name}" for name in ("query", "key", "value")]
        layer = {"qkv": (np.concatenate([w[f"{p}.weight"] for p in parts]), np.concatenate([w[f"{p}.bias"] for p in parts]))}
        names = {"o": "attention.output.dense", "norm1": "attention.output.LayerNorm", "inner": "intermediate.dense",
                 "outer": "output.dense", "norm2": "output.LayerNorm"}
        layer.update({short: (w[f"{at}{name}.weight"], w[f"{at}{name}.bias"]) for short, name in names.items()})
        return layer


def flops(case):
    """Of matrix products and attention, without padding: what there is to do."""
    lens, inner = Data.sentences(case)[1], 4 * WIDTH
    return int(LAYERS * np.sum(2 * lens * (4 * WIDTH * WIDTH + 2 * WIDTH * inner) + 4 * lens * lens * WIDTH))


def split_label(count):
    return "" if count == 1 else f", {count} batches by length"


# ---------------------------------------------------------------------------------------------------------- Fovea --


class Complaint(ctypes.Structure):
    _fields_ = [("text", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class FoveaEncoder:
    """examples/minilm, built as a shared library: FOVEA_ENCODER_LIBRARY in the environment says where it is."""

    def __init__(self, context):
        self.c, self.context = ctypes.CDLL(os.environ["FOVEA_ENCODER_LIBRARY"]), context
        self.text = ctypes.create_string_buffer(512)
        self.complaint = Complaint(ctypes.addressof(self.text), len(self.text))
        self.handle = ctypes.c_void_p()
        self.check(self.c.encoder_load(context.handle, os.fsencode(MODEL), ctypes.c_int64(HEADS),
                                       ctypes.byref(self.handle), self.complaint))

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.text.value.decode())

    def run(self, data):
        """A function that computes, and the array it computes."""
        plan, (batch, tokens), out = ctypes.c_void_p(), data.ids.shape, np.empty((len(data.lens), WIDTH), np.float32)
        self.check(self.c.encoder_plan_create(self.handle, ctypes.c_int64(batch), ctypes.c_int64(tokens),
                                              ctypes.byref(plan), self.complaint))
        places = [ctypes.c_void_p(a.ctypes.data) for a in (data.ids, data.lens, out)]
        arguments = (plan, *places, None, None, self.complaint)
        owned = (self, data.ids, data.lens)

        def execute(run=self.c.encoder_run, owned=owned):
            return run(*arguments)

        self.check(execute())
        return execute, out


# -------------------------------------------------------------------------------------------------------- PyTorch --


def torch_forms(torch, data, timed):
    """Yields forms; timed(label, compute) makes one of a function that gives a tensor."""
    for name, make in (("functional, sdpa", TorchFunctional), ("nn.TransformerEncoder", TorchModule)):
        model = make(torch, data)
        for count in data.splits():
            yield timed(name + split_label(count), TorchBatches(torch, data, model, count))


class TorchBatches:
    def __init__(self, torch, data, model, count):
        self.torch, self.model, self.batches = torch, model, []
        places = np.concatenate([p for p, _, _ in data.rectangles(count)])
        self.back = torch.from_numpy(np.argsort(places)) if count > 1 or len(places) > 1 else None
        for _, ids, lens in data.rectangles(count):
            valid = np.arange(ids.shape[1])[None] < lens[:, None]
            self.batches.append((torch.from_numpy(ids).long(), None if valid.all() else torch.from_numpy(valid),
                                 torch.from_numpy(lens.astype(np.float32))[:, None]))

    def __call__(self):
        torch, vectors = self.torch, []
        for ids, valid, lens in self.batches:
            hidden = self.model(ids, valid)
            if valid is not None:
                hidden = hidden * valid[:, :, None]
            vectors.append(torch.nn.functional.normalize(hidden.sum(1) / lens, dim=1))
        return vectors[0] if self.back is None else torch.cat(vectors)[self.back]


class TorchFunctional:
    """BertModel's arithmetic in as few calls as PyTorch has: one product for queries, keys and values."""

    def __init__(self, torch, data):
        turn = lambda pair: tuple(torch.from_numpy(np.array(a)) for a in pair)
        self.torch, w = torch, data.weights
        self.words = torch.from_numpy(np.array(w["embeddings.word_embeddings.weight"]))
        self.places = torch.from_numpy(w["embeddings.position_embeddings.weight"] + w["embeddings.token_type_embeddings.weight"][0])
        self.norm0 = turn((w["embeddings.LayerNorm.weight"], w["embeddings.LayerNorm.bias"]))
        self.layers = [{k: turn(pair) for k, pair in data.layer(i).items()} for i in range(LAYERS)]

    def embed(self, ids):
        x = self.torch.nn.functional.embedding(ids, self.words) + self.places[: ids.shape[1]]
        return self.torch.nn.functional.layer_norm(x, (WIDTH,), *self.norm0, EPSILON)

    def __call__(self, ids, valid):
        f, (batch, tokens) = self.torch.nn.functional, ids.shape
        mask = None if valid is None else valid[:, None, None, :]
        x = self.embed(ids)
        for layer in self.layers:
            qkv = f.linear(x, *layer["qkv"]).view(batch, tokens, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
            heads = f.scaled_dot_product_attention(*qkv.unbind(0), attn_mask=mask)
            x = f.layer_norm(f.linear(heads.transpose(1, 2).reshape(batch, tokens, WIDTH), *layer["o"]) + x, (WIDTH,),
                             *layer["norm1"], EPSILON)
            x = f.layer_norm(f.linear(f.gelu(f.linear(x, *layer["inner"])), *layer["outer"]) + x, (WIDTH,),
                             *layer["norm2"], EPSILON)
        return x


class TorchModule(TorchFunctional):
    """The same layers as PyTorch's own module, whose fast path fuses a layer and packs what a mask leaves."""

    def __init__(self, torch, data):
        super().__init__(torch, data)
        inner = self.layers[0]["inner"][0].shape[0]
        layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, inner, 0.0, "gelu", EPSILON, batch_first=True)
        self.module = torch.nn.TransformerEncoder(layer, LAYERS).eval()
        names = {"qkv": ("self_attn.in_proj_weight", "self_attn.in_proj_bias"), "o": "self_attn.out_proj",
                 "inner": "linear1", "outer": "linear2", "norm1": "norm1", "norm2": "norm2"}
        state = {}
        for i, weights in enumerate(self.layers):
            for short, name in names.items():
                pair = name if isinstance(name, tuple) else (f"{name}.weight", f"{name}.bias")
                state.update({f"layers.{i}.{n}": tensor for n, tensor in zip(pair, weights[short])})
        self.module.load_state_dict(state)

    def __call__(self, ids, valid):
        return self.module(self.embed(ids), src_key_padding_mask=None if valid is None else ~valid)


# --------------------------------------------------------------------------------------------------- ONNX Runtime --


def onnx_model(onnx, data, attention):
    """The graph that onnxruntime.transformers.optimizer makes of BERT, in its fused operators, with mean pooling behind.
    Attention "whole": one operator with the product for queries, keys and values; "product": that product apart."""
    helper, proto, nodes, arrays, contrib = onnx.helper, onnx.TensorProto, [], {}, "com.microsoft"

    def value(name, array):
        arrays[name] = np.ascontiguousarray(array)
        return name

    def node(op, inputs, outputs, domain="", **attributes):
        nodes.append(helper.make_node(op, list(inputs), list(outputs), domain=domain, **attributes))
        return outputs[0]

    w = data.weights
    embeddings = [value(n, w[f"embeddings.{n}"]) for n in ("word_embeddings.weight", "position_embeddings.weight",
                  "token_type_embeddings.weight", "LayerNorm.weight", "LayerNorm.bias")]
    x = node("EmbedLayerNormalization", ["ids", "types", *embeddings, "mask"], ["embedded", "mask_index"], contrib,
             epsilon=EPSILON)
    for i in range(LAYERS):
        layer = {k: [value(f"{k}{i}.{n}", a.T) for n, a in zip("wb", pair)] for k, pair in data.layer(i).items()}
        if attention == "whole":
            heads = node("Attention", [x, *layer["qkv"], "mask_index"], [f"heads{i}"], contrib, num_heads=HEADS)
        else:
            qkv = node("MatMul", [x, layer["qkv"][0]], [f"qkv{i}"])
            parts = [f"{n}{i}" for n in "qkv"]
            node("Split", [qkv, value("thirds", np.array([WIDTH] * 3, np.int64))], [f"{p}.part" for p in parts], axis=2)
            heads = node("MultiHeadAttention", [*(f"{p}.part" for p in parts), layer["qkv"][1], "mask_index"],
                         [f"heads{i}"], contrib, num_heads=HEADS)
        product = node("MatMul", [heads, layer["o"][0]], [f"product{i}"])
        y = node("SkipLayerNormalization", [product, x, *layer["norm1"], layer["o"][1]], [f"attended{i}"], contrib,
                 epsilon=EPSILON)
        inner = node("MatMul", [y, layer["inner"][0]], [f"inner{i}"])
        inner = node("BiasGelu", [inner, layer["inner"][1]], [f"gelu{i}"], contrib)
        outer = node("MatMul", [inner, layer["outer"][0]], [f"outer{i}"])
        x = node("SkipLayerNormalization", [outer, y, *layer["norm2"], layer["outer"][1]], [f"hidden{i}"], contrib,
                 epsilon=EPSILON)
    kept = node("Mul", [x, "weights"], ["kept"])
    mean = node("ReduceSum", [kept, value("axis", np.array([1], np.int64))], ["mean"], keepdims=0)
    node("LpNormalization", [mean], ["out"], axis=1, p=2)
    whole = helper.make_tensor_value_info
    ints, floats = [whole(n, proto.INT32, ["b", "t"]) for n in ("ids", "types", "mask")], [whole("weights", proto.FLOAT, ["b", "t", 1])]
    initializers = [onnx.numpy_helper.from_array(a, n) for n, a in arrays.items()]
    graph = helper.make_graph(nodes, "encoder", ints + floats, [whole("out", proto.FLOAT, ["b", WIDTH])], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(contrib, 1)], ir_version=10)


def onnx_forms(onnx, ort, threads, data, form):
    """Yields forms; form(label, run, output) makes one."""
    for label, attention in (("fused BERT", "whole"), ("fused BERT, MultiHeadAttention", "product")):
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 4
        session = ort.InferenceSession(onnx_model(onnx, data, attention).SerializeToString(), options,
                                       providers=["CPUExecutionProvider"])
        for count in data.splits():
            yield form(label + split_label(count), *onnx_run(ort, session, data, count))


def onnx_run(ort, session, data, count):
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
