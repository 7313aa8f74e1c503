"""Memory that the allocators of C and Python have given out: exact, so that few rounds show a leak of a few bytes."""

import ctypes
import gc
import sys

import pytest


class _Mallinfo2(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


def allocated():
    """(bytes of malloc(), blocks of Python)."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        pytest.skip("no mallinfo2(), which glibc has since 2.33")
    libc.mallinfo2.restype = _Mallinfo2
    gc.collect()
    found = libc.mallinfo2()
    return found.uordblks + found.hblkhd, sys.getallocatedblocks()


def assert_no_growth(use):
    """Calls use() three times, and checks that the last call leaves no memory: the first may fill caches."""
    use()
    use()
    before = allocated()
    use()
    after = allocated()
    assert after[0] - before[0] < 4096 and after[1] - before[1] < 100, (before, after)
