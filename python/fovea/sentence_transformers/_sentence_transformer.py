"""SentenceTransformer."""

from contextlib import contextmanager

import numpy as np

from . import _operations as op
from . import _receipt, _vectors
from ._folder import read_object
from ._heads import MODULES, Pooling
from ._model import Model, as_tensors, logger
from ._transformer import whole


class SentenceTransformer(Model):
    """SentenceTransformer(model_name_or_path, ..., weights=None, dtype=None, arithmetic=None): the interface of
    sentence_transformers, computed by Fovea.

    weights: "int8", "int4", "q8_0" ...: the backbone's maps are rounded as they are packed. arithmetic: of these; "q8"
    rounds what they multiply to 8 bits, too, which is faster and loses more than "q16" (the default). dtype: "float32",
    or "bfloat16" for weights and activations (needs ml_dtypes)."""

    _default_prompts = {"query": "", "document": ""}

    def __init__(self, model_name_or_path=None, *, similarity_fn_name=None, truncate_dim=None, **options):
        super().__init__(model_name_or_path, **options)
        self.truncate_dim = self._saved.count("truncate_dim", default=None) if truncate_dim is None else truncate_dim
        modules, width = self._listed, self._transformer.width
        if modules is None:
            architecture = (self._transformer.source.words("architectures", default=[]) or [""])[0]
            causal = architecture.endswith("ForCausalLM") and self.config.get("is_causal", True)
            mode = "lasttoken" if causal else "mean"
            logger.warning("%s has no modules.json: vectors are the %s of their tokens", self.folder, mode)
            self._pooling = Pooling({"pooling_mode": mode}, width)
        elif not modules or modules[0][0] != "Pooling":
            raise NotImplementedError(f"{self.folder}: a model without Pooling after its Transformer is not served")
        else:
            self._pooling = Pooling(read_object(modules[0][1] / "config.json"), width, modules[0][1])
        self._stages.append(self._pooling)
        for name, folder in (modules or [])[1:]:
            if name not in MODULES:
                raise NotImplementedError(f"{self.folder}: the module {name} is not served: {', '.join(MODULES)} are")
            self._stages.append(MODULES[name](folder, self._stages[-1].width))
        self._after = self._stages[2:]
        self._width = self._stages[-1].width
        self.similarity_fn_name = similarity_fn_name or self._saved.word("similarity_fn_name", default=None)

    @property
    def truncate_dim(self):
        return self._truncate_dim

    @truncate_dim.setter
    def truncate_dim(self, value):
        self._truncate_dim = value if value is None else whole("truncate_dim", value)

    # ---------------------------------------------------------------------------------------------------------- encode

    def encode_query(self, inputs, prompt_name=None, prompt=None, **options):
        if prompt_name is None and prompt is None:
            prompt_name = "query" if "query" in self.prompts else None
        return self.encode(inputs, prompt_name, prompt, **options)

    def encode_document(self, inputs, prompt_name=None, prompt=None, **options):
        if prompt_name is None and prompt is None:
            prompt_name = next((n for n in ("document", "passage", "corpus") if n in self.prompts), None)
        return self.encode(inputs, prompt_name, prompt, **options)

    def encode(
        self,
        inputs=None,
        prompt_name=None,
        prompt=None,
        batch_size=32,
        show_progress_bar=None,
        output_value="sentence_embedding",
        precision="float32",
        convert_to_numpy=True,
        convert_to_tensor=False,
        device=None,
        normalize_embeddings=False,
        truncate_dim=None,
        pool=None,
        chunk_size=None,
        sentences=None,
        receipt=None,
        private_texts=False,
        **unknown,
    ):
        """Vectors [texts, channels] of texts, or of one. A vector's bits do not depend on batch_size, on the
        other texts or their order, on the CPU or on threads. output_value: "token_embeddings" gives a list of
        [tokens, channels] (numpy, too), None dicts with both, input_ids and attention_mask. receipt: a file to write,
        by which others check these vectors (fovea.receipts); private_texts: it has hashes of the texts alone."""
        inputs = sentences if inputs is None else inputs
        unknown.pop("task", None)
        if unknown:
            raise ValueError(f"encode() has no argument {next(iter(unknown))!r}")
        if precision not in (None, *_vectors.PRECISIONS):
            raise ValueError(f"precision is {precision!r}, it must be one of {', '.join(_vectors.PRECISIONS)}")
        if output_value not in ("sentence_embedding", "token_embeddings", None):
            raise ValueError(f"output_value is {output_value!r}, not 'sentence_embedding', 'token_embeddings' or None")
        quantized = precision not in (None, "float32")
        if quantized and output_value != "sentence_embedding":
            raise ValueError(f"precision={precision!r} is served for output_value='sentence_embedding' alone")
        texts, one = _texts_of(inputs)
        prompt = self._prompt(prompt, prompt_name)
        truncate_dim = self.truncate_dim if truncate_dim is None else whole("truncate_dim", truncate_dim)
        writer = None
        if receipt is not None:
            whole_vectors = output_value == "sentence_embedding" and not quantized and truncate_dim in (None, self._width)
            writer = _receipt.Writer(receipt, self, normalize_embeddings, prompt, whole_vectors)
        options = {"batch_size": batch_size, "normalize_embeddings": normalize_embeddings, "truncate_dim": truncate_dim}
        parts = self._in_processes(
            "encode",
            texts,
            pool,
            device,
            chunk_size,
            show_progress_bar,
            prompt=prompt,
            output_value=output_value,
            **options,
        )
        if parts is None:
            found = self._encode(texts, prompt, output_value=output_value, show=show_progress_bar, **options)
        elif output_value == "sentence_embedding":
            found = np.concatenate(parts) if parts else np.empty(0, np.float32)
        else:
            found = [item for part in parts for item in part]
        if writer is not None:
            writer.write(self._prompted(texts, prompt), found, private_texts)
        if output_value == "sentence_embedding":
            found = found if len(texts) else np.empty(0, np.float32)  # as sentence-transformers, without channels
            found = _vectors.quantize(found, precision) if quantized and len(texts) else found
        if output_value is not None and (convert_to_tensor or not convert_to_numpy):
            found = as_tensors(found, convert_to_tensor and output_value == "sentence_embedding")
        return found[0] if one else found

    def _encode(self, texts, prompt, output_value, batch_size, show, normalize_embeddings, truncate_dim):
        skip = 0
        texts = self._prompted(texts, prompt)
        if prompt and not self._pooling.include_prompt:
            skip = self._transformer.tokens.prompt_length(prompt, self.max_seq_length)
        width = self._width if truncate_dim is None else min(self._width, truncate_dim)
        vectors = np.empty((len(texts), width), np.float32)
        items = [None] * len(texts)

        def use(pack, x):
            if output_value != "sentence_embedding":
                for place, begin, end in zip(pack.places, pack.starts[:-1], pack.starts[1:], strict=True):
                    ids = pack.ids[begin:end]
                    items[place] = {
                        "token_embeddings": x[begin:end].astype(np.float32),
                        "input_ids": ids,
                        "attention_mask": np.ones_like(ids),
                    }
            if output_value == "token_embeddings":
                return
            rows = self._pooling(x, pack.starts, skip)
            for module in self._after:
                rows = module(rows)
            rows = rows[:, :width]
            if normalize_embeddings:
                rows = op.normalize(rows, np.empty(rows.shape, np.float32))
            vectors[pack.places] = rows

        self._each_pack(texts, batch_size, show, use)
        if output_value == "sentence_embedding":
            return vectors
        if output_value == "token_embeddings":
            return [item["token_embeddings"] for item in items]
        return [{**item, "sentence_embedding": vector} for item, vector in zip(items, vectors, strict=True)]

    def encode_multi_process(self, sentences, pool, prompt_name=None, prompt=None, batch_size=32, **options):
        return self.encode(sentences, prompt_name, prompt, batch_size, pool=pool, **options)

    def _inputs(self, inputs):
        return _texts_of(inputs)[0]

    def _prompted(self, texts, prompt):
        return [prompt + text for text in texts] if prompt else texts

    def _state(self):
        return super()._state() | {"include_prompt": self._pooling.include_prompt}

    def _set_state(self, include_prompt, **others):
        super()._set_state(**others)
        self._pooling.include_prompt = include_prompt

    _kinds = {"": "base.modules.transformer.Transformer", "1_Pooling": "sentence_transformer.modules.pooling.Pooling"}

    def _settings(self):
        """The entries of config_sentence_transformers.json for this model now."""
        return {"similarity_fn_name": self.similarity_fn_name, "truncate_dim": self.truncate_dim}

    def _changed(self):
        """Other JSON files, and what they say of it."""
        if self._listed is None:
            names = ("embedding_dimension", "pooling_mode", "include_prompt")
            return {"1_Pooling/config.json": {name: getattr(self._pooling, name) for name in names}}
        home = self._listed[0][1].relative_to(self.folder)
        return {f"{home}/config.json": {"include_prompt": self._pooling.include_prompt}}

    # ------------------------------------------------------------------------------------------------------ similarity

    @property
    def similarity_fn_name(self):
        return self._similarity

    @similarity_fn_name.setter
    def similarity_fn_name(self, value):
        value = getattr(value, "value", value) or "cosine"
        if value not in _vectors.SIMILARITIES:
            raise ValueError(f"similarity_fn_name is {value!r}, it must be one of {', '.join(_vectors.SIMILARITIES)}")
        self._similarity = value

    def similarity(self, embeddings1, embeddings2):
        """[rows, rows]: numpy for numpy, torch where one of them is torch's."""
        return _vectors.similarity(self._similarity, embeddings1, embeddings2)

    def similarity_pairwise(self, embeddings1, embeddings2):
        return _vectors.pairwise(self._similarity, embeddings1, embeddings2)

    # ------------------------------------------------------------------------------------------------------- the others

    def get_embedding_dimension(self):
        return self._width if self.truncate_dim is None else min(self._width, self.truncate_dim)

    get_sentence_embedding_dimension = get_embedding_dimension

    @contextmanager
    def truncate_embeddings(self, truncate_dim):
        before, self.truncate_dim = self.truncate_dim, truncate_dim
        try:
            yield
        finally:
            self.truncate_dim = before

    truncate_sentence_embeddings = truncate_embeddings

    def set_pooling_include_prompt(self, include_prompt):
        self._pooling.include_prompt = include_prompt


def _texts_of(inputs):
    """The list of texts, and whether it was one text."""
    if isinstance(inputs, str):
        return [str(inputs)], True
    given = inputs.tolist() if isinstance(inputs, np.ndarray) else inputs
    if isinstance(given, str):  # an array without axes
        return [given], True
    try:
        texts = None if isinstance(given, (dict, bytes)) else list(given)
    except TypeError:
        texts = None
    if texts is None:
        raise TypeError(f"encode() takes a text or a list of texts, not {type(inputs).__name__}")
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(
                f"encode() takes texts, not {type(text).__name__}: images, pairs and messages are not served"
            )
    return texts, False
