"""Plans and releases of very many columns, beside numpy's normal generator for as many numbers.

    python -m benchmarks.speed.wide [--columns 2000000]

Time of the processor, so that other processes do not count. Two rows: what is measured is what follows the sum.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

import ellipsum as es

from .._table import Measured

COLUMNS = 2_000_000
PLAN = 1.0  # seconds for 10^6 columns
BARE = {"missing": "center", "check": False}  # nothing is counted beside the values


def least_seconds(call: Callable[[], object], repeats: int = 3) -> float:
    best = float("inf")
    for _ in range(repeats):
        begin = time.process_time()
        call()
        best = min(best, time.process_time() - begin)
    return best


def measured(columns: int = COLUMNS) -> Iterator[Measured]:
    rng = np.random.default_rng(0)
    data = rng.uniform(-1, 1, (2, columns))
    normals = least_seconds(lambda: rng.normal(size=columns), 9)
    box, ball = es.Box(np.full(columns, -1.0), np.full(columns, 1.0)), es.Ball(columns**0.5 / 2)
    for name, bounds, options, most in (("Box", box, {}, 8), ("Box, no counts", box, BARE, 3), ("Ball", ball, {}, 8)):
        make = partial(es.plan, bounds, statistic="mean", n=len(data), d=columns, epsilon=1, delta=1e-6, **options)
        planned = least_seconds(make, 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # so few rows
            took = least_seconds(partial(make().release, data))
        yield Measured(f"release of {columns:,} columns, {name}, in normals", took / normals, most)
        yield Measured(f"plan for {columns:,} columns, {name}, per 10^6", planned * 1e6 / columns, PLAN, "s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, default=COLUMNS)
    for one in measured(parser.parse_args().columns):
        print(one.line)


if __name__ == "__main__":
    main()
