#!/usr/bin/env python3
"""compare.py MODEL TEXT [VECTORS]: have the lines of a text the same vectors, byte for byte, however they are computed?

Compares batches of 64 lines, by one thread, with two threads, the reverse order, lines alone (64 of them at most), and
VECTORS, which fovea-embed wrote:

    fovea-embed --model MODEL --text TEXT --output VECTORS.npy

Prints one line. Exit status 1, and a sentence: some bytes differ.
"""

import argparse
import functools
import logging
import pathlib

import numpy as np

import fovea
from fovea.sentence_transformers import SentenceTransformer


def read_lines(path):
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            lines = [line.rstrip("\r\n") for line in file]
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: {error}") from None
    if not lines:
        raise ValueError(f"{path} has no lines")
    return lines


def read_vectors(path):
    try:
        return np.load(path)
    except (ValueError, EOFError):
        raise ValueError(f"{path} is no .npy file") from None


def ways(encode, lines, vectors):
    """How vectors are computed, of which lines, and these."""
    with fovea.config(threads=2):
        yield "with 2 threads", slice(None), encode(lines, batch_size=64)
    yield "in reverse order", slice(None), encode(lines[::-1], batch_size=64)[::-1]
    if vectors is not None:
        yield "from fovea-embed", slice(None), read_vectors(vectors)
    some = slice(None, None, -(-len(lines) // 64))
    yield "alone", some, encode(lines[some], batch_size=1)


def compare(folder, text, vectors=None):
    """The line that says so."""
    lines = read_lines(text)
    logging.getLogger("fovea.sentence_transformers").setLevel(logging.ERROR)
    model = SentenceTransformer(folder)
    encode = model.encode
    if not (pathlib.Path(folder) / "modules.json").is_file():  # fovea-embed takes such a model for MiniLM
        model.max_seq_length = min(model.max_seq_length, 256)
        encode = functools.partial(encode, normalize_embeddings=True)
    with fovea.config(threads=1):
        batches = encode(lines, batch_size=64)
    found = []
    for how, places, others in ways(encode, lines, vectors):
        wanted = batches[places]
        if others.dtype != wanted.dtype or others.shape != wanted.shape:
            raise ValueError(f"vectors {how} are {others.dtype} {others.shape}, not {wanted.dtype} {wanted.shape}")
        differ = int((np.ascontiguousarray(others).view(np.uint32) != wanted.view(np.uint32)).any(1).sum())
        if differ:
            raise ValueError(f"the vectors of {differ} of {len(wanted)} lines have other bytes {how} than in batches of 64")
        found.append(how if places == slice(None) else f"{how} ({len(wanted)} lines)")
    return (
        f"Python: the vectors of {len(lines)} lines in batches of 64 have the same bytes {', '.join(found[:-1])} "
        f"and {found[-1]}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition(": ")[2].partition("\n")[0])
    parser.add_argument("folder", metavar="MODEL", help="a folder")
    parser.add_argument("text", metavar="TEXT", help="UTF-8, a line for each vector")
    parser.add_argument("vectors", metavar="VECTORS", nargs="?", help=".npy, by fovea-embed --output")
    try:
        print(compare(**vars(parser.parse_args())))
    except (OSError, ValueError, ImportError, NotImplementedError) as error:
        raise SystemExit(f"compare.py: {error}") from None
