"""Tests of fovea.torch: skipped, and counted, where torch is not there."""

import pytest

torch = pytest.importorskip("torch")

import fovea.torch  # noqa: E402


@pytest.fixture(autouse=True)
def clean():
    """Each test begins and ends with torch's own kernels and counters at 0."""
    fovea.torch.disable()
    fovea.torch.reset_counters()
    torch.manual_seed(0)
    yield
    fovea.torch.disable()
