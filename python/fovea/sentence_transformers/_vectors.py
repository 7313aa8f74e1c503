"""Operations on vectors: similarities, and types of fewer bits."""

import logging
import sys

import numpy as np

from . import _operations as op

PRECISIONS = ("float32", "int8", "uint8", "binary", "ubinary")
SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")
logger = logging.getLogger("fovea.sentence_transformers")


def _rows(vectors):
    """[rows, channels], in float64 where an array or tensor has that, else in float32."""
    torch = sys.modules.get("torch")
    kind = type(vectors).__name__
    if isinstance(vectors, (list, tuple)):
        if len(vectors) and hasattr(vectors[0], "shape"):
            vectors = [_rows(v)[0] for v in vectors]
        else:
            vectors = _array(vectors, kind, np.float32)
    elif torch and isinstance(vectors, torch.Tensor):
        vectors = vectors.detach()
        vectors = (vectors if vectors.dtype is torch.float64 or vectors.is_complex() else vectors.float()).numpy()
    vectors = _array(vectors, kind)
    if vectors.dtype.kind in "cOSUMm":
        raise TypeError(f"embeddings are of {vectors.dtype}, they must be numbers")
    if vectors.ndim not in (1, 2):
        raise ValueError(f"embeddings have the shape {vectors.shape}, not [rows, channels]")
    vectors = np.ascontiguousarray(vectors, np.float64 if vectors.dtype == np.float64 else np.float32)
    return vectors.reshape(1, -1) if vectors.ndim == 1 else vectors


def _array(vectors, kind, dtype=None):
    try:
        return np.asarray(vectors, dtype)
    except (TypeError, ValueError):
        raise TypeError(f"embeddings must be numbers, [rows, channels]; this {kind} has others") from None


def _pair(a, b):
    """Both, of one type."""
    a, b = _rows(a), _rows(b)
    if a.shape[1] != b.shape[1] and len(a) and len(b):
        raise ValueError(f"embeddings1 has {a.shape[1]} channels, embeddings2 {b.shape[1]}")
    dtype = np.result_type(a, b)
    return a.astype(dtype, copy=False), b.astype(dtype, copy=False)


def _unit(vectors):
    if vectors.dtype == np.float32:
        return op.normalize(vectors, np.empty_like(vectors))
    return vectors / np.maximum(np.sqrt((vectors**2).sum(-1, keepdims=True)), 1e-12)


def _like(given, found):
    """A tensor, if a tensor was given, or a list of some."""
    torch = sys.modules.get("torch")
    first = [g[0] if isinstance(g, (list, tuple)) and len(g) else g for g in given]
    return torch.from_numpy(found) if torch and any(isinstance(f, torch.Tensor) for f in first) else found


def similarity(kind, a, b):
    """[rows of a, rows of b], in float64 where a or b is. Cosines and dot products of float32 come from the library;
    all else from numpy in float64."""
    given, (a, b) = (a, b), _pair(a, b)
    if kind == "cosine":
        a, b = _unit(a), _unit(b)
    if kind in ("cosine", "dot") and a.dtype == np.float32:
        found = op.linear(b)(a) if len(b) and len(a) else np.empty((len(a), len(b)), np.float32)
    else:
        found = np.empty((len(a), len(b)), a.dtype)
        for i, row in enumerate(a.astype(np.float64)):
            found[i] = (row * b).sum(-1) if kind in ("cosine", "dot") else _distance(kind, row - b)
    return _like(given, found)


def _distance(kind, difference):
    return -(np.sqrt((difference**2).sum(-1)) if kind == "euclidean" else np.abs(difference).sum(-1))


def pairwise(kind, a, b):
    given, (a, b) = (a, b), _pair(a, b)
    if a.shape != b.shape:
        raise ValueError(f"embeddings1 has the shape {a.shape}, embeddings2 {b.shape}")
    if kind in ("euclidean", "manhattan"):
        return _like(given, _distance(kind, a.astype(np.float64) - b).astype(a.dtype))
    if kind == "cosine":
        a, b = _unit(a), _unit(b)
    return _like(given, op.dots(a, b) if a.dtype == np.float32 else (a * b).sum(-1))


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
