"""Blocks of rows: their layout in memory, which kernels read in place, and the sizes that kernels share.

The columns of a block may be separate arrays, as Arrow's are. Nothing here is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..errors import Floats

LANES = 8  # doubles in a vector, and rows in a group that is clamped
ROWS = 4  # rows in a group whose norms are taken
LINE = 64  # bytes of a cache line
PANEL = 16  # matrix rows side by side in a packed panel
BLOCK = 32  # rows that share one reading of the matrix
TILE = 256  # matrix columns worked on at a time
FAR_EXPONENT = 200  # rows that overflow are scaled to a norm near 2^200: outside the ball, with finite squares
SURELY_OUTSIDE = 1 + 2.0**-18  # a squared norm that unit vectors in single precision do not reach
LARGE = 2.0**1000  # a larger squared norm may have overflowed
COPY_ENTRIES = 1 << 14  # values copied at once if a kernel cannot read in place
_FIRST_CACHE = Path("/sys/devices/system/cpu/cpu0/cache/index0/size")
_MOST_COLUMNS = 1024  # wider rows are read as rows: mapped columns would not stay in the cache

Addresses = NDArray[np.int64]
Numbers = NDArray[Any]
"""An array of any real numbers, masked or not."""


def floats(
    values: object, dtype: DTypeLike = np.float64, copy: bool = False, order: Literal["C", "F"] = "C"
) -> Numbers:
    """Private values as doubles, or as singles; if `copy`, in memory of their own, row after row (or in `order`).

    Every cast of private values is made here, without warnings: numpy warns of a signaling NaN and of a number outside
    the range, which would reveal a cell [T1]. Threads do not inherit numpy's settings, so they are set here.
    """
    with np.errstate(all="ignore"):
        return np.array(values, dtype, order=order) if copy else np.asarray(values, dtype)


def fill(rows: Numbers, values: Numbers) -> None:
    """rows[...] = values, cast without warnings as in `floats`."""
    with np.errstate(all="ignore"):
        rows[...] = values


class Columns:
    """A block whose columns are separate arrays, all float64 or all float32. Slices share them.

    It has the shape and slices of a two-dimensional array; `numpy.asarray` makes one.
    """

    ndim = 2

    def __init__(self, arrays: Sequence[Numbers], first: int = 0, rows: int | None = None) -> None:
        self._arrays = arrays
        self._first = first
        self.dtype = arrays[0].dtype
        self.shape = (len(arrays[0]) if rows is None else rows, len(arrays))
        self._places: Addresses | None = None

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]

    @property
    def nbytes(self) -> int:
        return self.size * int(self.dtype.itemsize)

    def __len__(self) -> int:
        return self.shape[0]

    @overload
    def __getitem__(self, rows: slice) -> Columns: ...
    @overload
    def __getitem__(self, rows: Addresses) -> Numbers: ...
    def __getitem__(self, rows: slice | Addresses) -> Columns | Numbers:
        """Consecutive rows (in place), or the rows at some positions (a copy)."""
        if not isinstance(rows, slice):
            return np.array([column[rows] for column in self.columns()], self.dtype).T
        first, last, _ = rows.indices(len(self))
        part = Columns(self._arrays, self._first + first, max(0, last - first))
        part._places = self._starts()
        return part

    def columns(self) -> list[Numbers]:
        """The columns as arrays that share memory with this block."""
        return [array[self._first : self._first + len(self)] for array in self._arrays]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Numbers:
        out = np.empty(self.shape[::-1], self.dtype if dtype is None else dtype)
        for line, column in zip(out, self.columns(), strict=True):
            fill(line, column)
        return out.T

    def copy(self) -> Columns:
        """The same rows in memory of their own."""
        return Columns([column.copy() for column in self.columns()])

    def _starts(self) -> Addresses:
        if self._places is None:
            places = [array.__array_interface__["data"][0] for array in self._arrays]
            self._places = np.array(places, np.int64)
        return self._places

    def addresses(self) -> Addresses:
        """Where each column of this block begins."""
        return self._starts() + self._first * self.dtype.itemsize


Block = Numbers | Columns
"""Rows of numbers, (rows, columns)."""


def location(block: Numbers) -> tuple[int, int, int]:
    """The address of a block, the distance between its rows in bytes, and the number of rows."""
    return block.__array_interface__["data"][0], block.strides[0], len(block)


def has_complete_rows(block: Block) -> NDArray[np.bool_]:
    """Whether each row has no missing value."""
    complete = np.ones(len(block), np.bool_)
    if isinstance(block, Columns):
        for column in block.columns():
            complete &= np.isfinite(column)
    elif not (finite := np.isfinite(block)).all():
        complete &= finite.all(axis=1)
    return complete


def columns_of(block: Block) -> Addresses | None:
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


def readable(block: Block, width: int, singles: bool) -> Iterator[Numbers]:
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
