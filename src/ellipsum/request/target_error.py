"""A target error instead of a budget: the smallest epsilon, or number of rows, that meets it.

Only public numbers are used: plans are made until the expected error meets the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from ..errors import Floats, UsageError, floats, in_column_order, vector

_LEAST, _MOST = 1e-6, 1e4  # The range of epsilon.
_MOST_ROWS = 1 << 50
_NEAR = 1e-4


P = TypeVar("P")
Excess = Callable[[P], float]
"""The expected error of a plan over the target, as a ratio."""


def check_error(error: object, d: int | None, columns: Sequence[str | int] | None) -> Floats:
    """Check the argument `error`: one number for all columns together, or one per column."""
    target = floats("error", in_column_order("error", error, columns))
    if target.ndim > 1 or not np.isfinite(target).all() or not (target > 0).all():
        raise UsageError("error must be a number above 0, or one per column: a root mean square error.")
    return target if target.ndim == 0 or d is None else vector("error", target, d)


def find_least_epsilon(make: Callable[[float], P], excess: Excess[P]) -> P:
    """The plan with the least epsilon whose expected error meets the target, up to a factor of 1.0001."""
    low, high = math.log(_LEAST), math.log(_MOST)

    def log_excess(log_epsilon: float) -> float:
        return math.log(excess(make(math.exp(log_epsilon))))

    over, under = log_excess(low), log_excess(high)
    if under > 0:
        raise UsageError("No budget reaches this error: clipping or sampling alone exceeds it. Pass a larger error.")
    while high - low > _NEAR and over > 0:
        guess = low + (high - low) * over / (over - under)  # Errors are roughly proportional to 1 / epsilon.
        middle = min(max(guess, low + 0.05 * (high - low)), high - 0.05 * (high - low))
        found = log_excess(middle)
        if found > 0:
            low, over = middle, found
        else:
            high, under = middle, found
            if found > -_NEAR:
                break
    return make(_round_up(math.exp(high)))


def _round_up(epsilon: float) -> float:
    """The least number of five digits that is not below epsilon."""
    digits = 4 - math.floor(math.log10(epsilon))
    return math.ceil(epsilon * 10.0**digits) / 10.0**digits


def find_fewest_rows(make: Callable[[int], P], excess: Excess[P]) -> P:
    """The plan with the fewest rows whose expected error meets the target."""
    high = 1
    while excess(make(high)) > 1:
        high *= 2
        if high > _MOST_ROWS:
            raise UsageError("No number of rows reaches this error at this budget. Pass a larger error.")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if excess(make(middle)) > 1:
            low = middle
        else:
            high = middle
    return make(high)
