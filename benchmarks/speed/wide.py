"""Plans and releases of very many columns, beside numpy's normal generator for as many numbers.

Seconds of the processor. Two rows: what is measured is what follows the sum. A release of a Box has one more number
for each column, its missing values, unless nothing is counted beside the values.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

import ellipsum as es

from .._table import Measured
from ..growth import measure

COLUMNS = 2_000_000
PLAN, MEMORY = 1.0, 20.0  # seconds for 10^6 columns; vectors of doubles
BARE = {"missing": "none", "count_clipped": False}  # nothing is counted beside the values


def least_seconds(call: Callable[[], object], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        begin = time.process_time()
        call()
        best = min(best, time.process_time() - begin)
    return best


def measured(repeats: int, columns: int = COLUMNS) -> Iterator[Measured]:
    rng = np.random.default_rng(0)
    data = rng.uniform(-1, 1, (2, columns))
    normals = least_seconds(lambda: rng.normal(size=columns), 9)
    box, ball = es.Box(np.full(columns, -1.0), np.full(columns, 1.0)), es.Ball(columns**0.5 / 2)
    for name, bounds, options, most in (("Box", box, {}, 8), ("Box, no counts", box, BARE, 3), ("Ball", ball, {}, 8)):
        make = partial(es.plan, "mean", bounds, n=len(data), d=columns, epsilon=1, delta=1e-6, **options)
        planned = least_seconds(make, 1)
        took = least_seconds(partial(make().release, data), repeats)
        yield Measured(f"release of {columns:,} columns, {name}, in normals", took / normals, most)
        yield Measured(f"plan for {columns:,} columns, {name}, per 10^6", planned * 1e6 / columns, PLAN, "s")
    found = measure("wide", columns)
    if found is not None:
        vectors = found["megabytes"] * 2**20 / (8 * columns)
        yield Measured(f"release of {columns:,} columns, Box, memory in vectors", vectors, MEMORY)
