"""What a guarantee means for somebody who guesses: docs/proofs/privacy.md, [P11].

The guesser knows everything but one row, or one person: which of two data sets it was is all they have to tell.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Protocol

from ..numerics.rounding import round_up

_LEAST = -12.0  # log of the least order that is tried
_STEPS = 40
_GOLDEN = (math.sqrt(5) - 1) / 2
_ROUNDING = 1 + 2.0**-48


class PrivacyCurve(Protocol):
    """A guarantee of any kind."""

    def delta(self, epsilon: float) -> float: ...


def right_guesses(guarantee: PrivacyCurve) -> float:
    """The share of guesses that are right at best where both data sets are as likely: (1 + delta(0)) / 2, up [P11]."""
    return min(1.0, round_up((1 + Fraction(guarantee.delta(0.0))) / 2))


def found_at(guarantee: PrivacyCurve, alarms: float) -> float:
    """The share that is found at best by whoever raises this share of false alarms [P11].

    The least of e^epsilon alarms + delta(epsilon) over all real epsilon, which falls and then rises: every epsilon
    gives a bound, so that a search which stops early errs upwards.
    """
    low, high = _LEAST, -math.log(alarms)
    bounds = [_bound(guarantee, alarms, 0.0)]
    for _ in range(_STEPS):
        inner = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        left, right = (_bound(guarantee, alarms, epsilon) for epsilon in inner)
        bounds += [left, right]
        low, high = (low, inner[1]) if left <= right else (inner[0], high)
    return min(1.0, *bounds)


def _bound(guarantee: PrivacyCurve, alarms: float, epsilon: float) -> float:
    """The bound at one epsilon, rounded up; below 0, delta(epsilon) = 1 - e^epsilon + e^epsilon delta(-epsilon)."""
    if epsilon >= 0:
        return (math.exp(epsilon) * alarms + guarantee.delta(epsilon)) * _ROUNDING
    order = math.exp(epsilon)
    return (1 - order * (1 - alarms - guarantee.delta(-epsilon))) * _ROUNDING


def in_a_hundred(share: float) -> str:
    """A share as so many in 100, rounded up to a tenth."""
    tenths = math.ceil(Fraction(share) * 1000)
    return f"{tenths // 10}" if tenths % 10 == 0 else f"{tenths // 10}.{tenths % 10}"
