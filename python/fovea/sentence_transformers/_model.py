"""Base of SentenceTransformer and CrossEncoder: folder, tokenizer, backbone, prompts, packs, processes."""

import contextlib
import logging
import sys
import time

import numpy as np

from . import _folder, _pool, _saved
from ._source import Config
from ._tokens import CHUNK, ahead, packs
from ._transformer import Transformer, whole

logger = logging.getLogger("fovea.sentence_transformers")

class Progress:
    """tqdm where it is installed, else a line with the time left."""

    def __init__(self, total, shown):
        self.total, self.done, self.start, self.bar, self.shown = total, 0, time.monotonic(), None, shown
        if shown:
            with contextlib.suppress(ImportError):
                from tqdm.auto import tqdm

                self.bar = tqdm(total=total, desc="Texts", unit="text")

    def add(self, count):
        self.done += count
        if self.bar is not None:
            self.bar.update(count)
        elif self.shown:
            left = (time.monotonic() - self.start) * (self.total - self.done) / max(self.done, 1)
            sys.stderr.write(f"\rTexts: {self.done}/{self.total}, {left:.0f} s left ")

    def close(self):
        if self.bar is not None:
            self.bar.close()
        elif self.shown:
            sys.stderr.write("\n")


_PACKED = "weights are packed: read those in the model's folder"
_NOT_HERE = {
    **dict.fromkeys(("parameters", "named_parameters", "state_dict", "load_state_dict", "buffers"), _PACKED),
    **dict.fromkeys(("cuda", "xpu", "ipu", "hpu"), "Fovea computes on CPUs"),
    **dict.fromkeys(("forward", "smart_batching_collate"), "call encode() or predict()"),
    "compile": "it is compiled",
}


