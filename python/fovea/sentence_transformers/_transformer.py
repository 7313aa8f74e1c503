"""The first module of a model: tokenizer and backbone, and the files that they are made of."""

import operator

import numpy as np

from . import _folder
from ._families import backbone_of
from ._heads import Module
from ._source import Config, Source
from ._tokens import Tokenizer

_FILES = [f"sentence_{name}_config.json" for name in ("bert", "roberta", "distilbert", "camembert", "xlm-roberta")]
_KEYS = (
    "max_seq_length", "do_lower_case", "transformer_task", "modality_config", "module_output_name", "unpad_inputs",
)  # fmt: skip
_EMPTY = (
    "query_length", "document_length", "query_expansion", "processing_kwargs", "model_args", "model_kwargs",
    "tokenizer_args", "processor_kwargs", "config_args", "config_kwargs",
)  # fmt: skip
_NO_MATTER = {"attn_implementation", "trust_remote_code"}


def whole(name, value, least=1):
    """value, a whole number of at least `least`."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}, it must be a whole number") from None
    if number < least:
        raise ValueError(f"{name} is {number}, it must be at least {least}")
    return number


class Transformer(Module):
    """weights, arithmetic: the words of quantization= and arithmetic= of the maps, or None. limit: the most tokens of a
    text, or None: the files say it."""

    def __init__(self, folder, task, weights, arithmetic, dtype, limit):
        if (folder / "adapter_config.json").is_file():
            raise NotImplementedError(f"{folder} has an adapter, which is not served: merge it, and save the model")
        if arithmetic is not None and weights is None:
            raise ValueError(f"arithmetic is {arithmetic!r}, which is of weights that are rounded: weights= is not given")
        self.arithmetic = arithmetic
        self.folder, self.weights, self.config = folder, weights, _folder.read_object(folder / "config.json")
        self.settings = next((name for name in _FILES if (folder / name).is_file()), _FILES[0])
        own = Config(_folder.read_object(folder / self.settings, optional=True), folder, self.settings)
        _check_settings(own, task)
        self.tokens = Tokenizer(folder, own.flag("do_lower_case", default=False))
        self.convert(dtype)
        ends = [self.backbone.limit, self.source.count("max_position_embeddings", default=None)]
        self.longest = min((end for end in ends if end is not None), default=None)
        saved = own.count("max_seq_length", default=None)
        wanted = saved if limit is None else whole("model_max_length", limit)
        wanted = wanted or self.tokens.model_max_length or self.longest
        self.limit = min((n for n in (wanted, self.longest) if n is not None), default=None)

    def convert(self, dtype):
        """Packs the weights anew, for activations of dtype."""
        self.source = Source(self.config, _folder.Weights(self.folder), self.weights, dtype, self.arithmetic)
        self.backbone = backbone_of(self.source)
        table = self.backbone.tables.get("types")
        self.types = table is not None and len(table) > 1 and self.tokens.types
        self.width = self.backbone.width

    get_word_embedding_dimension = Module.get_embedding_dimension

    @property
    def tokenizer(self):
        return self.tokens.raw

    @property
    def max_seq_length(self):
        return self.limit

    @max_seq_length.setter
    def max_seq_length(self, value):
        value = self.longest if value is None else whole("max_seq_length", value)
        if value is not None and self.longest is not None and value > self.longest:
            raise ValueError(f"max_seq_length is {value}, this model has positions for {self.longest} tokens")
        self.limit = value


def _check_settings(own, task):
    own.known((*_KEYS, *_EMPTY))
    for name in _EMPTY:
        given = own.config.get(name)
        if given and not (isinstance(given, dict) and not set(given) - _NO_MATTER):
            raise NotImplementedError(f"{own.file} in {own.folder} has {name} = {given!r}, which is not served")
    given = own.word("transformer_task", default=task)
    ways = own.object("modality_config")
    if given != task or any(name != "text" for name in ways):
        inputs = ", ".join(ways) or "text"
        raise NotImplementedError(f"{own.file} in {own.folder}: {given} of {inputs} is not served, {task} of text is")
