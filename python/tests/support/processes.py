"""Tests that need a process of their own."""

import os
import signal
import subprocess
import sys
import threading

import fovea


PATIENCE = 1200  # seconds for what takes one on an idle machine: a limit for what never ends, not for a busy host


def surroundings(**environment):
    """The environment of another process, without the limits of this one to threads."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("OMP_NUM_THREADS", "OMP_THREAD_LIMIT")}
    return {**inherited, "PYTHONPATH": os.path.dirname(os.path.dirname(fovea.__file__)), **environment}


def run(program, **environment):
    """The output of a Python program, which must end with status 0."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=surroundings(**environment),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def fork_while(work, in_child):
    """Are all of ten children right, which in_child() tells, forked while a thread calls work() again and again?"""
    stop, ends = threading.Event(), []

    def loop():
        while not stop.is_set():
            work()

    thread = threading.Thread(target=loop)
    thread.start()
    for _ in range(10):
        child = os.fork()
        if child == 0:
            try:
                signal.alarm(PATIENCE)
                os._exit(0 if in_child() else 1)
            finally:
                os._exit(2)
        ends.append(os.waitpid(child, 0)[1])
    stop.set()
    thread.join()
    return not any(ends)


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

# Prints, for each floating-point mode, whether the result is that of the usual mode, and whether it is the same on three threads.
# fesetenv() takes what fegetenv() gave, with other flush bits: MXCSR's (x86-64) or FPCR's (aarch64).
FLOAT_MODES = """
import ctypes, platform, numpy as np, fovea
libm = ctypes.CDLL("libm.so.6")
arm = platform.machine() == "aarch64"
up, down = (0x400000, 0x800000) if arm else (0x800, 0x400)
word, bits = (0, 1 << 24) if arm else (7, 0x8040)
random = np.random.default_rng(1)
q, k = (random.standard_normal((1, 8, 300, 32), dtype=np.float32) for _ in range(2))
v = (random.standard_normal((1, 8, 300, 32)) * 1e-39).astype(np.float32)  # denormals
def call(threads):
    with fovea.config(threads=threads):
        return fovea.attention(q, k, v).tobytes()
def mode(rounding=0, flush=False):
    libm.fesetround(rounding)
    environment = (ctypes.c_uint32 * 8)()
    libm.fegetenv(environment)
    environment[word] = environment[word] & ~bits | (bits if flush else 0)
    libm.fesetenv(environment)
usual = call(1)
for options in ({}, {"rounding": up}, {"rounding": down}, {"flush": True}):
    mode(**options)
    one, many = call(1), {call(3) for _ in range(10)}
    mode()
    print(one == usual, many == {one}, end=" ")
"""
