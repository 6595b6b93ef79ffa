"""Groups and people, from memory and through the command line, beside DuckDB's plain `group by` of the same columns.

One group or person for every ten rows, in no order; the count and four sums of each. Reading the file is part of what
the command line and DuckDB's process beside it are measured for, and so is the start of both.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import ellipsum as es

from .._table import Measured
from ._race import least_ratio, of_process

COLUMNS = [f"x{j}" for j in range(4)]
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
FROM_MEMORY, FROM_FILE, MEMORY = 2.0, 3.0, 2.0
GROUP_BY = f"select key, count(*), {', '.join(f'sum({name})' for name in COLUMNS)} from {{}} group by key"
PLAIN = "import sys, duckdb; duckdb.sql(sys.argv[1]).to_arrow_table()"
COMMAND = [sys.executable, "-m", "ellipsum", "mean"]
STATED = ["--bounds", "0:1", "--columns", ",".join(COLUMNS), "--epsilon", "1", "--delta", "1e-6"]
WAYS = {"groups": ["--by", "key", "--neighbors", "add-remove"], "people": ["--privacy-id", "key"]}


def make_table(rows: int) -> pa.Table:
    rng = np.random.default_rng(0)
    columns = {name: rng.random(rows) for name in COLUMNS}
    return pa.table({**columns, "key": rng.permutation(np.arange(rows) % (rows // 10))})


def plain(table: pa.Table) -> object:
    connection = duckdb.connect()
    connection.register("rows", table)
    return connection.sql(GROUP_BY.format("rows")).to_arrow_table()


def group_means(table: pa.Table) -> object:
    return es.mean(table, es.Box(0, 1), by="key", columns=COLUMNS, neighbors="add_remove", n=table.num_rows, **BUDGET)


def people_means(table: pa.Table) -> object:
    return es.mean(table, es.Box(0, 1), columns=COLUMNS, privacy_id="key", **BUDGET)


def from_file(folder: Path, rows: int, repeats: int) -> Iterator[Measured]:
    """Whole processes, of which the least time and the least memory count."""
    path = folder / "rows.parquet"
    pq.write_table(make_table(rows), path)
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    reference = [sys.executable, "-c", PLAIN, GROUP_BY.format(f"'{path}'")]
    commands = {name: [*COMMAND, str(path), *STATED, *way] for name, way in WAYS.items()}
    commands["groups"] += ["--n", str(rows), "--output", str(folder / "groups.csv")]
    runs = {name: [] for name in (*commands, "duckdb")}
    for _ in range(repeats + 1):
        for name, command in {**commands, "duckdb": reference}.items():
            runs[name].append(of_process(command, environment))
    least = {name: np.min(found[1:], axis=0) for name, found in runs.items()}
    for name in commands:
        seconds, busy, memory = least[name] / least["duckdb"]
        words = f"{rows // 10:,} {name} of {rows:,} rows, Parquet, command line"
        yield Measured(words, seconds, FROM_FILE, shared=True)
        yield Measured(f"  {name}: seconds of processors", busy)
        yield Measured(f"  {name}: memory of the process", memory, MEMORY)


def from_memory(rows: int, repeats: int) -> Iterator[Measured]:
    table = make_table(rows)
    calls: dict[str, Callable[[pa.Table], object]] = {"groups": group_means, "people": people_means}
    for name, call in calls.items():
        ratio = least_ratio(partial(call, table), partial(plain, table), repeats)
        yield Measured(f"{rows // 10:,} {name} of {rows:,} rows, memory", ratio, FROM_MEMORY, shared=True)


def measured(repeats: int, rows: int = 10_000_000) -> Iterator[Measured]:
    with tempfile.TemporaryDirectory() as name:
        yield from from_file(Path(name), rows, repeats)
    yield from from_memory(rows, repeats)
