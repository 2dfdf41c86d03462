#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scale_fit.py - the tables of scale.sh, from its lines "WHAT RANKS VALUE"."""
import collections
import math
import statistics
import sys

UNITS = {"start": "s", "step": "ms", "lost": "s"}
SHAPES = {"W": float, "log2 W": math.log2}


def fit(points, shape):
    """a, b of the least sum of squared relative errors, and their root mean."""
    sums = [0.0] * 5
    for ranks, value in points:
        x, weight = shape(ranks), value ** -2
        for i, term in enumerate((1, x, x * x, value, x * value)):
            sums[i] += weight * term
    n, x, xx, y, xy = sums
    b = (n * xy - x * y) / (n * xx - x * x)
    a = (y - b * x) / n
    error = sum(((a + b * shape(r)) / v - 1) ** 2 for r, v in points)
    return a, b, math.sqrt(error / len(points))


def main():
    values = collections.defaultdict(list)
    for line in open(sys.argv[1], encoding="ascii"):
        what, ranks, value = line.split()
        values[what, int(ranks)].append(float(value))
    medians = {key: statistics.median(v) for key, v in values.items()}
    sizes = sorted({ranks for _, ranks in values})
    print("| ranks |" + "".join(f" {w} {u} |" for w, u in UNITS.items()))
    print("|--:|" + "--:|" * len(UNITS))
    for ranks in sizes:
        row = (f" {medians[what, ranks]:.2f} |" for what in UNITS)
        print(f"| {ranks} |" + "".join(row))
    print("\n| what | model | error |\n|---|---|--:|")
    for what, unit in UNITS.items():
        points = [(ranks, medians[what, ranks]) for ranks in sizes]
        fits = ((fit(points, shape), name) for name, shape in SHAPES.items())
        (a, b, error), name = min(fits, key=lambda f: f[0][2])
        print(f"| {what} | {a:.3g} {unit} + {b:.3g} {unit} x {name} "
              f"| {100 * error:.0f} % |")


if __name__ == "__main__":
    main()
