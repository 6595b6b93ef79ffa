"""Forecasts: what a request would give, from public numbers alone."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace

import numpy as np

from ... import QuantilePlan, UsageError
from ...api import AnyPlan, make_plan, plan_request
from ...display.wording import MECHANISMS, describe_guarantee
from ...errors import Floats
from ...learning.plan import LearningPlan
from ...plans.pictures import error_picture
from ...request.request import Request

_KEPT = 64
_UNTOLD = 1e300  # A target that every column meets.
_UNITS = {"quantiles": "rows of rank", "histogram": "rows in each bin", "count": "rows"}


@dataclass(frozen=True)
class Forecast:
    """What a plan forecasts."""

    epsilon: float
    delta: float
    error: float | None
    """The error of the column in question."""
    unit: str
    columns: tuple[tuple[str, float], ...]
    """The expected error of each column."""
    mechanism: str
    guarantee: str
    warning: str | None
    advice: str | None
    """What to type so that an error can be forecast, where none is."""


def plan_of(request: Request, n: int | None) -> AnyPlan:
    """The plan of a request for n rows."""
    return make_plan(request.sized(n, request.d, request.columns))


def plan_for_error(request: Request, n: int | None, delta: float, error: float, place: int) -> AnyPlan:
    """The plan of the least epsilon at which the error of one column is this or less."""
    if request.statistic not in ("sum", "mean", "describe"):
        raise UsageError("This statistic has no target error. Enter epsilon instead.")
    target: float | list[float] = error
    if not request.learns and request.d != 1:
        target = [error if place == j else _UNTOLD for j in range(request.d or 1)]
    return plan_request(replace(request, budget=None), n, request.d, delta=delta, error=target)


def forecast(plan: AnyPlan, place: int) -> Forecast:
    """The forecast of a plan; place: the column in question."""
    request = plan.request
    errors = _column_errors(plan)
    if errors is not None and not np.isfinite(errors).all():
        raise UsageError("The expected error exceeds the range of numbers. Check the bounds.")
    error = None if errors is None else float(errors[min(place, errors.size - 1)])
    mechanism = "" if isinstance(plan, LearningPlan) else MECHANISMS[plan.mechanism]
    return Forecast(
        request.stated["epsilon"],
        request.stated["delta"],
        error,
        _unit(request),
        _named_errors(request, errors),
        mechanism,
        describe_guarantee(plan.privacy, plan.stated),
        plan.warning,
        _advice(request) if error is None else None,
    )


def _column_errors(plan: AnyPlan) -> Floats | None:
    """The expected error of each column; for unknown bounds one number, in standard deviations."""
    if isinstance(plan, LearningPlan):
        return None if plan.relative_error is None else np.array([plan.relative_error])
    if isinstance(plan, QuantilePlan):
        ranks: Floats = np.max(plan.rank_error, axis=1)
        return ranks
    return None if plan.expected_squared_error is None else plan.expected_error


def _named_errors(request: Request, errors: Floats | None) -> tuple[tuple[str, float], ...]:
    if errors is None:
        return ()
    names = ["all columns together"] if request.learns else request.bounds.columns or request.columns or ["rows"]
    return tuple(zip(map(str, names), errors.tolist(), strict=False))


def _unit(request: Request) -> str:
    where = " in each group" if request.groups else ""
    if request.learns:
        return f"standard deviations of the data{where}"
    return f"{_UNITS.get(request.statistic, '')}{where}".strip()


def _advice(request: Request) -> str:
    groups = request.groups
    if groups is not None and groups.size is None:
        return "For a forecast, type how many groups you expect, or list them."
    return "For a forecast, type the number of rows or people, your guess."


class Pictures:
    """Plans whose pictures a page may ask for: the error against epsilon, drawn when asked for."""

    def __init__(self) -> None:
        self._plans: OrderedDict[str, AnyPlan] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, name: str, plan: AnyPlan) -> None:
        """Remember a plan by a name, until many others have come."""
        with self._lock:
            self._plans[name] = plan
            while len(self._plans) > _KEPT:
                self._plans.popitem(last=False)

    def draw(self, name: str) -> bytes | None:
        """The picture of a plan as SVG; None where there is none."""
        plan = self._plans.get(name)
        return None if plan is None else error_picture(plan)
