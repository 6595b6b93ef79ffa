"""Quantiles by noisy bisection: how many rows lie below the middle, for all coordinates at once.

The private quantile of Huang, Liang & Yi 2021 (binary search on noisy counts), as row maps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from ..errors import Floats, UsageError, open_unit, vector
from ..regions.ellipsoid import Ellipsoid
from ..row_maps.maps import Body, RowMap, sqrt_upper
from .frame import Frame
from .rounds import Rounds

_RANK_BITS = 20
_ROOT_BITS = 32
_SMALLEST = 2.0**-180  # of the range of a norm


class _Surplus:
    """Entries 1 - fraction where a value is at most its middle and -fraction where it is above, on the grid 2^-20.

    The sum is (rows at most the middle) - fraction * (rows), with no need of the number of rows. Two rows differ by at
    most 1 in each of k entries: diameter sqrt(k); norm max(fraction, 1 - fraction) sqrt(k) [L21].
    """

    grid_bits = _RANK_BITS
    rows_per_flush = 1 << 62 - _RANK_BITS

    def __init__(self, columns: int, middle: Any, fraction: float) -> None:
        self.columns = columns
        self.middle = vector("middle", middle)
        self.width = self.middle.size
        self.below = round((1 - open_unit("fraction", fraction)) * (1 << _RANK_BITS))
        self.above = self.below - (1 << _RANK_BITS)
        entries = sqrt_upper(self.width, _ROOT_BITS)
        self.body = Body(max(self.below, -self.above) * entries, (1 << _RANK_BITS) * entries)


class CoordinateSurplus(_Surplus):
    """Each coordinate's offset x_j - c_j (or its size) against its middle; odd entries have offset zero."""

    kind = "coordinate_surplus"

    def __init__(self, center: Any, middle: Any, fraction: float, absolute: bool) -> None:
        self.center = vector("center", center)
        self.absolute = bool(absolute)
        super().__init__(self.center.size, middle, fraction)
        if self.width != self.columns:
            raise UsageError(f"middle must have {self.columns} entries, one per column, got {self.width}.")


class NormSurplus(_Surplus):
    """‖B (x - c)‖ against a middle; a norm beyond the range of doubles is above."""

    kind = "norm_surplus"

    def __init__(self, ellipsoid: Ellipsoid, middle: float, fraction: float) -> None:
        self.frame = Frame(ellipsoid)
        super().__init__(self.frame.columns, [middle], fraction)


def bisect(
    rounds: Rounds,
    name: str,
    surplus: Callable[[Floats], RowMap],
    low: Floats,
    high: Floats,
    steps: int,
    share: Fraction,
) -> Floats:
    """The middle of the interval that `steps` noisy bisections leave around each quantile.

    Guarantee [L21]: `steps` rounds of share / steps each; the middles depend on earlier rounds alone.
    """
    for step in range(steps):
        middle = low + (high - low) / 2
        beyond = rounds.sum(f"{name} {step + 1}", surplus(middle), share / steps).values > 0
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    return low + (high - low) / 2


def norm_quantile(
    rounds: Rounds, shape: Ellipsoid, fraction: float, upper: float, steps: int, share: Fraction
) -> float:
    """A quantile of ‖B (x - c)‖ in [0, upper] by bisection [L21]; never zero."""
    unit = replace(shape, scale=shape.scale / upper)

    def surplus(middle: Floats) -> RowMap:
        return NormSurplus(unit, float(middle[0]), fraction)

    found = bisect(rounds, "radius", surplus, np.zeros(1), np.ones(1), steps, share)
    return upper * max(float(found[0]), _SMALLEST)
