#!/usr/bin/env python3
"""Prints the constants of v_erf.h. Needs mpmath (PyPI).

Two polynomials, each fitted by least squares at Chebyshev nodes, which comes within a few percent of the smallest
maximum error, with the weight that makes its error one of erf. Coefficients are rounded to float32 one after another,
lowest first, and the rest fitted again each time. Whether the result is good enough is not decided here:
test_activation.c walks the floats.
"""
import mpmath as mp

mp.mp.prec = 160
SPLIT, HIGHEST = mp.mpf("0.921875"), mp.mpf(4)


def f32(x):
    """x rounded to 24 bits, ties to even (mpmath's own rounding)."""
    with mp.workprec(24):
        return +x


def fit(function, weight, low, high, degree, nodes=120):
    """Coefficients, lowest first, of the polynomial near function on [low, high]."""
    points = [(low + high) / 2 + (high - low) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * nodes)) for i in range(nodes)]
    known = []
    while len(known) <= degree:
        free = range(len(known), degree + 1)
        rows = mp.matrix([[weight(x) * x**i for i in free] for x in points])
        right = mp.matrix([weight(x) * (function(x) - sum(c * x**i for i, c in enumerate(known))) for x in points])
        known.append(f32(mp.lu_solve(rows, right)[0]))  # an overdetermined system: least squares
    return known


def show(name, coefficients):
    print(name, "highest first:", ", ".join(f"{float(c).hex()}f" for c in reversed(coefficients)))


# erf(x) = x + x p(x^2) for |x| < SPLIT, relative error
show("p", fit(lambda t: mp.erf(mp.sqrt(t)) / mp.sqrt(t) - 1, lambda t: 1, mp.mpf(2) ** -40, SPLIT**2, 6))
# erf(a) = 1 - exp(q(a)) for SPLIT <= a <= HIGHEST, absolute error
show("q", fit(lambda a: mp.log(mp.erfc(a)), mp.erfc, SPLIT, HIGHEST, 7))
