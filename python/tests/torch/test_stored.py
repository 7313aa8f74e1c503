"""Objects of fovea among torch's: torch.save(), copies of modules that hold them, weights of bfloat16 that come back."""

import copy
import io
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import fovea


class Holder(torch.nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.own = torch.nn.Linear(4, 4)
        self.linear = linear

    def forward(self, x):
        return self.linear(x)


@pytest.fixture
def linear():
    torch.manual_seed(1)
    w = [torch.randn(n, 31, dtype=torch.bfloat16) for n in (7, 33)]
    return fovea.Linear(w, [None, torch.randn(33)], activation="silu"), w, torch.randn(5, 31, dtype=torch.bfloat16)


def test_unpacks_bfloat16(linear):
    packed, w, _ = linear
    assert packed.weight_dtype == packed.dtype == "bfloat16" and packed.nbytes == 40 * 31 * 2 + 33 * 4
    for part in range(2):
        weight = torch.empty_like(w[part])
        packed.unpack(weight, part=part)
        assert torch.equal(weight.view(torch.int16), w[part].view(torch.int16))


def test_torch_saves_modules(linear):
    module, x = Holder(linear[0]), linear[2]
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert all(map(torch.equal, loaded(x), module(x)))
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError):  # code of others is not run
        torch.load(file, weights_only=True)


def test_modules_are_copied(linear):
    module, x = Holder(linear[0]), linear[2]
    other = copy.deepcopy(module)
    assert other.linear is module.linear and other.own.weight is not module.own.weight
    assert all(map(torch.equal, other(x), module(x)))


def test_tables_of_torch_are_copied():
    table, x = torch.randn(2, 32), torch.randn(1, 2, 9, 16)
    relative = fovea.Relative.t5(table, bidirectional=True)
    expected = fovea.attention(x, x, x, relative=relative)
    others = copy.deepcopy(relative), pickle.loads(pickle.dumps(relative))
    table.zero_()
    for other in others:
        assert torch.equal(fovea.attention(x, x, x, relative=other), expected)


def test_fastest_is_stored_as_what_it_was():
    w, x = torch.randn(16, 16).bfloat16(), torch.randn(1, 4, 16).bfloat16()
    layer = fovea.MultiHead(q_heads=2, q=w, k=w, v=w, o=w, arithmetic="fastest")
    loaded = pickle.loads(pickle.dumps(layer))
    assert "arithmetic fastest" in repr(layer) and "arithmetic fastest" not in repr(loaded)
    assert torch.equal(loaded(x), layer(x))


def test_is_stored_while_others_use_it(linear):
    packed, _, x = linear
    expected, wrong = packed(x), []

    def use(call):
        for _ in range(50):
            if not all(map(torch.equal, call()(x), expected)):
                wrong.append(call)

    calls = [lambda: packed, lambda: packed, lambda: pickle.loads(pickle.dumps(packed))]
    with ThreadPoolExecutor(len(calls)) as pool:
        list(pool.map(use, calls))
    assert not wrong
