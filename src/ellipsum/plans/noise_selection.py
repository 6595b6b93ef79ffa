"""The law of noise that is forecast to err least, and plans that are remembered.

docs/proofs/plans.md [U9].
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

from ..errors import UsageError, choice
from ..releases.description import check_covariance
from ..util.structural_equality import contents
from .build import (
    LEAST_EPSILON,
    NOISE,
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


def plan_statistic(terms: Terms) -> Plan:
    """A plan for rows whose region can be laid from what is stated, under the law of least forecast error [U9].

    Plans of few columns are remembered: the same call again need not weigh the laws anew.
    """
    if terms.d > MOST_REMEMBERED:
        return _weighed(terms)
    try:
        asked = Asked(terms)
    except TypeError:  # odd words, which planning refuses
        return _weighed(terms)
    return plan_asked(asked)


def plan_asked(asked: Asked) -> Plan:
    """`plan_statistic`, for terms of few columns that were asked for before."""
    return _own(_remembered(asked))


class Asked:
    """Terms as a key of what is remembered: their contents are taken once."""

    __slots__ = ("_contents", "_hash", "terms")

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self._contents = contents(terms)
        self._hash = hash(self._contents)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Asked) and bool(self._contents == other._contents)

    def __hash__(self) -> int:
        return self._hash


def _own(plan: Plan) -> Plan:
    """A copy for one caller: changes to it reach no plan of anybody else's. It was proved when it was made."""
    mine = object.__new__(Plan)
    fields = mine.__dict__
    fields.update(plan.__dict__)
    fields["ellipsoid"] = plan.ellipsoid.copied()
    for name in ("stated", "options", "considered"):
        fields[name] = dict(fields[name])
    return mine


def _weighed(terms: Terms) -> Plan:
    """The plan of least forecast error among those that may be."""
    terms = replace(terms, rows=terms.rows.resolve(terms.d))
    budget, noise = terms.budget, choice("noise", terms.noise, NOISE)
    if terms.covariance:
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
def _remembered(asked: Asked) -> Plan:
    plan = _weighed(asked.terms)
    plan.work_out()
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
