"""Row maps of the rounds: histograms, signed parts, directions and second moments.

Each is a fixed public map from a row to a bounded row of integers, a pure function of the row [L1]. Its norm and
diameter are exact (docs/proofs/learning.md). Sums of rows clipped to an ellipsoid are `row_maps.EllipsoidMap`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import Floats, UsageError, choice, open_unit, vector
from ..numerics.wide_integers import Ints
from ..regions.ellipsoid import Ellipsoid
from .maps import GRID_BITS, UNUSED, Body, RowMap, clipped_norm_bound, sqrt_upper

_RANK_BITS = 20
_MEASURES = "values", "sizes", "norm"
WEIGHT_BITS = 20  # The grid of a count that is divided among columns: rounding loses less than one in 10^6.
_ENTRY_BITS = 20  # The grid of rows whose products are summed: doubles add those of 2^12 rows exactly.
_WIDEST = 2.0**190  # Norms and radii lie between 1 / _WIDEST and _WIDEST; rows that overflow are at 2^199 or above.


class CountMap:
    """A map whose entries count rows; `l1` bounds the l1 norm of an integer row, for Laplace noise [L2]."""

    l1: int


class Count(CountMap):
    """Every row as the integer 1."""

    kind = "count"
    width = 1
    grid_bits = 0
    body = Body(Fraction(1), Fraction(1))
    l1 = 1
    rows_per_flush = 1 << 62

    def __init__(self, columns: int) -> None:
        self.columns = columns


class ColumnHistograms(CountMap):
    """Which bin each entry of a row is in, for the columns in `places`; a missing entry is in a last bin of its own.

    edges: for each place, increasing numbers; an entry is in bin i where i of them are at most the entry.
    counted: the bins that are counted, all of them where it is None.
    divided: None counts every entry as 1, so k places have norm sqrt(k) and diameter sqrt(2k). "root" divides a row's
    entries by the square root of their number (norm 1, diameter sqrt 2), "number" by their number (l1 norm 1) [L2].
    """

    kind = "column_histograms"

    def __init__(
        self,
        columns: int,
        places: Sequence[int],
        edges: Sequence[Floats],
        counted: Sequence[NDArray[np.bool_]] | None = None,
        divided: str | None = None,
    ) -> None:
        self.columns = columns
        self.places = np.array(places, np.int64)
        parts = [_increasing(part) for part in edges]
        self.starts = np.concatenate([[0], np.cumsum([part.size for part in parts])]).astype(np.int64)
        self.edges = np.concatenate(parts)
        self.scales = np.array([_bins_per_unit(part) for part in parts])
        self.sizes = [part.size + 2 for part in parts]
        self.width = sum(self.sizes)
        self.counted = np.ones(self.width, np.bool_) if counted is None else np.concatenate(counted)
        if self.counted.size != self.width or len(parts) != self.places.size:
            raise UsageError("every place needs edges, and every bin needs True or False in counted.")
        many = len(parts)
        self.weights = _weights(many, divided)
        self.grid_bits = 0 if divided is None else WEIGHT_BITS
        square = many if divided is None else 1 << 2 * WEIGHT_BITS
        self.body = Body(sqrt_upper(square), sqrt_upper(2 * square))
        most = [count * int(weight) for count, weight in enumerate(self.weights)]
        self.l1 = max(most)
        self.rows_per_flush = 1 << 62 - self.grid_bits

    def split(self, values: Floats) -> list[Floats]:
        """The bins of each place; the last is that of missing entries."""
        return np.split(values, np.cumsum(self.sizes)[:-1])


def _bins_per_unit(edges: Floats) -> float:
    """Bins per unit of length if edges are evenly spaced up to rounding; else 0."""
    with np.errstate(all="ignore"):
        scale = float((edges.size - 1) / (edges[-1] - edges[0])) if edges.size > 1 else 0.0
        places = (edges - edges[0]) * scale
    is_even = bool((np.abs(places - np.arange(edges.size)) < 0.5).all())
    return scale if is_even and math.isfinite(scale) else 0.0


def _weights(many: int, divided: str | None) -> Ints:
    """The weight of each of m entries of a row, for m = 0, 1, 2, ..., rounded down."""
    if divided is None:
        return np.ones(many + 1, np.int64)
    one = 1 << WEIGHT_BITS
    root = [math.isqrt((one * one) // max(m, 1)) for m in range(many + 1)]
    return np.array(root if divided == "root" else [one // max(m, 1) for m in range(many + 1)], np.int64)


class Framed:
    """The common part of maps that start from y = B (x - c); no row overflows [L1]."""

    def __init__(self, ellipsoid: Ellipsoid, grid_bits: int) -> None:
        self.ellipsoid = ellipsoid
        self.grid_bits = grid_bits
        self.columns, self.values = int(ellipsoid.center.size), ellipsoid.width
        matrix = ellipsoid.matrix
        self._scale = np.ascontiguousarray(ellipsoid.scale, np.float64)
        self._packed = np.zeros((0, 0)) if matrix is None else np.ascontiguousarray(matrix.T)
        largest = self._scale if matrix is None else np.abs(matrix).max(axis=0)
        if not (np.isfinite(largest).all() and np.isfinite(ellipsoid.center).all()):
            raise UsageError("the ellipsoid must be finite: it holds a NaN or an infinity.")
        self._exponents = np.where(largest == 0, UNUSED, np.frexp(largest)[1].astype(np.int64))
        self._center = np.ascontiguousarray(ellipsoid.center, np.float64)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Center, scales or matrix, a power of two that bounds each column, and two scratch vectors."""
        scratch = np.empty(self.columns), np.empty(self.values)
        return self._center, self._scale, self._packed, self._exponents, *scratch

    @property
    def grid(self) -> float:
        return math.ldexp(1.0, self.grid_bits)


