"""Row maps: fixed public maps from a row to a bounded row of integers, described without any code that runs them.

row x -> y = B (x - c) -> clip to ‖y‖ <= 1 -> q = rint(y 2^m). A map says how long its integer rows can be and how far
apart (its body); whoever has the rows picks the kernel for its kind.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from .errors import Floats, UsageError, vector, whole

MOST_GRID_BITS = 48
_SQRT_BITS = 32


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

    def sensitivity(self, neighbours: str, count_units: int = 0) -> Fraction:
        """l2-sensitivity, rounded up, of the sum; [U2] with the count of rows as one more coordinate."""
        if neighbours == "replace":
            return self.diameter
        return sqrt_upper(self.norm**2 + count_units**2) if count_units else self.norm


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
    """q = rint(2^m y / max(1, ‖y‖)) with y = B (x - c), B diagonal (`scale`) or a matrix.

    Guarantee [S2]: ‖q‖ <= body.norm for every row there is, whatever rounding does to y, so any two integer
    rows differ by at most body.diameter = 2 body.norm. q depends on its row alone ([S1]).
    Edge cases [S3]: a NaN or infinite entry counts as the centre's; a finite row whose y overflows is clipped
    along its direction; a column of scale zero gives zero whatever it holds.
    """

    kind = "ellipsoid"

    def __init__(self, center: Any, scale: Any = None, matrix: Any = None, *, grid_bits: int) -> None:
        self.center = vector("center", center)
        self.grid_bits = whole("grid_bits", grid_bits, least=0)
        if self.grid_bits > MOST_GRID_BITS:
            raise UsageError(f"grid_bits must be <= {MOST_GRID_BITS}, got {grid_bits}. Take a coarser grid.")
        if (scale is None) == (matrix is None):
            raise UsageError("Exactly one of scale and matrix must be given. Leave the other out.")
        self.columns = self.center.size
        self.scale = None if scale is None else vector("scale", scale, self.columns)
        self.matrix = None if matrix is None else _finite_matrix(matrix, self.columns)
        self.width = self.columns if self.matrix is None else len(self.matrix)
        norm = clipped_norm_bound(self.width, self.grid_bits)
        self.body = Body(norm, 2 * norm)
        self.rows_per_flush = 1 << 62 - self.grid_bits  # |q_j| < 2^(m+1), [S4]


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
