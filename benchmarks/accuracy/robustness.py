"""What a wrong assumption about `Normal` rows costs: larger tables than that of docs/guides/normal.md.

Run: python -m benchmarks.accuracy.robustness
Root mean square error of a private mean, all coordinates together, in units of the rows' own spread
(sqrt of the summed variances), epsilon = 1, delta = 1e-6, for the sources' rule and for three values of center_error.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import ellipsum as es

TERMS = {"epsilon": 1.0, "delta": 1e-6}
SETTINGS = ((20, 2_000, 1.0), (10, 10_000, 0.5), (100, 20_000, 0.0))
REPEATS = 20
Draw = Callable[[np.random.Generator], np.ndarray]


def laws(n: int, stds: np.ndarray) -> dict[str, Draw]:
    shape = (n, stds.size)
    return {
        "normal, as stated": lambda rng: rng.standard_normal(shape) * stds,
        "t with 3 degrees": lambda rng: rng.standard_t(3, shape) / np.sqrt(3) * stds,
        "exponential": lambda rng: (rng.exponential(1, shape) - 1) * stds,
        "std twice as large": lambda rng: 2 * rng.standard_normal(shape) * stds,
        "std half as large": lambda rng: 0.5 * rng.standard_normal(shape) * stds,
        "center off by 0.3 std": lambda rng: (0.3 + rng.standard_normal(shape)) * stds,
        "center off by 1 std": lambda rng: (1 + rng.standard_normal(shape)) * stds,
        "center off by 3 std": lambda rng: (3 + rng.standard_normal(shape)) * stds,
    }


def error(plan: es.Plan, draw: Draw) -> float:
    """Root mean square error of the mean over fresh data sets."""
    rng = np.random.default_rng(1)
    squares = []
    for _ in range(REPEATS):
        x = draw(rng)
        squares.append(np.sum((plan.release(x, rng=rng).value - x.mean(axis=0)) ** 2))
    return float(np.sqrt(np.mean(squares)))


def main() -> None:
    for d, n, alpha in SETTINGS:
        stds = np.arange(1, d + 1.0) ** -alpha
        spread = float(np.linalg.norm(stds))
        source = es.plan("mean", es.Normal(0.0, std=stds, shape="closed_form", clip="quantile"), n=n, **TERMS)
        plans = {"sources' rule": source}
        for value in (0.1, 0.3, 0.5):
            rows = es.Normal(0.0, std=stds, center_error=value)
            plans[f"center_error {value:g}"] = es.plan("mean", rows, n=n, **TERMS)
        print(f"\nd = {d}, n = {n}, stds i^-{alpha:g}")
        print("| rows really are | " + " | ".join(plans) + " |")
        print("| --- |" + " ---: |" * len(plans))
        for name, draw in laws(n, stds).items():
            cells = " | ".join(f"{error(plan, draw) / spread:.4f}" for plan in plans.values())
            print(f"| {name} | {cells} |")


if __name__ == "__main__":
    main()
