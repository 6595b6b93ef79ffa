"""Start-up and small releases: what a user waits for, beside a bare import of numpy and scipy.

Run: python -m benchmarks.speed.release
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from .._table import Measured

FIRST = (
    "import time; t = time.perf_counter(); import numpy as np, ellipsum as es;"
    "x = np.zeros((1000, 10)); es.sum(x, es.Box(0, 1), epsilon=1, delta=1e-6);"
    "print(time.perf_counter() - t)"
)
OTHERS = "numpy, numba, scipy.special, pyarrow, flint, cryptography.hazmat.primitives.ciphers"
IMPORT = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"


def seconds(code: str, cache: str | None = None) -> float:
    """What a whole process takes of the processor, the interpreter's start included: it has one thread."""
    environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="")
    if cache is not None:
        environment |= {"NUMBA_CACHE_DIR": cache, "PYTHONPYCACHEPREFIX": cache}
    begin = _of_children()
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env=environment)
    return _of_children() - begin


def _of_children() -> float:
    times = os.times()
    return times.children_user + times.children_system


def small_release(repeats: int = 100) -> float:
    """Least time of a 1000 x 10 release after warm-up, in milliseconds."""
    import numpy as np

    import ellipsum as es

    x, best = np.random.default_rng(0).random((1000, 10)), float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        es.sum(x, es.Box(0, 1), epsilon=1, delta=1e-6)
        best = min(best, time.perf_counter() - begin)
    return best * 1e3


def measured() -> Iterator[Measured]:
    yield Measured("release, 1000 x 10, after warm-up", small_release(), 10, "ms")
    with tempfile.TemporaryDirectory() as cache:
        seconds(IMPORT.format(OTHERS), cache)
        yield Measured("process start to first release, the first time", seconds(FIRST, cache), 2.5, "s")
        warm = min(seconds(FIRST, cache) for _ in range(5))
    yield Measured("process start to first release, later", warm, 0.7, "s")
    bare = min(seconds(IMPORT.format("numpy, scipy.stats")) for _ in range(3))
    yield Measured("  against importing numpy and scipy.stats", warm / bare)


def main() -> None:
    bare = min(seconds(IMPORT.format("numpy, scipy.stats")) for _ in range(3))
    print(f"process that imports numpy and scipy.stats   {bare:.2f} s")
    own = min(seconds(IMPORT.format("ellipsum")) for _ in range(3))
    print(f"process that imports ellipsum                {own:.2f} s  ({own / bare:.1f} x)")
    with tempfile.TemporaryDirectory() as cache:
        cold = seconds(FIRST, cache)
        warm = min(seconds(FIRST, cache) for _ in range(3))
    print(f"first release ever (kernels compile once)    {cold:.2f} s  ({cold / bare:.1f} x)")
    print(f"first release of a later process             {warm:.2f} s  ({warm / bare:.1f} x)")
    print(f"1000 x 10 release after warm-up              {small_release():.3f} ms")


if __name__ == "__main__":
    main()
