"""Time of the private accumulation as a ratio to numpy's X.sum(axis=0), measured in turns on the same array.

Run: python -m benchmarks.speed.accumulate [--repeats 7] [--entries 100000000] [--json]
Minima over the repeats are compared. With two threads numpy still runs on one.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

from ellipsum.accumulate import accumulate
from ellipsum.row_maps import EllipsoidMap

from ._race import least_times

COLUMNS = (100, 1000, 10_000, 10)
KINDS: tuple[Any, ...] = (np.float64, np.float32)


def diagonal(rows: int, columns: int, kind: Any, repeats: int) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    data = generator.standard_normal((rows, columns), dtype=kind)
    scale = np.full(columns, columns**-0.5)  # about half of the rows are clipped
    row_map = EllipsoidMap(np.full(columns, 0.01), scale, grid_bits=40)
    accumulate(row_map, [data[:100]], threads=1)
    least = least_times(
        {
            "numpy": lambda: data.sum(axis=0),
            "one": lambda: accumulate(row_map, [data], threads=1),
            "two": lambda: accumulate(row_map, [data], threads=2),
        },
        repeats,
    )
    return {
        "map": "diagonal",
        "rows": rows,
        "columns": columns,
        "kind": np.dtype(kind).name,
        "numpy_ms": round(1e3 * least["numpy"], 1),
        "one_thread": round(least["one"] / least["numpy"], 3),
        "two_threads": round(least["two"] / least["numpy"], 3),
    }


def square_matrix(rows: int, columns: int, repeats: int) -> dict[str, Any]:
    """The matrix map against numpy's centred product, which needs a second array and no integers."""
    generator = np.random.default_rng(1)
    data = generator.standard_normal((rows, columns))
    matrix = generator.standard_normal((columns, columns)) / columns
    row_map = EllipsoidMap(np.full(columns, 0.01), matrix=matrix, grid_bits=40)
    accumulate(row_map, [data[:100]], threads=1)
    least = least_times(
        {
            "numpy": lambda: (data - 0.01) @ matrix.T,
            "one": lambda: accumulate(row_map, [data], threads=1),
            "two": lambda: accumulate(row_map, [data], threads=2),
        },
        repeats,
    )
    return {
        "map": "matrix",
        "rows": rows,
        "columns": columns,
        "kind": "float64",
        "numpy_ms": round(1e3 * least["numpy"], 1),
        "one_thread": round(least["one"] / least["numpy"], 3),
        "two_threads": round(least["two"] / least["numpy"], 3),
    }


def small_call(repeats: int) -> dict[str, Any]:
    """A call on 1000 x 10, everything included, against numpy's sum."""
    data = np.random.default_rng(2).standard_normal((1000, 10))
    row_map = EllipsoidMap(np.zeros(10), np.full(10, 0.3), grid_bits=40)
    accumulate(row_map, [data])
    least = least_times({"numpy": lambda: data.sum(axis=0), "call": lambda: accumulate(row_map, [data])}, 100 * repeats)
    return {
        "map": "small call",
        "rows": 1000,
        "columns": 10,
        "microseconds": round(1e6 * least["call"], 1),
        "ratio": round(least["call"] / least["numpy"], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--entries", type=int, default=10**8, help="rows x columns of each array")
    parser.add_argument("--columns", type=int, nargs="*", default=list(COLUMNS))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results = [small_call(arguments.repeats)]
    for columns in arguments.columns:
        rows = arguments.entries // columns
        results += [diagonal(rows, columns, kind, arguments.repeats) for kind in KINDS]
    results.append(square_matrix(arguments.entries // 1000, 100, arguments.repeats))
    for result in results:
        print(json.dumps(result) if arguments.json else "  ".join(f"{k} {v}" for k, v in result.items()))


if __name__ == "__main__":
    main()
