"""Sums from files, beside pyarrow's own reading of the same columns."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import ellipsum as es

from .._table import Measured
from ._race import least_ratio

COLUMNS = [f"c{j}" for j in range(10)]
CSV, PARQUET = 1.5, 1.25


def make_table(rows: int) -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table({name: rng.normal(size=rows) for name in COLUMNS})


def scan(path: Path) -> None:
    with pq.ParquetFile(path) as file:
        for _ in file.iter_batches(columns=COLUMNS):
            pass


def read(path: Path) -> object:
    return pyarrow.csv.read_csv(path, convert_options=pyarrow.csv.ConvertOptions(include_columns=COLUMNS))


def release(path: Path) -> object:
    return es.sum(path, es.Box(-4, 4), epsilon=1, delta=1e-6, columns=COLUMNS)


def measured(repeats: int, csv_rows: int = 1_000_000, parquet_rows: int = 5_000_000) -> Iterator[Measured]:
    with tempfile.TemporaryDirectory() as name:
        table = Path(name) / "rows.csv"
        pyarrow.csv.write_csv(make_table(csv_rows), table)
        ratio = least_ratio(partial(release, table), partial(read, table), repeats)
        yield Measured(f"sum of {csv_rows:,} x {len(COLUMNS)}, CSV", ratio, CSV, shared=True)
        rows = Path(name) / "rows.parquet"
        pq.write_table(make_table(parquet_rows), rows, row_group_size=500_000)
        ratio = least_ratio(partial(release, rows), partial(scan, rows), repeats)
        yield Measured(f"sum of {parquet_rows:,} x {len(COLUMNS)}, Parquet", ratio, PARQUET, shared=True)
