"""Private medians of skewed columns, by subsample and aggregate.

    python examples/private_medians.py

A mean of incomes says little; the median says more, and no bound on an income is needed: only how far apart the
medians of two blocks may be. The table is made up, so that the true medians can be shown beside the private ones.
"""

from __future__ import annotations

import numpy as np

import ellipsum as es

EPSILON, DELTA, ROWS, BLOCKS = 1.0, 1e-6, 60_000, 600
COLUMNS = ("income", "rent", "savings")


def invent(rng: np.random.Generator) -> np.ndarray:
    """Log-normal incomes and rents, Cauchy-tailed savings: the means of these are useless or do not exist."""
    income = np.exp(rng.normal(10.3, 0.6, ROWS))
    rent = income * rng.beta(4, 8, ROWS)
    savings = 8000 + 3000 * rng.standard_cauchy(ROWS)
    return np.stack([income, rent, savings], axis=1)


def in_tens_of_thousands(block: np.ndarray) -> np.ndarray:
    return np.median(block, axis=0) / 1e4


def main() -> None:
    rows = invent(np.random.default_rng(0))
    release = es.subsample_and_aggregate(
        in_tens_of_thousands, rows, blocks=BLOCKS, radius=(0.01, 10.0), epsilon=EPSILON, delta=DELTA, names=COLUMNS
    )
    if not release:
        print(release)
        return
    print(f"epsilon = {EPSILON:g}, delta = {DELTA:g}; {ROWS} rows in {BLOCKS} blocks")
    print(f"radius found privately: {1e4 * release.plan.radius:.0f}\n")
    print(f"{'':>8} {'private':>10} {'noise std':>10} {'true':>10} {'mean':>12}")
    for j, name in enumerate(COLUMNS):
        private, noise = 1e4 * release.value[j], 1e4 * release.noise_std[j]
        print(f"{name:>8} {private:10.0f} {noise:10.0f} {np.median(rows[:, j]):10.0f} {rows[:, j].mean():12.0f}")


if __name__ == "__main__":
    main()
