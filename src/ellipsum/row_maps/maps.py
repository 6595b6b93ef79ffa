"""Row maps: fixed public maps from a row to a bounded row of integers, described without any code that runs them.

row x -> y = B (x - c) -> clip to ‖y‖ <= 1, or each value to its own limit -> q = rint(y 2^m). A map says how long its
integer rows can be and how far apart (its body), from which the least noise on the grid follows. `kernels/` picks the
kernel for its kind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from ..errors import Floats, UsageError, vector, whole
from ..numerics.rounding import round_up
from ..numerics.wide_integers import Ints, larger_squares, squares_of, sum_of
from ..regions.ellipsoid import Ellipsoid
from ..rows import Rows
from .auxiliary_counts import PLAIN, WRONG, AuxiliaryCounts, widest_squares

GRID_BITS, WIDE_GRID_BITS = 40, 44
MOST_GRID_BITS = 48
_BEYOND = 2.0**60  # no valid limit is so large, and its integer still is one
_COLUMNS_AT_ONCE = 1 << 14  # whose squares stay in a core's cache
_SQRT_BITS = 32
UNUSED = -2000
"""The exponent of a matrix column that is all zero."""
FINE = 1 << 10
"""Limits from here on are fine enough that rounding a square is below what its curve leaves free [S11]."""


def sqrt_upper(square: int | Fraction, bits: int = 60) -> Fraction:
    """A multiple of 2^-bits at least sqrt(square), within 2^(1-bits) of it."""
    exact = Fraction(square)
    scaled = -((-exact.numerator << 2 * bits) // exact.denominator)
    root = math.isqrt(scaled - 1) + 1 if scaled > 0 else 0
    return Fraction(root, 1 << bits)


@dataclass(frozen=True)
class Body:
    """Bounds on the integer rows of a map, in exact arithmetic: no row is longer, no two rows are further apart."""

    norm: Fraction
    diameter: Fraction

    def sensitivity(self, neighbors: str, count_units: int = 0, rows_each: int | None = None) -> Fraction:
        """l2-sensitivity, rounded up, of the sum; [U2] with the count of rows as one more coordinate.

        rows_each: the most rows of a person [U8], any number of which may be added or removed.
        """
        if neighbors == "replace" and rows_each is None:
            return self.diameter
        one = sqrt_upper(self.norm**2 + count_units**2) if count_units else self.norm
        one = max(one, self.diameter) if neighbors == "replace" else one
        return one * (rows_each or 1)


class RowMap(Protocol):
    """A fixed public map from rows to bounded integer rows; `kind` names the kernel that runs it."""

    @property
    def kind(self) -> str: ...

    @property
    def columns(self) -> int:
        """The number of values of an input row."""

    @property
    def width(self) -> int:
        """The number of integers of an integer row."""

    @property
    def grid_bits(self) -> int:
        """Integer rows are multiples of 2^-grid_bits of what they stand for; 0 for counts."""

    @property
    def body(self) -> Body: ...

    @property
    def rows_per_flush(self) -> int:
        """The number of integer rows whose sum always fits 64 bits."""


@lru_cache(maxsize=1024)
def clipped_norm_bound(width: int, grid_bits: int) -> Fraction:
    """R = 2^m (1 + (width + 8) 2^-52) + sqrt(width)/2, rounded up ([S2])."""
    return (1 << grid_bits) * (1 + Fraction(width + 8, 1 << 52)) + sqrt_upper(width, _SQRT_BITS) / 2


class EllipsoidMap:
    """q = rint(2^m y / max(1, ‖y‖)) with y = B (x - c), B diagonal (`scale`) or a matrix; then the auxiliary counts.

    Guarantee [S2][S10]: whatever rounding does to y, no integer row is longer than body.norm and no two are further
    apart than body.diameter. q depends on its row alone ([S1]).
    Edge cases [S3]: a NaN or infinite value is missing, and treated by the rule of the auxiliary counts; a finite row
    whose y overflows is clipped along its direction; a column of scale zero gives zero whatever it holds.
    """

    def __init__(
        self,
        center: ArrayLike,
        scale: ArrayLike | None = None,
        matrix: ArrayLike | None = None,
        *,
        grid_bits: int,
        auxiliary: AuxiliaryCounts = PLAIN,
    ) -> None:
        self.center = vector("center", center)
        self.grid_bits = whole("grid_bits", grid_bits, least=0)
        if self.grid_bits > MOST_GRID_BITS:
            raise UsageError(f"grid_bits must be <= {MOST_GRID_BITS}, got {grid_bits}. Use a coarser grid.")
        if (scale is None) == (matrix is None):
            raise UsageError("Pass exactly one of scale and matrix.")
        self.columns = self.center.size
        self.scale = None if scale is None else vector("scale", scale, self.columns)
        self.matrix = None if matrix is None else _finite_matrix(matrix, self.columns)
        self.kind = "diagonal" if matrix is None else "matrix"
        self.auxiliary = auxiliary
        auxiliary.check(self.columns, clamped=False)
        self.values = self.columns if self.matrix is None else len(self.matrix)
        self.width = self.values + auxiliary.width
        self.body = ellipsoid_body(self.values, self.grid_bits, auxiliary)
        self.rows_per_flush = 1 << 62 - max(self.grid_bits, _bits(auxiliary))  # |q_j| < 2^(m+1) [S4]


def _bits(auxiliary: AuxiliaryCounts) -> int:
    """The bits that hold every unit of the auxiliary counts, less one."""
    largest = (int(units.max(initial=0)) for units in (auxiliary.absences, auxiliary.outside, auxiliary.squares))
    return max(*largest, auxiliary.outside_rows, auxiliary.products).bit_length() - 1


def ellipsoid_body(values: int, grid_bits: int, auxiliary: AuxiliaryCounts) -> Body:
    """[S10] The ball's own bounds, and the excess of the auxiliary counts over what is free."""
    norm = clipped_norm_bound(values, grid_bits)
    if auxiliary.width == 0:
        return Body(norm, 2 * norm)
    squared_norm = norm**2 + auxiliary.excess(grid_bits, 1)
    squared_diameter = 4 * norm**2 + 2 * auxiliary.excess(grid_bits, 2)
    return _with_left_out(squared_norm, squared_diameter, auxiliary)


