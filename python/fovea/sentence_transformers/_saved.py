"""save_pretrained(): a folder that this module, sentence-transformers and fovea-embed load.

Weights, tokenizer and configurations are the folder's own files, copied: what was packed is not unpacked. What may be
changed of a model (prompts, lengths, the similarity) is written anew."""

import json
import os
import shutil
import tempfile
from pathlib import Path

_COPIED = (".json", ".safetensors", ".txt", ".model", ".md")


def _copy(source, target):
    target.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        if file.is_file() and file.suffix in _COPIED:
            shutil.copyfile(file, target / file.name)


def _write(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


def _read(path):
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def save(path, folder, modules, files):
    """modules: (the folder of a module, or None) each; files: {name: values that replace or join those of this JSON
    file}, or a list that is the whole file. path is complete or, after an error, as it was."""
    path = Path(path).expanduser()
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"{path} is a file: pass a folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as temporary:
        whole = Path(temporary) / "model"
        for source in modules:
            if source is not None:
                _copy(source, whole / source.relative_to(folder))
        for name, values in files.items():
            _write(whole / name, values if isinstance(values, list) else _read(whole / name) | values)
        for file in sorted(whole.rglob("*")):
            if file.is_file():
                target = path / file.relative_to(whole)
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(file, target)
