"""The cost of a call from Python relative to the same call in C, with almost nothing to compute.

    cmake --build build/python --target call_cost
    PYTHONPATH=build/python python python/bench/call_cost.py build/python/call_cost.so

One query, one key, 16 channels. All rows are interleaved in one process; medians of 201 turns, and the median of each row's
difference to C in the same turn. With torch installed, also torch's tensors and F.scaled_dot_product_attention.
"""

import ctypes
import statistics
import sys
import timeit

import numpy as np

import fovea

SHAPE, CALLS, TURNS = (1, 1, 1, 16), 400, 201


def rows():
    library = ctypes.CDLL(sys.argv[1])
    library.call_cost.restype = ctypes.c_double
    yield "C", lambda count: library.call_cost(count)

    def timed(call):
        return lambda count: timeit.timeit(call, number=count) / count

    call = fovea.attention
    a, b, c, out = (np.ones(SHAPE, np.float32) for _ in range(4))
    yield "numpy", timed(lambda: call(a, b, c))
    yield "numpy, out=", timed(lambda: call(a, b, c, out=out))
    try:
        import torch
    except ImportError:
        return
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    q, k, v, o = (torch.ones(SHAPE) for _ in range(4))
    sdpa = torch.nn.functional.scaled_dot_product_attention
    yield "torch", timed(lambda: call(q, k, v))
    yield "torch, out=", timed(lambda: call(q, k, v, out=o))
    yield "torch, 5 options", timed(lambda: call(q, k, v, causal="bottom_right", scale=0.5, kv_lens=[1], return_lse=True))
    yield "F.scaled_dot_product_attention", timed(lambda: sdpa(q, k, v))
    yield "torch.empty alone", timed(lambda: torch.empty(SHAPE))


def main():
    if len(sys.argv) != 2:
        raise SystemExit("usage: call_cost.py call_cost.so")
    all_rows = list(rows())
    times = {name: [] for name, _ in all_rows}
    for _ in range(TURNS):
        for name, run in all_rows:
            times[name].append(run(CALLS) * 1e9)
    print(f"{'':32} {'ns':>6} {'over C':>7}")
    for name, values in times.items():
        over = statistics.median(value - c for value, c in zip(values, times["C"]))
        print(f"{name:32} {statistics.median(values):6.0f} {over:7.0f}")


if __name__ == "__main__":
    main()