def _with_left_out(squared_norm: Fraction, squared_diameter: Fraction, auxiliary: AuxiliaryCounts) -> Body:
    """Rows that are left out consist of their unit alone, away from every other row."""
    if auxiliary.missing == "row":
        left_out = Fraction(int(auxiliary.absences[0])) ** 2
        squared_diameter = max(squared_diameter, squared_norm + left_out)
        squared_norm = max(squared_norm, left_out)
    return Body(sqrt_upper(squared_norm), sqrt_upper(squared_diameter))


class ClampedMap:
    """q_j = rint(clip((x_j - c_j) s_j, -L_j, L_j)), L_j whole; then the auxiliary counts, cell by cell.

    Guarantee [S9]: |q_j| <= L_j exactly. A column's value is (q_j, 0, 0) inside its bounds, (±L_j, 0, W_j) outside,
    (0, E_j, 0) where it is missing, and the bounds on rows add up column by column; a row with a value outside has one
    more number, of A units.
    [S11] The squares of a row follow: Q_j (1 - (q_j/L_j)^2), rounded, of every value that is not counted as missing.
    `lower` and `upper` are the given bounds: a value counts as outside where it exceeds them by more than rounding.
    """

    def __init__(
        self,
        center: ArrayLike,
        scale: ArrayLike,
        limits: ArrayLike,
        bounds: tuple[ArrayLike, ArrayLike],
        *,
        grid_bits: int,
        auxiliary: AuxiliaryCounts = PLAIN,
    ) -> None:
        self.center = vector("center", center, copy=False)  # a plan's own arrays: of millions of columns, say
        self.columns = self.center.size
        self.scale = vector("scale", scale, self.columns, copy=False)
        self.limits = np.array(limits, np.int64)
        self.lower, self.upper = (vector("bounds", side, self.columns, copy=False) for side in bounds)
        if self.limits.shape != (self.columns,) or not ((self.limits >= 0) & (self.limits < 1 << MOST_GRID_BITS)).all():
            raise UsageError(f"limits must be whole numbers below 2^{MOST_GRID_BITS}, one per column.")
        self.grid_bits = whole("grid_bits", grid_bits, least=0)
        self.auxiliary = auxiliary
        auxiliary.check(self.columns, clamped=True)
        if auxiliary.fill is not None and auxiliary.absences.size:  # a value that is counted is at the center
            counted = auxiliary.absences > 0
            if (auxiliary.fill != self.center)[counted].any():
                raise UsageError(WRONG)
        self.values = self.columns
        self.width = self.values + auxiliary.width
        self.kind = "squared" if auxiliary.squares.size else "clamped"
        self.body = clamped_body(self.limits, auxiliary)
        self.rows_per_flush = 1 << 62 - max(int(self.limits.max()).bit_length() - 1, _bits(auxiliary), 0)


