"""Quantiles by noisy bisection: how many rows lie below the middle, for all coordinates at once.

The private quantile of Huang, Liang & Yi 2021 (binary search on noisy counts), as a row map.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from ..errors import Floats, UsageError, choice, open_unit, vector
from ..regions.ellipsoid import Ellipsoid
from ..row_maps.maps import Body, RowMap, sqrt_upper
from .rounds import Rounds
from .row_maps import Framed

_RANK_BITS = 20
_SMALLEST = 2.0**-180  # of the range of a norm
_MEASURES = "values", "sizes", "norm"


class Sides(Framed):
    """Entries 1 - fraction where a measure of y = B (x - c) is at most its middle, -fraction where it is above.

    The sum is (rows at most the middle) - fraction (rows), with no need of the number of rows. measure: the "values" of
    y, their "sizes", or its "norm". Two rows differ by at most 1 in each of k entries: diameter sqrt(k), and norm
    max(fraction, 1 - fraction) sqrt(k) [L21].
    """

    kind = "sides"

    def __init__(self, ellipsoid: Ellipsoid, middle: Any, fraction: float, measure: str) -> None:
        super().__init__(ellipsoid, _RANK_BITS)
        self.measure = _MEASURES.index(choice("measure", measure, _MEASURES))
        self.middle = vector("middle", middle, 1 if measure == "norm" else self.values)
        self.width = self.middle.size
        self.below = round((1 - open_unit("fraction", fraction)) * (1 << _RANK_BITS))
        self.above = self.below - (1 << _RANK_BITS)
        entries = sqrt_upper(self.width)
        self.body = Body(max(self.below, -self.above) * entries, (1 << _RANK_BITS) * entries)
        self.rows_per_flush = 1 << 62 - _RANK_BITS


def bisect(
    rounds: Rounds,
    name: str,
    sides: Callable[[Floats], RowMap],
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
        beyond = rounds.sum(f"{name} {step + 1}", sides(middle), share / steps).values > 0
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    return low + (high - low) / 2


def medians(
    rounds: Rounds, name: str, shape: Ellipsoid, measure: str, span: tuple[float, float], steps: int, share: Fraction
) -> Floats:
    """The medians of the coordinates of y = B (x - c), or of their sizes, which lie within the span [L21]."""
    low, high = (np.full(shape.width, end) for end in span)
    return bisect(rounds, name, lambda middle: Sides(shape, middle, 0.5, measure), low, high, steps, share)


def norm_quantile(
    rounds: Rounds, shape: Ellipsoid, fraction: float, upper: float, steps: int, share: Fraction
) -> float:
    """A quantile of ‖B (x - c)‖ in [0, upper] by bisection [L21]; never zero."""
    if not upper > 0:
        raise UsageError("the range of a norm must be above zero.")
    unit = replace(shape, scale=shape.scale / upper)
    ends = np.zeros(1), np.ones(1)
    found = bisect(rounds, "radius", lambda middle: Sides(unit, middle, fraction, "norm"), *ends, steps, share)
    return upper * max(float(found[0]), _SMALLEST)
