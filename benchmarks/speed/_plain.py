"""The plain C loops, where a compiler is found: what a row costs without a library around it."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

SOURCE = Path(__file__).with_name("_plain.c")
FLAGS = ("-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC")


@cache
def plain_loops(real: str) -> Any:
    """The compiled loops for rows of "double" or "float", or None."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "plain.so"
        done = subprocess.run([compiler, *FLAGS, f"-DREAL={real}", str(SOURCE), "-o", str(target), "-lm"], check=False)
        return None if done.returncode else ctypes.CDLL(str(target))


def plain_run(loop: Any, data: Any, center: Any, scale: Any, bound: float) -> Callable[[], object]:
    """A call that adds up all rows by a plain loop for such rows."""
    rows, columns = data.shape
    scratch, sums = np.empty(columns), np.zeros(columns, np.int64)
    sizes = ctypes.c_int64(rows), ctypes.c_int64(columns)

    def run() -> None:  # holds on to the arrays
        x, c, s, y, out = (ctypes.c_void_p(array.ctypes.data) for array in (data, center, scale, scratch, sums))
        loop(x, *sizes, c, s, ctypes.c_double(bound), y, out)

    return run
