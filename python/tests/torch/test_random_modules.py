"""fovea.torch.optimize() on modules made by chance: the copy computes, changes and tells what the model does.

python/tests/support/random_modules.py makes them, and runs as many as one wants.
"""

import pytest
import torch
from random_modules import program_of, run

import fovea.torch
from fovea.torch import packed

MODULES, TOGETHER = 300, 20


@pytest.mark.parametrize("first", range(0, MODULES, TOGETHER))
def test_the_copy_is_the_model(first):
    for seed in range(first, first + TOGETHER):
        program = program_of(seed)
        found, _, _ = run(program)
        assert not found, f"seed {seed}: {found[0]}\n{program.source}"


@pytest.mark.parametrize("weights", ["int8", "int4", "q8_0", "q4_1"])
def test_the_copy_is_the_model_of_the_rounded_weights(weights):
    for seed in range(1000, 1000 + TOGETHER):
        program = program_of(seed, weights)
        found, _, _ = run(program)
        assert not found, f"seed {seed}: {found[0]}\n{program.source}"


def test_x_that_is_rounded_more_is_found(monkeypatch):
    """To 8 bits in place of 15."""
    made, q8 = fovea.Linear, {"arithmetic": "q8"}
    monkeypatch.setattr(packed.fovea, "Linear", lambda *args, quantization=None, **options: made(
        *args, quantization=quantization, **(options | q8 if quantization else options)))  # fmt: skip
    assert sum(bool(run(program_of(seed, "int8"))[0]) for seed in range(1000, 1010)) > 2


def _no_hooks(module):
    module._forward_hooks.clear()


def _no_activation(module):
    if isinstance(module, (torch.nn.ReLU, torch.nn.GELU)):
        module.forward = lambda x: x


def _written(module):
    module.register_forward_pre_hook(lambda _, args: args[0].mul_(1.0001) if args else None)


@pytest.mark.parametrize("damage", [_no_hooks, _no_activation, _written])
def test_a_wrong_copy_is_found(monkeypatch, damage):
    right = fovea.torch.optimize

    def wrong(model):
        copy = right(model)
        for module in copy.modules():
            damage(module)
        return copy

    monkeypatch.setattr(fovea.torch, "optimize", wrong)
    assert sum(bool(run(program_of(seed))[0]) for seed in range(40)) > 2
