"""What a user waits for where there is little to add: seconds of the processor that whole processes take."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator

from .._table import Measured
from ._race import of_process

PASS = "pass"
IMPORT = "import ellipsum"
FIRST = "import numpy, ellipsum as es; es.sum(numpy.zeros((1000, 10)), es.Box(0, 1), epsilon=1, delta=1e-6)"
OTHERS = "import numpy, numba, scipy.special, pyarrow, flint, cryptography.hazmat.primitives.ciphers"
HELP = ["-m", "ellipsum", "--help"]


def seconds(words: list[str], cache: str, repeats: int = 1) -> float:
    """The least of several; cache: where compiled code is kept."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "NUMBA_CACHE_DIR": cache, "PYTHONPYCACHEPREFIX": cache}
    return min(of_process([sys.executable, *words], environment)[1] for _ in range(repeats))


def measured(repeats: int) -> Iterator[Measured]:
    with tempfile.TemporaryDirectory() as cache:
        seconds(["-c", OTHERS], cache)  # what is not ours is there
        cold = seconds(["-c", FIRST], cache)
        seconds(HELP, cache)
        bare = seconds(["-c", PASS], cache, repeats)
        yield Measured(
            "import ellipsum, beyond a bare interpreter", seconds(["-c", IMPORT], cache, repeats) - bare, 0.15, "s"
        )
        yield Measured("ellipsum --help", seconds(HELP, cache, repeats), 0.4, "s")
        yield Measured("process start to first release", seconds(["-c", FIRST], cache, repeats), 0.8, "s")
        yield Measured("process start to first release, the first time", cold, 3, "s")
