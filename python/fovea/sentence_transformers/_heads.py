"""Modules behind the backbone: those of modules.json, and the heads of classifiers. Each takes rows and returns rows."""

import numpy as np

from . import _operations as op
from ._folder import Weights, read_object
from ._source import Config, Source, activation_of

_MODES = {
    "cls": "first",
    "max": "max",
    "mean": "mean",
    "mean_sqrt_len_tokens": "mean_sqrt_len",
    "weightedmean": "weighted_mean",
    "lasttoken": "last",
}
_OLD_MODES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


class Module:
    """Base of the modules of a model."""

    width = 0

    def get_embedding_dimension(self):
        return self.width

    def __getattr__(self, name):
        hint = "weights are packed, and modules are not called one by one: call encode() or predict() of the model"
        raise AttributeError(f"{type(self).__name__} of fovea.sentence_transformers has no {name!r}: {hint}")


class Pooling(Module):
    _KEYS = ("pooling_mode", "include_prompt", "embedding_dimension", "word_embedding_dimension", *_OLD_MODES)

    def __init__(self, config, width, folder=""):
        of = Config(config, folder)
        of.known(self._KEYS)
        modes = config.get("pooling_mode")
        if modes is None:
            modes = [mode for name, mode in _OLD_MODES.items() if of.flag(name, default=False)] or ["mean"]
        modes = [modes] if isinstance(modes, str) else modes
        if not isinstance(modes, list) or not modes:
            raise ValueError(f"{folder}/config.json has pooling_mode = {modes!r}, which is neither a word nor a list")
        if unknown := [mode for mode in modes if mode not in list(_MODES)]:
            raise NotImplementedError(f"{folder}: the pooling {unknown[0]!r} is not served: {', '.join(_MODES)} are")
        for name in ("embedding_dimension", "word_embedding_dimension"):
            if config.get(name, width) != width:
                raise ValueError(f"{folder}: pooling has {config[name]} channels, the backbone {width}")
        self.modes, self.embedding_dimension, self.width = modes, width, len(modes) * width
        self.include_prompt = of.flag("include_prompt", default=True)

    @property
    def pooling_mode(self):
        return self.modes[0] if len(self.modes) == 1 else tuple(self.modes)

    def __call__(self, x, starts, prompt_length=0):
        begin, end = starts[:-1], starts[1:]
        out = np.empty((len(end), self.width), np.float32)
        width = x.shape[-1]
        for i, mode in enumerate(self.modes):
            part = out[:, i * width : (i + 1) * width]
            if prompt_length and not self.include_prompt:
                self._without_prompt(x, begin, end, prompt_length, mode, part)
            else:
                op.pool(x, begin, end, _MODES[mode], part)
        return out

    @staticmethod
    def _without_prompt(x, begin, end, length, mode, out):
        """The tokens after the prompt keep the weights of their places."""
        if mode == "weightedmean":
            weights = np.arange(len(x), dtype=np.float32) - np.repeat(begin, end - begin).astype(np.float32) + 1
            op.pool(x, np.minimum(begin + length, end), end, _MODES[mode], out, weights)
        elif mode == "cls":  # a text that is only the prompt has its first token
            op.pool(x, np.where(end - begin > length, begin + length, begin), end, _MODES[mode], out)
        elif mode == "lasttoken":
            op.pool(x, begin, end, _MODES[mode], out)
        else:
            op.pool(x, np.minimum(begin + length, end), end, _MODES[mode], out)


def _of_vectors(config, folder):
    for name in ("module_input_name", "module_output_name"):
        if config.get(name) not in (None, "sentence_embedding"):
            raise NotImplementedError(f"{folder}: {name} = {config[name]!r} is not served, sentence_embedding is")


