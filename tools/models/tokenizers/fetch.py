#!/usr/bin/env python3
"""Fetches llama.cpp's vocabularies once, of llama-cpp-python's source on PyPI (77 MB), by pip.

    python3 fetch.py FOLDER        as in: fetch.py build/models/llama.cpp-vocabularies

Puts ggml-vocab-{llama-bpe,llama-spm,qwen2,gpt-2}.gguf (17 MB) into FOLDER; what is there is left alone, silently. Needs
Python's standard library, and pip or venv. Ends with 1 and one line if they cannot be fetched.
"""
import importlib.util
import pathlib
import subprocess
import sys

NAMES = [f"ggml-vocab-{name}.gguf" for name in ("llama-bpe", "llama-spm", "qwen2", "gpt-2")]


def backend():
    """The script that fetches the same source for the backend of ggml."""
    path = pathlib.Path(__file__).parents[3] / "integrations" / "ggml" / "fetch.py"
    spec = importlib.util.spec_from_file_location("ggml_fetch", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print("usage: fetch.py FOLDER, as in: fetch.py build/models/llama.cpp-vocabularies", file=sys.stderr)
        raise SystemExit(2)
    folder, fetch = pathlib.Path(sys.argv[1]), backend()
    fetch.KEPT = tuple(f"models/{name}" for name in NAMES)
    try:
        fetch.fetch("llama.cpp's vocabularies", 77, folder, lambda scratch, to: extract(fetch, scratch, to))
    except (subprocess.CalledProcessError, OSError, ValueError, StopIteration) as error:
        why = fetch.minilm.reason(error.stderr) if isinstance(error, subprocess.CalledProcessError) else error
        print(f"vocabularies could not be fetched, so tests with them are left out: {why}", file=sys.stderr)
        raise SystemExit(1) from None


def extract(fetch, scratch, to):
    fetch.source(scratch, scratch / "source")
    (scratch / "source" / "models").rename(to)


if __name__ == "__main__":
    main()