class Prepared:
    """The map `inner` of rows with missing values replaced by `fill` and other values clamped to bounds.

    A row stays a function of itself, and the integer rows are those of `inner` [L6].
    drops: whether all values of a row with a missing value are missing.
    """

    kind = "prepared"

    def __init__(
        self,
        inner: RowMap,
        fill: ArrayLike,
        lower: ArrayLike = -math.inf,
        upper: ArrayLike = math.inf,
        drops: bool = False,
    ) -> None:
        self.inner, self.drops = inner, drops
        self.fill, self.lower, self.upper = (
            np.broadcast_to(np.asarray(part, float), (inner.columns,)) for part in (fill, lower, upper)
        )
        self.columns, self.width, self.body = inner.columns, inner.width, inner.body
        self.rows_per_flush, self.grid_bits = inner.rows_per_flush, inner.grid_bits

    def rows(self, part: Floats) -> Floats:
        """Rows as the inner map reads them."""
        present = np.isfinite(part)
        if self.drops:
            present &= present.all(axis=1, keepdims=True)
        return np.where(present, np.clip(part, self.lower, self.upper), self.fill)


def clamped_moves(
    limits: Ints, auxiliary: AuxiliaryCounts, neighbors: str, pairs: Sequence[tuple[int, int]] = ()
) -> Ints:
    """The largest change of each coordinate of a clamped row between neighboring data sets [S9].

    pairs: values with the missing counts of their columns, replaced by their sums and differences [K5].
    """
    factor = 2 if neighbors == "replace" else 1
    beside = auxiliary.units[: auxiliary.width - auxiliary.pairs]
    moves = np.concatenate([factor * limits, beside, np.full(auxiliary.pairs, factor * auxiliary.products)])
    if not pairs:
        return moves
    first, second = np.array(pairs).T
    if auxiliary.missing != "column" or (first >= limits.size).any() or (second != first + limits.size).any():
        raise UsageError(WRONG)
    value, absence = limits[first], auxiliary.absences[first]
    moves[first] = moves[second] = np.maximum(factor * value, (factor - 1) * value + absence)
    return moves


def all_moves(moves: Ints, count_units: int, each: int) -> Ints:
    """The largest changes of coordinates, and of the count of rows behind them; each: the most rows of a person."""
    together = np.append(moves, count_units) if count_units else moves
    return together.astype(object) * each if each > 1 else together  # whole numbers of any size


def clamped_body(limits: Ints, auxiliary: AuxiliaryCounts) -> Body:
    """[S9] Column by column, in whole numbers."""
    absences = auxiliary.absences if auxiliary.missing == "column" else auxiliary.absences[:0]
    parts, times = [limits, absences, auxiliary.outside, auxiliary.squares], 1
    if all((part == part[:1]).all() for part in parts):  # a million are often all alike: one stands for all
        parts, times = [part[:1] for part in parts], limits.size
    squared_norm = squared_diameter = 0
    for start in range(0, parts[0].size, _COLUMNS_AT_ONCE):
        norm, diameter = _squared_body(*(part[start : start + _COLUMNS_AT_ONCE] for part in parts))
        squared_norm, squared_diameter = squared_norm + times * norm, squared_diameter + times * diameter
    products = auxiliary.pairs * auxiliary.products**2  # [S12]
    row = auxiliary.outside_rows**2  # of a row with a clamped cell [S9]
    squared_norm, squared_diameter = squared_norm + products + row, squared_diameter + 4 * products + row
    return _with_left_out(Fraction(squared_norm), Fraction(squared_diameter), auxiliary)


