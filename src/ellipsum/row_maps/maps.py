"""Row maps: fixed public maps from a row to a bounded row of integers, described without any code that runs them.

row x -> y = B (x - c) -> clip to ‖y‖ <= 1, or each entry to its own limit -> q = rint(y 2^m). A map says how long its
integer rows can be and how far apart (its body); whoever has the rows picks the kernel for its kind.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from ..errors import Floats, UsageError, vector, whole
from ..numerics.wide_integers import Ints, larger_squares, squares_of, sum_of
from .auxiliary_counts import PLAIN, WRONG, Riders, widest_squares

MOST_GRID_BITS = 48
_COLUMNS_AT_ONCE = 1 << 14  # whose squares stay in a core's cache
_SQRT_BITS = 32
UNUSED = -2000
"""In place of the exponent of a matrix column that is all zero."""
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

        rows_each: where a person has up to so many rows [U8], any number of which may go or come.
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
        """Entries of a row that goes in."""

    @property
    def width(self) -> int:
        """Entries of the integer row that comes out."""

    @property
    def grid_bits(self) -> int:
        """Integer rows are multiples of 2^-grid_bits of what they stand for; 0 for counts."""

    @property
    def body(self) -> Body: ...

    @property
    def rows_per_flush(self) -> int:
        """So many integer rows surely add up within 64 bits."""


@lru_cache(maxsize=1024)
def clipped_norm_bound(width: int, grid_bits: int) -> Fraction:
    """R = 2^m (1 + (width + 8) 2^-52) + sqrt(width)/2, rounded up ([S2])."""
    return (1 << grid_bits) * (1 + Fraction(width + 8, 1 << 52)) + sqrt_upper(width, _SQRT_BITS) / 2


class EllipsoidMap:
    """q = rint(2^m y / max(1, ‖y‖)) with y = B (x - c), B diagonal (`scale`) or a matrix; then what its riders count.

    Guarantee [S2][S10]: whatever rounding does to y, no integer row is longer than body.norm and no two are further
    apart than body.diameter. q depends on its row alone ([S1]).
    Edge cases [S3]: a NaN or infinite entry is missing, and treated by the riders' rule; a finite row whose y overflows
    is clipped along its direction; a column of scale zero gives zero whatever it holds.
    """

    def __init__(
        self, center: Any, scale: Any = None, matrix: Any = None, *, grid_bits: int, riders: Riders = PLAIN
    ) -> None:
        self.center = vector("center", center)
        self.grid_bits = whole("grid_bits", grid_bits, least=0)
        if self.grid_bits > MOST_GRID_BITS:
            raise UsageError(f"grid_bits must be <= {MOST_GRID_BITS}, got {grid_bits}. Take a coarser grid.")
        if (scale is None) == (matrix is None):
            raise UsageError("Exactly one of scale and matrix must be given. Leave the other out.")
        self.columns = self.center.size
        self.scale = None if scale is None else vector("scale", scale, self.columns)
        self.matrix = None if matrix is None else _finite_matrix(matrix, self.columns)
        self.kind = "diagonal" if matrix is None else "matrix"
        self.riders = riders
        riders.check(self.columns, clamped=False)
        self.values = self.columns if self.matrix is None else len(self.matrix)
        self.width = self.values + riders.width
        self.body = ellipsoid_body(self.values, self.grid_bits, riders)
        self.rows_per_flush = 1 << 62 - max(self.grid_bits, _bits(riders))  # |q_j| < 2^(m+1), [S4]


def _bits(riders: Riders) -> int:
    """So many bits hold every unit of the riders, less one."""
    largest = (int(units.max(initial=0)) for units in (riders.absences, riders.outside, riders.squares))
    return max(*largest, riders.products).bit_length() - 1


def ellipsoid_body(values: int, grid_bits: int, riders: Riders) -> Body:
    """[S10] The ball's own bounds, and what the riders exceed the room by that they were given."""
    norm = clipped_norm_bound(values, grid_bits)
    if riders.width == 0:
        return Body(norm, 2 * norm)
    squared_norm = norm**2 + riders.excess(grid_bits, 1)
    squared_diameter = 4 * norm**2 + 2 * riders.excess(grid_bits, 2)
    return _with_left_out(squared_norm, squared_diameter, riders)


def _with_left_out(squared_norm: Fraction, squared_diameter: Fraction, riders: Riders) -> Body:
    """Where rows are left out: they are nothing but their unit, away from every other row."""
    if riders.missing == "row":
        left_out = Fraction(int(riders.absences[0])) ** 2
        squared_diameter = max(squared_diameter, squared_norm + left_out)
        squared_norm = max(squared_norm, left_out)
    return Body(sqrt_upper(squared_norm), sqrt_upper(squared_diameter))


