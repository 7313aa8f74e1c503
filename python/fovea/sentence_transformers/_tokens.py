"""Texts become packs of tokens: sorted by length, dealt into packs, while the pack before is computed."""

import queue
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._folder import read_object
from ._source import Config

CHUNK = 1024  # texts that are tokenized at once
PACK_TOKENS = 2048  # of a pack at most, unless one text has more


_GENERIC = ("PreTrainedTokenizerFast", "TokenizersBackend")  # classes that take tokenizer.json as it is


def _of_bert(given, of):
    """The normalizer of a BERT: tokenizer_config.json counts where tokenizer.json says otherwise."""
    if of.word("tokenizer_class", default="") in _GENERIC:
        return given
    return type(given)(
        clean_text=given.clean_text,
        handle_chinese_chars=of.flag("tokenize_chinese_chars", default=given.handle_chinese_chars),
        strip_accents=of.flag("strip_accents", default=given.strip_accents),
        lowercase=of.flag("do_lower_case", default=given.lowercase),
    )


class Tokenizer:
    """tokenizer.json by the package tokenizers. lower: texts are made lower case first."""

    def __init__(self, folder, lower=False):
        try:
            import tokenizers
        except ImportError:
            raise ImportError("fovea.sentence_transformers needs tokenizers: pip install tokenizers") from None
        of = Config(read_object(folder / "tokenizer_config.json", optional=True), folder, "tokenizer_config.json")
        if (folder / "tokenizer.json").is_file():
            try:
                self.raw = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
            except Exception as error:  # tokenizers raises Exception itself
                raise ValueError(f"{folder}/tokenizer.json cannot be read: {error}") from None
        elif (folder / "vocab.txt").is_file():
            self.raw = tokenizers.BertWordPieceTokenizer(str(folder / "vocab.txt"))._tokenizer
        else:
            raise FileNotFoundError(
                f"{folder} lacks tokenizer.json, which transformers makes of other files: "
                "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)"
            )
        if type(self.raw.normalizer).__name__ == "BertNormalizer":
            self.raw.normalizer = _of_bert(self.raw.normalizer, of)
        if lower:
            first = tokenizers.normalizers.Lowercase()
            rest = [] if self.raw.normalizer is None else [self.raw.normalizer]
            self.raw.normalizer = tokenizers.normalizers.Sequence([first, *rest])
        self.raw.no_padding()
        self._side = of.word("truncation_side", default=(self.raw.truncation or {}).get("direction", "right"))
        if self._side not in ("left", "right"):
            raise ValueError(f"{of.file} in {folder} has truncation_side = {self._side!r}, neither left nor right")
        self.types = "token_type_ids" in of.words("model_input_names", default=["token_type_ids"])
        length = of.number("model_max_length", default=0)  # 1e30 stands for none
        self.model_max_length = int(length) if 0 < length < 1e9 else None
        self._special = {token for token, added in self.raw.get_added_tokens_decoder().items() if added.special}
        self._lock = threading.Lock()

    def encode(self, texts, limit, types=False):
        """[(ids, type ids or None)] of texts, or of pairs of texts."""
        with self._lock:  # the limit is the raw tokenizer's state
            if limit is None:
                self.raw.no_truncation()
            else:
                self.raw.enable_truncation(limit, direction=self._side)
            try:
                found = self.raw.encode_batch_fast(texts)
            except TypeError as error:
                raise ValueError(f"a text has half of a surrogate pair, which no encoding has: {error}") from None
        as_array = lambda numbers: np.array(numbers, np.int64)  # noqa: E731
        return [(as_array(e.ids), as_array(e.type_ids) if types else None) for e in found]

    def prompt_length(self, prompt, limit):
        """Tokens of a prompt alone, without a special one at its end."""
        ids = self.encode([prompt], limit)[0][0]
        return len(ids) - (len(ids) > 0 and int(ids[-1]) in self._special)


@dataclass
class Pack:
    places: Any  # of its texts in the caller's list
    ids: Any
    types: Any
    starts: Any  # [texts + 1]: cu_seqlens


def _pack(places, tokens):
    starts = np.concatenate([[0], np.cumsum([len(ids) for ids, _ in tokens])])
    types = np.concatenate([t for _, t in tokens]) if tokens[0][1] is not None else None
    return Pack(np.array(places), np.concatenate([ids for ids, _ in tokens]), types, starts)


def packs(texts, encode, size):
    """Packs of at most size texts, the longest first. Texts of about one length are tokenized together, by chunks."""
    lengths = [len(text) if isinstance(text, str) else sum(map(len, text)) for text in texts]
    order = np.argsort(np.array(lengths), kind="stable")[::-1]
    for first in range(0, len(order), CHUNK):
        chunk = order[first : first + CHUNK]
        tokens = encode([texts[i] for i in chunk])
        places, held = [], 0
        for i in sorted(range(len(chunk)), key=lambda i: -len(tokens[i][0])):
            length = len(tokens[i][0])
            if places and (len(places) == size or held + length > PACK_TOKENS):
                yield _pack(chunk[places], [tokens[p] for p in places])
                places, held = [], 0
            places.append(i)
            held += length
        if places:
            yield _pack(chunk[places], [tokens[p] for p in places])


def ahead(items, depth=8):
    """The items of a generator, which another thread runs some items ahead. When the caller stops, so does the
    thread."""
    ready, stop = queue.Queue(depth), threading.Event()

    def put(item):
        while not stop.is_set():
            try:
                return ready.put(item, timeout=0.1)
            except queue.Full:
                pass

    def work():
        try:
            for item in items:
                put((item, None))
                if stop.is_set():
                    return
            put((None, None))
        except BaseException as error:  # the caller raises it
            put((None, error))

    thread = threading.Thread(target=work, name="fovea tokens", daemon=True)
    thread.start()
    try:
        while True:
            item, error = ready.get()
            if error is not None:
                raise error
            if item is None:
                return
            yield item
    finally:
        stop.set()
        thread.join()
