"""Selection of the mechanism with the smallest expected error, and a cache of plans.

docs/proofs/plans.md [U9].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache, partial

from ..errors import UsageError
from ..request.request import Request
from .build import (
    LEAST_EPSILON,
    Terms,
    blocks_may_pay,
    choose_plan,
    plan_blocks,
    plan_gaussian,
    plan_spherical,
    weighted_error,
)
from .plan import OutOfRange, Plan

_MOST_REMEMBERED = 512  # columns
_MOST_DESCRIBED = 1024
"""Columns with covariances at most: half a million pairs."""


def plan_statistic(request: Request) -> Plan:
    """Make the plan of a sized request, with the mechanism of smallest expected error [U9].

    Plans of few columns are cached. They are immutable, and a repeated call need not compare mechanisms again.
    """
    return _plan(request) if (request.d or 0) > _MOST_REMEMBERED else _remember(request)


@lru_cache(maxsize=64)
def _remember(request: Request) -> Plan:
    plan = _plan(request)
    for part in (plan.ellipsoid.center, plan.ellipsoid.scale, plan.ellipsoid.axes):
        if part is not None:
            part.flags.writeable = False  # All callers share the plan.
    return plan


def _plan(request: Request) -> Plan:
    """Make the plan with the smallest expected error among the mechanisms that the request allows."""
    terms = Terms(request, planner=plan_statistic)
    budget, noise = terms.budget, request.noise
    if request.covariance:
        rule, _ = terms.missing_values.rule(terms.rows, terms.d)
        _check_covariance(rule, terms.d, noise, budget.largest_mu is None)
        return plan_gaussian(terms)
    if noise == "gaussian" or (budget.pair is None and noise == "auto"):
        return plan_gaussian(terms)
    if budget.pair is None:
        raise UsageError("noise='knorm' needs a budget of epsilon= and delta=, not mu= or rho=.")
    if budget.pair[0] < LEAST_EPSILON:
        if noise == "auto" and budget.largest_mu is not None:
            return plan_gaussian(terms)
        raise UsageError(f"epsilon must be at least {LEAST_EPSILON:g} for K-norm noise, got {budget.pair[0]:g}.")
    makers = [plan_spherical]
    if blocks_may_pay(terms):
        makers.append(plan_blocks)
    if noise == "auto" and budget.largest_mu is not None:
        makers.append(plan_gaussian)
    return choose_plan(_made(makers, terms), partial(weighted_error, terms))


def _made(makers: Sequence[Callable[[Terms], Plan]], terms: Terms) -> Iterator[Plan]:
    for make in makers:
        with suppress(OutOfRange):  # Leave out mechanisms whose numbers exceed the range of doubles.
            yield make(terms)


def _check_covariance(rule: str, d: int, noise: str, pure: bool) -> None:
    """Raise an error unless covariances can be released: two columns, complete rows, Gaussian noise."""
    if not 2 <= d <= _MOST_DESCRIBED:
        raise UsageError(f"covariance=True is for 2 to {_MOST_DESCRIBED} columns, got {d}.")
    if rule == "column":
        raise UsageError("covariance=True needs complete rows. Use missing='drop_row', 'none', or a number to fill in.")
    if noise == "knorm" or pure:
        raise UsageError("covariance=True needs Gaussian noise. Use noise='auto' and delta > 0.")