class ClampedMap:
    """q_j = rint(clip((x_j - c_j) s_j, -L_j, L_j)), L_j whole; then what its riders count, cell by cell.

    Guarantee [S9]: |q_j| <= L_j exactly. A column's cell is (q_j, 0, 0) inside its bounds, (±L_j, 0, W_j) outside,
    (0, E_j, 0) where it is absent, and the bounds on rows add up column by column.
    [S11] The squares of a row follow: Q_j (1 - (q_j/L_j)^2), rounded, of every cell that is not counted as absent.
    `lower` and `upper` are the stated bounds: a cell counts as outside where it is beyond them by more than rounding.
    """

    def __init__(
        self, center: Any, scale: Any, limits: Any, bounds: tuple[Any, Any], *, grid_bits: int, riders: Riders = PLAIN
    ) -> None:
        self.center = vector("center", center)
        self.columns = self.center.size
        self.scale = vector("scale", scale, self.columns)
        self.limits = np.array(limits, np.int64)
        self.lower, self.upper = (vector("bounds", side, self.columns) for side in bounds)
        if self.limits.shape != (self.columns,) or not ((self.limits >= 0) & (self.limits < 1 << MOST_GRID_BITS)).all():
            raise UsageError(f"limits must be whole numbers below 2^{MOST_GRID_BITS}, one per column.")
        self.grid_bits = whole("grid_bits", grid_bits, least=0)
        self.riders = riders
        riders.check(self.columns, clamped=True)
        if riders.fill is not None and riders.absences.size:  # a cell that is counted is at the center
            counted = riders.absences > 0
            if (riders.fill != self.center)[counted].any():
                raise UsageError(WRONG)
        self.values = self.columns
        self.width = self.values + riders.width
        self.kind = "squared" if riders.squares.size else "clamped"
        self.body = clamped_body(self.limits, riders)
        self.rows_per_flush = 1 << 62 - max(int(self.limits.max()).bit_length() - 1, _bits(riders), 0)


def clamped_moves(limits: Ints, riders: Riders, neighbors: str) -> Ints:
    """How far each coordinate of a clamped row moves between two rows, or at all [S9]."""
    factor = 2 if neighbors == "replace" else 1
    beside = riders.units[: riders.width - riders.pairs]
    return np.concatenate([factor * limits, beside, np.full(riders.pairs, factor * riders.products)])


def all_moves(moves: Ints, count_units: int, each: int) -> Ints:
    """How far the coordinates move where people have up to so many rows each, and the count of rows behind them."""
    together = np.append(moves, count_units) if count_units else moves
    return together.astype(object) * each if each > 1 else together  # whole numbers of any size


def clamped_body(limits: Ints, riders: Riders) -> Body:
    """[S9] Column by column, in whole numbers."""
    absences = riders.absences if riders.missing == "column" else riders.absences[:0]
    parts, times = [limits, absences, riders.outside, riders.squares], 1
    if all((part == part[:1]).all() for part in parts):  # a million are often all alike: one stands for all
        parts, times = [part[:1] for part in parts], limits.size
    squared_norm = squared_diameter = 0
    for start in range(0, parts[0].size, _COLUMNS_AT_ONCE):
        norm, diameter = _squared_body(*(part[start : start + _COLUMNS_AT_ONCE] for part in parts))
        squared_norm, squared_diameter = squared_norm + times * norm, squared_diameter + times * diameter
    products = riders.pairs * riders.products**2  # [S12]
    return _with_left_out(Fraction(squared_norm + products), Fraction(squared_diameter + 4 * products), riders)


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
    """[S11] How long the cells (q, Q (1 - (q/L)^2)) are at most, and how far two are apart, as sums of squares."""
    if not squares.size:
        return [limits], [2 * limits]
    fine = limits >= FINE
    longest = np.where(fine & (squares > 0), np.maximum(limits, squares + 2), limits)
    length = [longest, np.where(fine, 0, squares)]
    return length, [2 * limits, np.where(fine & (squares <= widest_squares(limits)), 0, squares)]


def _finite_matrix(matrix: Any, columns: int) -> Floats:
    try:
        given = np.array(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        raise UsageError("matrix must be a table of numbers. Check for text or ragged nesting.") from None
    if given.ndim != 2 or given.shape[0] == 0 or given.shape[1] != columns:
        raise UsageError(f"matrix must have {columns} columns, one for each entry of center.")
    if not np.isfinite(given).all():
        raise UsageError("matrix must be finite: it holds a NaN or an infinity.")
    return given
