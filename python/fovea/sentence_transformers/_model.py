"""What SentenceTransformer and CrossEncoder have in common: folder, tokenizer, backbone, prompts, packs, processes."""

import contextlib
import logging
import sys
import time

import numpy as np

from . import _folder, _pool
from ._families import backbone_of
from ._source import Source
from ._tokens import CHUNK, Tokenizer, ahead, packs

logger = logging.getLogger("fovea.sentence_transformers")

_BERT_CONFIGS = [
    f"sentence_{name}_config.json" for name in ("bert", "roberta", "distilbert", "camembert", "xlm-roberta")
]


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


class Model:
    _organisation = "sentence-transformers"

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
        **own,
    ):
        self._arguments = {
            key: value for key, value in locals().items() if key not in ("self", "own", "__class__")
        } | own
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
        self._max_length = tokens.pop("model_max_length", None)
        for name, rest in (
            ("model_kwargs", model_kwargs),
            ("processor_kwargs", tokens),
            ("config_kwargs", config_kwargs),
        ):
            if rest:
                raise NotImplementedError(f"{name} has {next(iter(rest))!r}, which is not served")
        self.folder = _folder.find(
            model_name_or_path, self._organisation, revision, cache_folder, local_files_only, token or use_auth_token
        )
        self._load(weights, _dtype_of(dtype or given))
        saved = _folder.read_object(self.folder / "config_sentence_transformers.json", optional=True)
        self.prompts = {**self._default_prompts, **(saved.get("prompts") or {}), **(prompts or {})}
        self.default_prompt_name = default_prompt_name or saved.get("default_prompt_name")
        if self.default_prompt_name is not None and self.default_prompt_name not in self.prompts:
            raise ValueError(f"default_prompt_name is {self.default_prompt_name!r}, prompts are {list(self.prompts)}")
        self._saved = saved

    def _load(self, weights, dtype):
        """The first module, and in _modules the folders and names of those after it."""
        listed = self.folder / "modules.json"
        first, self._modules = self.folder, []
        if listed.is_file():
            modules = _folder.read_json(listed)
            try:
                found = [(m["type"].rpartition(".")[2], m["path"]) for m in sorted(modules, key=lambda m: m["idx"])]
                if any(path.startswith(("/", "..")) for _, path in found):
                    raise ValueError("a path leaves the folder")
            except (TypeError, KeyError, AttributeError, ValueError) as error:
                raise ValueError(f"{listed} is no list of modules: {error}") from None
            if not found or found[0][0] != "Transformer":
                raise NotImplementedError(
                    f"{self.folder}: a model that begins with {found[0][0] if found else 'nothing'} is not served"
                )
            first = self.folder / found[0][1]
            self._modules = [(name, self.folder / path) for name, path in found[1:]]
        elif not (self.folder / "config.json").is_file():
            raise FileNotFoundError(f"{self.folder} lacks modules.json and config.json: it is no folder of a model")
        self.config = _folder.read_object(first / "config.json")
        own = next((c for name in _BERT_CONFIGS if (c := _folder.read_object(first / name, optional=True))), {})
        self._tokens = Tokenizer(first)
        self._tokens.lower = bool(own.get("do_lower_case", False))
        self._source = Source(self.config, _folder.Weights(first), weights, dtype)
        self._backbone = backbone_of(self._source)
        self._types = "types" in self._backbone.tables and len(self._backbone.tables["types"]) > 1
        ends = [self._backbone.limit, self.config.get("max_position_embeddings")]
        self._longest = min((end for end in ends if end is not None), default=None)
        wanted = self._max_length or own.get("max_seq_length") or self._tokens.model_max_length or self._longest
        self._limit = min((n for n in (wanted, self._longest) if n is not None), default=None)

    # ------------------------------------------------------------------------------------------------- tokens, prompts

    @property
    def max_seq_length(self):
        return self._limit

    @max_seq_length.setter
    def max_seq_length(self, value):
        if value is not None and (value < 1 or (self._longest is not None and value > self._longest)):
            raise ValueError(f"max_seq_length is {value}, this model has positions for {self._longest} tokens")
        self._limit = value if value is not None else self._longest

    def get_max_seq_length(self):
        return self._limit

    @property
    def tokenizer(self):
        return self._tokens.raw

    def tokenize(self, texts, **_):
        """input_ids, attention_mask and token_type_ids, padded, as numpy has them. encode() pads nothing."""
        found = self._tokens.encode(texts, self._limit, types=True)
        shape = len(found), max((len(ids) for ids, _ in found), default=0)
        out = {name: np.zeros(shape, np.int64) for name in ("input_ids", "attention_mask", "token_type_ids")}
        out["input_ids"] += self.config.get("pad_token_id") or 0
        for i, (ids, types) in enumerate(found):
            out["input_ids"][i, : len(ids)], out["token_type_ids"][i, : len(ids)] = ids, types
            out["attention_mask"][i, : len(ids)] = 1
        return out

    preprocess = tokenize

    def _prompt(self, prompt, name):
        if prompt is not None:
            if name is not None:
                logger.warning("prompt and prompt_name are both given: prompt is used")
            return prompt
        if name is None:
            name = self.default_prompt_name
            return (self.prompts.get(name) or "") if name is not None else ""
        if name not in self.prompts:
            raise ValueError(f"prompt_name is {name!r}, prompts are {list(self.prompts)}")
        return self.prompts[name] or ""

    # ------------------------------------------------------------------------------------------------------- computing

    def _each_pack(self, texts, size, show, use):
        """Calls use(pack, hidden states) for packs of all texts."""
        if show is None:
            show = logger.getEffectiveLevel() in (logging.INFO, logging.DEBUG)
        if size <= 0:
            raise ValueError(f"batch_size is {size}, it must be positive")
        found = packs(texts, lambda some: self._tokens.encode(some, self._limit, self._types), size)
        if len(texts) > CHUNK:
            found = ahead(found)
        progress = Progress(len(texts), show)
        with contextlib.closing(found), contextlib.closing(progress):
            for pack in found:
                self._backbone.run(pack.ids, pack.types, pack.starts, lambda x, pack=pack: use(pack, x))
                progress.add(len(pack.places))

    @property
    def device(self):
        return "cpu"

    def _on_cpu(self, device):
        if device is not None and str(device).partition(":")[0] != "cpu":
            raise ValueError(f"device is {str(device)!r}: Fovea computes on CPUs")

    def to(self, device=None, **_):
        self._on_cpu(device)
        return self

    def cpu(self):
        return self

    def eval(self):
        return self

    @property
    def nbytes(self):
        """Of the backbone's weights, packed."""
        return self._backbone.nbytes

    @property
    def weight_error(self):
        """Of weights that were quantised: the largest rms error of a map, relative to its weights. None:
        nothing was."""
        errors = [e for m in self._backbone.maps() for e in (m.error if isinstance(m.error, tuple) else [m.error]) if e]
        return max((e["relative"] for e in errors), default=None)

    # ------------------------------------------------------------------------------------------------------- processes

    def start_multi_process_pool(self, target_devices=None):
        """Processes, each with a model of its own. target_devices: a list, whose length is their number; or
        None: one for each CPU that calls use now. Threads of this process do the same with one model: prefer
        them."""
        for device in target_devices or ():
            self._on_cpu(device)
        return _pool.start(type(self), self._arguments, len(target_devices) if target_devices else None)

    @staticmethod
    def stop_multi_process_pool(pool):
        _pool.stop(pool)

    def _in_processes(self, method, inputs, pool, device, chunk_size, show, **options):
        """The results of chunks of inputs, in order; None where neither a pool nor a list of devices is given."""
        many = isinstance(device, (list, tuple)) and len(device) > 0
        if pool is None and not many:
            self._on_cpu(device)
            return None
        own = self.start_multi_process_pool(list(device)) if pool is None else None
        try:
            return _pool.run(pool or own, method, inputs, chunk_size, Progress(len(inputs), bool(show)), options)
        finally:
            if own:
                _pool.stop(own)

    def __getattr__(self, name):
        hint = "it computes vectors and scores; use sentence_transformers to train and to save models"
        raise AttributeError(f"{type(self).__name__} of fovea.sentence_transformers has no {name!r}: {hint}")


def _dtype_of(dtype):
    word = str(dtype or "float32").rpartition(".")[2]
    if word in ("float32", "auto"):
        return np.dtype(np.float32)
    if word != "bfloat16":
        raise NotImplementedError(f"dtype is {word!r}: 'float32' and 'bfloat16' are served")
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
