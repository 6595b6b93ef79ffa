"""How time and memory grow: with rows, columns, coordinates of a projection, groups and people, on log axes.

Run: python -m benchmarks.growth [--full] [--picture growth.svg] [--only rows groups]

Each point is a process of its own that makes its data, warms up on a small part of it, and then measures one release:
seconds of the processor, and how much more memory than its data the process held at most (on Linux). A line's
exponent is the slope of its last points: at most about 1 is linear in the work. --full goes up to 5 x 10^7 rows, 10^6
columns, 10^6 groups and 10^7 people. Passes over a lake of Unknown rows: python -m benchmarks.speed.learning.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import ellipsum as es

from ._table import processor

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
HERE = Path(__file__).parent
FITTED = 3  # the last points of a line: where fixed costs count least
SMALL = 1000  # rows, groups or people to warm up on
FLOOR_MB = 1.0  # what is less is the allocator's noise
Job = Callable[[], object]


def _table(rows: int, keys: int) -> Any:
    import pyarrow as pa

    rng = np.random.default_rng(0)
    columns = {f"x{j}": rng.random(rows) for j in range(4)}
    return pa.table({**columns, "key": rng.permutation(np.arange(rows) % keys)})


def _rows(n: int) -> Job:
    data = np.random.default_rng(0).random((n, 10))
    return lambda: es.sum(data, es.Box(0, 1), **BUDGET)


def _balls(n: int) -> Job:
    data = np.random.default_rng(0).standard_normal((n, 10))
    return lambda: es.mean(data, es.Ball(4), **BUDGET)


def _columns(d: int) -> Job:
    data = np.random.default_rng(0).random((100, d))
    return lambda: es.sum(data, es.Box(0, 1), **BUDGET)


def _wide(d: int) -> Job:
    data = np.random.default_rng(0).random((2, d))
    return lambda: repr(es.sum(data, es.Box(0, 1), **BUDGET))


def _coordinates(k: int) -> Job:
    data = np.random.default_rng(0).random((2000, 1000))
    return lambda: es.project(data, k, es.Ball(30), adversary="oblivious", **BUDGET)


def _groups(groups: int) -> Job:
    table, names = _table(4 * groups, groups), [f"x{j}" for j in range(4)]
    words: dict[str, Any] = {"by": "key", "columns": names, "missing": "none", "neighbors": "add_remove"}
    return lambda: es.mean(table, es.Box(0, 1), n=len(table), **words, **BUDGET)


def _people(people: int) -> Job:
    table, names = _table(4 * people, people), [f"x{j}" for j in range(4)]
    return lambda: es.mean(table, es.Box(0, 1), columns=names, privacy_id=es.People("key", per_person="mean"), **BUDGET)


@dataclass(frozen=True)
class Line:
    """What grows: sizes of a usual run, and those that --full adds."""

    words: str
    make: Callable[[int], Job]
    sizes: tuple[int, ...]
    more: tuple[int, ...]


LINES = {
    "rows": Line("rows of a Box, x 10 columns", _rows, (10**5, 10**6, 3 * 10**6, 10**7), (5 * 10**7,)),
    "balls": Line("rows of a Ball, x 10 columns", _balls, (10**5, 10**6, 3 * 10**6, 10**7), (5 * 10**7,)),
    "columns": Line("columns, x 100 rows", _columns, (10**3, 10**4, 3 * 10**4, 10**5), (10**6,)),
    "coordinates": Line("coordinates k, 2000 x 1000 projected", _coordinates, (30, 100, 300, 1000), ()),
    "groups": Line("groups, 4 rows each", _groups, (10**3, 10**4, 3 * 10**4, 10**5), (10**6,)),
    "people": Line("people, 4 rows each", _people, (10**4, 10**5, 3 * 10**5, 10**6), (10**7,)),
    "wide": Line("columns, x 2 rows", _wide, (10**4, 10**5), (10**6,)),
}


def _peak(anew: bool = False) -> float:
    """The most memory that this process held, in MB, ever or since it was last asked anew."""
    if anew:
        Path("/proc/self/clear_refs").write_text("5")
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def one(name: str, size: int) -> dict[str, float]:
    """One point, in this process."""
    warnings.simplefilter("ignore")
    line = LINES[name]
    line.make(min(size, SMALL))()  # compiled, loaded
    job = line.make(size)
    before, begin = _peak(anew=True), time.process_time()
    job()
    return {"seconds": time.process_time() - begin, "megabytes": _peak() - before}


def measure(name: str, size: int) -> dict[str, float] | None:
    command = [sys.executable, "-m", "benchmarks.growth", "--one", name, str(size)]
    done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{name} at {size}: {(done.stderr.strip().splitlines() or ['ended'])[-1]}", file=sys.stderr)
        return None
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The slope of the last points on log axes."""
    across, up = np.log(sizes[-FITTED:]), np.log(values[-FITTED:])
    return float(np.polyfit(across, up, 1)[0]) if len(across) > 1 else math.nan


Points = Mapping[str, Sequence[tuple[int, float, float]]]


def draw(points: Points, path: Path) -> None:
    """Time and memory against size, each line with its exponent."""
    from ellipsum.display.plots.drawing import figure, save, stroke, styled

    with styled():
        picture, axes = figure(12, 5.2, 2)
        for axis, place, words in zip(axes, (1, 2), ("seconds of the processor", "MB beside the data"), strict=True):
            for i, (name, line) in enumerate(points.items()):
                sizes, values = [point[0] for point in line], [point[place] for point in line]
                label = f"{LINES[name].words}: {exponent(sizes, values):.2f}"
                axis.plot(sizes, values, **stroke(i), label=label)
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_xlabel("size")
            axis.set_ylabel(words)
            axis.legend(title="exponent of the last points", fontsize="small")
        picture.suptitle(f"Growth of one release on {processor()}")
        save(picture, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--picture", type=Path, default=Path("growth.svg"))
    parser.add_argument("--only", nargs="*", choices=sorted(LINES), default=list(LINES))
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one(given.one[0], int(given.one[1]))))
        return
    print(processor())
    points: dict[str, list[tuple[int, float, float]]] = {}
    for name in given.only:
        line = LINES[name]
        for size in line.sizes + (line.more if given.full else ()):
            found = measure(name, size)
            if found is not None:
                point = size, found["seconds"], max(found["megabytes"], FLOOR_MB)
                points.setdefault(name, []).append(point)
                print(f"  {line.words:<40} {size:>12,} {point[1]:>9.3f} s {point[2]:>9.1f} MB", flush=True)
        sizes, seconds, megabytes = zip(*points[name], strict=True)
        print(
            f"{line.words:<42} time^{exponent(sizes, seconds):.2f} memory^{exponent(sizes, megabytes):.2f}", flush=True
        )
    draw(points, given.picture)
    print(f"drawn: {given.picture}")


if __name__ == "__main__":
    main()
