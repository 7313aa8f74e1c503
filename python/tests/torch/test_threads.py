"""Threads of torch: found whenever it is imported, their number, forks; one OpenMP in the process."""

import concurrent.futures

import numpy as np
import pytest
import torch
from processes import CALL, FLOAT_MODES, OPENMP, run

import fovea


@pytest.fixture(autouse=True)
def unlimited():
    before = torch.get_num_threads()
    yield
    fovea.set_num_threads(0)
    torch.set_num_threads(before)


def test_torch_is_found():
    assert fovea.info()["pool"] == "torch"


def test_torch_imported_later():
    """After the first call: its threads and its tensors are found all the same."""
    program = CALL + """
fovea.config(threads=2)
first = call(), fovea.info()["pool"]
import json, decimal, torch
torch.set_num_threads(2)
second = call(), fovea.info()["pool"]
print(first[0] == second[0], first[1], second[1])
y = torch.from_numpy(x)
out = fovea.attention(y, y, y)
print(type(out) is torch.Tensor and np.array_equal(out.numpy(), fovea.attention(x, x, x)))
try:
    fovea.attention(y.requires_grad_(), y, y)
except ValueError as error:
    print("requires a gradient" in str(error))
"""
    assert run(program) == "True own torch\nTrue\nTrue"


def test_tasks_run_on_torchs_threads():
    """No threads in addition to torch's, and no second OpenMP."""
    program = OPENMP + "import torch; torch.set_num_threads(4); loaded = openmp()" + CALL + """
fovea.config(threads=4)
a = torch.ones(2000, 2000)
(a + a).sum()
before = threads()
call()
print(threads() - before, len(loaded), openmp() == loaded)
"""
    assert run(program) == "0 1 True"


def test_limits():
    with fovea.config(threads=8):
        for theirs, ours, threads in ((4, 0, 4), (4, 3, 3), (3, 6, 3), (1, 0, 1)):
            torch.set_num_threads(theirs)
            fovea.set_num_threads(ours)
            assert fovea.get_num_threads() == threads


def test_bits_do_not_depend_on_threads(normal):
    x = normal(2, 4, 300, 32)
    with fovea.config(threads=1):
        expected = fovea.attention(x, x, x)
    for theirs in (1, 2, 5):
        torch.set_num_threads(theirs)
        for ours in (0, 1, 2, 3):
            fovea.set_num_threads(ours)
            with fovea.config(threads=4):
                assert np.array_equal(fovea.attention(x, x, x), expected), (theirs, ours)


def test_float_modes():
    """Rounding and flushing are the caller's, on torch's threads, too."""
    program = "import torch; torch.set_num_threads(3)" + FLOAT_MODES + "print(fovea.info()['pool'])"
    assert run(program) == "True True False True False True False True torch"


def test_a_torch_that_is_too_old(tmp_path):
    """A stub of an old version, without the registry of attention implementations."""
    for name in ("torch", "torch/nn", "torch/nn/attention"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text('__version__ = "2.4.0"\n')
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})" + """
try:
    import fovea.torch
except ImportError as error:
    print(error)
"""
    told = run(program)
    assert "needs PyTorch" in told and "this is 2.4.0" in told and "register_flash_attention_impl" in told


def test_many_callers(normal):
    x = normal(2, 4, 300, 32)
    expected = fovea.attention(x, x, x)
    with fovea.config(threads=3), concurrent.futures.ThreadPoolExecutor(4) as callers:
        for result in callers.map(lambda _: fovea.attention(x, x, x), range(40)):
            assert np.array_equal(result, expected)


def test_fork():
    """A child has none of torch's threads, and would wait for them forever: it makes its own."""
    program = "import torch; torch.set_num_threads(3)" + CALL + """
import os
fovea.config(threads=3)
expected = call()
codes = []
for i in range(3):
    pid = os.fork()
    if pid == 0:
        good = call() == expected and fovea.info()["pool"] == "own" and threads() == 3
        torch.set_num_threads(1)  # as the workers of a DataLoader do
        os._exit(0 if good and call() == expected and fovea.get_num_threads() == 1 else 1)
    codes.append(os.waitpid(pid, 0)[1])
print(codes, call() == expected)
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 6
    def __getitem__(self, i):
        x = torch.full((1, 2, 300, 16), float(i))
        return fovea.attention(x, x, x)[0, 0, 0, 0]
print([int(value) for value in torch.utils.data.DataLoader(Data(), batch_size=None, num_workers=2)])
"""
    assert run(program) == "[0, 0, 0] True\n[0, 1, 2, 3, 4, 5]"
