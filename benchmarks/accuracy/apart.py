"""Means of listed groups of Unknown rows: centers of their own against the one center, at the same guarantee.

    python -m benchmarks.accuracy.apart [--groups 20] [--runs 5]

Eight columns of normal rows of spread 1, epsilon = 1 and delta = 1e-6, one row replaced. Prints, for groups whose means
lie so many spreads apart, root mean square errors over all groups and columns, the share of 95% intervals that cover,
and how often groups got centers of their own.
"""

from __future__ import annotations

import argparse
import math
import warnings
from typing import Any
from unittest import mock

import numpy as np

import ellipsum as es
from ellipsum.learning import grouped

WIDTH = 8
SIZES, BETWEEN = (1000, 10_000), (0.0, 0.5, 1.0, 2.0, 5.0)


def _table(groups: int, size: int, between: float, seed: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(groups), size)
    data = rng.normal(size=(len(codes), WIDTH)) + between * rng.normal(size=(groups, WIDTH))[codes]
    return data, codes, data.reshape(groups, size, WIDTH).mean(axis=1)


def _measured(groups: int, size: int, between: float, runs: int) -> tuple[float, float, float]:
    """(root mean square error, share of intervals that cover, share of runs with several centers)."""
    squares, covered, several = [], [], []
    for run in range(runs):
        data, codes, truth = _table(groups, size, between, run)
        made: Any = es.mean(data, es.Unknown(1e4), by=codes, keys=list(range(groups)), epsilon=1, delta=1e-6)
        low, high = np.moveaxis(made.confidence_interval(), 2, 0)
        squares.append(np.mean((made.value - truth) ** 2))
        covered.append(np.mean((low <= truth) & (truth <= high)))
        several.append(made.centers is not None)
    return math.sqrt(np.mean(squares)), float(np.mean(covered)), float(np.mean(several))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'rows':>7}{'apart':>7}{'error':>9}{'covered':>9}{'centers':>9}{'one center':>12}{'ratio':>7}")
    for size in SIZES:
        for between in BETWEEN:
            own, covered, several = _measured(given.groups, size, between, given.runs)
            with mock.patch.object(grouped, "recentered", return_value=None):
                one, _, _ = _measured(given.groups, size, between, given.runs)
            line = f"{own:9.4f}{covered:9.3f}{several:9.1f}{one:12.4f}{own / one:7.2f}"
            print(f"{size:7}{between:7.1f}{line}", flush=True)


if __name__ == "__main__":
    main()
