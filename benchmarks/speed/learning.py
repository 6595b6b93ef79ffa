"""A folder of Parquet files with unknown bounds: a release that finds them first, against one plain pass.

Run: python -m benchmarks.speed.learning [--rows 50000000] [--folder DIR]

Target: as many times as long as the plan says that there are passes, at most.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import ellipsum as es

from .lake import WIDTH, write_lake

BUDGET = {"epsilon": 1, "delta": 1e-6}


def timed(rows: Any, data: Any) -> tuple[float, float, es.Release]:
    """Seconds, and seconds of all cores together."""
    begin, cpu = time.perf_counter(), time.process_time()
    release = es.mean(data, rows, **BUDGET)
    return time.perf_counter() - begin, time.process_time() - cpu, release


def compare(folder: str) -> None:
    warm = np.random.default_rng(0).normal(size=(100_000, WIDTH))
    for rows in (es.Ball(20), es.Unknown(1e6)):
        timed(rows, warm)  # compiled, loaded
    seconds, cpu, _ = timed(es.Ball(20), folder)
    print(f"  one pass  {seconds:7.2f} s, {cpu:7.2f} s of cores", flush=True)
    plan = es.plan("mean", es.Unknown(1e6), n=10**6, d=WIDTH, **BUDGET)
    took, took_cpu, release = timed(es.Unknown(1e6), folder)
    steps, passes = len(release.learned.steps), plan.passes
    print(f"  learned   {took:7.2f} s, {took_cpu:7.2f} s of cores, {steps} steps, at most {passes} passes")
    print(f"  ratio     {took / seconds:7.2f}    {took_cpu / cpu:7.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--folder", default=None, help="a lake that is there already")
    options = parser.parse_args()
    if options.folder is not None:
        compare(options.folder)
        return
    with tempfile.TemporaryDirectory() as folder:
        print(f"{write_lake(Path(folder), options.rows):,} rows of {WIDTH} columns")
        compare(folder)


if __name__ == "__main__":
    main()
