"""The law of noise that is forecast to err least, and plans that are remembered.

docs/proofs/plans.md [U9].
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache

import numpy as np

from ..errors import UsageError
from ..releases.description import check_covariance
from ..request.request import Request
from .build import (
    LEAST_EPSILON,
    MOST_CUT,
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
_FEWEST_MIXED = 40  # columns: of fewer, one law is within a tenth of two
_UNEVEN = 3.0  # the widest column over the mean one: below, one law is within a tenth of two
_MIXED_EPSILONS, _MIXED_DELTAS = (1e-3, 20.0), (1e-20, 1e-2)


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
    errors = [weighted_error(terms, plan) for plan in plans]
    if two_laws_may_pay(terms) and plans[-1].mechanism == "gaussian":
        _add_mixed(terms, plans, errors)
    return least(plans, errors)


def _add_mixed(terms: Terms, plans: list[Plan], errors: list[float]) -> None:
    """The plan of two laws among the others, the Gaussian the last of them, where it is well below all [U9]."""
    from .mixed_noise import mixed

    with suppress(OutOfRange):
        plan = mixed(terms, plans[-1], min(errors))
        if plan is not None:
            plans.append(plan)
            errors.append(weighted_error(terms, plan))


@lru_cache(maxsize=64)
def _remembered(request: Request) -> Plan:
    return _weighed(Terms(request))


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


def two_laws_may_pay(terms: Terms) -> bool:
    """Whether pure noise for a few columns beside Gaussian noise may err a tenth less: few that are far wider [U9]."""
    if terms.noise != "auto" or not terms.rows.clamps or not _FEWEST_MIXED <= terms.d <= MOST_CUT:
        return False
    if terms.statistic == "describe" or terms.each is not None or getattr(terms.rows, "shape", "optimal") != "optimal":
        return False
    epsilon, delta = terms.budget.pair or (0.0, 0.0)
    if not (_MIXED_EPSILONS[0] <= epsilon <= _MIXED_EPSILONS[1] and _MIXED_DELTAS[0] <= delta <= _MIXED_DELTAS[1]):
        return False
    lower, upper = terms.rows.bounds()
    sizes = np.sqrt(terms.importances) * (upper / 2 - lower / 2)
    largest = float(sizes.max())
    return 0 < largest < math.inf and terms.d >= _UNEVEN * float((sizes / largest).sum())
