"""Tests that need a process of their own."""

import os
import subprocess
import sys

import fovea


def run(program, timeout=120, **environment):
    """What a Python program prints, which must end well and in time."""
    path = os.path.dirname(os.path.dirname(fovea.__file__))
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


OPENMP = """
def openmp():
    names = ("libgomp", "libomp", "libiomp")
    return {line.split()[-1] for line in open("/proc/self/maps") if any(name in line for name in names)}
"""

CALL = """
import hashlib, numpy as np, fovea
x = np.random.default_rng(3).standard_normal((2, 4, 300, 32), dtype=np.float32)
def call():
    return hashlib.sha256(fovea.attention(x, x, x).tobytes()).hexdigest()
def threads():
    import os
    return len(os.listdir("/proc/self/task"))
"""
