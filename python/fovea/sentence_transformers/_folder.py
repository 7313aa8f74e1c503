"""Folders of models: where they are, their JSON files, their weights. Files are untrusted: what is wrong with one is
said in a sentence."""

import json
import mmap
import os
from pathlib import Path

import numpy as np

ORGANIZATIONS = ("sentence-transformers", "cross-encoder")  # whose names may be left out


def find(name, organization, revision=None, cache_folder=None, local_files_only=False, token=None):
    """The folder of a path, or of a name on the hub: from the local cache, or downloaded where that is allowed."""
    path = Path(name).expanduser()
    if path.is_dir():
        return path
    if path.exists():
        raise NotADirectoryError(f"{name} is a file: pass the folder of a model")
    if path.is_absolute() or str(name).startswith((".", "~")) or str(name).count("/") > 1:
        raise FileNotFoundError(f"there is no folder {name}")
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise FileNotFoundError(
            f"there is no folder {name}, and names on the hub need huggingface_hub: pip install huggingface_hub"
        ) from None
    names = [name] if "/" in str(name) else [f"{organization}/{name}"]
    offline = local_files_only or os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
    cache_folder = cache_folder or os.environ.get("SENTENCE_TRANSFORMERS_HOME")
    try:
        return Path(
            snapshot_download(
                names[0],
                revision=revision,
                cache_dir=cache_folder,
                local_files_only=offline,
                token=token,
                allow_patterns=["*.json", "*.safetensors", "*.txt", "*/*.json", "*/*.safetensors"],
                ignore_patterns=["onnx/*", "openvino/*"],
            )
        )
    except Exception as error:
        why = "not in the local cache, and downloading is off" if offline else str(error).partition("\n")[0]
        raise FileNotFoundError(f"there is no folder {name}, and {names[0]} of the hub cannot be had: {why}") from error


def read_json(path):
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"{path.parent} lacks {path.name}") from None
    except (UnicodeDecodeError, ValueError) as error:
        raise ValueError(f"{path} is no JSON: {error}") from None
    return found


def read_object(path, optional=False):
    if optional and not path.is_file():
        return {}
    found = read_json(path)
    if not isinstance(found, dict):
        raise ValueError(f"{path} has no JSON object")
    return found


def listed_modules(folder):
    """The folder of the Transformer, and the names and folders of the modules after it, which modules.json lists."""
    listed = folder / "modules.json"
    if not listed.is_file():
        if not (folder / "config.json").is_file():
            raise FileNotFoundError(f"{folder} lacks modules.json and config.json: it is no folder of a model")
        return folder, None
    modules = read_json(listed)
    try:
        kinds, paths = [m["type"] for m in modules], [m["path"] for m in modules]
        places = [m.get("idx", i) for i, m in enumerate(modules)]
        if any(path.startswith("/") or ".." in path.split("/") for path in paths):
            raise ValueError("a path leaves the folder")
        if sorted(places) != places:
            raise ValueError(f"their order contradicts their idx: {places}")
        names = [kind.rpartition(".")[2] for kind in kinds]
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise ValueError(f"{listed} is no list of modules: {error}") from None
    if not names or names[0] != "Transformer":
        first = names[0] if names else "nothing"
        raise NotImplementedError(f"{folder}: a model that begins with {first} is not served")
    for kind, module in zip(kinds, modules, strict=True):
        if not kind.startswith("sentence_transformers."):
            raise NotImplementedError(f"{folder}: the module {kind} has code of its own, which is not served")
        if module.get("kwargs"):
            raise NotImplementedError(f"{folder}: kwargs of the module {kind} are not served")
    return folder / paths[0], [(name, folder / path) for name, path in zip(names[1:], paths[1:], strict=True)]


_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "U8": "u1"}


class Weights:
    """The tensors of model.safetensors, or of its shards, by name. get() gives float32, whatever the file's type: a
    view of the mapped file where that is float32 itself."""

    def __init__(self, folder, file="model.safetensors"):
        self.folder, self._tensors, self.read = folder, {}, set()
        index = folder / f"{file}.index.json"
        if (folder / file).is_file():
            files = [folder / file]
        elif index.is_file():
            names = read_object(index).get("weight_map")
            if not isinstance(names, dict) or not all(isinstance(n, str) and "/" not in n for n in names.values()):
                raise ValueError(f"{index} has no weight_map of file names")
            files = [folder / name for name in sorted(set(names.values()))]
        else:
            others = [n for n in ("pytorch_model.bin", "pytorch_model.bin.index.json") if (folder / n).is_file()]
            hint = f": {others[0]} is not read, save the model with safetensors" if others else ""
            raise FileNotFoundError(f"{folder} lacks {file}{hint}")
        for path in files:
            self._read(path)

    def _read(self, path):
        try:
            with open(path, "rb") as file:
                memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError:
            raise FileNotFoundError(f"{path.parent} lacks {path.name}") from None
        except ValueError:
            raise ValueError(f"{path} is empty") from None
        try:
            size = int.from_bytes(memory[:8], "little")
            if size > len(memory) - 8:
                raise ValueError(f"its header has {size} bytes, the file {len(memory)}")
            header = json.loads(memory[8 : 8 + size])
            for name, entry in header.items():
                if name != "__metadata__":
                    self._tensors[name] = self._view(memory, 8 + size, name, entry)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is no whole file of safetensors: {error}") from None

    @staticmethod
    def _view(memory, base, name, entry):
        begin, end = (int(offset) for offset in entry["data_offsets"])
        kind, shape = entry["dtype"], [int(n) for n in entry["shape"]]
        dtype = np.dtype(_TYPES.get(kind, "u1"))
        count = int(np.prod(shape, dtype=object)) if shape else 1
        bytes_wanted = count * dtype.itemsize if kind in _TYPES else end - begin
        if not 0 <= begin <= end <= len(memory) - base or end - begin != bytes_wanted or min(shape, default=0) < 0:
            raise ValueError(f"{name} does not fit its {end - begin} bytes")
        return kind, shape, np.frombuffer(memory, dtype, (end - begin) // dtype.itemsize, base + begin)

    def __contains__(self, name):
        return name in self._tensors

    def __iter__(self):
        return iter(self._tensors)

    def items(self):
        """Each name with the tensor's type, shape and elements, as stored."""
        return self._tensors.items()

    def get(self, name, shape=None, optional=False):
        if name not in self._tensors:
            if optional:
                return None
            raise ValueError(f"the weights in {self.folder} lack {name}")
        kind, given, values = self._tensors[name]
        self.read.add(name)
        if shape is not None and list(shape) != given:
            raise ValueError(f"{name} in {self.folder} has the shape {tuple(given)}, not {tuple(shape)}")
        if kind == "BF16":
            values = (values.astype(np.uint32) << 16).view(np.float32)
        elif kind not in ("F32", "F16", "F64"):
            raise ValueError(f"{name} in {self.folder} has the type {kind}, not that of floats")
        return np.ascontiguousarray(values.reshape(given), dtype=np.float32)
