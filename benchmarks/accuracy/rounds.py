"""Means of Unknown rows: error under each way of adding noise to the rounds, one budget, over n and d.

    python -m benchmarks.accuracy.rounds [--runs 30] [--law normal] [--columns 1,2] [--sizes 300,1000] [--noises auto]

Rows are independent in every column, normal or log-normal, 100 stds from the origin, within 1000 stds. Shown is the
root mean square error of a column in units of std / n, what the noise of a sum is measured in, and the median of the
runs' errors beside it. `auto` is the plan's own choice.
"""

from __future__ import annotations

import argparse
import math
import warnings

import numpy as np

import ellipsum as es

MAGNITUDE, AWAY = 1000.0, 100.0


def table(law: str, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    rows = rng.normal(size=(n, d))
    if law == "lognormal":
        rows = (np.exp(rows) - math.exp(0.5)) / math.sqrt(math.exp(2) - math.e)
    return rows + AWAY / math.sqrt(d)


def errors(law: str, n: int, d: int, noise: str, budget: es.Budget, runs: int) -> tuple[float, float]:
    """Root mean square error of a column over the runs, and the median of the runs, times n."""
    squares = []
    for run in range(runs):
        rng = np.random.default_rng([17, n, d, run])
        data = table(law, n, d, rng)
        value = es.mean(data, es.Unknown(MAGNITUDE), budget=budget, noise=noise, rng=rng, threads=1).value
        squares.append(np.mean((value - data.mean(axis=0)) ** 2))
    return math.sqrt(float(np.mean(squares))) * n, math.sqrt(float(np.median(squares))) * n


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--law", choices=("normal", "lognormal"), default="normal")
    parser.add_argument("--columns", type=numbers, default=[1, 2, 3, 4, 8, 16])
    parser.add_argument("--sizes", type=numbers, default=[300, 1000, 3000, 10_000, 100_000])
    parser.add_argument("--noises", type=lambda text: text.split(","), default=["gaussian", "norm"])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    given = parser.parse_args()
    budget = es.Budget(epsilon=given.epsilon, delta=given.delta)
    warnings.simplefilter("ignore", es.AccuracyWarning)
    print(f"{given.law} rows, epsilon {given.epsilon:g}, delta {given.delta:g}, {given.runs} runs: error x n / std")
    print(f"{'d':>4}{'n':>8}" + "".join(f"{noise:>20}" for noise in given.noises), flush=True)
    for d in given.columns:
        for n in given.sizes:
            found = [errors(given.law, n, d, noise, budget, given.runs) for noise in given.noises]
            print(f"{d:>4}{n:>8}" + "".join(f"{mean:>10.4g}{median:>10.4g}" for mean, median in found), flush=True)


if __name__ == "__main__":
    main()
