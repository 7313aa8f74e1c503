"""The sentence encoder of tools/embed as a case: all-MiniLM-L6-v2 over token ids, one vector of length 1 for each
sentence. Making tokens is left out for all.

A peer takes rectangles of sentences with padding and a mask. Many sentences of different length are therefore tried in
one rectangle and in several, sorted by length, as sentence-transformers does; the worker goes on with the fastest.
Fovea's encoder takes the same rectangle of ids and lengths. The model is the one that tools/embed/fetch.py fetches;
the sentences are those of tools/embed/reference.safetensors, whose vectors in float64 are what all must give.
"""

import ctypes
import json
import os
import pathlib
import struct

import numpy as np

from api import DTYPES

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = pathlib.Path(os.environ.get("FOVEA_MODELS", ROOT / "build/models")) / "all-MiniLM-L6-v2/model.safetensors"
REFERENCE = ROOT / "tools/embed/reference.safetensors"
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

    def __init__(self, case):
        self.tolerance = {"f32": 1e-5, "bf16": 1e-3, "f16": 1e-4}[case.dtype]  # cosines above 0.99999, 0.999, 0.9999
        self.agreement = {"f32": 1e-4, "bf16": 1e-2, "f16": 1e-3}[case.dtype]
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


class Complaint(ctypes.Structure):
    _fields_ = [("text", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class FoveaEncoder:
    """tools/embed, built as a shared library: FOVEA_ENCODER_LIBRARY in the environment says where it is."""

    def __init__(self, context, dtype="f32"):
        self.c, self.context = ctypes.CDLL(os.environ["FOVEA_ENCODER_LIBRARY"]), context
        self.text = ctypes.create_string_buffer(512)
        self.complaint = Complaint(ctypes.addressof(self.text), len(self.text))
        self.handle = ctypes.c_void_p()
        self.check(self.c.encoder_load(context.handle, os.fsencode(MODEL), ctypes.c_int64(HEADS),
                                       ctypes.c_int(DTYPES[dtype]), ctypes.byref(self.handle), self.complaint))

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
