"""The least value of a smooth function: scipy's search starts threads of BLAS at every step, and waits for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from ..errors import Floats
from .contour import dot

_KEPT = 20  # pairs of steps that the second derivative is taken from
_MOST_STEPS = 200
_MOST_HALVINGS = 30
_ENOUGH = 1e-4  # of the decrease that the slope promises
_FLAT = 1e-8

Slope = Callable[[Floats], tuple[float, Floats]]


def descend(function: Slope, reach: Floats, tolerance: float) -> Floats:
    """Where a function is least, from zero outwards and within `reach` of it in each coordinate.

    function gives a value and its derivative. Quasi-Newton with little memory (Nocedal & Wright, algorithm 7.5); it
    ends where a step lowers the value by less than `tolerance` of it, or of one. The second derivative should be near
    the identity: the first step is the slope itself.
    """
    here = np.zeros_like(reach)
    value, slope = function(here)
    pairs: deque[tuple[Floats, Floats, float]] = deque(maxlen=_KEPT)
    for _ in range(_MOST_STEPS):
        if float(np.abs(slope).max()) < _FLAT:
            break
        found = _step(function, here, value, slope, _direction(slope, pairs), reach)
        if found is None:
            if not pairs:
                break
            pairs.clear()  # what was learned of the second derivative misleads
            continue
        there, lower, steeper = found
        moved, turned = there - here, steeper - slope
        bent = float(dot(moved, turned))
        if bent > 0:
            pairs.append((moved, turned, bent))
        gained = value - lower
        here, value, slope = there, lower, steeper
        if gained <= tolerance * max(abs(value), 1.0):
            break
    return here


def _direction(slope: Floats, pairs: deque[tuple[Floats, Floats, float]]) -> Floats:
    """Minus the inverse second derivative, as the last steps tell it, times the slope."""
    way = -slope
    shares = []
    for moved, turned, bent in reversed(pairs):
        share = float(dot(moved, way)) / bent
        shares.append(share)
        way = way - share * turned
    if pairs:
        _, turned, bent = pairs[-1]
        way = way * (bent / float(dot(turned, turned)))
    for (moved, turned, bent), share in zip(pairs, reversed(shares), strict=True):
        way = way + (share - float(dot(turned, way)) / bent) * moved
    return way


def _step(
    function: Slope, here: Floats, value: float, slope: Floats, way: Floats, reach: Floats
) -> tuple[Floats, float, Floats] | None:
    """The first point on the way, halved as often as it takes, that is lower by what its slope promises."""
    share = 1.0
    for _ in range(_MOST_HALVINGS):
        there = np.clip(here + share * way, -reach, reach)
        promised = float(dot(there - here, slope))
        if promised >= 0:
            return None
        lower, steeper = function(there)
        if lower <= value + _ENOUGH * promised:
            return there, lower, steeper
        share *= 0.5
    return None
