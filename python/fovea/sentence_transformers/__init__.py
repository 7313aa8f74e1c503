"""Vectors and scores of texts that never change: sentence-transformers' interface on Fovea, without torch.

    from fovea.sentence_transformers import CrossEncoder, SentenceTransformer
    model = SentenceTransformer("sentence-transformers/all-MiniLM-L6-v2")    # or a folder
    vectors = model.encode(texts)

A vector's bits are the same alone and in any batch, in any order, on every CPU, with any number of threads. Needs numpy
and tokenizers; names on the hub need huggingface_hub, from whose cache they are taken offline. docs/embeddings.md says
what is not served.
"""

try:
    import numpy  # noqa: F401
except ImportError:
    raise ImportError("fovea.sentence_transformers needs numpy: pip install numpy") from None

from ._cross_encoder import CrossEncoder
from ._sentence_transformer import SentenceTransformer

__all__ = ["CrossEncoder", "SentenceTransformer"]


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(
        f"fovea.sentence_transformers has no {name!r}: it has SentenceTransformer and CrossEncoder"
    )