def _squared_body(limits: Ints, absences: Ints, outside: Ints, squares: Ints) -> tuple[int, int]:
    """The squared norm and diameter of some columns; empty where nothing is counted."""
    length, distance = squared_cells(limits, squares)
    beside = [outside] if outside.size else []
    longest = cells = squares_of([*length, *beside])
    if absences.size:
        longest, cells = larger_squares(cells, squares_of([absences])), squares_of([*length, *beside, absences])
    farthest = larger_squares(squares_of([*distance, *beside]), cells)
    return sum_of(longest), sum_of(farthest)


def squared_cells(limits: Ints, squares: Ints) -> tuple[list[Ints], list[Ints]]:
    """[S11] The largest length of (q, Q (1 - (q/L)^2)) and the largest distance of two, as sums of squares."""
    if not squares.size:
        return [limits], [2 * limits]
    fine = limits >= FINE
    longest = np.where(fine & (squares > 0), np.maximum(limits, squares + 2), limits)
    length = [longest, np.where(fine, 0, squares)]
    return length, [2 * limits, np.where(fine & (squares <= widest_squares(limits)), 0, squares)]


def _finite_matrix(matrix: ArrayLike, columns: int) -> Floats:
    try:
        numbers = np.array(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        raise UsageError("matrix must be a table of numbers. Check for text or ragged nesting.") from None
    if numbers.ndim != 2 or numbers.shape[0] == 0 or numbers.shape[1] != columns:
        raise UsageError(f"matrix must have {columns} columns, one for each number of center.")
    if not np.isfinite(numbers).all():
        raise UsageError("matrix must be finite: it holds a NaN or an infinity.")
    return numbers


def grid_bits(n: int | None, mu: float) -> int:
    """[U4] Fine enough that rounding n rows to the grid stays below 2^-9 of the noise."""
    return GRID_BITS if n is not None and n * mu <= 2.0 ** (GRID_BITS - 8) else WIDE_GRID_BITS


def ellipsoid_map(ellipsoid: Ellipsoid, bits: int, auxiliary: AuxiliaryCounts = PLAIN) -> EllipsoidMap:
    """The row map that clips to an ellipsoid and rounds to the grid 2^-bits."""
    matrix = ellipsoid.matrix
    scale = ellipsoid.scale if matrix is None else None
    return EllipsoidMap(ellipsoid.center, scale, matrix, grid_bits=bits, auxiliary=auxiliary)


def clamped_map(rows: Rows, ellipsoid: Ellipsoid, bits: int, auxiliary: AuxiliaryCounts) -> ClampedMap:
    """The row map that clamps each value to its bounds and rounds to the grid 2^-bits."""
    limits = clamp_limits(rows, ellipsoid, bits)
    return ClampedMap(
        ellipsoid.center, np.ldexp(ellipsoid.scale, bits), limits, rows.bounds(), grid_bits=bits, auxiliary=auxiliary
    )


def clamp_limits(rows: Rows, ellipsoid: Ellipsoid, bits: int) -> Ints:
    """Whole limits that hold every value within its bounds: half the width on the grid, rounded up [S9]."""
    lower, upper = rows.bounds()
    with np.errstate(over="ignore"):
        reach = np.floor(np.ldexp(ellipsoid.scale * ((upper - lower) / 2), bits))
    limits: Ints = np.where(ellipsoid.scale > 0, np.minimum(reach, _BEYOND) + 1, 0).astype(np.int64)
    return limits


def noise_units(sensitivity: Fraction, mu: float) -> float:
    """The least double s with s * mu >= sensitivity in exact arithmetic."""
    return round_up(sensitivity / Fraction(mu))
