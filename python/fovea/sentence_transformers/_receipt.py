"""Receipts of vectors (docs/receipts.md), by which somebody else checks texts, tokens and vectors. fovea-embed writes
and checks the same files."""

import hashlib
import json
import os
import re
import time
from pathlib import Path

import numpy as np

from fovea import BITS_VERSION, __version__

from . import _folder
from ._heads import _MODES, Normalize

FORMAT = "fovea-receipt-vectors 1"
_MOST_BYTES = 1 << 28
_DECIMAL = re.compile(r"(?=.{1,31}$)[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?")
_FIELDS = {"format", "bits", "arithmetic", "model", "made", "texts", "vectors", "sha256"}
_SETTINGS = ("type", "weights", "pooling", "normalized", "tokens")
_DIGESTS = ("arrays", "weights", "settings", "tokenizer", "template")
_FILES = {
    "settings": ["config.json"],
    "tokenizer": [
        "generation_config.json", "merges.txt", "special_tokens_map.json", "tokenizer.json", "vocab.json", "vocab.txt",
    ],
    "template": ["chat_template.jinja", "tokenizer_config.json"],
}  # fmt: skip


class Differs(ValueError):
    """Something is not as the receipt says: the sentence names it."""


class CannotTell(ValueError):
    """This version, this model or these texts cannot check the receipt."""


def _sha(*parts):
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest


def _file(path):
    return [path.name.encode() + b"\0", _sha(path.read_bytes()).digest()] if path.is_file() else []


def _digests(folder):
    """Those of the model in a folder."""
    layout, contents = [], []
    for name, (kind, shape, values) in sorted(_folder.Weights(folder).items(), key=lambda item: item[0].encode()):
        head = f"{name}\0{kind}\0{','.join(map(str, shape))}\0".encode()
        layout.append(head)
        contents += [head, _sha(values.data).digest()]
    found = {"arrays": _sha(*layout).hexdigest(), "weights": _sha(*contents).hexdigest()}
    for name, files in _FILES.items():
        found[name] = _sha(*(part for file in files for part in _file(folder / file))).hexdigest()
    return found


def _settings(model):
    """The settings of model without normalize_embeddings; or the sentence why no receipt can be of it."""
    pooling, others = model._pooling, [m for m in model._after if not isinstance(m, Normalize)]
    if model._transformer.weights is not None or model.dtype != np.float32:
        return "weights= and dtype= round elsewhere than fovea-embed: only float32 has the same bits"
    if others:
        return f"it has the module {type(others[0]).__name__}, which fovea-embed lacks"
    if len(pooling.modes) > 1 or model.max_seq_length is None:
        return "it has several ways of pooling" if len(pooling.modes) > 1 else "it has no limit of tokens"
    if model._transformer.tokens._side != "right":
        return "it cuts texts off at the left"
    words = ("f32", "stored", _MODES[pooling.modes[0]], str(len(model._after)))
    return dict(zip(_SETTINGS, (*words, str(model.max_seq_length)), strict=True))


def _entries(model, texts, vectors):
    tokens = model._transformer.tokens.encode(texts, model.max_seq_length)
    return [
        {
            "text": _sha(text.encode()).hexdigest(),
            "tokens": _sha(np.asarray(ids, "<i4").tobytes()).hexdigest(),
            "vector": _sha((vector + np.float32(0)).astype("<f4").tobytes()).hexdigest(),
        }
        for text, (ids, _), vector in zip(texts, tokens, vectors, strict=True)
    ]


