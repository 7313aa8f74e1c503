"""fovea.tune(), and the command fovea-tune: measures this machine and writes a tuning file."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from fovea import _core


def program() -> str:
    """The path of the program fovea-tune."""
    path = os.path.join(os.path.dirname(os.path.realpath(_core.__file__)), "fovea-tune")
    if not os.access(path, os.X_OK):
        raise FileNotFoundError("this build of fovea lacks the program fovea-tune: it was built without jansson")
    return path


def main() -> None:
    """The command fovea-tune."""
    try:
        path = program()
    except FileNotFoundError as error:
        sys.exit(str(error))
    os.execv(path, [path, *sys.argv[1:]])  # by its path it finds the files next to it


def _words(shape: str | Mapping[str, Any]) -> str:
    return shape if isinstance(shape, str) else " ".join(f"{name}={value}" for name, value in shape.items())


@contextlib.contextmanager
def log_shapes(path: str | os.PathLike[str]) -> Iterator[None]:
    """Calls of this process append their shapes to a file meanwhile, for tune(log=) and fovea-tune --log. (Linear, MultiHead and
    Plan: those made meanwhile.) For a whole program set FOVEA_LOG_SHAPES=file instead."""
    before = os.environ.get("FOVEA_LOG_SHAPES")
    os.environ["FOVEA_LOG_SHAPES"] = os.fspath(path)
    _core._renew()
    try:
        yield
    finally:
        if before is None:
            del os.environ["FOVEA_LOG_SHAPES"]
        else:
            os.environ["FOVEA_LOG_SHAPES"] = before
        _core._renew()


def tune(
    what: str | Mapping[str, Any] | Iterable[str | Mapping[str, Any]] | Callable[[], Any] | None = None,
    *,
    log: str | os.PathLike[str] | None = None,
    presets: str | Iterable[str] | None = None,
    budget: float = 60,
    effort: str = "normal",
    threads: int | None = None,
    isa: str | None = None,
    output: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Measures which kernels and block sizes are fastest on this machine, and stores what is proved to be faster than the defaults.
    Results of calls never change, only their speed.

    what      shapes as fovea-tune takes them, "q_heads=32 kv_heads=8 q_len=512 head_dim=128" or dict(q_heads=32, ...), one or
              several; or a function without arguments, such as lambda: model(**inputs), that is called once and whose shapes are
              tuned.
    log       a file that a program wrote which ran with FOVEA_LOG_SHAPES=file (or log_shapes()).
    presets   models: "bert-base", "minilm", "llama-8b", "llama-8b-quantized", "whisper", "vit-l", "gpt2". Without what,
              log and presets: all but gpt2.
    budget    seconds, from 1 to 86400.
    effort    "quick", "normal" or "thorough".
    threads   number of threads to tune for; default: as many as calls use. isa: tier; default: the best.
    output    the file to write; default: the one that programs of this user load, which this process then uses at once.
              (Linear, MultiHead and Plan: those made afterwards.)

    Returns what was found, as a dict: cpu, isa, threads, file, stored (was anything?), classes. Where the machine is too noisy to
    tell, nothing is stored. ValueError: a shape, name or number that fovea-tune does not know; RuntimeError: any other failure;
    FileNotFoundError: a build without fovea-tune.
    """
    options = ["--json", "--budget", f"{budget:g}", "--effort", effort]
    for name, value in (("threads", threads), ("isa", isa), ("output", output)):
        if value is not None:
            options += [f"--{name}", str(value)]
    if presets is not None:
        options += ["--preset", presets if isinstance(presets, str) else ",".join(presets)]
    with tempfile.TemporaryDirectory(prefix="fovea-") as folder:
        if callable(what):
            if log is not None:
                raise ValueError("give a function, or a log, not both")
            log = os.path.join(folder, "shapes")
            with log_shapes(log):
                what()
            if not os.path.exists(log):
                raise ValueError("the function ran nothing on Fovea")
        elif what is not None:
            for shape in [what] if isinstance(what, (str, Mapping)) else what:
                options += ["--shape", _words(shape)]
        if log is not None:
            options += ["--log", os.fspath(log)]
        done = subprocess.run([program(), *options], capture_output=True, text=True)
    if done.returncode not in (0, 3):
        message = done.stderr.strip().removeprefix("fovea-tune: ") or f"fovea-tune ended with status {done.returncode}"
        raise (ValueError if done.returncode == 2 else RuntimeError)(message)
    _core._renew()
    found: dict[str, Any] = json.loads(done.stdout)
    return found