class Dense(Module):
    _KEYS = ("in_features", "out_features", "bias", "activation_function", "use_residual")

    def __init__(self, folder, width):
        config = read_object(folder / "config.json")
        source = Source(config, Weights(folder))
        source.known((*self._KEYS, "module_input_name", "module_output_name"))
        _of_vectors(config, folder)
        out, inner = (source.count(name, default=None) for name in ("out_features", "in_features"))
        word = source.word("activation_function", default="torch.nn.modules.activation.Tanh")
        bias = source.flag("bias", default=True)
        if not bias and "linear.bias" in source.weights:
            raise ValueError(f"{folder}: Dense has a bias in its weights, and none by config.json")
        self.map = source.map("linear", rows=out, columns=inner, bias=bias, activation=activation_of_module(word))
        self.residual = None
        if source.flag("use_residual", default=False):
            same = self.map.in_features == self.map.out_features
            self.residual = (lambda x: x) if same else source.map("residual", rows=out, columns=inner, bias=False)
        if self.map.in_features != width:
            raise ValueError(f"{folder}: Dense has {self.map.in_features} channels, what comes before it {width}")
        self.in_features, self.out_features = self.map.in_features, self.map.out_features
        self.width = self.out_features

    def __call__(self, x):
        return self.map(x, self.residual(x) if self.residual else None)


class Normalize(Module):
    def __init__(self, folder, width):
        _of_vectors(read_object(folder / "config.json", optional=True), folder)
        self.width = width

    def __call__(self, x):
        return op.normalize(x, x)


class LayerNorm(Module):
    def __init__(self, folder, width):
        config = read_object(folder / "config.json", optional=True)
        if config.get("dimension", width) != width:
            raise ValueError(f"{folder}: LayerNorm has {config['dimension']} channels, what comes before it {width}")
        self.norm = Source(config, Weights(folder)).norm("norm", width, 1e-5)
        self.width = width

    def __call__(self, x):
        return self.norm(x, x)


class Dropout(Module):
    """Nothing, when computing."""

    def __init__(self, folder, width):
        self.width = width

    def __call__(self, x):
        return x


MODULES = {"Dense": Dense, "Normalize": Normalize, "LayerNorm": LayerNorm, "Dropout": Dropout}


def activation_of_module(name):
    """The activation of a torch.nn class, by its name, alone or with its module; None: no activation."""
    home, _, word = name.rpartition(".")
    if home and not f"{home}.".startswith("torch.nn."):
        raise NotImplementedError(f"the activation {name} is not served: it is not of torch.nn")
    if word == "Identity":
        return None
    if word == "Sigmoid":
        return "sigmoid"
    try:
        return activation_of(word.lower())
    except NotImplementedError:
        raise NotImplementedError(f"the activation torch.nn.{word} is not served") from None


class Classifier:
    """The head of ...ForSequenceClassification: logits [texts, labels]."""

    def __init__(self, source, width):
        kind, self.pooling, self.norm, self.dense = source.word("model_type"), "first", None, None
        body, s = source.prefix, Source(source.config, source.weights)  # heads keep float32
        square = {"rows": width, "columns": width}
        if kind in ("qwen3", "gemma3_text"):
            self.pooling, self.out = "last", s.map("score", columns=width, bias=False)
        elif kind in ("bert", "nomic_bert"):
            s.prefix = body
            self.dense = s.map("pooler.dense", **square, activation="tanh")
            s.prefix = ""
            self.out = s.map("classifier", columns=width)
        elif kind == "distilbert":
            self.dense = s.map("pre_classifier", **square, activation="relu")
            self.out = s.map("classifier", columns=width)
        elif kind == "modernbert":
            pooling = s.word("classifier_pooling", default="cls")
            if pooling not in ("cls", "mean"):
                raise NotImplementedError(f"{s.folder}: classifier_pooling = {pooling!r}: cls and mean are served")
            self.pooling = "first" if pooling == "cls" else pooling
            activation = activation_of(s.word("classifier_activation", default="gelu"))
            bias, eps = s.flag("classifier_bias", default=False), s.number("norm_eps", default=1e-5)
            self.dense = s.map("head.dense", **square, bias=bias, activation=activation)
            self.norm = s.norm("head.norm", width, eps, bias=s.flag("norm_bias", default=False))
            self.out = s.map("classifier", columns=width)
        else:
            self.dense = s.map("classifier.dense", **square, activation="tanh")
            self.out = s.map("classifier.out_proj", columns=width)
        self.labels = self.out.out_features

    def __call__(self, x, starts):
        rows = op.pool(x, starts[:-1], starts[1:], self.pooling, np.empty((len(starts) - 1, x.shape[-1]), np.float32))
        if self.dense:
            rows = self.dense(rows)
        return self.out(self.norm(rows, rows) if self.norm else rows)
