"""A target error in place of a budget: the least epsilon, or the least number of rows, that meets it.

Public numbers alone: plans are made until the forecast fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import Floats, UsageError, floats, vector

_LEAST, _MOST = 1e-6, 1e4  # epsilons that are tried
_MOST_ROWS = 1 << 50
_NEAR = 1e-4


def checked_error(error: Any, d: int | None) -> Floats:
    """The word `error`: one number for all columns together, or one per column."""
    target = floats("error", error)
    if target.ndim > 1 or not np.isfinite(target).all() or not (target > 0).all():
        raise UsageError("error must be a number above 0, or one per column: a root mean square error.")
    return target if target.ndim == 0 or d is None else vector("error", target, d)


def excess(plan: Any, target: Floats) -> float:
    """The forecast error over the target, as a ratio: the worst column's, or that of all together."""
    if plan.rows.kind == "unknown":  # relative to the rows' own spread
        if target.ndim or plan.relative_error is None:
            raise UsageError("error is one number for Unknown rows, relative to their spread, and needs n.")
        return float(plan.relative_error / target)
    squared = plan.expected_squared_error
    if squared is None:
        raise UsageError("n is missing: the error of a mean depends on it. State n= as well.")
    if target.ndim == 0:
        return math.sqrt(squared) / float(target)
    columns = plan.column_errors()
    if columns.size != target.size:
        raise UsageError(f"error must be one number, or {columns.size}, one per column.")
    return float((columns / target).max())


def least_epsilon(make: Callable[[float], Any], target: Floats) -> Any:
    """The plan of the least epsilon whose forecast meets the target, within 1e-4 of it."""
    low, high = math.log(_LEAST), math.log(_MOST)
    over, under = _log_excess(make, low, target), _log_excess(make, high, target)
    if under > 0:
        raise UsageError("no budget reaches this error: clipping or sampling alone exceeds it. State a larger error.")
    while high - low > _NEAR and over > 0:
        guess = low + (high - low) * over / (over - under)  # errors fall about as 1 / epsilon
        middle = min(max(guess, low + 0.05 * (high - low)), high - 0.05 * (high - low))
        found = _log_excess(make, middle, target)
        if found > 0:
            low, over = middle, found
        else:
            high, under = middle, found
            if found > -_NEAR:
                break
    return make(_rounded_up(math.exp(high)))


def _log_excess(make: Callable[[float], Any], log_epsilon: float, target: Floats) -> float:
    return math.log(excess(make(math.exp(log_epsilon)), target))


def _rounded_up(epsilon: float) -> float:
    """A number of five digits, at least this."""
    digits = 4 - math.floor(math.log10(epsilon))
    return math.ceil(epsilon * 10.0**digits) / 10.0**digits


def least_rows(make: Callable[[int], Any], target: Floats) -> Any:
    """The plan of the fewest rows whose forecast meets the target."""
    high = 1
    while excess(make(high), target) > 1:
        high *= 2
        if high > _MOST_ROWS:
            raise UsageError("no number of rows reaches this error at this budget. State a larger error.")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if excess(make(middle), target) > 1:
            low = middle
        else:
            high = middle
    return make(high)
