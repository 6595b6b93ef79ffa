"""Blocks of rows, also those whose columns are separate arrays, as Arrow's are: read in place, never transposed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

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
            return self._gathered(rows)
        first, last, _ = rows.indices(len(self))
        part = Columns(self._arrays, self._first + first, max(0, last - first))
        part._places = self._starts()
        return part

    def _gathered(self, rows: Addresses) -> Numbers:
        out = np.empty((len(self._arrays), len(rows)), self.dtype)
        for column, array in zip(out, self._arrays, strict=True):
            column[:] = array[self._first : self._first + len(self)][rows]
        return out.T

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Numbers:
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
