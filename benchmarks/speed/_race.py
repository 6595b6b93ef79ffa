"""Runs that take turns, so that whatever else the machine does meets all of them; and processes, with their memory."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

Runs = Mapping[str, Callable[[], object]]


def least_seconds(runs: Runs, repeats: int) -> dict[str, tuple[float, float]]:
    """Least seconds of each run, and of processors, after one that does not count."""
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


def least_ratio(run: Callable[[], object], reference: Callable[[], object], repeats: int) -> float:
    """Least seconds of a run over those of its reference."""
    least = least_seconds({"run": run, "reference": reference}, repeats)
    return least["run"][0] / least["reference"][0]


def of_process(command: Sequence[str], environment: Mapping[str, str] | None = None) -> tuple[float, float, float]:
    """Seconds of a process, seconds of processors, and the most memory that it held, in MB."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return time.perf_counter() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def race(runs: Runs, repeats: int, bare: str) -> None:
    """Print least times, and ratios to the best of the runs whose name begins with `bare`."""
    best = {name: seconds for name, (seconds, _) in least_seconds(runs, repeats).items()}
    reference = min(seconds for name, seconds in best.items() if name.startswith(bare))
    for name, seconds in best.items():
        print(f"  {name:44s} {seconds:7.3f} s  {seconds / reference:5.2f} x", flush=True)
