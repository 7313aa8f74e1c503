"""CrossEncoder."""

import numpy as np

from . import _operations as op
from ._heads import Classifier, activation_of_module
from ._model import Model, as_tensors
from ._transformer import whole


class CrossEncoder(Model):
    """CrossEncoder(model_name_or_path, ..., weights=None, dtype=None, arithmetic=None): the interface of
    sentence_transformers, computed by Fovea, with the arguments of SentenceTransformer."""

    _kind, _organization, _task = "CrossEncoder", "cross-encoder", "sequence-classification"
    _default_prompts: dict = {}

    def __init__(self, model_name_or_path=None, *, max_length=None, num_labels=None, activation_fn=None, **options):
        for old in ("default_activation_function", "default_activation_fn"):
            activation_fn = options.pop(old, None) or activation_fn
        if max_length is not None:
            tokens = options.pop("processor_kwargs", None) or options.pop("tokenizer_kwargs", None) or {}
            options["processor_kwargs"] = {**tokens, "model_max_length": max_length}
        super().__init__(model_name_or_path, **options)
        architecture = (self.config.get("architectures") or [""])[0]
        if self._listed or not architecture.endswith("ForSequenceClassification"):
            other = self._listed[0][0] if self._listed else architecture or "no architecture"
            raise NotImplementedError(
                f"{self.folder}: a CrossEncoder with {other} is not served, ...ForSequenceClassification is"
            )
        self._head = Classifier(self._transformer.source, self._transformer.width)
        if num_labels not in (None, self.num_labels):
            raise ValueError(f"num_labels is {num_labels}, the model in {self.folder} has {self.num_labels}")
        nested = self._transformer.source.object("sentence_transformers")
        saved = [
            self._saved.word("activation_fn", default=None),
            nested.get("activation_fn"),
            self.config.get("sbert_ce_default_activation_function"),
        ]
        self.activation_fn = next(
            (a for a in [activation_fn, *saved] if a), "Sigmoid" if self.num_labels == 1 else "Identity"
        )
        _activation(self.activation_fn)

    @property
    def num_labels(self):
        return self._head.labels

    @property
    def max_length(self):
        return self.max_seq_length

    @max_length.setter
    def max_length(self, value):
        self.max_seq_length = value

    def predict(
        self,
        inputs=None,
        prompt_name=None,
        prompt=None,
        batch_size=32,
        show_progress_bar=None,
        activation_fn=None,
        apply_softmax=False,
        convert_to_numpy=True,
        convert_to_tensor=False,
        device=None,
        pool=None,
        chunk_size=None,
        sentences=None,
        **unknown,
    ):
        """Scores of pairs of texts, or of one pair: [pairs], or [pairs, labels] where there are several labels.
        activation_fn: the name or an object of a class of torch.nn that is served, or another callable, which
        gets the logits and answers for its bits."""
        unknown.pop("num_workers", None)
        activation_fn = unknown.pop("activation_fct", None) or activation_fn or self.activation_fn
        if unknown:
            raise ValueError(f"predict() has no argument {next(iter(unknown))!r}")
        pairs, one = _pairs_of(sentences if inputs is None else inputs)
        prompt = self._prompt(prompt, prompt_name)
        options = {"batch_size": batch_size, "activation_fn": activation_fn, "apply_softmax": apply_softmax}
        parts = self._in_processes(
            "predict", pairs, pool, device, chunk_size, show_progress_bar, prompt=prompt, **options
        )
        if parts is None:
            found = self._predict(pairs, prompt, show_progress_bar, **options)
        else:
            found = np.concatenate(parts) if parts else np.empty(0, np.float32)
        if convert_to_tensor or not convert_to_numpy:
            found = as_tensors(found, convert_to_tensor)
        return found[0] if one else found

    def _inputs(self, inputs):
        return _pairs_of(inputs)[0]

    def _prompted(self, pairs, prompt):
        return [(prompt + a, b) for a, b in pairs] if prompt else pairs

    _results = {
        "transformer_task": "sequence-classification",
        "modality_config": {"text": {"method": "forward", "method_output_name": "logits"}},
        "module_output_name": "scores",
    }
    _kinds = {"": "base.modules.transformer.Transformer"}

    def _settings(self):
        name, kind = self.activation_fn, type(self.activation_fn)
        if not isinstance(name, str):
            if not kind.__module__.startswith("torch.nn.") or getattr(name, "approximate", "none") != "none":
                raise ValueError(f"activation_fn is {name!r}, which no file can name: set another one before saving")
            name = kind.__name__
        return {"activation_fn": name if "." in name else f"torch.nn.{name}"}

    def _changed(self):
        return {}

    def _predict(self, pairs, prompt, show, batch_size, activation_fn, apply_softmax):
        pairs = self._prompted(pairs, prompt)
        logits = np.empty((len(pairs), self.num_labels), np.float32)

        def use(pack, x):
            logits[pack.places] = self._head(x, pack.starts)

        self._each_pack(pairs, batch_size, show, use)
        if not len(pairs):
            return np.empty(0, np.float32)
        scores = _activation(activation_fn)(logits)
        if self.num_labels == 1:
            return scores.reshape(len(pairs))
        return op.softmax(scores) if apply_softmax else scores

    def rank(self, query, documents, top_k=None, return_documents=False, prompt_name=None, prompt=None, **options):
        """[{"corpus_id", "score", "text" if return_documents}], the best first."""
        if self.num_labels != 1:
            raise ValueError(f"rank() needs a model with one label, this one has {self.num_labels}: use predict()")
        for name in ("convert_to_numpy", "convert_to_tensor", "apply_softmax"):
            options.pop(name, None)
        if isinstance(documents, (str, bytes)) or not isinstance(query, str) or not hasattr(documents, "__iter__"):
            raise TypeError("rank() takes a text, the query, and a list of texts, the documents")
        documents, top_k = list(documents), None if top_k is None else whole("top_k", top_k, least=0)
        scores = self.predict([(query, document) for document in documents], prompt_name, prompt, **options).tolist()
        order = sorted(range(len(scores)), key=lambda i: scores[i], reverse=True)[:top_k]
        return [
            {"corpus_id": i, "score": scores[i], **({"text": documents[i]} if return_documents else {})} for i in order
        ]


