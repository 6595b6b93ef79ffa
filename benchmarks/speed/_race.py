"""Runs that take turns in one process, so that whatever else the machine does meets all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

Runs = Mapping[str, Callable[[], object]]


def least_times(runs: Runs, repeats: int) -> dict[str, float]:
    """Least seconds of each run, after one that does not count."""
    for run in runs.values():
        run()
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(repeats):
        for name, run in runs.items():
            begin = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - begin)
    return best


def race(runs: Runs, repeats: int, bare: str) -> None:
    """Print least times, and ratios to the best of the runs whose name begins with `bare`."""
    best = least_times(runs, repeats)
    reference = min(seconds for name, seconds in best.items() if name.startswith(bare))
    for name, seconds in best.items():
        print(f"  {name:44s} {seconds:7.3f} s  {seconds / reference:5.2f} x", flush=True)
