"""What is done with vectors: similarities, and types of fewer bits."""

import logging
import sys

import numpy as np

from . import _operations as op

PRECISIONS = ("float32", "int8", "uint8", "binary", "ubinary")
SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")
logger = logging.getLogger("fovea.sentence_transformers")


def _rows(vectors):
    if isinstance(vectors, (list, tuple)) and len(vectors) and not np.isscalar(vectors[0]):
        vectors = np.stack([np.asarray(v) for v in vectors])
    vectors = np.asarray(vectors, dtype=np.float32)
    return np.ascontiguousarray(vectors.reshape(1, -1) if vectors.ndim == 1 else vectors)


def _like(given, found):
    """A tensor, if a tensor was given, or a list of some."""
    torch = sys.modules.get("torch")
    first = [g[0] if isinstance(g, (list, tuple)) and len(g) else g for g in given]
    return torch.from_numpy(found) if torch and any(isinstance(f, torch.Tensor) for f in first) else found


def similarity(kind, a, b):
    """[rows of a, rows of b]. Cosines and dot products come from the library; distances, negated, from numpy in
    float64."""
    given, a, b = (a, b), _rows(a), _rows(b)
    if kind in ("cosine", "dot"):
        if kind == "cosine":
            a, b = (op.normalize(v, np.empty_like(v)) for v in (a, b))
        found = op.linear(b)(a) if len(b) else np.empty((len(a), 0), np.float32)
    else:
        found = np.empty((len(a), len(b)), np.float32)
        for i, row in enumerate(a.astype(np.float64)):
            found[i] = _distance(kind, row - b)
    return _like(given, found)


def _distance(kind, difference):
    return -(np.sqrt((difference**2).sum(-1)) if kind == "euclidean" else np.abs(difference).sum(-1))


def pairwise(kind, a, b):
    given, a, b = (a, b), _rows(a), _rows(b)
    if a.shape != b.shape:
        raise ValueError(f"embeddings1 has the shape {a.shape}, embeddings2 {b.shape}")
    if kind in ("euclidean", "manhattan"):
        return _like(given, _distance(kind, a.astype(np.float64) - b).astype(np.float32))
    if kind == "cosine":
        a, b = (op.normalize(v, np.empty_like(v)) for v in (a, b))
    return _like(given, op.dots(a, b))


def quantize(vectors, precision):
    """As quantize_embeddings() of sentence-transformers: int8 and uint8 spread each channel's range over these
    vectors."""
    if precision == "ubinary":
        return np.packbits(vectors > 0, axis=-1)
    if precision == "binary":
        return (np.packbits(vectors > 0, axis=-1) - 128).astype(np.int8)
    if len(vectors) == 1:
        raise ValueError(f"precision={precision!r} of one text has no range to spread: encode several, or use 'binary'")
    if len(vectors) < 100:
        logger.warning(
            "precision=%r takes ranges from %d vectors alone; 100 or more are better", precision, len(vectors)
        )
    low = vectors.min(axis=0)
    steps = (vectors.max(axis=0) - low) / np.float32(255)
    steps[steps == 0] = 1
    values = np.clip(np.floor((vectors - low) / steps), 0, 255)
    return values.astype(np.uint8) if precision == "uint8" else (values - 128).astype(np.int8)
