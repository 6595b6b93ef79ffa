"""Speed against another checkout of this library, processes of both in turn, least of several.

    python -m benchmarks.speed.against FOLDER [--rounds 3] [--cases sums,small,noise,files,projection]

FOLDER is a checkout, as `git worktree add FOLDER REVISION` makes one. Ratios above 1: this one is slower.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[2]
CASES = ("sums", "small", "noise", "files", "projection")


def cases(kind: str, folder: Path) -> Iterator[tuple[str, int, Callable[[], Any]]]:
    """Name, repeats and work of each case; of calls that every version has."""
    import numpy as np

    import ellipsum as es

    rng, budget = np.random.default_rng(0), {"epsilon": 1.0, "delta": 1e-6}
    box = es.Box(0, 1)
    if kind == "sums":
        for n, d, radius in ((10**6, 100, 10.0), (10**5, 1000, 40.0), (10**6, 10, 4.0)):
            x, ball = rng.random((n, d)), es.Ball(radius)
            yield f"ball {n} x {d}", 5, lambda x=x, ball=ball: es.sum(x, ball, threads=1, **budget)
            yield f"box {n} x {d}", 5, lambda x=x: es.sum(x, box, threads=1, **budget)
            yield f"ball {n} x {d}, 2 threads", 5, lambda x=x, ball=ball: es.sum(x, ball, threads=2, **budget)
    if kind == "small":
        x = rng.random((1000, 10))
        plan = es.plan(es.Ball(4.0), n=1000, d=10, **budget)
        yield "sum of 1000 x 10, box", 300, lambda: es.sum(x, box, **budget)
        yield "sum of 1000 x 10, ball", 300, lambda: es.sum(x, es.Ball(4.0), **budget)
        yield "plan.release of 1000 x 10", 300, lambda: plan.release(x)
    if kind == "noise":
        wide = es.plan(es.Ball(1.0), n=1, d=10**6, **budget)
        yield "release of 10^6 columns", 3, lambda: wide.release(np.zeros((1, 10**6)))
    if kind == "files":
        yield "csv", 4, lambda: es.sum(folder / "rows.csv", box, **budget)
        yield "parquet", 6, lambda: es.sum(folder / "rows.parquet", box, **budget)
        yield "folder of parquet", 4, lambda: es.sum(folder / "lake", box, **budget)
        people = folder / "people.parquet"
        yield "people", 4, lambda: es.sum(people, box, columns=["c0", "c1", "c2"], privacy_id="id", **budget)
    if kind == "projection":
        x = rng.random((20_000, 100))
        yield "projection", 4, lambda: es.project(x, 20, es.Ball(10.0), epsilon=50.0, delta=1e-6)


def write_files(folder: Path) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)

    def table(rows: int, columns: int) -> Any:
        return pa.table({f"c{i}": rng.random(rows) for i in range(columns)})

    rows = table(400_000, 10)
    pacsv.write_csv(rows, folder / "rows.csv")
    pq.write_table(rows, folder / "rows.parquet")
    (folder / "lake").mkdir()
    for part in range(8):
        pq.write_table(table(250_000, 20), folder / "lake" / f"{part}.parquet")
    owners = pa.array(rng.integers(0, 100_000, 500_000))
    pq.write_table(table(500_000, 3).append_column("id", owners), folder / "people.parquet")


def times(kind: str, folder: Path) -> dict[str, float]:
    """Least seconds of each case, in this process."""
    warnings.simplefilter("ignore")
    found = {}
    for name, repeats, work in cases(kind, folder):
        work()
        found[name] = float("inf")
        for _ in range(repeats):
            begin = time.perf_counter()
            work()
            found[name] = min(found[name], time.perf_counter() - begin)
    return found


def measured(source: Path, kind: str, folder: Path) -> dict[str, float]:
    """The same in a process that imports the library from there."""
    words = [sys.executable, __file__, str(source), "--serve", kind, str(folder)]
    environment = os.environ | {"PYTHONPATH": str(source / "src")}
    ended = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        print(json.dumps(times(given.serve[0], Path(given.serve[1]))))
        return
    with tempfile.TemporaryDirectory() as name:
        write_files(Path(name))
        print(f"{'work':28}{'there':>12}{'here':>12}{'ratio':>8}")
        for kind in given.cases.split(","):
            best: dict[Path, dict[str, float]] = {given.folder: {}, HERE: {}}
            for _ in range(given.rounds):
                for source, kept in best.items():
                    for work, seconds in measured(source, kind, Path(name)).items():
                        kept[work] = min(seconds, kept.get(work, seconds))
            for work, here in best[HERE].items():
                there = best[given.folder][work]
                print(f"{work:28}{there * 1e3:>9.2f} ms{here * 1e3:>9.2f} ms{here / there:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