class Model:
    _results: dict = {}  # what the file of the Transformer says of them
    _kind, _organization, _task = "SentenceTransformer", "sentence-transformers", "feature-extraction"

    def __init__(
        self,
        model_name_or_path=None,
        *,
        modules=None,
        device=None,
        prompts=None,
        default_prompt_name=None,
        cache_folder=None,
        trust_remote_code=False,
        revision=None,
        local_files_only=False,
        token=None,
        use_auth_token=None,
        model_kwargs=None,
        processor_kwargs=None,
        tokenizer_kwargs=None,
        config_kwargs=None,
        model_card_data=None,
        backend="torch",
        weights=None,
        dtype=None,
        arithmetic=None,
        **own,
    ):
        if own:
            raise TypeError(f"{type(self).__name__}() has no argument {next(iter(own))!r}")
        if model_name_or_path is None or modules is not None:
            raise NotImplementedError(f"a {type(self).__name__} is made of a folder, or of a name on the hub, alone")
        if backend != "torch":
            raise ValueError(f"backend is {backend!r}: Fovea is the backend here, leave it out")
        self._on_cpu(device)
        model_kwargs = dict(model_kwargs or {})
        given = model_kwargs.pop("dtype", None) or model_kwargs.pop("torch_dtype", None)
        model_kwargs.pop("torch_dtype", None)
        model_kwargs.pop("attn_implementation", None)  # there is one
        tokens = dict(processor_kwargs or tokenizer_kwargs or {})
        max_length = tokens.pop("model_max_length", None)
        for name, rest in (
            ("model_kwargs", model_kwargs),
            ("processor_kwargs", tokens),
            ("config_kwargs", config_kwargs),
        ):
            if rest:
                raise NotImplementedError(f"{name} has {next(iter(rest))!r}, which is not served")
        self.folder = _folder.find(
            model_name_or_path, self._organization, revision, cache_folder, local_files_only, token or use_auth_token
        )
        first, self._listed = _folder.listed_modules(self.folder)
        self._transformer = Transformer(first, self._task, weights, arithmetic, _dtype_of(dtype or given), max_length)
        self._stages = [self._transformer]
        self._arguments = {"model_name_or_path": str(self.folder), "weights": weights, "dtype": self.dtype.name}
        self._arguments["arithmetic"] = arithmetic
        file = "config_sentence_transformers.json"
        self._saved = Config(_folder.read_object(self.folder / file, optional=True), self.folder, file)
        if (kind := self._saved.word("model_type", default=self._kind)) != self._kind:
            raise NotImplementedError(f"{self.folder} is a {kind}, not a {self._kind}")
        saved = self._saved.object("prompts")
        given = {name: prompt for name, prompt in (prompts or {}).items() if prompt is not None or name not in saved}
        self.prompts = {name: prompt or "" for name, prompt in {**self._default_prompts, **saved, **given}.items()}
        if wrong := [prompt for prompt in self.prompts.values() if not isinstance(prompt, str)]:
            raise TypeError(f"prompts have {wrong[0]!r}: they must be texts, by name")
        self.default_prompt_name = default_prompt_name or self._saved.word("default_prompt_name", default=None)
        if self.default_prompt_name is not None:
            self._prompt(None, None)

    # ---------------------------------------------------------------------------------------------------------- modules

    def __len__(self):
        return len(self._stages)

    def __getitem__(self, place):
        """A module: to read its settings, or to set max_seq_length and include_prompt."""
        if isinstance(place, slice):
            raise TypeError(f"a {type(self).__name__} of some modules is not served: take one by its number")
        return self._stages[place]

    def __iter__(self):
        return iter(self._stages)

    children = __iter__

    def modules(self):
        """The model, and its modules."""
        yield self
        yield from self._stages

    def named_children(self):
        return ((str(i), module) for i, module in enumerate(self._stages))

    def named_modules(self):
        yield "", self
        yield from self.named_children()

    def __call__(self, *_, **__):
        raise TypeError(f"a {type(self).__name__} is not called: call its encode() or predict()")

    @property
    def config(self):
        return self._transformer.config

    @property
    def dtype(self):
        """numpy's, of activations."""
        return self._transformer.backbone.dtype

    def save_pretrained(
        self, path, model_name=None, create_model_card=True, train_datasets=None, safe_serialization=True
    ):
        """Weights and tokenizer are copied from the model's folder, as they are there, whatever weights= and dtype=
        were; prompts and lengths are those of now. No model card is written."""
        if not safe_serialization:
            raise ValueError("safe_serialization is False: models are saved with safetensors")
        first, home = self._transformer, self._transformer.folder.relative_to(self.folder)
        files = {f"{home}/{first.settings}": {"max_seq_length": self.max_seq_length} | self._results} | self._changed()
        settings = {"model_type": self._kind, "prompts": self.prompts, "default_prompt_name": self.default_prompt_name}
        files["config_sentence_transformers.json"] = self._saved.config | settings | self._settings()
        if self._listed is None:  # what the package says of these modules
            files["modules.json"] = [
                {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.{kind}"}
                for i, (path, kind) in enumerate(self._kinds.items())
            ]
        _saved.save(path, self.folder, [self.folder, first.folder, *(f for _, f in self._listed or [])], files)

    save = save_pretrained

    def get_backend(self):
        return "fovea"

    # ------------------------------------------------------------------------------------------------- tokens, prompts

    @property
    def max_seq_length(self):
        return self._transformer.max_seq_length

    @max_seq_length.setter
    def max_seq_length(self, value):
        self._transformer.max_seq_length = value

    def get_max_seq_length(self):
        return self.max_seq_length

    @property
    def tokenizer(self):
        return self._transformer.tokenizer

    def preprocess(self, inputs, prompt=None):
        """input_ids, attention_mask and token_type_ids, padded, as numpy has them. encode() pads nothing."""
        found = self._tokenized(self._inputs(inputs), prompt)
        shape = len(found), max((len(ids) for ids, _ in found), default=0)
        out = {name: np.zeros(shape, np.int64) for name in ("input_ids", "attention_mask", "token_type_ids")}
        out["input_ids"] += self._transformer.source.count("pad_token_id", default=0, least=0)
        for i, (ids, types) in enumerate(found):
            out["input_ids"][i, : len(ids)], out["token_type_ids"][i, : len(ids)] = ids, types
            out["attention_mask"][i, : len(ids)] = 1
        return out

    def tokenize(self, texts):
        return self.preprocess(texts)

    def _tokenized(self, inputs, prompt):
        return self._transformer.tokens.encode(self._prompted(inputs, prompt), self.max_seq_length, types=True)

    def _prompt(self, prompt, name):
        """The text that stands before each one."""
        if prompt is not None:
            if name is not None:
                logger.warning("prompt and prompt_name are both given: prompt is used")
            if not isinstance(prompt, str):
                raise TypeError(f"prompt is {prompt!r}, it must be a text")
            return prompt
        what, name = ("prompt_name", name) if name is not None else ("default_prompt_name", self.default_prompt_name)
        if name is not None and (not isinstance(name, str) or name not in self.prompts):
            raise ValueError(f"{what} is {name!r}, prompts are {list(self.prompts)}")
        return "" if name is None else self.prompts[name] or ""

    # ------------------------------------------------------------------------------------------------------- computing

    def _each_pack(self, texts, size, show, use):
        """Calls use(pack, hidden states) for packs of all texts."""
        if show is None:
            show = logger.getEffectiveLevel() in (logging.INFO, logging.DEBUG)
        size, first = whole("batch_size", size), self._transformer
        found = packs(texts, lambda some: first.tokens.encode(some, first.limit, first.types), size)
        if len(texts) > CHUNK:
            found = ahead(found)
        progress = Progress(len(texts), show)
        with contextlib.closing(found), contextlib.closing(progress):
            for pack in found:
                first.backbone.run(pack.ids, pack.types, pack.starts, lambda x, pack=pack: use(pack, x))
                progress.add(len(pack.places))

    @property
    def device(self):
        return "cpu"

    def _on_cpu(self, device):
        if device is not None and str(device).partition(":")[0] != "cpu":
            raise ValueError(f"device is {str(device)!r}: Fovea computes on CPUs")

    def to(self, *given, device=None, dtype=None, non_blocking=False):
        """Another type of activations and weights packs the folder's weights anew."""
        kinds = ("float", "bfloat", "double", "half")
        dtypes = [word for word in given if str(word).rpartition(".")[2].startswith(kinds)]
        for one in (device, *(word for word in given if word not in dtypes)):
            self._on_cpu(one)
        for one in (*dtypes, *([dtype] if dtype is not None else [])):
            if _dtype_of(one) != self.dtype:
                self._transformer.convert(_dtype_of(one))
        return self

    def half(self):
        return self.to(dtype="float16")

    def bfloat16(self):
        return self.to(dtype="bfloat16")

    def float(self):
        return self.to(dtype="float32")

    def cpu(self):
        return self

    def eval(self):
        return self

    @property
    def nbytes(self):
        """Bytes of the backbone's packed weights."""
        return self._transformer.backbone.nbytes

    @property
    def weight_error(self):
        """The largest rms error of a map whose weights were quantized, relative to its weights. None: there is none."""
        of_maps = [m.error for m in self._transformer.backbone.maps()]
        errors = [e for error in of_maps for e in (error if isinstance(error, tuple) else [error]) if e]
        return max((e["relative"] for e in errors), default=None)

    # ------------------------------------------------------------------------------------------------------- processes

    def start_multi_process_pool(self, target_devices=None):
        """Processes, each with a model of its own. target_devices: a list, whose length is their number; or
        None: one for each CPU that calls use now. Threads of this process do the same with one model: prefer
        them."""
        if isinstance(target_devices, str):
            raise TypeError(f"target_devices is {target_devices!r}, it must be a list, as ['cpu', 'cpu']")
        for device in target_devices or ():
            self._on_cpu(device)
        return _pool.start(type(self), self._arguments, len(target_devices) if target_devices else None)

    @staticmethod
    def stop_multi_process_pool(pool):
        _pool.stop(pool)

    def _in_processes(self, method, inputs, pool, device, chunk_size, show, **options):
        """The results of chunks of inputs, in order; None where neither a pool nor a list of devices is given."""
        size = whole("chunk_size", chunk_size) if chunk_size is not None else None
        many = isinstance(device, (list, tuple)) and len(device) > 0
        if pool is None and not many:
            self._on_cpu(device)
            return None
        own = self.start_multi_process_pool(list(device)) if pool is None else None
        try:
            progress = Progress(len(inputs), bool(show))
            return _pool.run(pool if own is None else own, method, inputs, size, progress, options, self._state())
        finally:
            if own:
                _pool.stop(own)

    def _state(self):
        """Settings that may have changed since the model was made, for models of other processes."""
        return {"max_seq_length": self.max_seq_length, "dtype": self.dtype.name}

    def _set_state(self, max_seq_length, dtype):
        self.to(dtype=dtype).max_seq_length = max_seq_length

    def __reduce__(self):
        """Copies and pickles are made of the folder again."""
        names = ("prompts", "default_prompt_name", "truncate_dim", "similarity_fn_name", "activation_fn")
        own = {name: getattr(self, name) for name in names if hasattr(self, name)}
        return _again, (type(self), self._arguments, self._state(), own)

    def __getattr__(self, name):
        hint = _NOT_HERE.get(name, "it computes vectors and scores; use sentence_transformers to train models")
        raise AttributeError(f"{type(self).__name__} of fovea.sentence_transformers has no {name!r}: {hint}")


def _again(kind, arguments, state, own):
    model = kind(**arguments)
    model._set_state(**state)
    for name, value in own.items():
        setattr(model, name, value)
    return model


def _dtype_of(dtype):
    word = str(dtype or "float32").rpartition(".")[2]
    if word in ("float32", "auto"):
        return np.dtype(np.float32)
    if word == "float16":
        return np.dtype(np.float16)
    if word != "bfloat16":
        raise NotImplementedError(f"dtype is {word!r}: 'float32', 'bfloat16' and 'float16' are served")
    try:
        import ml_dtypes
    except ImportError:
        raise ImportError(
            "dtype='bfloat16' needs ml_dtypes, which has this type for numpy: pip install ml_dtypes"
        ) from None
    return np.dtype(ml_dtypes.bfloat16)


def as_tensors(array, one):
    """array as a torch tensor (one), or as a list of them."""
    try:
        import torch
    except ImportError:
        raise ImportError("tensors need torch, which is not installed: leave convert_to_numpy=True") from None
    whole = torch.from_numpy(array) if isinstance(array, np.ndarray) else [torch.from_numpy(a) for a in array]
    return whole if one else list(whole)
