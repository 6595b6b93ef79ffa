"""A million rows of 100 columns projected to 20 numbers each, Parquet to Parquet: time and peak memory.

    python benchmarks/speed/projection.py [--rows 1000000] [--columns 100] [--k 20]

The yardstick, measured in the same run, is the same pass without privacy: read, multiply by a matrix, add numpy's
own normal noise, write. Each side runs twice in a process of its own (the second run counts: the first compiles
or loads caches) and reports its peak resident memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow
from pyarrow import parquet

GROUP = 50_000


def make_rows(path: Path, rows: int, columns: int) -> None:
    """Rows of a known law, written a row group at a time."""
    rng = np.random.default_rng(7)
    names = [f"x{j}" for j in range(columns)]
    with parquet.ParquetWriter(path, pyarrow.schema([(name, pyarrow.float64()) for name in names])) as writer:
        for start in range(0, rows, GROUP):
            block = rng.normal(size=(min(GROUP, rows - start), columns)) / np.sqrt(columns)
            writer.write_table(pyarrow.table([pyarrow.array(block[:, j].copy()) for j in range(columns)], names=names))


def private(source: Path, target: Path, k: int) -> None:
    from ellipsum.projection import project
    from ellipsum.rows import Ball

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        project(str(source), k, Ball(1.2), epsilon=60, delta=1e-6, output=target)


def plain(source: Path, target: Path, k: int) -> None:
    rng = np.random.default_rng(1)
    file = parquet.ParquetFile(source)
    matrix = rng.normal(size=(file.metadata.num_columns, k)) / np.sqrt(k)
    schema = pyarrow.schema([(f"p{j}", pyarrow.float64()) for j in range(k)])
    with parquet.ParquetWriter(target, schema, compression="none", use_dictionary=False) as writer:
        for batch in file.iter_batches(batch_size=6553):
            block = np.stack([column.to_numpy() for column in batch.columns], axis=1) @ matrix
            block += 0.5 * rng.normal(size=block.shape)
            writer.write_table(pyarrow.table([pyarrow.array(block[:, j].copy()) for j in range(k)], schema=schema))


def measure(side: str, source: Path, target: Path, k: int) -> None:
    """Run one side twice and print what the second run took, as JSON."""
    run = {"private": private, "plain": plain}[side]
    for _ in range(2):
        start = time.perf_counter()
        run(source, target, k)
        seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"side": side, "seconds": seconds, "peak_mb": peak, "output_mb": target.stat().st_size / 2**20}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--k", type=int, default=20)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--source", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--target", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        measure(given.side, given.source, given.target, given.k)
        return
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "rows.parquet", Path(folder) / "projected.parquet"
        make_rows(source, given.rows, given.columns)
        results = {}
        for side in ("plain", "private"):
            command = [sys.executable, __file__, "--side", side, "--k", str(given.k)]
            command += ["--source", str(source), "--target", str(target)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            results[side] = json.loads(done.stdout)
        size = source.stat().st_size / 2**20
    print(f"{given.rows} rows, {given.columns} columns ({size:.0f} MB of Parquet) to k = {given.k}")
    for side, found in results.items():
        seconds, peak, wrote = found["seconds"], found["peak_mb"], found["output_mb"]
        print(f"  {side:8} {seconds:7.2f} s   peak {peak:6.0f} MB   wrote {wrote:.0f} MB")
    ratio = results["private"]["seconds"] / results["plain"]["seconds"]
    print(f"  private / plain = {ratio:.2f}")


if __name__ == "__main__":
    main()
