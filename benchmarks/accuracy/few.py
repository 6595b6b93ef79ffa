"""Means of Unknown rows of few columns and few rows: error, coverage and width of intervals, in stds of the rows.

    python -m benchmarks.accuracy.few [--runs 30] [--laws lognormal,exponential] [--sizes 1000,10000] [--epsilon 1] [--delta 1e-6]

Rows lie within 10^4. Coverage is of 95% intervals of releases that do not warn; the share that does is beside it.
"""  # noqa: E501

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import numpy as np

import ellipsum as es

MAGNITUDE = 1e4
LAWS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda rng, n: rng.normal(5, 1, (n, 1)),
    "t3": lambda rng, n: rng.standard_t(3, (n, 1)),
    "exponential": lambda rng, n: rng.exponential(1, (n, 1)),
    "lognormal": lambda rng, n: rng.lognormal(0, 1.5, (n, 1)),
    "mostly-zero": lambda rng, n: np.where(rng.random((n, 1)) < 0.6, 0, rng.lognormal(1, 1, (n, 1))),
    "normal-10": lambda rng, n: rng.normal(0, 1, (n, 10)),
}


def measured(law: str, n: int, budget: es.Budget, runs: int) -> tuple[float, float, float, float]:
    """Root mean square error, coverage of silent releases, share of those that warn, and half-width."""
    errors, covered, warned, widths = [], [], [], []
    for run in range(runs):
        rng = np.random.default_rng([31, n, run])
        rows = LAWS[law](rng, n)
        found = es.mean(rows, es.Unknown(MAGNITUDE), budget=budget, rng=rng, threads=1)
        mean, std, ends = rows.mean(axis=0), rows.std(axis=0), found.confidence_interval()
        errors.append(np.mean(((found.value - mean) / std) ** 2))
        covered.append(np.mean((ends[:, 0] <= mean) & (mean <= ends[:, 1])))
        warned.append(bool(found.warnings))
        widths.append(np.mean((ends[:, 1] - ends[:, 0]) / std) / 2)
    silent = np.array(covered)[~np.array(warned)]
    share = float(silent.mean()) if silent.size else float("nan")
    return float(np.sqrt(np.mean(errors))), share, float(np.mean(warned)), float(np.median(widths))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--laws", default=",".join(LAWS))
    parser.add_argument("--sizes", default="1000,10000")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    given = parser.parse_args()
    budget = es.Budget(epsilon=given.epsilon, delta=given.delta)
    warnings.simplefilter("ignore", es.AccuracyWarning)
    print(f"{'rows':14}{'n':>8}{'error':>9}{'covered':>9}{'warned':>8}{'half-width':>12}")
    for law in given.laws.split(","):
        for n in map(int, given.sizes.split(",")):
            error, covered, warned, width = measured(law, n, budget, given.runs)
            print(f"{law:14}{n:>8}{error:>9.4f}{covered:>9.2f}{warned:>8.2f}{width:>12.3f}", flush=True)


if __name__ == "__main__":
    main()
