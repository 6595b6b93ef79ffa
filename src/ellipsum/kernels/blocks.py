"""Blocks of rows that lie column by column in memory, as Arrow's do: read in place, never copied to be transposed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

Addresses = NDArray[np.int64]


def floats(values: Any, dtype: Any = np.float64, copy: bool = False) -> NDArray[Any]:
    """Private values as doubles, or as singles; in memory of their own, row after row, if `copy`.

    Every cast of private values is made here, in silence: numpy warns of one signalling NaN, or of a number beyond
    the range, and a warning would tell of the cell [T1]. Threads do not inherit how numpy is set: it is set here.
    """
    with np.errstate(all="ignore"):
        return np.array(values, dtype, order="C") if copy else np.asarray(values, dtype)


def fill(rows: NDArray[Any], values: NDArray[Any]) -> None:
    """rows[...] = values, cast in silence as `floats` does."""
    with np.errstate(all="ignore"):
        rows[...] = values


class Columns:
    """A block whose columns are arrays of their own, all float64 or all float32; slices share them.

    Looks like a two-dimensional array where a block is only measured and cut; `numpy.asarray` makes one.
    """

    ndim = 2

    def __init__(self, arrays: Sequence[NDArray[Any]], first: int = 0, rows: int | None = None) -> None:
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
    def __getitem__(self, rows: NDArray[Any]) -> NDArray[Any]: ...
    def __getitem__(self, rows: slice | NDArray[Any]) -> Columns | NDArray[Any]:
        """A run of rows (in place), or the rows of some numbers (a copy)."""
        if not isinstance(rows, slice):
            return self._gathered(rows)
        first, last, _ = rows.indices(len(self))
        part = Columns(self._arrays, self._first + first, max(0, last - first))
        part._places = self._starts()
        return part

    def _gathered(self, rows: NDArray[Any]) -> NDArray[Any]:
        out = np.empty((len(self._arrays), len(rows)), self.dtype)
        for column, array in zip(out, self._arrays, strict=True):
            column[:] = array[self._first : self._first + len(self)][rows]
        return out.T

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        out = np.empty(self.shape[::-1], self.dtype if dtype is None else dtype)
        for column, array in zip(out, self._arrays, strict=True):
            fill(column, array[self._first : self._first + len(self)])
        return out.T

    def copy(self) -> Columns:
        """The same rows in memory of their own."""
        return Columns([array[self._first : self._first + len(self)].copy() for array in self._arrays])

    def _starts(self) -> Addresses:
        if self._places is None:
            places = [array.__array_interface__["data"][0] for array in self._arrays]
            self._places = np.array(places, np.int64)
        return self._places

    def addresses(self) -> Addresses:
        """Where each column of this block begins."""
        return self._starts() + self._first * self.dtype.itemsize


Block = NDArray[np.float64] | NDArray[np.float32] | Columns
"""Rows of numbers, (rows, columns)."""
