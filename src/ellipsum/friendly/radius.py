"""The radius of a FriendlyCore mean: a number, the candidates of a search, or the radius of Normal rows."""

from __future__ import annotations

import math

import numpy as np

from ..errors import UsageError, open_unit, whole
from ..rows import Normal
from .plan import checked_radius

Radius = float | tuple[float, float]
"""What a caller may pass, beside Normal rows: a number, or (low, high) to search between."""
_STEP = math.sqrt(2)
_MOST_CANDIDATES = 1024


def candidate_radii(radius: Radius | Normal, d: int) -> float | tuple[float, ...]:
    """One radius, or the candidates of a search, smallest first."""
    if isinstance(radius, Normal):
        return radius_for(radius.resolve(d), d)
    if not isinstance(radius, (tuple, list)):
        return checked_radius(radius)
    if len(radius) != 2:
        raise UsageError("radius must be a number, a pair (low, high) to search between, or Normal rows.")
    low, high = map(checked_radius, radius)
    if low >= high:
        raise UsageError(f"radius must be a pair (low, high) with low < high, got ({low}, {high}).")
    count = math.ceil(round((math.log(high) - math.log(low)) / math.log(_STEP), 9)) + 1
    if count > _MOST_CANDIDATES:
        raise UsageError("radius spans too many orders of magnitude. Pass a narrower pair.")
    return tuple(min(low * _STEP**k, high) for k in range(count))


def radius_for(rows: Normal, d: int | None = None, outside: float = 0.02) -> float:
    """The radius within which two independent normal rows lie, except for a share `outside` of pairs.

    The difference of two rows of N(c, Sigma) is N(0, 2 Sigma): its squared length is a weighted chi-square.
    """
    from ..numerics.weighted_chisquare import WeightedChiSquare

    share = open_unit("outside", outside)
    if rows.cov is None:
        stds = np.broadcast_to(np.asarray(rows.std, float), (whole("d", rows.d if d is None else d),))
    else:
        stds = rows.axes[0]
    largest = float(stds.max())
    squared = WeightedChiSquare(2 * (stds / largest) ** 2)
    return largest * math.sqrt(float(squared.isf(share)))
