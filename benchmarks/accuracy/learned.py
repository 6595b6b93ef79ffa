"""What it costs to learn the rows first and release later, against one release that learns on its way.

    python -m benchmarks.accuracy.learned [--runs 40] [--tables diabetes,lognormal] [--epsilon 1] [--seed 1]

Learned: `es.learn` at half of the budget, then `es.mean` with the learned rows at the other half. At once: `es.mean`
with Unknown rows at the whole. Errors are root mean squares over runs and columns, each column in its own std; the
ratio is of those, and the median and the largest ratio of a single column stand beside it.
Fails (exit code 1) where learning first has more than 1.5 times the error.
"""

from __future__ import annotations

import argparse
import sys
import warnings

import numpy as np

import ellipsum as es

from ._tables import LOADERS, SEED, Table, installed, load
from .coverage import chosen

MOST = 1.5
USUAL = ["diabetes", "digits", "lognormal", "missing_at_random", "mixed_units"]


def at_once(table: Table, budget: es.Budget, rng: np.random.Generator) -> np.ndarray:
    return es.mean(table.data, table.rows("unknown"), budget=budget, rng=rng, threads=1).value


def learned(table: Table, budget: es.Budget, rng: np.random.Generator) -> np.ndarray:
    first, second = budget.split(1, 1)
    rows = es.learn(table.data, table.rows("unknown"), budget=first, rng=rng, threads=1).rows
    return es.mean(table.data, rows, budget=second, rng=rng, threads=1).value


def errors(table: Table, budget: es.Budget, runs: int, seed: int) -> np.ndarray:
    """Root mean square errors of each column in its own std: learned, and at once."""
    values = [
        [way(table, budget, np.random.default_rng([seed, run, place])) for place, way in enumerate((learned, at_once))]
        for run in range(runs)
    ]
    relative = (np.array(values) - table.mean) / table.std
    return np.asarray(np.sqrt(np.mean(relative**2, axis=0)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--tables", type=lambda text: chosen(text, tuple(LOADERS)), default=USUAL)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--seed", type=int, default=SEED, help="another one shows what is chance")
    given = parser.parse_args()
    budget = es.Budget(epsilon=given.epsilon, delta=given.delta)
    tables = installed(given.tables)
    ratios = []
    print(f"{'table':20}{'n':>7}{'d':>4}{'learned':>10}{'at once':>10}{'ratio':>8}{'median':>8}{'largest':>9}")
    for table in map(load, tables):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", es.AccuracyWarning)
            columns = errors(table, budget, given.runs, given.seed)
        first, whole = np.sqrt(np.mean(columns**2, axis=1))
        each = columns[0] / columns[1]
        ratios.append(first / whole)
        size = f"{table.name:20}{table.n:>7}{len(table.columns):>4}{first:>10.4g}{whole:>10.4g}"
        print(f"{size}{ratios[-1]:>8.2f}{np.median(each):>8.2f}{each.max():>9.2f}", flush=True)
    held = all(ratio <= MOST for ratio in ratios)
    print(f"{'holds' if held else 'FAILS'}  learning first has at most {MOST} times the error of one release")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
