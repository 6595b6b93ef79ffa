"""Forecast and measured squared error of the law that plans choose, against Gaussian noise.

    python -m benchmarks.accuracy.laws [--runs 2000]

Equal widths (or a ball), epsilon 1, delta 1e-6, `missing="none"`, nothing counted; `with counts` is the same ratio
where absences and what lies outside are counted beside the values, as they are unless one says otherwise. `measured` is
the squared error of `runs` releases over the forecast. Then the forecast for the demo's columns.

Then squared errors of a sum, per column, in units of (range / epsilon)^2, for one to eight columns: Laplace noise
with epsilon / d for each column, which has 2 d^2; the chosen law with nothing counted, forecast and measured; with
clamped rows counted; with missing values counted; and by default, with both. Fails (exit code 1) where a ratio or that
forecast is above `most`, or the chosen law has a larger error than Laplace noise with nothing counted.
"""

from __future__ import annotations

import argparse
import math
import sys

import numpy as np

import ellipsum as es
from ellipsum.apps.demo import BOUNDS

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
PLAIN = {"missing": "none", "count_clipped": False}
DIMENSIONS = (1, 2, 4, 8, 16, 32, 64, 128)
MOST = {
    "box": (0.115, 0.115, 0.143, 0.213, 0.36, 0.66, 0.90, 0.95),
    "ball": (0.114, 0.17, 0.28, 0.46, 0.66, 0.81, 0.90, 0.95),
}
MOST_IN_DEMO, DEMO_ROWS = 27.0, 20_000
BESIDE_LAPLACE = range(1, 9)
N = 1000


def ratio(rows: es.Box | es.Ball, d: int, **words: object) -> tuple[str, float, es.Plan]:
    """The chosen law, and its forecast over the Gaussian's."""
    terms = {"n": N, "d": d, **BUDGET, **words}
    best, gaussian = es.plan("mean", rows, **terms), es.plan("mean", rows, noise="gaussian", **terms)
    return best.mechanism, best.expected_squared_error / gaussian.expected_squared_error, best


def measured(plan: es.Plan, data: np.ndarray, runs: int) -> float:
    """Measured squared error over the forecast."""
    truth = data.mean(axis=0)
    rng = np.random.default_rng(11)
    errors = [np.sum((plan.release(data, rng).value - truth) ** 2) for _ in range(runs)]
    return float(np.mean(errors)) / plan.expected_squared_error


def demo_forecast() -> float:
    terms = {"n": DEMO_ROWS, "error_weights": "equal", **PLAIN, **BUDGET}
    return math.sqrt(es.plan("mean", BOUNDS, **terms).expected_squared_error)


def beside_laplace(d: int, runs: int) -> tuple[str, list[float]]:
    """The chosen law with nothing counted, and squared errors per column, in units of (range / epsilon)^2."""
    cases: list[dict[str, object]] = [PLAIN, {"missing": "none"}, {"count_clipped": False}, {}]
    plans = [es.plan("mean", es.Box(0.0, 1.0), n=N, d=d, **BUDGET, **words) for words in cases]
    bare, *counted = [plan.expected_squared_error * N**2 / d for plan in plans]
    found = bare * measured(plans[0], np.full((N, d), 0.5), runs)
    return plans[0].mechanism, [2.0 * d**2, bare, found, *counted]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=2000)
    runs = parser.parse_args().runs
    print(f"{'rows':<6}{'d':>5}  {'law':<12}{'/ gaussian':>11}{'most':>8}{'measured':>10}{'with counts':>13}")
    held = True
    for name, rows in (("box", es.Box(0.0, 1.0)), ("ball", es.Ball(1.0))):
        for d, most in zip(DIMENSIONS, MOST[name], strict=True):
            law, share, plan = ratio(rows, d, **PLAIN)
            data = np.full((N, d), 0.5 if name == "box" else 0.1 / d)
            honest = ratio(rows, d, count_clipped=True)[1]
            held &= share <= most
            found = f"{share:>11.4f}{most:>8.3f}{measured(plan, data, runs):>10.3f}{honest:>13.4f}"
            print(f"{name:<6}{d:>5}  {law:<12}{found}", flush=True)
    forecast = demo_forecast()
    held &= forecast <= MOST_IN_DEMO
    print(f"the demo's columns: forecast {forecast:.4g}, at most {MOST_IN_DEMO:g}")
    heads = ("Laplace", "bare", "measured", "clamped", "missing", "default")
    print(f"{'columns':<9}{'law':<12}" + "".join(f"{head:>10}" for head in heads))
    for d in BESIDE_LAPLACE:
        law, errors = beside_laplace(d, runs)
        held &= errors[1] <= errors[0] * (1 + 1e-6)
        print(f"{d:<9}{law:<12}" + "".join(f"{error:>10.3f}" for error in errors), flush=True)
    print(f"{'holds' if held else 'FAILS'}  every ratio is at most what was promised")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
