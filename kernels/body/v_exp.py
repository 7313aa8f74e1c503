#!/usr/bin/env python3
"""Prints the constants of v_exp.h, best first. Needs numpy and scipy (PyPI), on x86-64 for its long doubles.

    e^x = scale + scale (r + r^2 (C2 + C3 r)),   r = x' + s, |x'| <= ln(2)/16,   scale = 2^-n 2^(j/8) e^-s (1 + g)

For a shift s, C2, C3 and g are those with the smallest maximum relative error E, and the entries of the table the
floats nearest to 2^(j/8) e^-s (1 + g). The s for which entries and E leave the smallest error in ulps is searched among
all that EXP_MAGIC and EXP_STEP_OFF can give: |s| = EXP_MAGIC EXP_STEP_OFF, where EXP_MAGIC is a multiple of 2^12
between 2^23 and 2^24, and EXP_STEP_OFF may be a thousandth off. What the roundings add is not in it; whether the
constants are good enough, test_exp.c decides: it walks every float.
"""
import struct

import numpy as np
from scipy.optimize import linprog

LN2 = np.log(np.longdouble(2))
HALF = LN2 / 16
STEP = np.float32(LN2 / 8)
OFF = np.longdouble(STEP) - LN2 / 8
GRID = np.longdouble(2e-10)


def fit(s):
    """C2, C3, g and E for r within HALF of s, by linear programming."""
    r = s + HALF * np.linspace(-1, 1, 401).astype(np.longdouble)
    # (1 + g) (1 + r + r^2 q) / e^r - 1 in units of 1e-8; g times the rest is nothing
    columns = np.stack([r**2 / np.exp(r), r**3 / np.exp(r), np.ones_like(r)], axis=1) * 1e8
    rest = ((1 + r) / np.exp(r) - 1) * 1e8
    bounds = np.vstack([np.hstack([side * columns, -np.ones((len(r), 1))]) for side in (1, -1)])
    most = np.concatenate([-rest, rest])
    found = linprog([0, 0, 0, 1], bounds.astype(float), most.astype(float), bounds=(None, None))
    return found.x * [1, 1, 1, 1e-8]


def entries(s, g):
    """Wanted, as columns for all s, and the floats nearest to it."""
    wanted = np.exp2(np.arange(8, dtype=np.longdouble) / 8)[:, None] * np.exp(-s) * (1 + g)
    return wanted, wanted.astype(np.float32)


def error_bound(s, g, e):
    """Largest error in ulps but for roundings of r and e. Results of entry 0 are also just below 1: a smaller ulp."""
    wanted, table = entries(s, g)
    per_ulp = np.array([2.0**24] + [2.0 ** (23 + j / 8 + 1 / 16) for j in range(1, 8)])
    return 0.5 + (per_ulp[:, None] * (np.abs(table / wanted - 1) + e)).max(axis=0)


sample = -OFF * np.linspace(2**23, 2**24, 17).astype(np.longdouble)
fits = np.array([fit(s) for s in sample]).T.astype(float)


def interpolated(s, which):
    return np.interp(-s.astype(float), -sample.astype(float), fits[which])


best = []
for first in np.arange(-OFF * 2**23, -OFF * 2**24, -GRID * 100000):
    s = first - GRID * np.arange(100000)
    bounds = error_bound(s, interpolated(s, 2), interpolated(s, 3))
    best += [(bounds[i], s[i]) for i in np.argsort(bounds)[:3]]
for bound, s in sorted(best)[:5]:
    magic = 2**23 + 4096 * round((-s / OFF - 2**23) / 4096)
    step_off = np.float32(s / magic)
    s = np.longdouble(step_off) * magic
    c2, c3, g, e = fit(s)
    table = entries(np.array([s]), g)[1][:, 0]
    bits = [struct.unpack("<I", struct.pack("<f", t))[0] for t in table]
    print(f"s = {float(s):.9f}, at most {float(bound):.4f} ulp and roundings:")
    for name, value in ("MAGIC", magic), ("STEP", STEP), ("STEP_OFF", step_off), ("C2", c2), ("C3", c3):
        print(f"    EXP_{name} {float(np.float32(value)).hex()}")
    print("   ", ", ".join(f"{bits[-i % 8] - (-i % 8 << 20):#x}" for i in range(8)))
