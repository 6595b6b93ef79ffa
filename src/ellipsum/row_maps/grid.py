"""The grid that integer rows lie on, and the least noise that a guarantee needs in its units."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from ..numerics.wide_integers import Ints
from ..regions.ellipsoid import Ellipsoid
from ..rows import Rows
from .auxiliary_counts import PLAIN, AuxiliaryCounts
from .maps import ClampedMap, EllipsoidMap

GRID_BITS = 40
WIDE_GRID_BITS = 44
_BEYOND = 2.0**60  # no valid limit is so large, and its integer still is one


def grid_bits(n: int | None, mu: float) -> int:
    """[U4] Fine enough that rounding n rows to the grid stays below 2^-9 of the noise."""
    return GRID_BITS if n is not None and n * mu <= 2.0 ** (GRID_BITS - 8) else WIDE_GRID_BITS


def ellipsoid_map(ellipsoid: Ellipsoid, bits: int, auxiliary: AuxiliaryCounts = PLAIN) -> EllipsoidMap:
    """The row map that clips to an ellipsoid and rounds to the grid 2^-bits."""
    matrix = ellipsoid.matrix
    if matrix is None:
        return EllipsoidMap(ellipsoid.center, scale=ellipsoid.scale, grid_bits=bits, auxiliary=auxiliary)
    return EllipsoidMap(ellipsoid.center, matrix=matrix, grid_bits=bits, auxiliary=auxiliary)


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
    exact = sensitivity / Fraction(mu)
    guess = float(exact)
    return guess if Fraction(guess) >= exact else math.nextafter(guess, math.inf)
