"""Row maps of the learning rounds: histograms, absolute values, shells and outer products.

Each is a fixed public map from a row to a bounded integer row, a bitwise pure function of the row ([L1]), with its
own norm and diameter (docs/proofs/learning.md). Sums clipped to an ellipsoid are `row_maps.EllipsoidMap`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats, UsageError, vector
from ..regions.ellipsoid import Ellipsoid
from ..row_maps.grid import GRID_BITS
from ..row_maps.maps import Body, RowMap, clipped_norm_bound, sqrt_upper
from .frame import Frame

_WIDEST = 2.0**190  # radii and edges lie between its inverse and it: rows that overflow come out at 2^199 or above
_COUNTS_PER_FLUSH = 1 << 62
_ROOT_BITS = 32
_ENTRY_BITS = 20  # of rows whose products are summed: those of 2^12 rows add up exactly in doubles


def _root(number: int) -> Fraction:
    return sqrt_upper(number, _ROOT_BITS)


class Count:
    """Every row as the integer 1: norm 1, and no distance between two rows."""

    kind = "count"
    width = 1
    grid_bits = 0
    body = Body(Fraction(1), Fraction(1), 1)
    rows_per_flush = _COUNTS_PER_FLUSH

    def __init__(self, columns: int) -> None:
        self.columns = columns


class NormHistogram:
    """One-hot of ‖B (x - c)‖ among increasing edges, for one or several shapes at once, each times a whole weight.

    With k shapes the integer row is k one-hots side by side: norm sqrt(k), diameter sqrt(2k), and with weights the
    sum of their squares for k [L2]. Bin i of a shape counts the rows with exactly i edges below their norm; a norm
    beyond the range of doubles is in the last. Where an earlier one is the same object and has all of a shape's
    edges, its bins are added up, and norms are not worked out again.
    """

    kind = "norm_histogram"
    grid_bits = 0

    def __init__(self, shapes: Sequence[tuple[Ellipsoid, Any]], weights: Sequence[int] | None = None) -> None:
        self.frames = [Frame(ellipsoid) for ellipsoid, _ in shapes]
        self.edges = [_increasing(edges) for _, edges in shapes]
        if any(e[0] < 1 / _WIDEST or e[-1] > _WIDEST for e in self.edges):
            raise UsageError("edges must lie between 2^-190 and 2^190. Scale the ellipsoid instead.")
        self.columns = self.frames[0].columns
        self.sizes = [edges.size + 1 for edges in self.edges]
        self.width = sum(self.sizes)
        self.finer = [self._finer(shapes, i) for i in range(len(shapes))]
        self.weights = _weights(weights, len(shapes))
        squares = sum(weight * weight for weight in self.weights)
        self.body = Body(_root(squares), _root(2 * squares), sum(self.weights))
        self.rows_per_flush = _COUNTS_PER_FLUSH // max(self.weights)

    def _finer(self, shapes: Sequence[tuple[Ellipsoid, Any]], i: int) -> int | None:
        """The first of the shapes before this one that has its norms, worked out, and all of its edges."""
        alike = (j for j in range(i) if shapes[j][0] is shapes[i][0])
        return next((j for j in alike if np.isin(self.edges[i], self.edges[j]).all()), None)

    def starts(self, edges: Floats, finer: int) -> NDArray[np.int64]:
        """The first bin of a finer histogram within each bin of one that has some of its edges."""
        return np.concatenate([[0], np.searchsorted(self.edges[finer], edges) + 1])

    def split(self, values: Floats) -> list[Floats]:
        """The histogram of each shape, in rows."""
        parts = np.split(values, np.cumsum(self.sizes)[:-1])
        return [part / weight for part, weight in zip(parts, self.weights, strict=True)]


class CoordinateHistogram:
    """One-hot of each entry of a row among its column's edges; `edges` has a row for each column.

    folded: of its distance from zero. absences: a missing entry counts in a last bin of its own, rather than nowhere.
    d one-hots side by side, so norm sqrt(d) and diameter sqrt(2d) whatever the edges [L2][L10]. `table(values)` has a
    row of bins for each column.
    """

    kind = "coordinate_histogram"
    grid_bits = 0
    rows_per_flush = _COUNTS_PER_FLUSH

    def __init__(self, edges: Any, folded: bool = False, absences: bool = False) -> None:
        self.folded, self.absences = folded, absences
        rows = [_increasing(row) for row in np.asarray(edges, np.float64)]
        self.edges = np.ascontiguousarray(np.stack(rows))
        self.columns = len(rows)
        self.bins = self.edges.shape[1] + (2 if absences else 1)
        self.width = self.columns * self.bins
        self.body = Body(_root(self.columns), _root(2 * self.columns), self.columns)

    def table(self, values: Floats) -> Floats:
        return values.reshape(self.columns, self.bins)


class FarCount:
    """1 of a row with an entry farther than `reach` from its column's center, else 0: two are at most 1 apart [L2].

    A missing entry is not far.
    """

    kind = "far_count"
    width = 1
    grid_bits = 0
    body = Body(Fraction(1), Fraction(1), 1, 1)
    rows_per_flush = _COUNTS_PER_FLUSH

    def __init__(self, center: Any, reach: Any) -> None:
        self.center = vector("center", center)
        self.columns = self.center.size
        self.reach = vector("reach", reach, self.columns)


class FilledMap:
    """The map `inner` of rows whose missing entries have become stated numbers, one per column [L11]."""

    kind = "filled"

    def __init__(self, inner: RowMap, fill: Floats) -> None:
        self.inner, self.fill = inner, fill
        self.columns, self.width, self.body = inner.columns, inner.width, inner.body
        self.rows_per_flush, self.grid_bits = inner.rows_per_flush, inner.grid_bits


class _Gridded:
    """What the maps share that round real vectors of norm at most 1 to the grid 2^-grid_bits."""

    def __init__(self, ellipsoid: Ellipsoid, grid_bits: int) -> None:
        self.ellipsoid = ellipsoid
        self.grid_bits = grid_bits
        self.frame = Frame(ellipsoid)
        self.columns, self.width = self.frame.columns, self.frame.width
        norm = clipped_norm_bound(self.width, grid_bits)
        self.body = Body(norm, 2 * norm)
        self.rows_per_flush = 1 << 62 - grid_bits

    @property
    def grid(self) -> float:
        return math.ldexp(1.0, self.grid_bits)


class AbsoluteSum(_Gridded):
    """q = rint(2^m |y| / max(1, ‖y‖)), y = B (x - c).

    Norm R as in [S2]; entries are never negative, so two rows are at most sqrt(2) R apart [L3].
    """

    kind = "absolute_sum"

    def __init__(self, ellipsoid: Ellipsoid, grid_bits: int = GRID_BITS) -> None:
        super().__init__(ellipsoid, grid_bits)
        self.body = Body(self.body.norm, sqrt_upper(2 * self.body.norm**2))


class ShellSum(_Gridded):
    """q = rint(2^m (clip(‖y‖, inner, outer) - inner) / (outer - inner) y / ‖y‖), y = B (x - c).

    What lies of a row between two radii, in units of the shell's thickness: norm R and diameter 2R as in [S2] [L4].
    """

    kind = "shell_sum"

    def __init__(self, ellipsoid: Ellipsoid, inner: float, outer: float, grid_bits: int = GRID_BITS) -> None:
        super().__init__(ellipsoid, grid_bits)
        if not 1 / _WIDEST <= inner < outer <= _WIDEST:
            raise UsageError("the shell needs 2^-190 <= inner < outer <= 2^190. Scale the ellipsoid instead.")
        self.inner, self.outer = float(inner), float(outer)


class OuterSum(_Gridded):
    """The upper triangle of q q^T, q = rint(2^20 y / max(1, ‖y‖)): 5 q_i^2, and 7 q_i q_j beside the diagonal.

    7 is nearly 5 sqrt 2, so that inner products are nearly 25 times those of the matrices.
    Norm 5 R^2 with R as in [S2]; two rows are at most sqrt 2 times that apart [L5].
    """

    kind = "outer_sum"
    factors = 5, 7
    """Of products on the diagonal, and beside it."""

    def __init__(self, ellipsoid: Ellipsoid) -> None:
        super().__init__(ellipsoid, _ENTRY_BITS)
        norm = self.factors[0] * self.body.norm**2
        self.body = Body(norm, sqrt_upper(2 * norm**2))
        self._sides = self.width
        self.width = self._sides * (self._sides + 1) // 2
        self.grid_bits = 2 * _ENTRY_BITS
        self.rows_per_flush = 1 << 60 - self.grid_bits - 1

    @property
    def grid(self) -> float:
        """That of a row, not of its products."""
        return math.ldexp(1.0, _ENTRY_BITS)

    def diagonal_std(self, std: float) -> float:
        """Of noise of this std in a sum, in the matrix: on its diagonal; beside it it is about 1/sqrt 2 of that."""
        return std / self.factors[0]

    def matrix(self, values: Floats) -> Floats:
        """The symmetric matrix of a noisy sum."""
        full = np.zeros((self._sides, self._sides))
        upper = np.triu_indices(self._sides)
        full[upper] = values / np.where(upper[0] == upper[1], *map(float, self.factors))
        return full + np.triu(full, 1).T


def _weights(weights: Sequence[int] | None, shapes: int) -> tuple[int, ...]:
    """One for each shape, 1 where none are given."""
    found = (1,) * shapes if weights is None else tuple(weights)
    if len(found) != shapes or min(found) < 1:
        raise UsageError("every shape needs a whole weight of at least 1.")
    return found


def _increasing(edges: Any) -> Floats:
    found = vector("edges", edges)
    if (np.diff(found) <= 0).any():
        raise UsageError("edges must increase. Sort them and drop repeats.")
    return found
