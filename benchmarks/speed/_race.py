"""Runs that take turns in one process, so that whatever else the machine does meets all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

Runs = Mapping[str, Callable[[], object]]


def least_times(runs: Runs, repeats: int) -> dict[str, float]:
    """Least seconds of each run, after one that does not count."""
    return {name: seconds for name, (seconds, _) in least_seconds(runs, repeats).items()}


def least_seconds(runs: Runs, repeats: int) -> dict[str, tuple[float, float]]:
    """Least seconds of each run, and of processors: what has one thread takes as many on a busy machine."""
    for run in runs.values():
        run()
    best = dict.fromkeys(runs, (float("inf"), float("inf")))
    for _ in range(repeats):
        for name, run in runs.items():
            begin, busy = time.perf_counter(), time.process_time()
            run()
            took, worked = time.perf_counter() - begin, time.process_time() - busy
            best[name] = min(best[name][0], took), min(best[name][1], worked)
    return best


def race(runs: Runs, repeats: int, bare: str) -> None:
    """Print least times, and ratios to the best of the runs whose name begins with `bare`."""
    best = least_times(runs, repeats)
    reference = min(seconds for name, seconds in best.items() if name.startswith(bare))
    for name, seconds in best.items():
        print(f"  {name:44s} {seconds:7.3f} s  {seconds / reference:5.2f} x", flush=True)
