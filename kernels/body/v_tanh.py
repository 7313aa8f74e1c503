#!/usr/bin/env python3
"""Prints the constants of v_tanh.h. Needs numpy and scipy (PyPI).

    tanh(-a) = value + r (a1 + z (a2 + ... z a7)),   r = center - a,   z = r
    tanh(-a) = r + r (z (a2 + ... z a7)),            r = -a,   z = r^2 in the first interval

The magnitude a is in one of eight intervals that end half an octave apart; the last one ends at MOST, where the result
is to round to -1. A center is that float near the middle of its interval whose tanh is nearest to a float, which is
value. The polynomials have the smallest maximum error of those that, so that neighbours meet in order, are not too
small where an interval begins and not too large where it ends. Coefficients are rounded one after another, the rest
being fitted again. What the roundings add is not in it; whether the constants are good enough, test_tanh.c
decides: it walks every float.
"""
import struct

import numpy as np
from scipy.optimize import linprog

DEGREE = 7
FIRST = np.float32(0.875)
MOST = 9.0


def bits(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def from_bits(b):
    return struct.unpack("<f", struct.pack("<I", b))[0]


def fit(columns, target, given, first, last):
    """The coefficients that follow the given ones, and the error, by linear programming in units of 1e-8."""
    rest = (target - columns[:, : len(given)] @ np.array(given)) * 1e8
    free = columns[:, len(given) :]
    scale = np.abs(free).max(axis=0)
    free = free / scale
    rows = [np.hstack([side * free, -np.ones((len(rest), 1))]) for side in (1, -1)]
    most = [rest, -rest]
    if not first:
        rows.append(np.hstack([-free[:1], [[0]]]))
        most.append(-rest[:1])
    rows.append(np.hstack([-free[-1:] if last else free[-1:], [[0]]]))
    most.append(-rest[-1:] - 0.7 if last else rest[-1:]) # in units of 1e-8: 1 - tanh(MOST) is 3.05, half an ulp 2.98
    tight = dict(primal_feasibility_tolerance=1e-10, dual_feasibility_tolerance=1e-10)
    found = linprog([0] * free.shape[1] + [1], np.vstack(rows), np.concatenate(most), bounds=(None, None),
                    method="highs-ds", options=tight)
    return found.x[:-1] / scale / 1e8, found.x[-1] / 1e8


def center_of(low, high):
    middle = bits(np.float32((low + high) / 2))
    near = np.arange(middle - 100000, middle + 100000, dtype=np.uint32).view(np.float32)
    exact = np.tanh(near.astype(float))
    return float(near[np.argmin(np.abs(exact - exact.astype(np.float32)))])


edges = [0.0] + [from_bits(bits(FIRST) + (k << 22)) for k in range(7)] + [MOST]
table = []
for i, (low, high) in enumerate(zip(edges, edges[1:])):
    a = low + (high - low) * (1 - np.cos(np.pi * np.arange(1, 401) / 400)) / 2
    center = center_of(low, high) if i else -0.0
    value = float(np.float32(np.tanh(center)))
    r = a - center
    powers = np.arange(1, DEGREE + 1) if i else 2 * np.arange(DEGREE) + 1
    columns = np.stack([r**p for p in powers], axis=1)
    given = [] if i else [1.0]
    while len(given) < DEGREE:
        found, error = fit(columns, np.tanh(a) - value, given, i == 0, i == 7)
        given.append(float(np.float32(found[0])))
    error = np.abs(columns @ np.array(given) + value - np.tanh(a)).max()
    print(f"from {low:.7g} to {high:.7g}: off by 2^{np.log2(error):.1f} and roundings")
    signs = (-1.0) ** np.arange(DEGREE) if i else np.ones(DEGREE)
    table.append([center, -value] + list(signs * given if i else [0.0] + given[1:]))
print(f"V_TANH_FIRST {float(FIRST).hex()}, V_TANH_MOST {MOST.hex()}")
for name, row in zip(["center", "value"] + [f"a{k + 1}" for k in range(DEGREE)], np.array(table).T):
    print(f"{name}:", ", ".join(x.hex() for x in row))
