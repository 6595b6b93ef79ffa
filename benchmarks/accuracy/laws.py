"""Forecast and measured squared error of the law that plans choose, against Gaussian noise.

    python -m benchmarks.accuracy.laws [--runs 2000]

Equal widths (or a ball), epsilon 1, delta 1e-6, `missing="center"`, nothing counted; then what counting absences and
cells outside adds. `measured` is the squared error of `runs` releases of zero rows' worth of signal over the forecast.
"""

from __future__ import annotations

import argparse

import numpy as np

import ellipsum as es

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
PLAIN = {"missing": "center", "check": False}
DIMENSIONS = (1, 2, 4, 8, 16, 32, 64, 128)
N = 1000


def ratio(rows: es.Box | es.Ball, d: int, **words: object) -> tuple[str, float, es.Plan]:
    """The chosen law, and its forecast over the Gaussian's."""
    terms = {"n": N, "d": d, "statistic": "mean", **BUDGET, **words}
    best, gaussian = es.plan(rows, **terms), es.plan(rows, noise="gaussian", **terms)
    return best.law_name, best.expected_squared_error / gaussian.expected_squared_error, best


def measured(plan: es.Plan, data: np.ndarray, runs: int) -> float:
    """Measured squared error over the forecast."""
    truth = data.mean(axis=0)
    rng = np.random.default_rng(11)
    errors = [np.sum((plan.release(data, rng).value - truth) ** 2) for _ in range(runs)]
    return float(np.mean(errors)) / plan.expected_squared_error


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=2000)
    runs = parser.parse_args().runs
    print(f"{'rows':<6}{'d':>5}  {'law':<9}{'/ gaussian':>11}{'measured':>10}{'with counts':>13}")
    for name, rows in (("box", es.Box(0.0, 1.0)), ("ball", es.Ball(1.0))):
        for d in DIMENSIONS:
            law, share, plan = ratio(rows, d, **PLAIN)
            data = np.full((N, d), 0.5 if name == "box" else 0.1 / d)
            honest = ratio(rows, d, check=True)[1]
            print(
                f"{name:<6}{d:>5}  {law:<9}{share:>11.4f}{measured(plan, data, runs):>10.3f}{honest:>13.4f}", flush=True
            )


if __name__ == "__main__":
    main()
