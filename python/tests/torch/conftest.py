"""Tests of fovea.torch, which environments without torch leave out (cmake/test.sh)."""

import pytest
import torch

import fovea.torch


@pytest.fixture(autouse=True)
def clean():
    """Each test begins and ends with torch's own kernels and counters at 0."""
    fovea.torch.disable()
    fovea.torch.reset_counters()
    torch.manual_seed(0)
    yield
    fovea.torch.disable()