def _activation(given):
    """From logits to scores."""
    module = type(given).__module__
    if module.startswith("torch.nn") and getattr(given, "approximate", "none") != "none":
        return lambda x: op.activate(x, "gelu_tanh", np.empty_like(x))
    if isinstance(given, type):
        raise TypeError(f"activation_fn is the class {given.__name__}: pass an object, {given.__name__}()")
    if isinstance(given, str) or module.startswith("torch.nn"):
        word = activation_of_module(given if isinstance(given, str) else f"torch.nn.{type(given).__name__}")
        return (lambda x: x) if word is None else lambda x: op.activate(x, word, np.empty_like(x))
    if not callable(given):
        raise TypeError(
            f"activation_fn must be a callable or the name of a class of torch.nn, not {type(given).__name__}"
        )

    def other(logits):
        try:
            found = given(logits)
        except TypeError:  # of torch's functions, which take tensors alone
            found = given(as_tensors(logits, True))
        try:
            scores = np.asarray(found, dtype=np.float32)
        except (TypeError, ValueError):
            scores = np.empty(0)
        if len(logits) and (found is None or scores.shape[:1] != logits.shape[:1]):
            raise ValueError(f"activation_fn gave {type(found).__name__} {list(scores.shape)} for {len(logits)} pairs")
        return scores

    return other


def _pairs_of(inputs):
    """The list of pairs, and whether it was one pair."""
    inputs = inputs.tolist() if isinstance(inputs, np.ndarray) else inputs
    if not isinstance(inputs, (list, tuple)):
        inputs = list(inputs) if inputs is not None and not isinstance(inputs, (str, dict)) else None
    if inputs is None:
        raise TypeError("predict() takes a pair of texts, or a list of pairs")
    one = len(inputs) == 2 and all(isinstance(text, str) for text in inputs)
    pairs = [tuple(inputs)] if one else [tuple(pair) if isinstance(pair, (list, tuple)) else (pair,) for pair in inputs]
    for pair in pairs:
        if len(pair) != 2 or not all(isinstance(text, str) for text in pair):
            raise TypeError("predict() takes pairs of two texts: images, single texts and messages are not served")
    return pairs, one
