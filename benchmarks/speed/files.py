"""Reading files: `ellipsum.sources.open` and whole releases against pyarrow's own scan of the same columns.

Run: python -m benchmarks.speed.files [--rows-parquet 5000000] [--rows-csv 1000000] [--repeats 5]

Targets: a release from Parquet within 1.25 x the bare scan, in bounded memory; from CSV within 1.5 x pyarrow's read.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from ._race import race

COLUMNS = [f"c{j}" for j in range(10)]
MEMORY = """
import re, sys
from pathlib import Path
import ellipsum as es

def peak():  # not ru_maxrss, which a child inherits from its parent
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024

es.sum(sys.argv[1], es.Box(-4, 4), epsilon=1, delta=1e-6)
small = peak()
es.sum(sys.argv[2], es.Box(-4, 4), epsilon=1, delta=1e-6)
print(small, peak())
"""


def write_files(folder: Path, parquet_rows: int, csv_rows: int) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)

    def table(rows: int) -> pa.Table:
        return pa.table({name: rng.normal(size=rows) for name in COLUMNS})

    for name, rows, group in (
        ("small", 1000, 1000),
        ("many", parquet_rows, 500_000),
        ("one", parquet_rows, parquet_rows),
    ):
        with pq.ParquetWriter(folder / f"{name}.parquet", table(0).schema) as writer:
            for start in range(0, rows, group):
                writer.write_table(table(min(group, rows - start)), row_group_size=group)
    with pyarrow.csv.CSVWriter(folder / "t.csv", table(0).schema) as out:
        for start in range(0, csv_rows, 100_000):
            out.write_table(table(min(100_000, csv_rows - start)))
    numbers = rng.normal(size=(200_000, len(COLUMNS)))
    np.savetxt(folder / "short.csv", numbers, fmt="%.5f", delimiter=",", header=",".join(COLUMNS), comments="")


def scan(path: Path, **options: int) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, **options) as file:
        for _ in file.iter_batches(columns=COLUMNS):
            pass


def consume(path: Path) -> None:
    from ellipsum.sources.open import open_table
    from ellipsum.sources.selection import Selection

    for _ in open_table(path, Selection(COLUMNS)).batches():
        pass


def release(path: Path) -> object:
    import ellipsum as es

    return es.sum(path, es.Box(-4, 4), epsilon=1, delta=1e-6, columns=COLUMNS)


def main() -> None:
    import pyarrow.csv

    from ellipsum.sources.open import open_table

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows-parquet", type=int, default=5_000_000)
    parser.add_argument("--rows-csv", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, options.rows_parquet, options.rows_csv)
        for kind, text in (("many", "row groups of 500,000"), ("one", "one row group")):
            path = folder / f"{kind}.parquet"
            print(f"Parquet, {options.rows_parquet:,} x 10, {text}")
            runs = {
                "pyarrow scan": lambda path=path: scan(path),
                "pyarrow scan, pages buffered": lambda path=path: scan(path, buffer_size=1 << 20, pre_buffer=False),
                "tables: all blocks": lambda path=path: consume(path),
                "es.sum": lambda path=path: release(path),
            }
            race(runs, options.repeats, "pyarrow")
            small, large = subprocess.run(
                [sys.executable, "-c", MEMORY, str(folder / "small.parquet"), str(path)],
                check=True,
                capture_output=True,
                text=True,
            ).stdout.split()
            size = path.stat().st_size / 2**20
            print(
                f"  peak memory, es.sum: {float(large):.0f} MB; on 1000 rows {float(small):.0f} MB, file {size:.0f} MB"
            )
        choice = pyarrow.csv.ConvertOptions(include_columns=COLUMNS)
        for path in (folder / "t.csv", folder / "short.csv"):
            print(f"CSV, {open_table(path).rows():,} x 10, {path.stat().st_size / 2**20:.0f} MB")
            runs = {
                "pyarrow.csv.read_csv": lambda path=path: pyarrow.csv.read_csv(path, convert_options=choice),
                "tables: all blocks": lambda path=path: consume(path),
                "tables: count rows": lambda path=path: open_table(path).rows(),
                "es.sum (counts, then reads)": lambda path=path: release(path),
            }
            race(runs, options.repeats, "pyarrow")


if __name__ == "__main__":
    main()
