"""What a release gains from two laws at once: noise in blocks for its widest columns, Gaussian noise for the rest.

    python -m benchmarks.accuracy.mixed [--epsilon 1] [--delta 1e-6] [--runs 200]

Squared errors of a sum of box rows, columns of equal importance (an importance a counts as sqrt(a) of width), one row
replaced, nothing counted. `gaussian`, `ball` and `blocks` are the laws by themselves; `mixed` has the widest k columns
in blocks at epsilon_1 and the others under elliptical Gaussian noise at the largest mu that exact composition leaves,
k and epsilon_1 of least error. All in units of the Gaussian's error; `gain` is the best single law over mixed. `law` is
the one that a plan takes, `forecast` its gain over the best single law, `measured` the same from releases that were
drawn. Tables with names are in plain units, `weights="equal"`; in relative ones, which named columns have unless one
says otherwise, all widths are alike (`equal`).
"""

from __future__ import annotations

import argparse
import math

import numpy as np

import ellipsum as es
from ellipsum.noise.block_law import choose_blocks
from ellipsum.numerics.roots import root
from ellipsum.privacy.budget_split import beside
from ellipsum.privacy.gaussian_curve import certified_mu
from ellipsum.privacy.spherical_curve import certified_ratio

SHARES = np.concatenate([np.linspace(0.05, 0.9, 18), [0.93, 0.96, 0.98, 0.99, 0.998]])
WORTH = 1.1
SEED = 20
INCOME, AGE, COUNT, FLAG = 250_000.0, 100.0, 20.0, 1.0


def widths() -> dict[str, np.ndarray]:
    steep = {
        f"j^-{power:g}, {d} columns": np.arange(1, d + 1) ** -power
        for power in (1.0, 1.5, 2.0, 3.0)
        for d in (30, 100, 1000)
    }
    few = {
        f"{k} of width {wide:g}, {d} of 1": np.concatenate([np.full(k, wide), np.ones(d)])
        for k in (1, 3, 10)
        for wide in (10.0, 100.0)
        for d in (100, 1000)
    }
    return steep | few | tables()


def tables() -> dict[str, np.ndarray]:
    """Tables as people have them, widths in plain units; and the same in relative ones."""

    def of(**columns: int) -> np.ndarray:
        wide = {"incomes": INCOME, "ages": AGE, "counts": COUNT, "flags": FLAG}
        return np.concatenate([np.full(many, wide[name]) for name, many in columns.items()])

    return {
        "3 incomes, 100 flags": of(incomes=3, flags=100),
        "3 incomes, 1000 flags": of(incomes=3, flags=1000),
        "2 ages, 30 flags": of(ages=2, flags=30),
        "2 ages, 100 flags": of(ages=2, flags=100),
        "2 ages, 8 counts, 100 flags": of(ages=2, counts=8, flags=100),
        "20 counts, 100 flags": of(counts=20, flags=100),
        "incomes, ages, counts, flags": of(incomes=2, ages=3, counts=10, flags=60),
        "equal, 30 columns": np.ones(30),
        "equal, 103 columns": np.ones(103),
    }


def mu_beside(first: float, epsilon: float, delta: float) -> float:
    """The largest mu beside a pure step, (epsilon, delta) together: a good estimate."""
    most = certified_mu(epsilon, delta)

    def excess(mu: float) -> float:
        return math.log(max(float(beside(np.array(mu), np.array(first), epsilon)), 1e-320) / delta)

    return root(excess, 1e-3 * most, most, 1e-6 * most)


def mixed(sizes: np.ndarray, epsilon: float, curve: list[tuple[float, float]]) -> tuple[float, int, float]:
    """(least error, columns in blocks, their epsilon)."""
    best = (math.inf, 0, 0.0)
    counts = sorted({min(int(k), sizes.size - 1) for k in np.unique(np.geomspace(1, sizes.size, 24).round())})
    for k in counts:
        blocks = choose_blocks(sizes[:k], np.ones(k), 1.0).error
        rest = float(sizes[k:].sum()) ** 2
        for first, mu in curve:
            best = min(best, (blocks / first**2 + rest / mu**2, k, first / epsilon))
    return best


def planned(sizes: np.ndarray, epsilon: float, delta: float, noise: str) -> es.Plan:
    rows = es.Box(np.zeros(sizes.size), sizes)
    return es.plan(rows, n=1, epsilon=epsilon, delta=delta, noise=noise, missing="center", check=False)


def built(sizes: np.ndarray, epsilon: float, delta: float, runs: int) -> tuple[str, float, float]:
    """(law of the plan, forecast gain over the best single law, the same measured)."""
    plan = planned(sizes, epsilon, delta, "auto")
    if plan.mechanism != "mixed":
        return plan.mechanism, 1.0, 1.0
    others = [planned(sizes, epsilon, delta, noise) for noise in ("gaussian", "norm")]
    single = min(others, key=lambda other: other.expected_squared_error)
    forecast = single.expected_squared_error / plan.expected_squared_error
    return plan.mechanism, forecast, measured(single, runs) / measured(plan, runs)


def measured(plan: es.Plan, runs: int) -> float:
    """The mean squared error of releases of a sum of zero."""
    rng, rows = np.random.default_rng(SEED), np.zeros((1, plan.d))
    return float(np.mean([np.sum(plan.release(rows, rng).value ** 2) for _ in range(runs)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--runs", type=int, default=200)
    given = parser.parse_args()
    epsilon, delta = given.epsilon, given.delta
    mu = certified_mu(epsilon, delta)
    curve = [(share * epsilon, mu_beside(share * epsilon, epsilon, delta)) for share in SHARES.tolist()]
    worth = []
    print(
        f"{'widths':<30}{'ball':>8}{'blocks':>8}{'mixed':>8}{'gain':>7}{'k':>6}{'epsilon_1':>11}{'law':>10}{'forecast':>10}{'measured':>10}"
    )
    for name, sizes in widths().items():
        unit = float(sizes.sum()) ** 2 / mu**2
        ball = (sizes.size + 1) * (mu / certified_ratio(epsilon, delta, sizes.size)) ** 2
        blocks = choose_blocks(sizes, np.ones(sizes.size), epsilon).error / unit
        error, k, first = mixed(sizes, epsilon, curve)
        gain = min(1.0, ball, blocks) * unit / error
        worth += [(gain, name)] if gain > WORTH else []
        law, forecast, drawn = built(sizes, epsilon, delta, given.runs)
        best = f"{ball:>8.3f}{blocks:>8.3f}{error / unit:>8.3f}{gain:>7.2f}{k:>6}{first:>11.2f}"
        print(f"{name:<30}{best}{law:>10}{forecast:>10.2f}{drawn:>10.2f}", flush=True)
    print(f"gains of more than a tenth: {len(worth)} of {len(widths())}")
    for gain, name in sorted(worth, reverse=True):
        print(f"  {gain:.2f}  {name}")


if __name__ == "__main__":
    main()
