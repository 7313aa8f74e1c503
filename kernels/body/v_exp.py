#!/usr/bin/env python3
"""Prints the constants of v_exp.h, of the polynomial those from which v_exp_search.c starts. Needs mpmath (PyPI).

exp(r) = 1 + r + r^2 q(r) on |r| <= ln(2)/2, q of degree 4 with the smallest maximum relative error (Remez exchange), its
coefficients rounded to float32 one after another, lowest first, the rest fitted again each time. Whether the rounded polynomial is good enough is not decided here: tests/test_exp.c walks
every float.
"""
import mpmath as mp

mp.mp.prec = 200
HALF = mp.log(2) / 2 * (1 + mp.mpf(2) ** -20)  # rounding of x * log2(e) may overstep by a little


def f32(x):
    """x rounded to 24 bits, ties to even (mpmath's own rounding)."""
    with mp.workprec(24):
        return +x


def remez(known, degree):
    """Minimax q of that degree whose lowest coefficients are known; relative to exp(r)."""
    free = degree + 1 - len(known)
    points = [HALF * mp.cos(mp.pi * (2 * i + 1) / (2 * (free + 1))) for i in range(free + 1)]

    def rest(r):  # what the free coefficients have to match, and its weight
        head = sum(c * r**i for i, c in enumerate(known))
        return mp.exp(r) - 1 - r - r * r * head, r ** (2 + len(known)) / mp.exp(r)

    for _ in range(30):
        rows, right = [], []
        for k, r in enumerate(points):
            want, weight = rest(r)
            rows.append([weight * r**i for i in range(free)] + [(-1) ** k])
            right.append(want / mp.exp(r))
        solution = mp.lu_solve(mp.matrix(rows), mp.matrix(right))
        coefficients = [solution[i] for i in range(free)]

        def error(r):
            want, weight = rest(r)
            return want / mp.exp(r) - weight * sum(c * r**i for i, c in enumerate(coefficients))

        grid = [-HALF + 2 * HALF * i / 2000 for i in range(2001)]
        values = [error(r) for r in grid]
        extrema = [0]
        for i in range(1, 2001):  # one extremum per run of equal sign
            if values[i] * values[extrema[-1]] > 0:
                if abs(values[i]) > abs(values[extrema[-1]]):
                    extrema[-1] = i
            else:
                extrema.append(i)
        if len(extrema) < free + 1:
            break
        while len(extrema) > free + 1:
            extrema.pop(0 if abs(values[extrema[0]]) < abs(values[extrema[-1]]) else -1)
        points = [grid[i] for i in extrema]
    return coefficients, max(abs(v) for v in values)


known = []
for _ in range(5):
    coefficients, worst = remez(known, 4)
    known.append(f32(coefficients[0]))
for i, c in enumerate(known):
    print(f"C{i + 2} = {float(c).hex()}  /* {mp.nstr(c, 10)} */")
print("largest relative error of the rounded polynomial before evaluation:", mp.nstr(worst, 3))

print("LN2    =", float(f32(mp.log(2))).hex())
print("LN2_OFF =", float(f32(f32(mp.log(2)) - mp.log(2))).hex())
print("LOG2E  =", float(f32(1 / mp.log(2))).hex())
smallest = mp.log(mp.mpf(2) ** -126)
x = f32(smallest)
while mp.exp(x) < mp.mpf(2) ** -126:
    x = f32(x + mp.mpf(2) ** -17)
print("LOWEST =", float(x).hex(), " /* the least float whose exp is normal */", mp.nstr(mp.exp(x) / mp.mpf(2) ** -126, 12))
