"""Spark: a private sum against a bare `mapInArrow` pass that only counts rows, on the same frame in the same run.

Run: make bench-spark, or python -m benchmarks.speed.spark [--rows 10000000] [--repeats 2] where pyspark is installed

Targets: within 1.25 x the bare pass, at 2 and at 200 partitions; what the driver receives does not depend on n.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ._race import race

COLUMNS = [f"c{j}" for j in range(10)]
FILES = 200


def write(folder: Path, rows: int) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    for i in range(FILES):
        part = rng.normal(size=(len(COLUMNS), rows // FILES))
        pq.write_table(pa.table(dict(zip(COLUMNS, part, strict=True))), folder / f"{i:03}.parquet")


def start() -> Any:
    from pyspark.sql import SparkSession

    from ellipsum.sources.spark.runtime import ensure_java

    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.driver.host", "localhost")
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def read(session: Any, folder: Path, partitions: int) -> Any:
    """A frame of one partition a file, or of fewer without a shuffle."""
    largest = max(file.stat().st_size for file in folder.iterdir())
    session.conf.set("spark.sql.files.maxPartitionBytes", str(largest + 1))
    frame = session.read.parquet(str(folder)).select(*COLUMNS)
    return frame if partitions == FILES else frame.coalesce(partitions)


def count_rows(batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa

    yield pa.RecordBatch.from_pydict({"rows": [sum(batch.num_rows for batch in batches)]})


def bare(frame: Any) -> int:
    """The count of the chosen columns' rows, by Python workers that look at nothing."""
    return sum(row.rows for row in frame.select(*COLUMNS).mapInArrow(count_rows, "rows long").collect())


def peak_megabytes() -> float:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def received(frame: Any, release: Callable[[Any], object]) -> tuple[int, int]:
    """Rows and bytes of parts that the driver collects in a release."""
    kind, rows = type(frame), []
    collect = kind.collect

    def recorded(self: Any) -> Any:
        found = collect(self)
        rows.extend(found)
        return found

    kind.collect = recorded
    try:
        release(frame)
    finally:
        kind.collect = collect
    return len(rows), sum(len(row.part) + len(row.partitions) for row in rows)


def main() -> None:
    if find_spec("pyspark") is None:
        print("pyspark is not installed here: make bench-spark")
        return
    import ellipsum as es

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    known = es.Box(-4, 4)

    def release(frame: Any) -> object:
        return es.sum(frame, known, epsilon=1, delta=1e-6)

    with tempfile.TemporaryDirectory() as name:
        sizes = {}
        for rows in (20_000, options.rows):
            folder = Path(name) / str(rows)
            folder.mkdir()
            write(folder, rows)
            sizes[rows] = folder
        session = start()
        plan = es.plan("sum", known, n=options.rows, d=len(COLUMNS), epsilon=1, delta=1e-6)
        for partitions in (2, FILES):
            frame = read(session, sizes[options.rows], partitions)
            print(f"{options.rows:,} x {len(COLUMNS)}, {frame.rdd.getNumPartitions()} partitions")
            runs: dict[str, Callable[[], object]] = {
                "mapInArrow that counts rows": lambda frame=frame: bare(frame),
                "Plan.release": lambda frame=frame: plan.release(frame),
                "es.sum (counts n first)": lambda frame=frame: release(frame),
            }
            race(runs, options.repeats, "mapInArrow")
        for rows, folder in sizes.items():
            count, size = received(read(session, folder, FILES), release)
            print(
                f"  n = {rows:>9,}: the driver receives {count} rows, {size} bytes; its peak {peak_megabytes():.0f} MB"
            )
        session.stop()


if __name__ == "__main__":
    main()