class NormHistogram(Framed, CountMap):
    """Which bin ‖B (x - c)‖ is in: bin i where i of the edges are at most the norm. Norm 1, diameter sqrt 2 [L2]."""

    kind = "norm_histogram"
    body = Body(Fraction(1), sqrt_upper(2))
    l1 = 1
    rows_per_flush = 1 << 62

    def __init__(self, ellipsoid: Ellipsoid, edges: ArrayLike) -> None:
        super().__init__(ellipsoid, 0)
        self.edges = _within(_increasing(edges))
        self.width = self.edges.size + 1


class SignedParts(Framed):
    """y clipped to norm 1, its positive and its negative parts side by side: their difference is y, their sum |y|.

    Entries are never negative, so norm R as in [S2] and diameter sqrt(2) R [L3].
    """

    kind = "signed_parts"

    def __init__(self, ellipsoid: Ellipsoid, grid_bits: int = GRID_BITS) -> None:
        super().__init__(ellipsoid, grid_bits)
        self.width = 2 * self.values
        norm = clipped_norm_bound(self.values, grid_bits)
        self.body = Body(norm, sqrt_upper(2 * norm**2))
        self.rows_per_flush = 1 << 62 - grid_bits

    def split(self, values: Floats) -> tuple[Floats, Floats]:
        """The sums of the positive and of the negative parts."""
        return values[: self.values], values[self.values :]


class Directions(Framed):
    """y / ‖y‖ of rows in each of several shells: from cuts[i] to cuts[i + 1], the last without end; else zero.

    A row is in one shell at most: norm R and diameter 2 R as in [S2] [L4].
    """

    kind = "directions"

    def __init__(self, ellipsoid: Ellipsoid, cuts: ArrayLike, grid_bits: int = GRID_BITS) -> None:
        super().__init__(ellipsoid, grid_bits)
        self.edges = _within(_increasing(cuts))
        self.width = self.values * self.edges.size
        norm = clipped_norm_bound(self.values, grid_bits)
        self.body = Body(norm, 2 * norm)
        self.rows_per_flush = 1 << 62 - grid_bits

    def split(self, values: Floats) -> Floats:
        """(shells, values)"""
        return values.reshape(self.edges.size, self.values)


