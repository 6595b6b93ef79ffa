"""A target error instead of a budget: the smallest epsilon, or number of rows, that meets it.

Public numbers alone: plans are made until the forecast fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar, cast

import numpy as np

from ..errors import Floats, UsageError, floats, in_column_order, vector
from .request import Request

_LEAST, _MOST = 1e-6, 1e4  # epsilons that are tried
_MOST_ROWS = 1 << 50
_NEAR = 1e-4


class HasError(Protocol):
    """A plan whose error is compared with a target."""

    @property
    def request(self) -> Request: ...
    @property
    def budget_error(self) -> tuple[float | None, str]: ...


class HasColumnErrors(Protocol):
    """The same of a plan whose bounds are known."""

    @property
    def expected_squared_error(self) -> float | None: ...
    @property
    def expected_error(self) -> Floats | None: ...


P = TypeVar("P", bound=HasError)


def checked_error(error: object, d: int | None, columns: Sequence[str | int] | None) -> Floats:
    """The argument `error`: one number for all columns together, or one per column."""
    target = floats("error", in_column_order("error", error, columns))
    if target.ndim > 1 or not np.isfinite(target).all() or not (target > 0).all():
        raise UsageError("error must be a number above 0, or one per column: a root mean square error.")
    return target if target.ndim == 0 or d is None else vector("error", target, d)


def excess(plan: HasError, target: Floats) -> float:
    """The expected error over the target, as a ratio: the largest of a column, or that of all together."""
    if plan.request.learns:  # relative to the standard deviation of the rows
        error = plan.budget_error[0]
        if target.ndim or error is None:
            raise UsageError(
                "For Unknown bounds, error must be one number in standard deviations of the data, and n is needed."
            )
        return float(error / target)
    known = cast(HasColumnErrors, plan)
    squared, columns = known.expected_squared_error, known.expected_error
    if squared is None or columns is None:
        raise UsageError("n is missing: the error of a mean depends on it. Pass n= as well.")
    if target.ndim == 0:
        return math.sqrt(squared) / float(target)
    if columns.size != target.size:
        raise UsageError(f"error must be one number, or {columns.size}, one per column.")
    return float((columns / target).max())


def least_epsilon(make: Callable[[float], P], target: Floats) -> P:
    """The plan of the least epsilon whose forecast meets the target, within 1e-4 of it."""
    low, high = math.log(_LEAST), math.log(_MOST)
    over, under = _log_excess(make, low, target), _log_excess(make, high, target)
    if under > 0:
        raise UsageError("No budget reaches this error: clipping or sampling alone exceeds it. Pass a larger error.")
    while high - low > _NEAR and over > 0:
        guess = low + (high - low) * over / (over - under)  # errors fall about as 1 / epsilon
        middle = min(max(guess, low + 0.05 * (high - low)), high - 0.05 * (high - low))
        excess = _log_excess(make, middle, target)
        if excess > 0:
            low, over = middle, excess
        else:
            high, under = middle, excess
            if excess > -_NEAR:
                break
    return make(_rounded_up(math.exp(high)))


def _log_excess(make: Callable[[float], P], log_epsilon: float, target: Floats) -> float:
    return math.log(excess(make(math.exp(log_epsilon)), target))


def _rounded_up(epsilon: float) -> float:
    """A number of five digits, at least this."""
    digits = 4 - math.floor(math.log10(epsilon))
    return math.ceil(epsilon * 10.0**digits) / 10.0**digits


def least_rows(make: Callable[[int], P], target: Floats) -> P:
    """The plan of the fewest rows whose forecast meets the target."""
    high = 1
    while excess(make(high), target) > 1:
        high *= 2
        if high > _MOST_ROWS:
            raise UsageError("No number of rows reaches this error at this budget. Pass a larger error.")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if excess(make(middle), target) > 1:
            low = middle
        else:
            high = middle
    return make(high)
