"""fovea.llama_cpp: llama-cpp-python is switched on, or a sentence says why not; variables for programs of ggml."""

import os
import subprocess
import sys
import types

import pytest

import fovea.llama_cpp


@pytest.fixture
def backend(tmp_path, monkeypatch):
    path = tmp_path / "a folder" / "libggml-fovea.so"
    path.parent.mkdir()
    path.write_bytes(b"")
    monkeypatch.setenv("FOVEA_GGML_LIBRARY", str(path))
    return str(path)


@pytest.fixture
def fake(monkeypatch):
    """A llama_cpp whose ggml takes backends, and says so as it does."""
    loaded = []

    def ggml_backend_load(path):
        loaded.append(os.fsdecode(path))
        os.write(2, b"ggml-fovea: Fovea computes\n")
        return 1

    class Llama:
        def __init__(self, model, *, flash_attn=False):
            self.flash_attn = flash_attn

    def ggml_backend_reg_by_name(name):
        return name == b"Fovea" and bool(loaded)

    lib = types.SimpleNamespace(ggml_backend_load=ggml_backend_load, ggml_backend_reg_by_name=ggml_backend_reg_by_name)
    module = types.ModuleType("llama_cpp")
    module.__version__, module.Llama, module.llama_cpp, module.loaded = "0.3.36", Llama, types.SimpleNamespace(_lib=lib), loaded
    monkeypatch.setitem(sys.modules, "llama_cpp", module)
    return module


def test_enable(fake, backend, capfd):
    assert fovea.llama_cpp.enable() == backend and fake.loaded == [backend]
    assert capfd.readouterr().err == "ggml-fovea: Fovea computes\n"
    assert fake.Llama("model").flash_attn and not fake.Llama("model", flash_attn=False).flash_attn
    fovea.llama_cpp.enable()
    assert fake.loaded == [backend]  # once


def test_refused(fake, backend, capfd):
    def ggml_backend_load(path):
        os.write(2, b"ggml-fovea: not used: tensors of this program's ggml 9.9\nhave another layout\n")

    fake.llama_cpp._lib.ggml_backend_load = ggml_backend_load
    with pytest.raises(RuntimeError, match=r"0\.3\.36 did not load .*: ggml-fovea: not used: tensors .* 9\.9 have another layout$"):
        fovea.llama_cpp.enable()
    assert capfd.readouterr().err == "" and not fake.Llama("model").flash_attn
    del fake.llama_cpp._lib.ggml_backend_load
    with pytest.raises(RuntimeError, match="cannot load backends: its ggml is linked statically, or older"):
        fovea.llama_cpp.enable()


def test_other_llama(fake, backend, caplog):
    """One without the argument is switched on, and told of."""
    fake.Llama.__init__ = lambda self, model: None
    fovea.llama_cpp.enable()
    assert "flash attention stays" in caplog.text


def test_nothing_there(fake, backend, monkeypatch):
    with pytest.raises(FileNotFoundError, match="no file /nowhere"):
        fovea.llama_cpp.enable("/nowhere")
    monkeypatch.delenv("FOVEA_GGML_LIBRARY")
    monkeypatch.setattr(fovea.llama_cpp._core, "__file__", "/nowhere/_core.so")
    with pytest.raises(FileNotFoundError, match="lacks libggml-fovea.so: .* set FOVEA_GGML_LIBRARY"):
        fovea.llama_cpp.enable()
    assert not fake.loaded


def test_no_llama(backend, monkeypatch):
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    with pytest.raises(ImportError, match="pip install llama-cpp-python"):
        fovea.llama_cpp.enable()


def test_environment(backend):
    command = [sys.executable, "-m", "fovea.llama_cpp"]
    shown = subprocess.run([*command, "env"], check=True, capture_output=True, text=True).stdout
    names = ("GGML_BACKEND_PATH", "LLAMA_ARG_FLASH_ATTN", "OLLAMA_FLASH_ATTENTION")
    shell = shown + "\nprintf '%s\\n' " + " ".join(f'"${name}"' for name in names)
    told = subprocess.run(["sh", "-c", shell], check=True, capture_output=True, text=True).stdout
    assert told.splitlines() == [backend, "on", "1"]
    wrong = subprocess.run(command, capture_output=True, text=True)
    assert wrong.returncode == 1 and wrong.stderr.startswith("usage: ")
    environment = {**os.environ, "FOVEA_GGML_LIBRARY": "/nowhere"}
    absent = subprocess.run([*command, "env"], capture_output=True, text=True, env=environment)
    assert absent.returncode == 1 and absent.stderr == "there is no file /nowhere\n" and absent.stdout == ""
