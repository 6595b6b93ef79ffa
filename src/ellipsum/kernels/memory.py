"""Sizes that kernels and their generators agree on, how blocks lie in memory, and aligned arrays. Compiles nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats
from .blocks import Addresses, Columns, fill

LANES = 8  # doubles in a vector, and rows in a group that is clamped
ROWS = 4  # rows in a group whose norms are taken
LINE = 64  # bytes of a cache line
PANEL = 16  # matrix rows side by side in a packed panel
BLOCK = 32  # rows that share one reading of the matrix
TILE = 256  # matrix columns worked on at a time
FAR_EXPONENT = 200  # rows that overflow are brought to a norm near 2^200: outside the ball, squares finite
SURELY_OUTSIDE = 1 + 2.0**-18  # of a squared norm: unit vectors in single precision are not outside
LARGE = 2.0**1000  # beyond it a squared norm is not relied upon

# What is done with an absent cell: the fill's value, counted for its column, or its row left out.
FILLED, COUNTED, LEFT_OUT = 0, 1, 2

Rows = NDArray[Any]
COPY_ENTRIES = 1 << 14  # entries copied at once where a kernel cannot read in place
_FIRST_CACHE = Path("/sys/devices/system/cpu/cpu0/cache/index0/size")
_MOST_COLUMNS = 1024  # rows wider than this are read as rows: mapped columns would leave the cache


def columns_of(block: Rows | Columns) -> Addresses | None:
    """Where the columns of a block begin, or None where its entries do not lie side by side in each column."""
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
    """Bytes of the processor's first cache, where the system says; 32 kB are the least that is common."""
    with suppress(OSError, ValueError):
        return int(_FIRST_CACHE.read_text().strip().removesuffix("K")) << 10
    return 32 << 10


def aligned(*shape: int) -> Floats:
    """Zeros that begin at a multiple of 64 bytes: a vector that lies across two cache lines costs twice the time."""
    zeros = unset(*shape)
    zeros[:] = 0.0
    return zeros


def unset(*shape: int) -> Floats:
    """As `aligned`, with whatever the memory held."""
    size = math.prod(shape)
    spare = np.empty(size + LANES)
    start = -spare.__array_interface__["data"][0] // 8 % LANES
    return spare[start : start + size].reshape(shape)


def readable(block: Rows | Columns, width: int, singles: bool) -> Iterator[Rows]:
    """The block as doubles (or singles) side by side in each row: itself, or copies of a few rows at a time."""
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
        given = np.asarray(block[first : first + step])
        if columns < width:  # few columns: one long copy each
            for j in range(columns):
                fill(part[:, j], given[:, j])
        else:
            fill(part, given)
        yield part
