import os

# Threads of OpenMP that wait sleep, and leave the CPU to those that work. Set before torch is loaded, and for all
# processes that tests start.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
import pytest

import fovea


@pytest.fixture
def rng(request):
    """Numbers of each test's own, the same at each run."""
    return np.random.default_rng(sum(map(ord, request.node.nodeid)))


@pytest.fixture
def normal(rng):
    return lambda *shape: rng.standard_normal(shape, dtype=np.float32)


@pytest.fixture(autouse=True)
def best():
    """Each test begins and ends with the best tier and all threads."""
    with fovea.config(isa="best", threads=0):
        yield


def bits(array):
    return np.ascontiguousarray(np.asarray(array)).view(np.uint8).tobytes()


@pytest.fixture
def tiers():
    """tiers(call) is call()'s result, whose bits are the same on all tiers that this CPU has."""

    def run(call):
        expected = None
        for isa in ("scalar", "avx2", "avx512", "neon"):
            with fovea.config(isa=isa):
                if fovea.info()["isa"] != isa and isa != "scalar":
                    continue
                result = call()
            results = result if isinstance(result, tuple) else (result,)
            if expected is None:
                expected = result, [bits(r) for r in results]
            assert [bits(r) for r in results] == expected[1], isa
        assert [bits(r) for r in results] == expected[1]
        return expected[0]

    return run
