"""llama-cpp-python, llama.cpp and Ollama computing with Fovea's backend for ggml, libggml-fovea.so.

    import fovea.llama_cpp
    fovea.llama_cpp.enable()                     # before models are loaded
    llama = llama_cpp.Llama("model.gguf")

    eval "$(python -m fovea.llama_cpp env)"      # then llama-server, llama-completion, ollama serve

FOVEA_GGML=all makes results independent of the number of threads; integrations/ggml/README.md has all words."""

import ctypes
import logging
import os
import pathlib
import shlex
import sys
import tempfile
from types import ModuleType

from fovea import _core

logger = logging.getLogger(__name__)

_NONE = (
    "this build of fovea lacks libggml-fovea.so: it was built without ggml's headers. Build it (integrations/ggml/README.md) and set "
    "FOVEA_GGML_LIBRARY to its path"
)
_HOW = "flash attention stays as the program sets it: Fovea computes attention with flash_attn=True alone"


def library(path: str | os.PathLike[str] | None = None) -> str:
    """The path of libggml-fovea.so: path, else FOVEA_GGML_LIBRARY, else the one in this package. FileNotFoundError."""
    given = path or os.environ.get("FOVEA_GGML_LIBRARY")
    found = pathlib.Path(given) if given else pathlib.Path(_core.__file__).resolve().parent / "lib/libggml-fovea.so"
    if not found.is_file():
        raise FileNotFoundError(f"there is no file {found}" if given else _NONE)
    return str(found.absolute())


def _load(lib: ctypes.CDLL, path: str) -> tuple[bool, bytes]:
    """Whether ggml took the backend, and what was written to stderr meanwhile, where ggml and the backend say why not."""
    lib.ggml_backend_load.argtypes, lib.ggml_backend_load.restype = [ctypes.c_char_p], ctypes.c_void_p
    with tempfile.TemporaryFile() as file:
        saved = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            taken = bool(lib.ggml_backend_load(os.fsencode(path)))
        finally:
            os.dup2(saved, 2)
            os.close(saved)
        file.seek(0)
        return taken, file.read()


def _flash_attention(module: ModuleType) -> bool:
    """Makes flash_attn=True the default of Llama(); False: there is no such argument."""
    init = module.Llama.__init__
    if "flash_attn" not in (init.__kwdefaults__ or {}):
        return False
    init.__kwdefaults__["flash_attn"] = True
    return True


def enable(path: str | os.PathLike[str] | None = None) -> str:
    """Makes llama-cpp-python compute with Fovea, and returns the path of the backend.

    Call it before models are loaded, as weights are packed then; models that are there stay as they are. It loads
    libggml-fovea.so (library()) into the ggml that llama_cpp calls, and makes flash_attn=True the default of
    llama_cpp.Llama, without which attention stays with ggml. Whoever passes flash_attn, as llama_cpp.server does, decides:
    python -m llama_cpp.server needs --flash_attn true. A second call does nothing.

    FileNotFoundError: there is no library. ImportError: there is no llama_cpp. RuntimeError: llama_cpp's ggml cannot load
    backends, or did not take this one, such as one that was built for other versions of ggml."""
    path = library(path)
    try:
        import llama_cpp
    except ImportError as error:
        raise ImportError(f"fovea.llama_cpp.enable() needs llama-cpp-python (pip install llama-cpp-python): {error}") from error
    lib = llama_cpp.llama_cpp._lib
    if not hasattr(lib, "ggml_backend_load"):
        raise RuntimeError(
            f"llama_cpp {llama_cpp.__version__} cannot load backends: its ggml is linked statically, or older than 0.10. "
            "Install a newer llama-cpp-python: 0.3.36 can"
        )
    lib.ggml_backend_reg_by_name.argtypes, lib.ggml_backend_reg_by_name.restype = [ctypes.c_char_p], ctypes.c_void_p
    if not lib.ggml_backend_reg_by_name(b"Fovea"):
        taken, said = _load(lib, path)
        if not taken:
            why = " ".join(said.decode(errors="replace").split()) or "ggml does not say why"
            raise RuntimeError(f"llama_cpp {llama_cpp.__version__} did not load {path}: {why}")
        os.write(2, said)  # one line: what is computed
    if not _flash_attention(llama_cpp):
        logger.warning(_HOW)
    return path


def main() -> None:
    """python -m fovea.llama_cpp env: lines for a shell, with the variables of llama.cpp's programs and of Ollama."""
    if sys.argv[1:] != ["env"]:
        sys.exit('usage: eval "$(python -m fovea.llama_cpp env)"')
    try:
        path = library()
    except FileNotFoundError as error:
        sys.exit(str(error))
    print(f"""# llama.cpp's programs (llama-bench takes -fa on instead of the second)
export GGML_BACKEND_PATH={shlex.quote(path)}
export LLAMA_ARG_FLASH_ATTN=on
# Ollama, with the first
export OLLAMA_FLASH_ATTENTION=1""")


if __name__ == "__main__":
    main()
