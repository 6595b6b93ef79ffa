"""A lake: a release from a folder of Parquet files against pyarrow's bare scan of it, on one core and on two.

Run: python -m benchmarks.speed.lake [--rows 50000000] [--folder DIR] [--repeats 3]

Targets: at most 1.25 x the bare scan, in memory that does not grow with the rows; two cores at least 1.6 x one.
The bare scan is the faster of pyarrow's default, which holds gigabytes, and one with buffered pages.
Each run is a process of its own; runs take turns, and the least time of each counts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

WIDTH = 20
FILE_ROWS, GROUP_ROWS = 2_500_000, 250_000
WORKER = """
import json, os, re, sys, time
from pathlib import Path
job, folder, cores = sys.argv[1], sys.argv[2], int(sys.argv[3])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import ellipsum as es
pa.set_cpu_count(cores)

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024

def scan():
    return sum(batch.num_rows for batch in ds.dataset(folder).to_batches())

def scan_buffered():
    pages = ds.ParquetFragmentScanOptions(use_buffered_stream=True, buffer_size=1 << 20, pre_buffer=False)
    options = {"fragment_scan_options": pages, "batch_readahead": 4, "fragment_readahead": 4}
    return sum(batch.num_rows for batch in ds.dataset(folder).to_batches(**options))

def release(data):
    return es.sum(data, es.Box(-4, 4), epsilon=1, delta=1e-6, rng=np.random.default_rng(0)).value.tolist()

es.sum(np.zeros((100_000, 20)), es.Box(-4, 4), epsilon=1, delta=1e-6)  # compiled, loaded
before = peak()
begin = time.perf_counter()
jobs = {
    "scan": scan,
    "scan, buffered": scan_buffered,
    "folder": lambda: release(folder),
    "data set": lambda: release(ds.dataset(folder)),
}
result = jobs[job]()
seconds = time.perf_counter() - begin
print(json.dumps({"seconds": seconds, "before": before, "peak": peak(), "result": result}))
"""


def write_lake(folder: Path, rows: int) -> int:
    """Files of one block of normal numbers each; the number of rows."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    names = [f"c{j}" for j in range(WIDTH)]
    count = min(rows, FILE_ROWS)
    first = folder / "part-000.parquet"
    block = pa.table({name: rng.normal(size=min(GROUP_ROWS, count)) for name in names})
    with pq.ParquetWriter(first, block.schema) as writer:
        for start in range(0, count, GROUP_ROWS):
            writer.write_table(block.slice(0, min(GROUP_ROWS, count - start)))
    files = max(1, rows // count)
    for index in range(1, files):
        shutil.copyfile(first, folder / f"part-{index:03}.parquet")
    return files * count


def run(job: str, folder: Path, cores: int) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", WORKER, job, str(folder), str(cores)],
        check=True,
        capture_output=True,
        text=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--folder", default=None, help="where to write the lake (removed afterwards)")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        free = shutil.disk_usage(name).free
        rows = min(options.rows, int(free * 0.5 / (8 * WIDTH)))
        if rows < options.rows:
            print(f"Too little room for {options.rows:,} rows: {rows:,} instead.")
        folder = Path(name)
        rows = write_lake(folder, rows)
        size = sum(path.stat().st_size for path in folder.iterdir()) / 2**30
        print(f"{rows:,} rows of {WIDTH} columns, {len(os.listdir(folder))} files, {size:.1f} GB")
        jobs = [(job, cores) for cores in (2, 1) for job in ("scan", "scan, buffered", "folder", "data set")]
        best: dict[tuple[str, int], dict[str, float]] = {}
        for _ in range(options.repeats):
            for job, cores in jobs:
                found = run(job, folder, cores)
                if (job, cores) not in best or found["seconds"] < best[job, cores]["seconds"]:
                    best[job, cores] = found
        for (job, cores), found in best.items():
            bare = min(best[other, cores]["seconds"] for other in ("scan", "scan, buffered"))
            ratio = found["seconds"] / bare
            speedup = best[job, 1]["seconds"] / found["seconds"]
            word = f"pyarrow {job}" if job.startswith("scan") else f"es.sum, {job}"
            print(
                f"  {word:23s} {cores} cores {found['seconds']:8.2f} s  {ratio:5.2f} x the better scan  "
                f"{speedup:5.2f} x one core  peak {found['peak']:5.0f} MB ({found['before']:.0f} MB before)"
            )
        assert best["folder", 2]["result"] == best["data set", 1]["result"] == best["folder", 1]["result"]


if __name__ == "__main__":
    main()
