"""The extension in subinterpreters, loaded twice, and without numpy."""

import array
import importlib
import subprocess
import sys

import numpy as np
import pytest
from processes import run

import fovea

pytestmark = pytest.mark.hosts


@pytest.mark.parametrize("truth", [True, False])
def test_subinterpreter(truth):
    """In a process of its own: where CPython has had subinterpreters, PyTorch's backward refuses to run ever after."""
    pytest.importorskip("_xxsubinterpreters")
    code = f"import fovea; assert {truth} == (fovea.Plan(q_heads=1, q_len=1, kv_len=1, head_dim=8).workspace_size > 0)"
    program = f"""
import _xxsubinterpreters as interpreters
for _ in range(3):
    one = interpreters.create()
    interpreters.run_string(one, {code!r})
    interpreters.destroy(one)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode == 0) == truth, done.stderr


def test_loaded_twice(normal):
    first = sys.modules.pop("fovea._core")
    try:
        second = importlib.import_module("fovea._core")
        x = normal(1, 2, 3, 8)
        assert second is not first and second.Mask is not first.Mask
        assert np.array_equal(second.attention(x, x, x), first.attention(x, x, x))
        with pytest.raises(TypeError, match="mask must be an array"):
            second.attention(x, x, x, mask=first.Mask.boolean(np.ones((3, 3), bool)))
    finally:
        sys.modules["fovea._core"] = first


def test_imported_again():
    """In threads, after a fork, and by reload(): objects of one import are refused by another in a sentence."""
    code = """
import importlib, os, sys, threading
import numpy as np

def forget():
    for name in [name for name in sys.modules if name.partition(".")[0] == "fovea"]:
        del sys.modules[name]

def use():
    import fovea
    x = np.ones((1, 1, 2, 8), np.float32)
    assert np.array_equal(fovea.attention(x, x, x), x)
    return fovea, x

threads = [threading.Thread(target=use) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
first, x = use()
mask = first.Mask.boolean(np.ones((2, 2), bool))
forget()
second, x = use()
assert second is not first and np.array_equal(first.attention(x, x, x, mask=mask), second.attention(x, x, x))
try:
    second.attention(x, x, x, mask=mask)
except TypeError as error:
    print(error)
assert importlib.reload(second) is second
use()
child = os.fork()
if child == 0:
    forget()
    use()
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""
    assert run(code) == "mask must be an array (numpy, torch, or one with __dlpack__), not Mask\n0"


def test_import_needs_no_numpy():
    code = """
import sys
sys.modules["numpy"] = None
import array, fovea
assert fovea.info()["threads"] >= 1
assert fovea.info()["nodes"].startswith("threads not bound")
x = memoryview(array.array("f", range(8))).cast("B").cast("f", (1, 1, 1, 8))
try:
    fovea.attention(x, x, x)
except ImportError:
    print("out needs numpy")
fovea.Mask.boolean(memoryview(bytes(6)).cast("?", (2, 3)))
"""
    assert run(code) == "out needs numpy"


def test_unknown_isa_in_the_environment():
    code = "import fovea\ntry:\n fovea.info()\nexcept ValueError as error:\n print(error)"
    assert "mmx" in run(code, FOVEA_ISA="mmx")


def test_types_that_come_and_go():
    """More kinds of arrays than the extension remembers, some of which die."""
    for i in range(100):
        kind = type(f"Kind{i}", (np.ndarray,), {})
        x = np.ones((1, 1, 2, 4), np.float32).view(kind)
        assert fovea.attention(x, x, x).shape == x.shape
        with pytest.raises(TypeError):
            fovea.attention(x, x, type("No", (), {})())
    flat = array.array("f", range(8))
    assert fovea.attention(*[memoryview(flat).cast("B").cast("f", (1, 1, 2, 4))] * 3).shape == (1, 1, 2, 4)