def _seal(receipt):
    rest = {name: value for name, value in receipt.items() if name not in ("sha256", "texts")}
    return _sha(json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()


class Writer:
    """Refuses, before anything is computed, what could not be written."""

    def __init__(self, path, model, normalized, prompt, whole):
        self.path, self.model, self.settings = Path(path), model, _settings(model)
        if not whole:
            raise ValueError("receipt= is of whole float32 vectors: without truncate_dim, precision, output_value")
        if isinstance(self.settings, str):
            raise ValueError(f"no receipt of {model.folder}: {self.settings}")
        if prompt and not model._pooling.include_prompt:
            raise ValueError(f"no receipt of {model.folder}: its pooling leaves out prompts, fovea-embed does not")
        if self.path.exists():
            raise FileExistsError(f"{path} is there already: a receipt is never overwritten")
        self.settings["normalized"] = str(int(self.settings["normalized"]) + bool(normalized))
        self.digests, self.begin = _digests(model._transformer.folder), time.monotonic()

    def write(self, texts, vectors, private):
        if not texts:
            raise ValueError(f"{self.path}: there are no texts")
        made = {"seconds": f"{time.monotonic() - self.begin:.3f}", "by": f"fovea {__version__} (Python)"}
        receipt = {"format": FORMAT, "bits": BITS_VERSION, "arithmetic": self.settings, "model": self.digests}
        receipt |= {"made": made, "texts": None if private else texts, "vectors": _entries(self.model, texts, vectors)}
        receipt["sha256"] = _seal(receipt)
        part = self.path.with_name(f".{self.path.name}-{os.getpid()}")
        try:
            part.write_text(json.dumps(receipt, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            os.link(part, self.path)  # unlike a rename, not over a file that has come since
        finally:
            part.unlink(missing_ok=True)


# ----------------------------------------------------------------------------------------------------------- verifying


def _unique(pairs):
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a field is there twice")
    return dict(pairs)


def _object(value, fields, what):
    if not isinstance(value, dict):
        raise ValueError(f"{what} is no JSON object")
    for name in [*(set(fields) - set(value)), *(set(value) - set(fields))]:
        raise ValueError(f"{what} lacks the field {name}, or has it, which is unknown")
    return value


def _hex(value, what):
    if not isinstance(value, str) or not re.fullmatch("[0-9a-f]{64}", value):
        raise ValueError(f"{what} is no SHA-256")


def _check(receipt):
    """The receipt, if it is wholly of the format."""
    if not isinstance(receipt, dict) or receipt.get("format") != FORMAT:
        raise ValueError(f'it is no receipt of the format "{FORMAT}"')
    _object(receipt, _FIELDS, "the receipt")
    for name in _DIGESTS:
        _hex(_object(receipt["model"], _DIGESTS, "model")[name], name)
    _hex(receipt["sha256"], "sha256")
    for name, word in _object(receipt["arithmetic"], _SETTINGS, "arithmetic").items():
        if not isinstance(word, str) or not re.fullmatch("[!-~]{0,31}", word):
            raise ValueError(f"{name} is no word")
    made = _object(receipt["made"], ("seconds", "by"), "made")
    seconds = made["seconds"]
    if not isinstance(seconds, str) or not _DECIMAL.fullmatch(seconds) or not float(seconds) < 1e12:
        raise ValueError("made.seconds is no number")
    if not isinstance(made["by"], str) or not re.fullmatch("[ -~]*", made["by"]):
        raise ValueError("made.by is no ASCII text")
    texts, vectors = receipt["texts"], receipt["vectors"]
    if not isinstance(vectors, list) or not vectors:
        raise ValueError("it has no vectors")
    for entry in vectors:
        for name in ("text", "tokens", "vector"):
            _hex(_object(entry, ("text", "tokens", "vector"), "a vector")[name], name)
    if texts is not None and not (
        isinstance(texts, list) and len(texts) == len(vectors) and all(isinstance(t, str) for t in texts)
    ):
        raise ValueError("texts is no list of as many texts")
    return receipt


def read(path):
    """A receipt of this version of the bits."""
    try:
        if os.path.getsize(path) > _MOST_BYTES:
            raise ValueError(f"it is larger than {_MOST_BYTES} bytes")
        receipt = _check(json.loads(Path(path).read_text(encoding="utf-8"), object_pairs_hook=_unique))
    except (OSError, ValueError, RecursionError) as error:
        raise CannotTell(f"{path}: {str(error).partition(chr(10))[0]}") from None
    if type(receipt["bits"]) is not int or receipt["bits"] != BITS_VERSION:
        found = f"it was made with version {receipt['bits']} of the bits, this is version {BITS_VERSION}"
        raise CannotTell(f"{path}: {found}")
    return receipt


def chosen(count, sample, seed):
    """The numbers of the texts to check: the first of a shuffle by splitmix64."""
    order, most = list(range(count)), count if sample is None else min(sample, count)
    for i in range(most):
        seed = (seed + 0x9E3779B97F4A7C15) % 2**64
        z = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        other = i + (z ^ z >> 31) % (count - i)
        order[i], order[other] = order[other], order[i]
    return sorted(order[:most])


def _same_model(path, receipt, folder):
    own, stated = _digests(folder), receipt["model"]
    if own["arrays"] != stated["arrays"] or own["settings"] != stated["settings"]:
        raise CannotTell(f"{path}: it is of another model: arrays or settings of {folder} have another SHA-256")
    if own["weights"] != stated["weights"]:
        raise Differs(f"{path}: weights: arrays have the names and shapes that it states, but other bytes")
    if own["tokenizer"] != stated["tokenizer"] or own["template"] != stated["template"]:
        raise Differs(f"{path}: the tokenizer has another SHA-256")


def _encode(path, stated, model, texts):
    """Vectors and digests of texts by the receipt's settings."""
    before = model.max_seq_length
    try:
        model.max_seq_length = int(stated["tokens"])
        own = _settings(model)
        if isinstance(own, str):
            raise ValueError(own)
        for name in ("type", "weights", "pooling", "tokens"):
            if own[name] != stated[name]:
                raise ValueError(f"{name} is {stated[name]!r} in the receipt, {own[name]!r} here")
        again = int(stated["normalized"]) - int(own["normalized"])
        if again not in (0, 1):
            raise ValueError(f"vectors are divided by their length {stated['normalized']} times, which is not served")
        vectors = model.encode(texts, prompt="", normalize_embeddings=again == 1, truncate_dim=model._width)
        return _entries(model, texts, vectors)
    except (TypeError, ValueError) as error:
        raise CannotTell(f"{path}: {model.folder}: {error}") from None
    finally:
        model.max_seq_length = before


def verify(path, receipt, model, texts, places):
    """Checks the texts at these places."""
    _same_model(path, receipt, model._transformer.folder)
    changed = receipt["sha256"] != _seal(receipt)
    found = _encode(path, receipt["arithmetic"], model, [texts[i] for i in places])
    for place, own in zip(places, found, strict=True):
        where, stated = f"{path}: text {place + 1}", receipt["vectors"][place]
        if own["text"] != stated["text"]:
            raise (Differs if texts is receipt["texts"] else CannotTell)(f"{where} has another SHA-256")
        if own["tokens"] != stated["tokens"] and not changed:
            raise CannotTell(f"{where}: tokens of the package tokenizers are others than the receipt's")
        if own["tokens"] != stated["tokens"]:
            raise Differs(f"{where}: its tokens are others")
        if own["vector"] != stated["vector"]:
            raise Differs(f"{where}: its vector is another")
    if changed:
        raise Differs(f"{path}: its own SHA-256 is another: a field was changed after it was written")
