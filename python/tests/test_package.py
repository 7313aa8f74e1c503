"""The package needs nothing of the system but libc: shared libraries that it is linked to lie in it."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from fovea import _core

PACKAGE = pathlib.Path(_core.__file__).resolve().parent
LIBC = re.compile(r"(lib(c|m|dl|pthread|rt)\.so\.\d|ld-linux)")
UNSET = ("LD_LIBRARY_PATH", "LD_PRELOAD", "FOVEA_TUNING_FILE", "FOVEA_KNOWN_CPUS")
CLEAN = {name: value for name, value in os.environ.items() if name not in UNSET}

pytestmark = [pytest.mark.hosts, pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux has mapped")]


def run(*command, **environment):
    return subprocess.run(command, env={**CLEAN, **environment}, check=True, capture_output=True, text=True).stdout


def foreign(paths):
    return [path for path in paths if pathlib.Path(path).parent != PACKAGE and not LIBC.match(pathlib.Path(path).name)]


def test_extension():
    code = """
import importlib.machinery, importlib.util, re, sys
mapped = lambda: set(re.findall(r" (/.*[.]so\\b.*)$", open("/proc/self/maps").read(), re.M))
before = mapped()
loader = importlib.machinery.ExtensionFileLoader("fovea._core", sys.argv[1])
importlib.util.module_from_spec(importlib.util.spec_from_loader("fovea._core", loader))
print(*mapped() - before, sep="\\n")
"""
    loaded = run(sys.executable, "-c", code, _core.__file__).splitlines()
    assert str(pathlib.Path(_core.__file__).resolve()) in loaded
    assert not foreign(loaded)


def test_free_threaded_python(tmp_path):
    """The build refuses it with a sentence."""
    if not shutil.which("cmake"):
        pytest.skip("no cmake")
    (tmp_path / "sitecustomize.py").write_text("import sysconfig; sysconfig.get_config_vars()['Py_GIL_DISABLED'] = 1")
    source = pathlib.Path(__file__).parents[1]
    command = ["cmake", "-S", source, "-B", tmp_path / "build", f"-DPython_EXECUTABLE={sys.executable}"]
    done = subprocess.run(command, env={**CLEAN, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode and "has no build for free-threaded Python" in " ".join(done.stderr.split())


def test_backend_for_ggml():
    library = PACKAGE / "lib" / "libggml-fovea.so"
    if not library.exists():
        pytest.skip("built without ggml's headers")
    found = re.findall(r"=> (/.*) [(]0x", run("ldd", str(library)))
    assert found and not foreign(found)
    assert (library.parent / "known-cpus.tuning").exists()


def test_fovea_tune():
    program = PACKAGE / "fovea-tune"
    if not program.exists():
        pytest.skip("built without jansson")
    found = re.findall(r"=> (/.*) [(]0x", run(program, LD_TRACE_LOADED_OBJECTS="1"))
    assert found and not foreign(found)


def test_rows_for_known_cpus():
    """They are in the package, and the library and fovea-tune find them there."""
    program, path = PACKAGE / "fovea-tune", str(PACKAGE / "known-cpus.tuning")
    if not program.exists():
        pytest.skip("built without jansson, or with the library of another build")
    if os.path.exists("/etc/fovea/tuning"):
        pytest.skip("this machine has a tuning file")
    none = {"XDG_CACHE_HOME": "/nowhere"}
    assert path in run(sys.executable, "-c", "import fovea; print(fovea.info()['tuning'])", **none)
    command = "import sys; from fovea import tuning; sys.argv[1:] = ['show']; tuning.main()"
    assert path in run(sys.executable, "-c", command, **none)
