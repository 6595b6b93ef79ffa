"""Row maps of the learning rounds: histograms, absolute values, shells and outer products.

Each is a fixed public map from a row to a bounded integer row, a bitwise pure function of the row ([L1]), with its
own norm and diameter (docs/proofs/learning.md). Sums clipped to an ellipsoid are `accumulate.EllipsoidMap`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ..accumulate import Rows, clipped_norm_bound
from ..accumulate import sqrt_upper as whole_sqrt_upper
from ..errors import Floats, UsageError, vector
from ..integers import Ints
from ..kernels.layout import UNUSED
from ..plans import GRID_BITS, sqrt_upper
from ..shape import Ellipsoid

_COPY_ENTRIES = 1 << 15
_WIDEST = 2.0**190  # radii and edges lie between its inverse and it: rows that overflow come out at 2^199 or above
_COUNTS_PER_FLUSH = 1 << 62


def _doubles(block: Rows) -> Iterator[Rows]:
    """The block as writable contiguous doubles, in copies of a few rows where it is not."""
    if block.dtype.char == "d" and block.flags.c_contiguous and block.flags.writeable and block.flags.aligned:
        yield block
        return
    step = max(16, _COPY_ENTRIES // block.shape[1])
    for first in range(0, len(block), step):
        yield np.array(block[first : first + step], np.float64, order="C")


class _Frame:
    """The map y = B (x - c) of an ellipsoid, as the kernels take it."""

    def __init__(self, ellipsoid: Ellipsoid) -> None:
        self.ellipsoid = ellipsoid
        self.columns, self.width = int(ellipsoid.center.size), ellipsoid.width
        matrix = ellipsoid.matrix
        self._scale = np.ascontiguousarray(ellipsoid.scale, np.float64)
        self._packed = np.zeros((0, 0)) if matrix is None else np.ascontiguousarray(matrix.T)
        largest = self._scale if matrix is None else np.abs(matrix).max(axis=0)
        if not (np.isfinite(largest).all() and np.isfinite(ellipsoid.center).all()):
            raise UsageError("the ellipsoid must be finite: it holds a NaN or an infinity.")
        self._exponents = np.where(largest == 0, UNUSED, np.frexp(largest)[1].astype(np.int64))
        self._center = np.ascontiguousarray(ellipsoid.center, np.float64)

    def arguments(self) -> tuple[Floats, Floats, Floats, Ints]:
        return self._center, self._scale, self._packed, self._exponents

    def scratch(self) -> tuple[Floats, Floats]:
        return np.empty(self.columns), np.empty(self.width)


class Count:
    """Every row as the integer 1: norm 1, and no distance between two rows."""

    width, grid_bits = 1, 0
    norm_bound, diameter_bound = Fraction(1), Fraction(1)
    rows_per_flush = _COUNTS_PER_FLUSH

    def __init__(self, columns: int) -> None:
        self.columns = columns

    def add(self, block: Rows, total: Ints) -> None:
        total[0] += len(block)


class NormHistogram:
    """One-hot of ‖B (x - c)‖ among increasing edges, for one or several shapes at once.

    With k shapes the integer row is k one-hots side by side: norm sqrt(k), diameter sqrt(2k) [L2]. Bin i of a shape
    counts the rows with exactly i edges below their norm; a norm beyond the range of doubles is in the last.
    """

    grid_bits = 0
    rows_per_flush = _COUNTS_PER_FLUSH

    def __init__(self, shapes: Sequence[tuple[Ellipsoid, Any]]) -> None:
        self._frames = [_Frame(ellipsoid) for ellipsoid, _ in shapes]
        self._edges = [_increasing(edges) for _, edges in shapes]
        if any(e[0] < 1 / _WIDEST or e[-1] > _WIDEST for e in self._edges):
            raise UsageError("edges must lie between 2^-190 and 2^190. Scale the ellipsoid instead.")
        self.columns = self._frames[0].columns
        self.sizes = [edges.size + 1 for edges in self._edges]
        self.width = sum(self.sizes)
        self.norm_bound = whole_sqrt_upper(len(shapes))
        self.diameter_bound = whole_sqrt_upper(2 * len(shapes))

    def split(self, values: Floats) -> list[Floats]:
        """The histogram of each shape."""
        return np.split(values, np.cumsum(self.sizes)[:-1])

    def add(self, block: Rows, total: Ints) -> None:
        from .map_kernels import add_norm_bins

        for part in _doubles(block):
            place = 0
            for frame, edges in zip(self._frames, self._edges, strict=True):
                counts = total[place : place + edges.size + 1]
                add_norm_bins(part, *frame.arguments(), edges, counts, *frame.scratch())
                place += edges.size + 1


class CoordinateHistogram:
    """One-hot of each coordinate's offset x_j - c_j (or its size) among that coordinate's edges.

    d one-hots side by side, so norm sqrt(d) and diameter sqrt(2d) [L2] whatever the edges. `edges` is (m,) for all
    coordinates or (d, m); `table(values)` has a row of m + 1 bins a coordinate.
    """

    grid_bits = 0
    rows_per_flush = _COUNTS_PER_FLUSH

    def __init__(self, center: Any, edges: Any, absolute: bool) -> None:
        self._center = vector("center", center)
        self.columns = self._center.size
        given = np.asarray(edges, np.float64)
        rows = [_increasing(row) for row in (given if given.ndim == 2 else given[None])]
        self._edges = np.ascontiguousarray(np.broadcast_to(np.stack(rows), (self.columns, rows[0].size))).copy()
        self._absolute = bool(absolute)
        self.bins = self._edges.shape[1] + 1
        self.width = self.columns * self.bins
        self.norm_bound = whole_sqrt_upper(self.columns)
        self.diameter_bound = whole_sqrt_upper(2 * self.columns)

    def table(self, values: Floats) -> Floats:
        return values.reshape(self.columns, self.bins)

    def add(self, block: Rows, total: Ints) -> None:
        from .map_kernels import add_coordinate_bins

        for part in _doubles(block):
            add_coordinate_bins(part, self._center, self._edges, self._absolute, total)


class _Gridded:
    """What the maps share that round real vectors of norm at most 1 to the grid 2^-grid_bits."""

    def __init__(self, ellipsoid: Ellipsoid, grid_bits: int) -> None:
        self.ellipsoid = ellipsoid
        self.grid_bits = grid_bits
        self._frame = _Frame(ellipsoid)
        self.columns, self.width = self._frame.columns, self._frame.width
        self.norm_bound = clipped_norm_bound(self.width, grid_bits)
        self.diameter_bound = 2 * self.norm_bound
        self.rows_per_flush = 1 << 62 - grid_bits

    @property
    def _grid(self) -> float:
        return math.ldexp(1.0, self.grid_bits)


class AbsoluteSum(_Gridded):
    """q = rint(2^m |y| / max(1, ‖y‖)), y = B (x - c).

    Norm R as in [S2]; entries are never negative, so two rows are at most sqrt(2) R apart [L3].
    """

    def __init__(self, ellipsoid: Ellipsoid, grid_bits: int = GRID_BITS) -> None:
        super().__init__(ellipsoid, grid_bits)
        self.diameter_bound = sqrt_upper(2 * self.norm_bound**2)

    def add(self, block: Rows, total: Ints) -> None:
        from .map_kernels import add_absolutes

        for part in _doubles(block):
            add_absolutes(part, *self._frame.arguments(), self._grid, total, *self._frame.scratch())


class ShellSum(_Gridded):
    """q = rint(2^m (clip(‖y‖, inner, outer) - inner) / (outer - inner) y / ‖y‖), y = B (x - c).

    What lies of a row between two radii, in units of the shell's thickness: norm R and diameter 2R as in [S2] [L4].
    """

    def __init__(self, ellipsoid: Ellipsoid, inner: float, outer: float, grid_bits: int = GRID_BITS) -> None:
        super().__init__(ellipsoid, grid_bits)
        if not 1 / _WIDEST <= inner < outer <= _WIDEST:
            raise UsageError("the shell needs 2^-190 <= inner < outer <= 2^190. Scale the ellipsoid instead.")
        self.inner, self.outer = float(inner), float(outer)

    def add(self, block: Rows, total: Ints) -> None:
        from .map_kernels import add_shells

        radii = self.inner, self.outer
        for part in _doubles(block):
            add_shells(part, *self._frame.arguments(), *radii, self._grid, total, *self._frame.scratch())


class OuterSum(_Gridded):
    """q = rint(2^m svec(z z^T)), z = y / max(1, ‖y‖), y = B (x - c): second moments.

    svec is the upper triangle with off-diagonals times sqrt 2, so inner products are those of the matrices, squares
    of <z, z'>, never negative: norm about 1, diameter about sqrt 2 [L5].
    """

    def __init__(self, ellipsoid: Ellipsoid, grid_bits: int = GRID_BITS) -> None:
        super().__init__(ellipsoid, grid_bits)
        sides = self._frame.width
        self.width = sides * (sides + 1) // 2
        exact = (1 << grid_bits) * (1 + Fraction(2 * sides + 32, 1 << 52))
        rounding = whole_sqrt_upper(self.width)
        self.norm_bound = exact + rounding / 2
        self.diameter_bound = sqrt_upper(2 * exact**2) + rounding
        self._sides = sides

    def add(self, block: Rows, total: Ints) -> None:
        from .map_kernels import add_outer_products

        for part in _doubles(block):
            add_outer_products(part, *self._frame.arguments(), self._grid, total, *self._frame.scratch())

    def matrix(self, values: Floats) -> Floats:
        """The symmetric matrix of a noisy sum; its noise has std s on the diagonal and s / sqrt 2 beside it."""
        full = np.zeros((self._sides, self._sides))
        upper = np.triu_indices(self._sides)
        full[upper] = values / np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))
        return full + np.triu(full, 1).T


def _increasing(edges: Any) -> Floats:
    found = vector("edges", edges)
    if (np.diff(found) <= 0).any():
        raise UsageError("edges must increase. Sort them and drop repeats.")
    return found
