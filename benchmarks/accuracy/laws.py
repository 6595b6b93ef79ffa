"""Forecast and measured squared error of the law that plans choose, against Gaussian noise.

    python -m benchmarks.accuracy.laws [--runs 2000]

Equal widths (or a ball), epsilon 1, delta 1e-6, `missing="center"`, nothing counted; `with counts` is the same ratio
where absences and what lies outside are counted beside the values, as they are unless one says otherwise. `measured` is
the squared error of `runs` releases over the forecast. Then the forecast for the demo's columns. Fails (exit code 1)
where a ratio or that forecast is above `most`.
"""

from __future__ import annotations

import argparse
import math
import sys

import numpy as np

import ellipsum as es
from ellipsum.apps.demo import BOUNDS

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
PLAIN = {"missing": "center", "check": False}
DIMENSIONS = (1, 2, 4, 8, 16, 32, 64, 128)
MOST = {
    "box": (0.115, 0.115, 0.143, 0.213, 0.36, 0.66, 0.90, 0.95),
    "ball": (0.114, 0.17, 0.28, 0.46, 0.66, 0.81, 0.90, 0.95),
}
MOST_IN_DEMO, DEMO_ROWS = 27.0, 20_000
N = 1000


def ratio(rows: es.Box | es.Ball, d: int, **words: object) -> tuple[str, float, es.Plan]:
    """The chosen law, and its forecast over the Gaussian's."""
    terms = {"n": N, "d": d, "statistic": "mean", **BUDGET, **words}
    best, gaussian = es.plan(rows, **terms), es.plan(rows, noise="gaussian", **terms)
    return best.mechanism, best.expected_squared_error / gaussian.expected_squared_error, best


def measured(plan: es.Plan, data: np.ndarray, runs: int) -> float:
    """Measured squared error over the forecast."""
    truth = data.mean(axis=0)
    rng = np.random.default_rng(11)
    errors = [np.sum((plan.release(data, rng).value - truth) ** 2) for _ in range(runs)]
    return float(np.mean(errors)) / plan.expected_squared_error


def demo_forecast() -> float:
    terms = {"n": DEMO_ROWS, "statistic": "mean", "weights": "equal", "missing": "center", **BUDGET}
    return math.sqrt(es.plan(es.Box(BOUNDS), **terms).expected_squared_error)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=2000)
    runs = parser.parse_args().runs
    print(f"{'rows':<6}{'d':>5}  {'law':<9}{'/ gaussian':>11}{'most':>8}{'measured':>10}{'with counts':>13}")
    held = True
    for name, rows in (("box", es.Box(0.0, 1.0)), ("ball", es.Ball(1.0))):
        for d, most in zip(DIMENSIONS, MOST[name], strict=True):
            law, share, plan = ratio(rows, d, **PLAIN)
            data = np.full((N, d), 0.5 if name == "box" else 0.1 / d)
            honest = ratio(rows, d, check=True)[1]
            held &= share <= most
            found = f"{share:>11.4f}{most:>8.3f}{measured(plan, data, runs):>10.3f}{honest:>13.4f}"
            print(f"{name:<6}{d:>5}  {law:<9}{found}", flush=True)
    forecast = demo_forecast()
    held &= forecast <= MOST_IN_DEMO
    print(f"the demo's columns: forecast {forecast:.4g}, at most {MOST_IN_DEMO:g}")
    print(f"{'holds' if held else 'FAILS'}  every ratio is at most what was promised")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
