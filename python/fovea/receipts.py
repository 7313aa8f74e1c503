"""Receipts of vectors: checks that a model gives texts the vectors that a receipt says.

    model.encode(texts, receipt="vectors.receipt")               # fovea.sentence_transformers; or fovea-embed --receipt
    fovea.receipts.verify("vectors.receipt", model)

docs/receipts.md is the format, and says what a receipt proves. Needs numpy and tokenizers.
"""

import secrets
from os import PathLike
from typing import Any

from fovea.sentence_transformers import SentenceTransformer, _receipt
from fovea.sentence_transformers._receipt import CannotTell, Differs

__all__ = ["CannotTell", "Differs", "verify"]


def verify(
    path: str | PathLike[str], model: Any, texts: Any = None, *, sample: int | None = None, seed: int | None = None
) -> int:
    """How many texts were checked; raises Differs, whose sentence names the first difference, or CannotTell. Both are
    ValueErrors.

    model: a SentenceTransformer, whose max_seq_length is the receipt's meanwhile, or its folder. texts: those of the
    receipt, where it has only their hashes. sample: check as many, chosen by seed, which is another each time unless
    given."""
    receipt = _receipt.read(path)
    if texts is None and receipt["texts"] is None:
        raise CannotTell(f"{path}: its texts are private: give them as texts=")
    texts = receipt["texts"] if texts is None else list(texts)
    if len(texts) != len(receipt["vectors"]):
        raise CannotTell(f"{path}: it has {len(receipt['vectors'])} texts, {len(texts)} are given")
    if not isinstance(model, SentenceTransformer):
        try:
            model = SentenceTransformer(model)
        except (OSError, ValueError, NotImplementedError) as error:
            raise CannotTell(f"{path}: {error}") from error
    if sample is not None and sample < 1:
        raise ValueError(f"sample is {sample}, it must be at least 1")
    places = _receipt.chosen(len(texts), sample, secrets.randbits(63) if seed is None else seed)
    _receipt.verify(path, receipt, model, texts, places)
    return len(places)