class SecondMoments(Framed):
    """The upper triangle of q q^T, q = rint(2^20 y / max(1, ‖y‖)): 5 q_i^2, and 7 q_i q_j beside the diagonal.

    7 is nearly 5 sqrt 2, so that inner products are nearly 25 times those of the matrices.
    Norm 5 R^2 with R as in [S2]; two rows are at most sqrt 2 times that apart [L5].
    """

    kind = "second_moments"
    factors = 5, 7
    """Of products on the diagonal, and beside it."""

    def __init__(self, ellipsoid: Ellipsoid) -> None:
        super().__init__(ellipsoid, 2 * _ENTRY_BITS)
        norm = self.factors[0] * clipped_norm_bound(self.values, _ENTRY_BITS) ** 2
        self.body = Body(norm, sqrt_upper(2 * norm**2))
        self.width = self.values * (self.values + 1) // 2
        self.rows_per_flush = 1 << 60 - self.grid_bits - 1

    @property
    def grid(self) -> float:
        """The grid of a row, not of its products."""
        return math.ldexp(1.0, _ENTRY_BITS)

    def diagonal_std(self, std: float) -> float:
        """The std on the diagonal of the matrix, if a sum has noise of this std; other entries have 1/sqrt 2 of it."""
        return std / self.factors[0]

    def matrix(self, values: Floats) -> Floats:
        """The symmetric matrix of a noisy sum."""
        full = np.zeros((self.values, self.values))
        upper = np.triu_indices(self.values)
        full[upper] = values / np.where(upper[0] == upper[1], *map(float, self.factors))
        return full + np.triu(full, 1).T


class Sides(Framed):
    """Entries 1 - fraction where a measure of y = B (x - c) is at most its middle, -fraction where it is above.

    The sum is (rows at most the middle) - fraction (rows), with no need of the number of rows. measure: the "values" of
    y, their "sizes", or its "norm". Two rows differ by at most 1 in each of k entries: diameter sqrt(k), and norm
    max(fraction, 1 - fraction) sqrt(k) [L21].
    """

    kind = "sides"

    def __init__(self, ellipsoid: Ellipsoid, middle: ArrayLike, fraction: float, measure: str) -> None:
        super().__init__(ellipsoid, _RANK_BITS)
        self.measure = _MEASURES.index(choice("measure", measure, _MEASURES))
        self.middle = vector("middle", middle, 1 if measure == "norm" else self.values)
        self.width = self.middle.size
        self.below = round((1 - open_unit("fraction", fraction)) * (1 << _RANK_BITS))
        self.above = self.below - (1 << _RANK_BITS)
        entries = sqrt_upper(self.width)
        self.body = Body(max(self.below, -self.above) * entries, (1 << _RANK_BITS) * entries)
        self.rows_per_flush = 1 << 62 - _RANK_BITS


class SideBySide:
    """Several maps of the same rows, one after the other, so that one pass serves them all; see `Rounds.sums`."""

    kind = "side_by_side"
    grid_bits = 0

    def __init__(self, parts: Sequence[RowMap]) -> None:
        self.parts = list(parts)
        self.columns = self.parts[0].columns
        self.width = sum(part.width for part in self.parts)
        self.rows_per_flush = min(part.rows_per_flush for part in self.parts)
        norm, diameter = (sum(getattr(part.body, name) ** 2 for part in self.parts) for name in ("norm", "diameter"))
        self.body = Body(sqrt_upper(norm), sqrt_upper(diameter))


def _increasing(edges: ArrayLike) -> Floats:
    numbers = vector("edges", edges)
    if (np.diff(numbers) <= 0).any():
        raise UsageError("edges must increase. Sort them and drop repeats.")
    return numbers


def _within(edges: Floats) -> Floats:
    if edges[0] < 1 / _WIDEST or edges[-1] > _WIDEST:
        raise UsageError("norms must lie between 2^-190 and 2^190. Scale the ellipsoid instead.")
    return edges
