"""What comes after the backbone: the modules of modules.json, and the heads of classifiers. Each takes rows and gives
rows."""

import numpy as np

from . import _operations as op
from ._families import Source, activation_of
from ._folder import Weights, read_object

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


class Pooling:
    def __init__(self, config, width, folder=""):
        modes = config.get("pooling_mode")
        if modes is None:
            modes = [mode for name, mode in _OLD_MODES.items() if config.get(name)] or ["mean"]
        modes = [modes] if isinstance(modes, str) else list(modes)
        if unknown := [mode for mode in modes if mode not in _MODES]:
            raise NotImplementedError(f"{folder}: the pooling {unknown[0]!r} is not served: {', '.join(_MODES)} are")
        given = config.get("embedding_dimension", config.get("word_embedding_dimension", width))
        if given != width:
            raise ValueError(f"{folder}: pooling has {given} channels, the backbone {width}")
        self.modes, self.include_prompt, self.width = (
            modes,
            bool(config.get("include_prompt", True)),
            len(modes) * width,
        )

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


class Dense:
    def __init__(self, folder, width):
        config = read_object(folder / "config.json")
        for name in ("module_input_name", "module_output_name"):
            if config.get(name) not in (None, "sentence_embedding"):
                raise NotImplementedError(
                    f"{folder}: a Dense of {config[name]} is not served, only of sentence_embedding"
                )
        source = Source(config, Weights(folder))
        word = str(config.get("activation_function", "torch.nn.modules.activation.Tanh")).rpartition(".")[2]
        self.map = source.map("linear", activation=activation_of_module(word))
        self.residual = None
        if config.get("use_residual"):
            same = self.map.in_features == self.map.out_features
            self.residual = (lambda x: x) if same else source.map("residual")
        if self.map.in_features != width:
            raise ValueError(f"{folder}: Dense has {self.map.in_features} channels, what comes before it {width}")
        self.width = self.map.out_features

    def __call__(self, x):
        return self.map(x, self.residual(x) if self.residual else None)


class Normalize:
    def __init__(self, folder, width):
        config = read_object(folder / "config.json", optional=True)
        for name in ("module_input_name", "module_output_name"):
            if config.get(name) not in (None, "sentence_embedding"):
                raise NotImplementedError(
                    f"{folder}: a Normalize of {config[name]} is not served, only of sentence_embedding"
                )
        self.width = width

    def __call__(self, x):
        return op.normalize(x, x)


class LayerNorm:
    def __init__(self, folder, width):
        self.norm = Source({}, Weights(folder)).norm("norm", width, 1e-5)
        self.width = width

    def __call__(self, x):
        return self.norm(x, x)


class Dropout:
    """Nothing, when computing."""

    def __init__(self, folder, width):
        self.width = width

    def __call__(self, x):
        return x


MODULES = {"Dense": Dense, "Normalize": Normalize, "LayerNorm": LayerNorm, "Dropout": Dropout}


def activation_of_module(word):
    """Of a class of torch.nn, by its name; None: no activation."""
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

    def __init__(self, source, backbone):
        kind, self.pooling, self.norm, self.dense = source.of("model_type"), "first", None, None
        body, source.prefix = source.prefix, ""
        source = Source(source.config, source.weights)  # heads keep float32
        if kind in ("qwen3", "gemma3_text"):
            self.pooling, self.out = "last", source.map("score")
        elif kind in ("bert", "nomic_bert"):
            source.prefix = body
            self.dense = source.map("pooler.dense", activation="tanh")
            source.prefix = ""
            self.out = source.map("classifier")
        elif kind == "distilbert":
            self.dense, self.out = source.map("pre_classifier", activation="relu"), source.map("classifier")
        elif kind == "modernbert":
            self.pooling = {"cls": "first", "mean": "mean"}[source.of("classifier_pooling", default="cls")]
            activation = activation_of(source.of("classifier_activation", default="gelu"))
            self.dense = source.map("head.dense", activation=activation)
            self.norm = source.norm("head.norm", backbone.width, source.of("norm_eps", default=1e-5))
            self.out = source.map("classifier")
        else:
            self.dense, self.out = source.map("classifier.dense", activation="tanh"), source.map("classifier.out_proj")
        self.labels = self.out.out_features

    def __call__(self, x, starts):
        rows = op.pool(x, starts[:-1], starts[1:], self.pooling, np.empty((len(starts) - 1, x.shape[-1]), np.float32))
        if self.dense:
            rows = self.dense(rows)
        return self.out(self.norm(rows, rows) if self.norm else rows)
