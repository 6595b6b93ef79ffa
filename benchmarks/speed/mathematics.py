"""What a plan's mathematics cost: calibration, the weighted chi-square law, friendly averages.

Run: python -m benchmarks.speed.mathematics

Targets: a calibration in at most 1 ms; isf under 2 ms for d <= 1000 and under 50 ms for d = 10^6; a friendly mean of
10^4 x 100 in seconds. Beside each stands a plain computation of the same run: scipy's chi-square with equal weights, or
numpy's product of the rows with themselves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.stats import chi2

import ellipsum as es

from .._table import Measured


def once(call: Callable[[], object]) -> float:
    """Time of a call in milliseconds, of the processor."""
    begin = time.process_time()
    call()
    return 1e3 * (time.process_time() - begin)


def least(call: Callable[[], object], repeats: int) -> float:
    """Least time of a call in milliseconds."""
    call()
    return min(once(call) for _ in range(repeats))


def calibration_times(repeats: int = 1) -> Any:
    """Of 1000 random budgets; least of several, each with budgets a hair away: answers are remembered."""
    rng = np.random.default_rng(0)
    asked = [(10 ** rng.uniform(-8, 4), 10 ** rng.uniform(-300, np.log10(0.5))) for _ in range(1000)]
    es.calibrate(1.0, 1e-6)
    nudges = [1 + 1e-9 * i for i in range(repeats)]
    turns = [[once(lambda e=e, d=d, by=by: es.calibrate(e * by, d)) for e, d in asked] for by in nudges]
    return np.array(turns).min(axis=0)


def set_up(d: int = 1_000_000) -> float:
    weights = 10.0 ** np.random.default_rng(1).uniform(-12, 0, d)
    return least(lambda: es.WeightedChiSquare(weights), 7)


def measured() -> Iterator[Measured]:
    yield Measured("calibration, worst of 1000 random budgets", float(calibration_times(3).max()), 1, "ms")
    yield Measured("weighted chi-square, set-up at d = 10^6", set_up(), 30, "ms")


def calibration() -> None:
    times = calibration_times()
    print(f"es.calibrate, 1000 random budgets       median {np.median(times):.3f} ms, worst {times.max():.3f} ms")


def chi_square() -> None:
    rng = np.random.default_rng(1)
    for d, repeats in ((10, 50), (100, 50), (1000, 20), (1_000_000, 5)):
        weights = 10.0 ** rng.uniform(-12, 0, d)
        law = es.WeightedChiSquare(weights)
        own = least(lambda law=law: law.isf(1e-6), repeats)
        whole = least(lambda weights=weights: es.WeightedChiSquare(weights).isf(1e-6), repeats)
        plain = least(lambda d=d: chi2(d).isf(1e-6), repeats)
        print(f"isf(1e-6), d = {d:>9,}  {own:8.3f} ms, with set-up {whole:8.3f} ms, {own / plain:6.1f} x chi2")


def friendly() -> None:
    rows = np.random.default_rng(2).normal(size=(10_000, 100))
    own = least(lambda: es.friendly_mean(rows, 25.0, epsilon=1, delta=1e-6), 3)
    plain = least(lambda: rows @ rows.T, 3)
    print(f"es.friendly_mean, 10^4 x 100            {own / 1e3:8.2f} s, {own / plain:6.1f} x rows @ rows.T")


def main() -> None:
    calibration()
    chi_square()
    friendly()


if __name__ == "__main__":
    main()
