"""Sizes and tuples that kernels share, the layout of blocks, and aligned arrays. Compiles nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats
from ..numerics.wide_integers import Ints
from .blocks import Addresses, Columns, fill

LANES = 8  # doubles in a vector, and rows in a group that is clamped
ROWS = 4  # rows in a group whose norms are taken
LINE = 64  # bytes of a cache line
PANEL = 16  # matrix rows side by side in a packed panel
BLOCK = 32  # rows that share one reading of the matrix
TILE = 256  # matrix columns worked on at a time
FAR_EXPONENT = 200  # rows that overflow are scaled to a norm near 2^200: outside the ball, with finite squares
SURELY_OUTSIDE = 1 + 2.0**-18  # a squared norm that unit vectors in single precision do not reach
LARGE = 2.0**1000  # a larger squared norm may have overflowed

# A missing value is filled in, counted for its column, or its row is left out.
FILLED, COUNTED, LEFT_OUT = 0, 1, 2

Rows = NDArray[Any]
"""A two-dimensional array of any real numbers."""


class ClipLines(NamedTuple):
    """How rows are mapped and rounded. frame: centers, scales, and the scales of the last eight columns.

    identity: the frame that maps nothing. grid: the integer that a norm of 1 becomes.
    """

    frame: Floats
    identity: Floats
    grid: float


class ClipCounts(NamedTuple):
    """How missing values are treated, and what is counted beside a sum of clipped rows.

    pulled: the grid of a row outside. outside: rows outside by octave. spare: space for 8 numbers. rule, fills: what
    becomes of a missing value. shares: the share of the squared radius of each column. missing: missing values.
    """

    pulled: float
    outside: Ints
    spare: Floats
    rule: int
    fills: Floats
    shares: Floats
    missing: Ints


COPY_ENTRIES = 1 << 14  # values copied at once if a kernel cannot read in place
_FIRST_CACHE = Path("/sys/devices/system/cpu/cpu0/cache/index0/size")
_MOST_COLUMNS = 1024  # wider rows are read as rows: mapped columns would not stay in the cache


def location(block: Rows) -> tuple[int, int, int]:
    """The address of a block, the distance between its rows in bytes, and the number of rows."""
    return block.__array_interface__["data"][0], block.strides[0], len(block)


def columns_of(block: Rows | Columns) -> Addresses | None:
    """Where the columns of a block begin, or None if the values of a column are not contiguous."""
    rows, columns = block.shape
    if columns > _MOST_COLUMNS or rows == 0:
        return None
    if isinstance(block, Columns):
        return block.addresses()
    if block.dtype.char not in "df" or not block.flags.aligned or block.strides[0] != block.itemsize:
        return None
    places: Addresses = np.arange(columns, dtype=np.int64)
    places *= block.strides[1]
    places += block.__array_interface__["data"][0]
    return places


def first_cache() -> int:
    """Bytes of the processor's first cache, if the system says so; else 32 kB, the smallest usual size."""
    with suppress(OSError, ValueError):
        return int(_FIRST_CACHE.read_text().strip().removesuffix("K")) << 10
    return 32 << 10


def aligned(*shape: int) -> Floats:
    """Zeros that begin at a multiple of 64 bytes: a vector across two cache lines takes twice the time."""
    zeros = unset(*shape)
    zeros[:] = 0.0
    return zeros


def unset(*shape: int) -> Floats:
    """Like `aligned`, but the memory is not set to zero."""
    size = math.prod(shape)
    spare = np.empty(size + LANES)
    start = -spare.__array_interface__["data"][0] // 8 % LANES
    return spare[start : start + size].reshape(shape)


def readable(block: Rows | Columns, width: int, singles: bool) -> Iterator[Rows]:
    """The block as contiguous rows of doubles (or singles): itself, or copies of a few rows at a time."""
    rows, columns = block.shape
    if (
        not isinstance(block, Columns)
        and block.dtype.char in ("df" if singles else "d")
        and columns == width
        and block.flags.aligned
        and block.strides[1] == block.itemsize
    ):
        yield block
        return
    step = max(BLOCK, COPY_ENTRIES // width)
    buffer = np.zeros((min(step, rows), width))
    for first in range(0, rows, step):
        part = buffer[: min(step, rows - first)]
        rows_now = np.asarray(block[first : first + step])
        if columns < width:  # few columns: one long copy each
            for j in range(columns):
                fill(part[:, j], rows_now[:, j])
        else:
            fill(part, rows_now)
        yield part
