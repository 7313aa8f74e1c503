"""fovea.tune(), the command fovea-tune, and the log of shapes that feeds it."""

import os
import re
import subprocess

import numpy as np
import pytest
from processes import run

import fovea
from fovea import tuning

pytestmark = pytest.mark.hosts

try:
    TUNE = tuning.program()
except FileNotFoundError as error:
    pytest.skip(str(error), allow_module_level=True)


def tuned(log):
    """The classes that fovea-tune would tune for a log."""
    command = [TUNE, "--dry-run", "--log", str(log), "--threads", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def work(tokens=40):
    x = np.zeros((1, tokens, 24), np.float32)
    fovea.attention(*[np.zeros((1, 3, tokens, 16), np.float32)] * 3)
    fovea.Linear(np.zeros((72, 24), np.float32))(x)


def test_a_programs_log(tmp_path):
    log = tmp_path / "shapes"
    run("""
import numpy as np, fovea
x = np.zeros((2, 50, 48), np.float32)
fovea.attention(*[np.zeros((2, 3, 50, 16), np.float32)] * 3)
fovea.Linear(np.zeros((96, 48), np.float32))(x)
fovea.MultiHead(q_heads=2, fused=np.zeros((144, 48), np.float32), o=np.zeros((48, 48), np.float32))(x)
""", FOVEA_LOG_SHAPES=str(log))  # fmt: skip
    lines = log.read_text().splitlines()
    for words in (("q_heads=3", "q_len=50", "head_dim=16"), ("linear", "in=48", "out=96"), ("q_heads=2", "head_dim=24")):
        assert any(all(word in line for word in words) for line in lines), (words, lines)
    text = tuned(log)
    assert "d16" in text and "d24" in text and "linear" in text


def test_log_shapes(tmp_path):
    work()  # plans of this shape are known: they are of another context, which has no log
    with fovea.log_shapes(tmp_path / "shapes"):
        work()
    before = (tmp_path / "shapes").read_text()
    assert "q_len=40" in before and "linear" in before
    work(41)
    assert (tmp_path / "shapes").read_text() == before
    assert "FOVEA_LOG_SHAPES" not in os.environ


def test_config_is_kept(tmp_path):
    with fovea.config(isa="scalar", threads=1), fovea.log_shapes(tmp_path / "shapes"):
        assert (fovea.info()["isa"], fovea.info()["threads"]) == ("scalar", 1)


@pytest.mark.parametrize(
    "what",
    [
        "q_heads=2 q_len=64 head_dim=16",
        dict(q_heads=2, q_len=64, head_dim=16),
        ["linear rows=8 in=64 out=64", dict(q_heads=2, q_len=64, head_dim=16)],
        work,
    ],
)
def test_tune(what, tmp_path):
    found = fovea.tune(what, budget=1, effort="quick", threads=1, output=tmp_path / "tuning")
    assert found["threads"] == 1 and found["file"] == str(tmp_path / "tuning")
    assert found["stored"] == (tmp_path / "tuning").exists()
    names = [c["class"] for c in found["classes"]]
    assert any("d16" in name for name in names)
    assert any("linear" in name for name in names) == (not isinstance(what, (str, dict)))


def test_threads_of_the_program():
    """It has as many as calls have: those of the machine, not the one of a library without OpenMP."""
    shape = "q_heads=12 q_len=512 head_dim=64"
    done = subprocess.run([TUNE, "--dry-run", "--shape", shape], capture_output=True, text=True)
    assert f"; {fovea.info()['threads']} thread" in done.stdout
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([TUNE, "--dry-run", "--shape", shape], capture_output=True, text=True, env=environment)
    assert "; 1 thread\n" in done.stdout
    libraries = subprocess.run(["ldd", TUNE], capture_output=True, text=True).stdout
    assert "omp" not in libraries and "jansson" not in libraries


@pytest.mark.parametrize(
    "args, options, words",
    [
        (("q_heads=none",), {}, "q_heads"),
        (([dict(heads=2)],), {}, "heads"),
        ((), dict(budget=0), "budget"),
        ((), dict(effort="some"), "effort"),
        ((), dict(presets=["bert-base", "alexnet"]), "alexnet"),
        ((), dict(log="nowhere"), "nowhere"),
        ((lambda: None,), {}, "ran nothing"),
        ((lambda: None,), dict(log="x"), "not both"),
    ],
)
def test_errors(args, options, words):
    with pytest.raises((ValueError, RuntimeError), match=words):
        fovea.tune(*args, **options)


def test_the_command():
    assert "fovea-tune" in run("import sys; from fovea import tuning; sys.argv[1:] = ['--help']; tuning.main()")


def test_the_file_is_used_at_once(tmp_path, monkeypatch):
    """The wheel's fovea-tune and its library are of the same build: a file of the one is good for the other."""
    monkeypatch.setenv("FOVEA_TUNING_FILE", str(tmp_path / "tuning"))
    fovea._core._renew()
    try:
        for _ in range(3):
            options = dict(budget=2, effort="quick", threads=fovea.info()["threads"], output=tmp_path / "tuning")
            if fovea.tune("linear rows=1 in=4096 out=4096", **options)["stored"]:
                break
        else:
            pytest.skip("the machine is too noisy to tune")
        info = fovea.info()  # rows are stored for what was faster; possibly none
        assert info["tuning"].startswith(str(tmp_path / "tuning")), info["tuning"]
        assert re.search("rows? for this CPU and build", info["tuning"]), info["tuning"]
    finally:
        monkeypatch.undo()
        fovea._core._renew()
