"""The law of noise that is forecast to err least, and plans that are remembered.

docs/proofs/plans.md [U9].
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache

from ..errors import UsageError
from ..releases.description import check_covariance
from ..request.request import Request
from .build import (
    LEAST_EPSILON,
    Terms,
    blocks_may_pay,
    boxed,
    gaussian,
    least,
    spherical,
    weighted_error,
)
from .plan import OutOfRange, Plan

MOST_REMEMBERED = 512  # columns


def plan_statistic(request: Request) -> Plan:
    """A plan for rows whose region can be laid from their bounds, under the mechanism of least expected error [U9].

    Plans of few columns are remembered: they are immutable, and the same call again need not compare mechanisms.
    """
    return _weighed(Terms(request)) if (request.d or 0) > MOST_REMEMBERED else _remembered(request)


def _weighed(terms: Terms) -> Plan:
    """The plan of least forecast error among those that may be."""
    budget, noise = terms.budget, terms.noise
    if terms.request.covariance:
        rule, _ = terms.handling.rule(terms.rows, terms.d)
        check_covariance(rule, terms.d, noise, budget.largest_mu is None)
        return gaussian(terms)
    if budget.pair is None:
        if noise == "norm":
            raise UsageError("noise='norm' needs a budget stated as epsilon= and delta=: its law is not Gaussian.")
        return gaussian(terms)
    if noise == "gaussian":
        return gaussian(terms)
    if budget.pair[0] < LEAST_EPSILON:
        if noise == "norm" or budget.largest_mu is None:
            raise UsageError(f"epsilon below {LEAST_EPSILON:g} is all noise under this law. State a larger one.")
        return gaussian(terms)
    plans = list(_under_each_law(terms))
    if not plans:
        raise OutOfRange
    return least(plans, [weighted_error(terms, plan) for plan in plans])


@lru_cache(maxsize=64)
def _remembered(request: Request) -> Plan:
    plan = _weighed(Terms(request))
    for part in (plan.ellipsoid.center, plan.ellipsoid.scale, plan.ellipsoid.axes):
        if part is not None:
            part.flags.writeable = False  # callers share the plan
    return plan


def _under_each_law(terms: Terms) -> Iterator[Plan]:
    """The plans that may be chosen from; a law whose numbers leave the range of doubles has none."""
    laws = [spherical]
    if blocks_may_pay(terms):
        laws.append(boxed)
    if terms.noise == "auto" and terms.budget.largest_mu is not None:
        laws.append(gaussian)
    for law in laws:
        with suppress(OutOfRange):
            yield law(terms)
