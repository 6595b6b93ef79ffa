"""Time of the private accumulation as a ratio to numpy's X.sum(axis=0), measured in turns on the same array.

Run: python -m benchmarks.speed.accumulate [--repeats 9] [--entries 100000000] [--columns 100 1000]
Minima over the repeats are compared: with one thread, seconds of the processor; with two, seconds that pass, which
count only where nothing else runs. With two threads numpy still runs on one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ellipsum.kernels.accumulate import accumulate
from ellipsum.row_maps.maps import ClampedMap, EllipsoidMap

from .._table import Measured, processor
from ._plain import plain_loops, plain_run
from ._race import Runs, least_seconds

COLUMNS = (100, 1000, 10_000, 10)
TARGETS = {"float64": (1.25, 0.80), "float32": (1.35, 0.80)}  # with one thread, with two
GRID_BITS = 40
REACH = 8.0  # of a Box around standard normal rows: none is outside


def ball(columns: int) -> EllipsoidMap:
    """About half of standard normal rows are clipped."""
    return EllipsoidMap(np.full(columns, 0.01), np.full(columns, columns**-0.5), grid_bits=GRID_BITS)


def box(columns: int) -> ClampedMap:
    limit = 1 << GRID_BITS
    bounds = np.full(columns, 0.01 - REACH), np.full(columns, 0.01 + REACH)
    scale, limits = np.full(columns, limit / REACH), np.full(columns, limit + 1)
    return ClampedMap(np.full(columns, 0.01), scale, limits, bounds, grid_bits=GRID_BITS)


def _runs(row_map: Any, data: Any) -> dict[str, Callable[[], object]]:
    accumulate(row_map, [data[:100]], threads=1)
    return {
        "1": lambda: accumulate(row_map, [data], threads=1),
        "2": lambda: accumulate(row_map, [data], threads=2),
    }


def _plain(data: Any) -> dict[str, Callable[[], object]]:
    loops = plain_loops() if data.dtype == np.float64 else None
    if loops is None:
        return {}
    columns = data.shape[1]
    maps = {"Ball": (loops.plain_ball, ball(columns)), "Box": (loops.plain_box, box(columns))}
    bound = float(1 << GRID_BITS)
    return {f"{name} C": plain_run(loop, data, m.center, m.scale, bound) for name, (loop, m) in maps.items()}


def shape(rows: int, columns: int, kind: Any, repeats: int) -> Iterator[Measured]:
    """Sums of rows of one shape against numpy's."""
    data = np.random.default_rng(0).standard_normal((rows, columns), dtype=kind)
    runs = {"numpy": lambda: data.sum(axis=0), **_plain(data)}
    for name, row_map in (("Ball", ball(columns)), ("Box", box(columns))):
        runs.update({f"{name} {threads}": run for threads, run in _runs(row_map, data).items()})
    ratios = _ratios(runs, repeats)
    what = f"{rows:,} x {columns:,} {np.dtype(kind).name}"
    for name in ("Ball", "Box"):
        for threads, target in zip("12", TARGETS[np.dtype(kind).name], strict=True):
            ratio = ratios[f"{name} {threads}"]
            words = f"sum, {what}, {name}, {threads} thread{'s'[: threads == '2']}"
            yield Measured(words, ratio, target, shared=threads == "2")
        if f"{name} C" in ratios:
            yield Measured(f"  a plain C loop, {what}, {name}", ratios[f"{name} C"])


def _ratios(runs: Runs, repeats: int) -> dict[str, float]:
    """Seconds against numpy's; of the processor, but for runs of two threads."""
    least = least_seconds(runs, repeats)
    kind = {name: 0 if name.endswith("2") else 1 for name in runs}
    return {name: least[name][kind[name]] / least["numpy"][kind[name]] for name in runs}


def square_matrix(rows: int, columns: int, repeats: int) -> Iterator[Measured]:
    """The matrix map against numpy's centered product, which needs a second array and no integers."""
    generator = np.random.default_rng(1)
    data = generator.standard_normal((rows, columns))
    matrix = generator.standard_normal((columns, columns)) / columns
    row_map = EllipsoidMap(np.full(columns, 0.01), matrix=matrix, grid_bits=GRID_BITS)
    ratios = _ratios({"numpy": lambda: (data - 0.01) @ matrix.T, **_runs(row_map, data)}, repeats)
    for threads, target in (("1", 2.0), ("2", None)):
        what = f"matrix map, {rows:,} x {columns}, {threads} thread{'s'[: threads == '2']}"
        yield Measured(what, ratios[threads], target, shared=threads == "2")


def measured(entries: int, repeats: int, columns: tuple[int, ...] = COLUMNS) -> Iterator[Measured]:
    for width in columns:
        for kind in (np.float64, np.float32):
            yield from shape(entries // width, width, kind, repeats)
    yield from square_matrix(entries // 1000, 100, repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--entries", type=int, default=10**8, help="rows x columns of each array")
    parser.add_argument("--columns", type=int, nargs="*", default=list(COLUMNS))
    arguments = parser.parse_args()
    print(processor())
    for row in measured(arguments.entries, arguments.repeats, tuple(arguments.columns)):
        print(row.line, flush=True)


if __name__ == "__main__":
    main()
