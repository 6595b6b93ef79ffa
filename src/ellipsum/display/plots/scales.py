"""Logarithmic axes whose ticks are plain numbers."""

from __future__ import annotations

import math
from typing import Any

from .labels import tick

_STEPS = {1: (1, 1.5, 2, 3, 5, 7), 2: (1, 2, 5), 3: (1, 3)}
"""Numbers of a decade that have ticks, where so many decades are shown; where there are more, powers of ten."""
_MOST = 7  # powers of ten with a tick


def logarithmic(axis: Any, side: str, low: float, high: float) -> None:
    """Make one side of the axes logarithmic, between two ends."""
    across = side == "x"
    (axis.set_xscale if across else axis.set_yscale)("log")
    (axis.set_xlim if across else axis.set_ylim)(low, high)
    places = log_ticks(low, high)
    put = axis.set_xticks if across else axis.set_yticks
    put(places, [tick(place, place) for place in places])
    put([], minor=True)


def log_ticks(low: float, high: float) -> list[float]:
    """Numbers with one digit, or two, between two ends."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = _STEPS.get(math.ceil(math.log10(high / low)), (1,))
    every = max(1, math.ceil((last - first) / _MOST))
    places = [step * 10.0**power for power in range(first, last + 1, every) for step in steps]
    return [place for place in places if low <= place <= high]
