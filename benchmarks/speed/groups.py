"""Group means against DuckDB's plain group by of the same sums, in one run.

Run: python -m benchmarks.speed.groups [--rows 10000000] [--groups 100000] [--repeats 3] [--many 1000000]

Then --many groups of four rows each: seconds and the most memory that a release takes above the table itself.

Targets: a private mean of 8 columns by a whole-numbered key within 2.0 x `select key, sum(x1), ... group by key` of the
same table in memory; noise for 10^5 groups in under a second under either law.
"""

from __future__ import annotations

import argparse
import time
import warnings

import duckdb
import numpy as np
import pyarrow as pa

import ellipsum as es
from ellipsum.noise import Stream
from ellipsum.numerics.wide_integers import Wide

from ._race import race

WIDTH = 8
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def _table(rows: int, groups: int) -> pa.Table:
    rng = np.random.default_rng(0)
    columns = {f"x{j}": rng.random(rows) for j in range(WIDTH)}
    keys = rng.integers(0, groups, rows)
    names = pa.array([f"group {g}" for g in range(groups)])
    return pa.table({**columns, "key": keys, "name": names.take(pa.array(keys))})


def _plain(table: pa.Table, key: str) -> object:
    sums = ", ".join(f"sum(x{j})" for j in range(WIDTH))
    connection = duckdb.connect()
    connection.register("rows", table)
    return connection.sql(f"select {key}, count(*), {sums} from rows group by {key}").to_arrow_table()


def _private(table: pa.Table, key: str, noise: str, keys: list[int] | None = None) -> object:
    columns = [f"x{j}" for j in range(WIDTH)]
    words = {"by": key, "columns": columns, "noise": noise, "missing": "center", "neighbors": "add_remove"}
    words["keys"] = keys  # type: ignore[assignment]
    return es.mean(table, es.Box(0, 1), n=len(table), **words, **BUDGET)  # type: ignore[arg-type]


def _noise(groups: int) -> None:
    for noise in ("gaussian", "norm"):
        plan = es.plan(es.Box(0, 1), d=WIDTH, by="key", groups=groups, n=100 * groups, noise=noise, **BUDGET)
        assert isinstance(plan, es.GroupPlan)
        sums = Wide(np.zeros((groups, plan.width), np.int64), np.zeros((groups, plan.width), np.int64))
        plan.one.noise_law.add(sums, [], Stream.open())
        begin = time.perf_counter()
        plan.one.noise_law.add(sums, [], Stream.open())
        print(f"  noise of {groups} groups, {noise:9s} {time.perf_counter() - begin:7.3f} s", flush=True)


def _many(groups: int) -> None:
    """Groups by the million: what a release takes, with listed groups and with those that noisy counts let through."""
    table = _table(4 * groups, groups).drop(["name"])
    keys = list(range(groups))
    print(f"{len(table)} rows x {WIDTH} columns x {groups} groups: seconds, and memory above {_memory('VmRSS'):.0f} MB")
    for noise in ("gaussian", "norm"):
        for listed in (None, keys):
            _most_so_far(forget=True)
            before, begin = _memory("VmRSS"), time.perf_counter()
            made = _private(table, "key", noise, listed)
            text = repr(made)
            seconds, most = time.perf_counter() - begin, _most_so_far() - before
            how = "listed" if listed else "private"
            assert len(text.splitlines()) < 40
            print(f"  {noise:9s} {how:8s} {seconds:7.1f} s {most:8.0f} MB", flush=True)


def _memory(name: str) -> float:
    """A line of this process's own memory, in MB."""
    with open("/proc/self/status") as lines:
        return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(name + ":"))


def _most_so_far(forget: bool = False) -> float:
    """The most memory so far, which may be forgotten first; Linux alone tells."""
    if forget:
        with open("/proc/self/clear_refs", "w") as switch:
            switch.write("5")
    return _memory("VmHWM")


def _against_duckdb(rows: int, groups: int, repeats: int) -> None:
    table = _table(rows, groups)
    for key in ("key", "name"):
        print(f"{rows} rows x {WIDTH} columns x {groups} groups, by {key}")
        runs = {
            "duckdb, group by": lambda key=key: _plain(table, key),
            "ellipsum, gaussian": lambda key=key: _private(table, key, "gaussian"),
            "ellipsum, norm": lambda key=key: _private(table, key, "norm"),
        }
        race(runs, repeats, "duckdb")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--groups", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--many", type=int, default=1_000_000, help="groups of the last part; 0 leaves it out")
    given = parser.parse_args()
    warnings.simplefilter("ignore", es.AccuracyWarning)
    _against_duckdb(given.rows, given.groups, given.repeats)
    _noise(given.groups)
    if given.many:
        _many(given.many)


if __name__ == "__main__":
    main()
