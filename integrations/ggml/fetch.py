#!/usr/bin/env python3
"""Fetches what the backend is built and tested with, once, from PyPI by pip:

    python3 fetch.py FOLDER            as in: fetch.py build/ggml

    FOLDER/llama.cpp     of llama-cpp-python's source: ggml, whose headers the backend is compiled with, ggml's
                         test-backend-ops, and llama.cpp with test-llama-archs (77 MB to fetch)
    FOLDER/libggml       libggml-python: ggml built for any x86 or Arm CPU, which `make test` loads the backend into
    FOLDER/libggml-X.Y.Z other releases of it: fetch.py --release X.Y.Z FOLDER

    python3 fetch.py --vocabularies FOLDER      of the same source, for tests of tokenizers: ggml-vocab-NAME.gguf (17 MB)

What is there is left alone, silently. Needs Python's standard library, and pip or venv. Ends with 1 and one line if something
cannot be fetched.
"""
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools" / "embed"))
import fetch as minilm

SOURCE = "llama-cpp-python==0.3.36"
SOURCE_SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
KEPT = ("ggml/", "src/", "include/", "common/", "vendor/nlohmann/", "tests/test-backend-ops.cpp", "tests/test-llama-archs.cpp",
        "LICENSE")
VOCABULARIES = tuple(f"models/ggml-vocab-{name}.gguf" for name in ("llama-bpe", "llama-spm", "qwen2", "gpt-2"))
LIBRARIES = "libggml-python=="
RELEASE = "0.20.2.post1"


def download(package, kind, scratch):
    subprocess.run([*minilm.pip(scratch), "download", "--quiet", "--disable-pip-version-check", "--no-deps", *kind,
                    "--no-cache-dir", "--retries=1", "--timeout=10", "--dest", scratch, package],
                   check=True, capture_output=True, text=True)
    return next(path for path in scratch.iterdir() if path.suffix in (".whl", ".gz"))


def source(scratch, to, kept=KEPT):
    archive = download(SOURCE, ["--no-binary=:all:"], scratch)
    if minilm.sha256(archive) != SOURCE_SHA256:
        raise ValueError(f"{archive.name} is not the one that is known")
    with tarfile.open(archive) as tar:
        for member in tar:
            _, _, inside = member.name.partition("/vendor/llama.cpp/")
            if member.isfile() and inside.startswith(kept):
                path = to / inside
                path.parent.mkdir(parents=True, exist_ok=True)
                with tar.extractfile(member) as packed, open(path, "wb") as whole:
                    shutil.copyfileobj(packed, whole)


def vocabularies(scratch, to):
    source(scratch, scratch / "source", VOCABULARIES)
    (scratch / "source" / "models").rename(to)


def libraries(release, scratch, to):
    with zipfile.ZipFile(download(LIBRARIES + release, ["--only-binary=:all:"], scratch)) as wheel:
        wheel.extractall(scratch / "wheel")
    shutil.copytree(scratch / "wheel" / "libggml", to)
    if not (to / "lib64" / "libggml.so").exists():  # older ones
        shutil.copytree(to / "lib", to / "lib64", dirs_exist_ok=True)


def fetch(name, size, folder, last, make):
    """last: a file that is there if nothing is missing."""
    if (folder / last).exists():
        return
    print(f"Fetching {name} ({size} MB, once)", file=sys.stderr, flush=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        made = pathlib.Path(scratch) / "made"
        make(pathlib.Path(scratch), made)
        shutil.copytree(made, folder, dirs_exist_ok=True)


def main():
    arguments = sys.argv[1:]
    release, words = None, arguments[:1] == ["--vocabularies"]
    arguments = arguments[words:]
    if len(arguments) == 3 and not words and arguments[0] == "--release":
        release, arguments = arguments[1], arguments[2:]
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("usage: fetch.py [--release X.Y.Z | --vocabularies] FOLDER, as in: fetch.py build/ggml", file=sys.stderr)
        raise SystemExit(2)
    folder, library = pathlib.Path(arguments[0]), "lib64/libggml.so"
    try:
        if words:
            fetch("llama.cpp's vocabularies", 77, folder, pathlib.Path(VOCABULARIES[-1]).name, vocabularies)
        elif release:
            fetch(f"libggml-python {release}", 3, folder / f"libggml-{release}", library,
                  lambda *to: libraries(release, *to))
        else:
            fetch(f"libggml-python {RELEASE}", 3, folder / "libggml", library,
                  lambda *to: libraries(RELEASE, *to))
            fetch("llama.cpp", 77, folder / "llama.cpp", "tests/test-llama-archs.cpp", source)
    except (subprocess.CalledProcessError, OSError, ValueError, StopIteration) as error:
        why = minilm.reason(error.stderr) if isinstance(error, subprocess.CalledProcessError) else error
        what = "vocabularies could not be fetched, so tests with them are" if words else "ggml could not be fetched, so its backend is"
        print(f"{what} left out: {why}", file=sys.stderr)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
