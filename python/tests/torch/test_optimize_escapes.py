"""Ways around packed weights: numbers that leave a copy cannot be written as if they were its own, and graphs that leave
its process do not compute with other weights."""

import io
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from fovea.torch import optimize


@pytest.fixture
def model():
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)).eval()


def _inference(fast):
    with torch.no_grad():
        fast.state_dict()["0.weight"].zero_()


WRITES = {
    "state_dict": lambda fast: fast.state_dict()["0.weight"].zero_(),
    "bias of state_dict": lambda fast: fast.state_dict()["0.bias"].zero_(),
    "view of state_dict": lambda fast: fast.state_dict()["0.weight"].view(-1)[1:].mul_(2),
    "without gradients": _inference,
    "swap_tensors": lambda fast: torch.utils.swap_tensors(fast[0].weight, torch.zeros(16, 8)),
    "swap_tensors, second": lambda fast: torch.utils.swap_tensors(torch.zeros(16, 8), fast[0].weight),
    "to_dlpack": lambda fast: torch.utils.dlpack.to_dlpack(fast[0].weight),
    "to_dlpack, detached": lambda fast: torch.utils.dlpack.to_dlpack(fast[0].weight.detach()),
}


@pytest.mark.parametrize("write", WRITES)
def test_writes_are_refused(model, write):
    fast = optimize(model)
    words = {"s": r"made by fovea\.torch\.optimize", "t": "Cannot access data pointer"}.get(write[0])
    words = words if "swap" in write or "dlpack" in write else "make a clone"
    with pytest.raises(RuntimeError, match=words):
        WRITES[write](fast)
    for got, want in zip(fast.state_dict().values(), model.state_dict().values()):
        assert torch.equal(got, want) and type(got) is torch.Tensor


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_dlpack(model, dtype):
    numpy = pytest.importorskip("numpy")
    weight = optimize(model.to(dtype))[0].weight
    assert torch.equal(torch.from_dlpack(weight), model[0].weight)
    if dtype is not torch.bfloat16:
        for one in (weight, weight.detach(), weight[2:5]):
            array = numpy.from_dlpack(one)
            assert (array == one.numpy()).all() and not array.flags.writeable
        assert numpy.from_dlpack(weight, copy=True).flags.writeable


def test_numbers_of_state_dict_serve(model):
    state, x, file = optimize(model).state_dict(), torch.randn(3, 8), io.BytesIO()
    other = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
    other.load_state_dict(state)
    other(x).sum().backward()
    torch.save(state, file)
    file.seek(0)
    for own in ({k: v.clone() for k, v in state.items()}, torch.load(file)):
        own["0.weight"].zero_()
    with torch.no_grad():
        assert torch.equal(torch.func.functional_call(other, state, (x,)), model(x))
    mean = {k: 0.5 * v + 0.5 * state[k] for k, v in model.state_dict().items()}
    assert all(torch.allclose(mean[k], v) for k, v in state.items())


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.filterwarnings("ignore")
def test_export_is_refused(model, strict):
    with pytest.raises(Exception, match="export the original"):
        torch.export.export(optimize(model), (torch.randn(3, 8),), strict=strict)


def test_graphs_of_another_process():
    """torch stores graphs by what is in them: numbers of maps are of one process alone."""
    code = (
        "import torch; from fovea.torch import optimize\n"
        "print(optimize(torch.nn.Sequential(torch.nn.Linear(8, 8)))[0]._number)"
    )
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    command = [sys.executable, "-W", "ignore", "-c", code]
    numbers = [int(subprocess.check_output(command, env=environment)) for _ in range(2)]
    assert numbers[0] != numbers[1]
    for number in (0, *numbers):
        with pytest.raises(RuntimeError, match="Compile the copy here; or export the original"):
            torch.ops.fovea.packed_linear(torch.randn(3, 8), number)
