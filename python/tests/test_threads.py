"""Own threads: how many, forks, many callers, exit; and no OpenMP in the process."""

import concurrent.futures
import os
import subprocess
import sys

import numpy as np
import pytest
from processes import CALL, FLOAT_MODES, OPENMP, PATIENCE, run, surroundings

import fovea

pytestmark = pytest.mark.hosts


@pytest.fixture(autouse=True)
def unlimited():
    yield
    fovea.set_num_threads(0)


@pytest.fixture
def x(normal):
    return normal(2, 4, 300, 32)


def test_bits_do_not_depend_on_threads(x):
    expected = fovea.attention(x, x, x)
    for limit in (0, 1, 2, 3):
        fovea.set_num_threads(limit)
        for threads in (1, 2, 3, 8):
            with fovea.config(threads=threads):
                assert np.array_equal(fovea.attention(x, x, x), expected), (limit, threads)


def test_limits():
    program = """
import fovea
fovea.config(threads=8)
for limit in (3, 8, 9, 1):
    fovea.set_num_threads(limit)
    print(fovea.get_num_threads(), fovea.info()["threads"], end=" ")
fovea.set_num_threads(0)
fovea.config(threads=0)
print(fovea.get_num_threads() <= len(__import__("os").sched_getaffinity(0)))
"""
    assert run(program) == "3 3 8 8 8 8 1 1 True"


@pytest.mark.parametrize("wrong, error", [(-1, ValueError), (1025, ValueError), ("2", TypeError), (1.5, TypeError)])
def test_wrong_numbers(wrong, error):
    with pytest.raises(error):
        fovea.set_num_threads(wrong)


def test_threads_are_made_as_asked():
    program = CALL + """
before = threads()
fovea.config(threads=5)
for limit in (1, 3, 2, 5):
    fovea.set_num_threads(limit)
    call()
    print(threads() - before, end=" ")
"""
    assert run(program) == "0 2 2 4"


def test_omp_num_threads():
    program = CALL + """
fovea.config(threads=6)
before = threads()
call()
print(fovea.get_num_threads(), threads() - before)
fovea.set_num_threads(2)
print(fovea.get_num_threads())
"""
    assert run(program, OMP_NUM_THREADS="4") == "4 3\n2"
    assert run(program, OMP_NUM_THREADS="3,2") == "3 2\n2"
    assert run(program, OMP_NUM_THREADS="many") == "6 5\n2"


def test_affinity():
    program = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})" + CALL + "print(fovea.get_num_threads())"
    assert run(program) == "1"


@pytest.mark.parametrize("limit, quota", [("150000 100000", 1), ("900000 100000", 9), ("max 100000", None)])
def test_cgroup_quota(tmp_path, limit, quota):
    """In a mount namespace with files of a cgroup of our own."""
    (tmp_path / "groups").write_text("0::/a\n")
    (tmp_path / "a").mkdir()
    (tmp_path / "a/cpu.max").write_text(limit + "\n")
    script = 'mount --bind "$1" /sys/fs/cgroup && mount --bind "$1/groups" /proc/$$/cgroup || exit 77; shift; exec "$@"'
    program = "import fovea; print(fovea.get_num_threads(), fovea.info()['reason'])"
    unshare = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    try:
        done = subprocess.run([*unshare, "sh", "-c", script, "sh", str(tmp_path), sys.executable, "-c", program],
                              env=surroundings(), capture_output=True, text=True, timeout=PATIENCE)  # fmt: skip
    except FileNotFoundError:
        pytest.skip("no unshare")
    if done.returncode in (1, 77) and not done.stdout:
        pytest.skip(f"no mount namespace: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    found, reason = done.stdout.strip().split(" ", 1)
    cpus = len(os.sched_getaffinity(0))
    assert int(found) == min(cpus, quota or cpus)
    assert (f"a cgroup quota of {quota}" if quota else "no cgroup quota") in reason


def test_float_modes():
    """Rounding and flushing are the caller's, on all threads."""
    assert run(FLOAT_MODES) == "True True False True False True False True"


def test_many_callers(x):
    expected = fovea.attention(x, x, x)
    with fovea.config(threads=3), concurrent.futures.ThreadPoolExecutor(6) as callers:
        for result in callers.map(lambda _: fovea.attention(x, x, x), range(60)):
            assert np.array_equal(result, expected)


def test_fork():
    """Children of parents with threads make their own, children of children too, and the parent goes on."""
    program = CALL + """
import os
def child(depth):
    pid = os.fork()
    if pid == 0:
        good = threads() == 1 and call() == expected and threads() == 3 and (depth == 0 or child(depth - 1) == 0)
        os._exit(0 if good else 1)
    return os.waitpid(pid, 0)[1]
fovea.config(threads=3)
expected = call()
print([child(1) for i in range(5)], call() == expected, threads())
"""
    assert run(program, OMP_NUM_THREADS="3", OPENBLAS_NUM_THREADS="1") == "[0, 0, 0, 0, 0] True 3"


def test_fork_while_another_thread_calls():
    program = CALL + """
import os, threading
fovea.config(threads=3)
expected = call()
stop = False
def work():
    while not stop:
        call()
worker = threading.Thread(target=work)
worker.start()
codes = []
for i in range(20):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if call() == expected else 1)
    codes.append(os.waitpid(pid, 0)[1])
stop = True
worker.join()
print(sum(codes))
"""
    assert run(program, PYTHONWARNINGS="ignore") == "0"


def test_exit_while_a_thread_calls():
    program = CALL + """
import threading
fovea.config(threads=3)
def work():
    while True:
        fovea.attention(x, x, x)
threading.Thread(target=work, daemon=True).start()
call()
print("end")
"""
    for _ in range(5):
        assert run(program) == "end"


def test_signals_reach_the_main_thread():
    """Threads of the pool block them."""
    program = CALL + """
import glob
fovea.config(threads=3)
call()
blocked = [next(int(line.split()[1], 16) for line in open(task) if line.startswith("SigBlk"))
           for task in glob.glob("/proc/self/task/*/status")]
print(sum(mask & 1 << 1 != 0 for mask in blocked))
"""
    assert run(program, OPENBLAS_NUM_THREADS="1") == "2"


def test_no_openmp():
    assert run(OPENMP + CALL + "call(); print(openmp())") == "set()"


def test_no_second_openmp_beside_sklearn():
    pytest.importorskip("sklearn")
    program = OPENMP + """
import sklearn.cluster
before = openmp()
""" + CALL + """
fovea.config(threads=3)
expected = call()
points = np.random.default_rng(1).random((2000, 3))
sklearn.cluster.KMeans(3, n_init=1).fit(points)
print(len(before), openmp() == before, call() == expected)
"""
    assert run(program) == "1 True True"
