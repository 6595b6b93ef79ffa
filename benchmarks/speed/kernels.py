"""Sums with default options beside numpy's `X.sum(axis=0)` of the same array, and beside a plain C loop.

With one thread seconds of the processor are compared, with two those that pass; numpy runs on one either way. The
target is what the C loop takes where that is more. All entries are within their bounds, and half of the rows are
outside the Ball; one line says what it costs that 5% of the entries are outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

import ellipsum as es
from ellipsum.kernels.accumulate import accumulate

from .._table import Measured
from ._plain import plain_loops, plain_run
from ._race import least_seconds

COLUMNS = (100, 1000, 10_000, 10)
ONE, TWO = 1.10, 0.80
GRID = 2.0**40
Call = Callable[[], object]


def plain_calls(data: Any) -> dict[str, Call]:
    """The C loops over all rows, and over halves of them in two threads."""
    loops = plain_loops("double" if data.dtype == np.float64 else "float")
    if loops is None:
        return {}
    columns, half = data.shape[1], len(data) // 2
    center, scale = np.full(columns, 0.01), np.full(columns, columns**-0.5)
    calls: dict[str, Call] = {}
    for name, loop in (("Box", loops.plain_box), ("Ball", loops.plain_ball)):
        one, *halves = (plain_run(loop, part, center, scale, GRID) for part in (data, data[:half], data[half:]))
        calls |= {f"{name} C 1": one, f"{name} C 2": partial(side_by_side, halves)}
    return calls


def side_by_side(calls: list[Call]) -> None:
    with ThreadPoolExecutor(len(calls)) as pool:
        for done in [pool.submit(call) for call in calls]:
            done.result()


def shape(rows: int, columns: int, kind: Any, repeats: int) -> Iterator[Measured]:
    data = np.random.default_rng(0).standard_normal((rows, columns), dtype=kind)
    runs: dict[str, Call] = {"numpy": lambda: data.sum(axis=0), **plain_calls(data)}
    for name, bounds in (("Box", es.Box(-8, 8)), ("Ball", es.Ball(columns**0.5)), ("Box outside", es.Box(-2, 2))):
        plan = es.plan("mean", bounds, n=rows, d=columns, epsilon=1, delta=1e-6)
        for threads in (1, 2) if name in ("Box", "Ball") else (1,):
            runs[f"{name} {threads}"] = partial(accumulate, plan.row_map, [data], threads)
    least = least_seconds(runs, repeats)
    ratios = {name: least[name][name[-1] != "2"] / least["numpy"][name[-1] != "2"] for name in runs}
    what = f"{rows:,} x {columns:,} {np.dtype(kind).name}"
    for name in ("Box", "Ball"):
        for threads, most in ((1, ONE), (2, TWO)):
            reached = ratios.get(f"{name} C {threads}", 0.0)
            words = f"sum, {what}, {name}, {threads} thread{'s'[: threads > 1]}"
            yield Measured(words, ratios[f"{name} {threads}"], max(most, round(reached, 2)), shared=threads > 1)
    yield Measured(f"  5% of entries outside, {what}, Box", ratios["Box outside 1"])


def measured(repeats: int, entries: int = 10**8, columns: tuple[int, ...] = COLUMNS) -> Iterator[Measured]:
    for width in columns:
        for kind in (np.float64, np.float32):
            yield from shape(entries // width, width, kind, repeats)
