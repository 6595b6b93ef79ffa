"""The zero of a function between two points, and of Legendre's polynomials.

Importing scipy's version takes a quarter of a second in every command.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from ..errors import Floats
from .rounding import FLINT

_SPACING = 2.0**-51
_MOST_STEPS = 300  # halving alone takes 1100 from one end of the doubles to the other; nothing here is that wide


def root(function: Callable[[float], float], low: float, high: float, tolerance: float = 0.0) -> float:
    """A point within `tolerance` (and two units in the last place) of a change of sign; the ends must differ in sign.

    Chandrupatla's rule: a parabola through the last three points where it is known to behave, else halving.
    """
    a, b, fa, fb = high, low, function(high), function(low)
    if fa == 0 or fb == 0:
        return a if fa == 0 else b
    if (fa > 0) == (fb > 0):
        raise ValueError("the function has the same sign at both ends")
    step = 0.5
    for _ in range(_MOST_STEPS):
        at = a + step * (b - a)
        value = function(at)
        if (value > 0) == (fa > 0):
            c, fc = a, fa
        else:
            c, b, fc, fb = b, a, fb, fa
        a, fa = at, value
        best, least = (a, fa) if abs(fa) < abs(fb) else (b, fb)
        near = 2 * _SPACING * abs(best) + tolerance
        span = abs(b - a)
        if least == 0 or span <= 2 * near:
            return best
        step = _next_step(a, b, c, fa, fb, fc)
        margin = near / span
        step = min(max(step, margin), 1 - margin)
    return best


def _next_step(a: float, b: float, c: float, fa: float, fb: float, fc: float) -> float:
    """Where between a and b to look next, as a share of the way."""
    if fc in (fb, fa) or fa == fb or c == b:
        return 0.5
    place, height = (a - b) / (c - b), (fa - fb) / (fc - fb)
    if not (height * height < place and (1 - height) ** 2 < 1 - place):
        return 0.5
    return fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)


@lru_cache(maxsize=4)
def gauss_legendre(count: int) -> tuple[Floats, Floats]:
    """Nodes and weights of Gauss's rule on [-1, 1], for an even number of nodes; they lie evenly about zero."""
    from flint import arb

    with FLINT:
        half = [arb.legendre_p_root(count, k, weight=True) for k in range(count // 2)]
        nodes, weights = np.array([[float(part) for part in pair] for pair in half]).T
    return np.concatenate([-nodes, nodes[::-1]]), np.concatenate([weights, weights[::-1]])
