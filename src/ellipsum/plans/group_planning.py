"""How a plan of groups is made: the plan of one group, under the law that is forecast to err least."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

from ..errors import UsageError
from ..numerics.rounding import round_down, round_up
from ..privacy.budget import Budget
from ..privacy.guarantee import Privacy
from ..regions.ellipsoid import Clip
from ..request.groups import Groups
from ..request.people import People, unit_of
from ..request.request import Request
from ..row_maps.grid import noise_units
from .build import (
    LEAST_EPSILON,
    Terms,
    blocks_may_pay,
    boxed,
    count_weight,
    draft,
    finished,
    lay_with_count,
    least,
    weighted_error,
)
from .group_plan import GroupPlan, group_sensitivity

_LEAST_COUNT = 0.25  # weight of a count that nothing else needs: three percent more noise
_THRESHOLD_COUNT = 0.6  # weight of a count that decides which groups are published
_FREE_COUNT = 1 - 2.0**-20  # under "replace" a count of this weight costs nothing [G1]
_WIDEST_COUNT = 2.0**16
_SLACK_SHARE = 0.1  # of delta, for groups that are not listed, where the noise needs the rest


def plan_groups(request: Request, within: Privacy | None = None) -> GroupPlan:
    """A plan for the groups of a sized request.

    within: what is left of the budget after earlier steps; the noise is Gaussian then.
    """
    groups = request.groups
    assert groups is not None
    check_people(request.people)
    size = None if request.n is None or groups.size is None else max(1, round(request.n / groups.size))
    weight = _LEAST_COUNT if groups.keys is not None else _THRESHOLD_COUNT
    one = replace(request, n=size, neighbors="add_remove", people=None, groups=None, count_clipped=False)
    return _Maker(request, groups, Terms(one, counts_left_out=False, least_count=weight)).best(within)


def check_people(people: People | None) -> None:
    """An error where a person would have several rows in a group."""
    if people is not None and people.rows_each is not None:
        raise UsageError("per_person='rows' is not served in groups: a person has one row in each. Take mean or sum.")


def gaussian_slack(grouping: Groups, budget: Budget) -> float:
    """What Gaussian noise leaves of delta to groups that are not listed; nothing where they are."""
    if grouping.keys is not None:
        return 0.0
    if not (budget.pair or (0, 0))[1]:
        raise UsageError(
            "groups that are not listed need a delta above 0: state the budget as epsilon= and delta=, or list "
            "the groups in keys=."
        )
    return _SLACK_SHARE * budget.pair[1]  # type: ignore[index]


class _Maker:
    """One request: plans under each law that may serve it, and the choice between them."""

    def __init__(self, request: Request, groups: Groups, terms: Terms) -> None:
        self._request, self._grouping, self._terms = request, groups, terms
        self._neighbors, self._people, self._budget = request.neighbors, request.people, terms.budget

    def best(self, within: Privacy | None) -> GroupPlan:
        if within is not None:
            return self._under(within, is_part=True)
        self._slack = gaussian_slack(self._grouping, self._budget)
        plans: list[GroupPlan] = [make() for make in self._laws()]
        return least(plans, [weighted_error(self._terms, plan.one) for plan in plans])

    def _laws(self) -> list[Any]:
        noise, pair = self._terms.noise, self._budget.pair
        blocks = pair is not None and pair[0] >= LEAST_EPSILON and blocks_may_pay(self._terms)
        if noise == "norm" and not blocks:
            raise UsageError(
                "noise='norm' in groups is for Box rows and a budget of epsilon= and delta=: noise that all columns "
                "share would tell how many groups there are. Use noise='gaussian'."
            )
        laws = [self._blocks] if blocks and noise != "gaussian" else []
        if noise != "norm" and (self._budget.largest_mu is not None or not laws):
            laws.append(self._gaussian)
        return laws

    def _blocks(self) -> GroupPlan:
        """[G2] Pure noise in each group, at a share of epsilon that a person's groups use up together."""
        assert self._budget.pair is not None
        epsilon, delta = self._budget.pair
        times = self._grouping.max_per_person * (2 if self._neighbors == "replace" else 1)
        share = Budget(epsilon=round_down(Fraction(epsilon) / times), delta=0)
        one = boxed(replace(self._terms, request=replace(self._terms.request, budget=share)))
        one = replace(one, request=replace(one.request, budget=None))
        slack = delta if self._grouping.keys is None else 0.0
        privacy = Privacy(0.0, slack, self._neighbors, unit_of(self._people), (epsilon,))
        return GroupPlan(self._request, one, privacy)

    def _gaussian(self) -> GroupPlan:
        """[G1] One Gaussian vector over all groups."""
        mu = self._budget.after_slack(self._slack).mu
        return self._under(Privacy(mu, self._slack, self._neighbors, unit_of(self._people)))

    def _under(self, privacy: Privacy, is_part: bool = False) -> GroupPlan:
        """The plan of Gaussian noise for a guarantee; is_part: of a larger release, whose budget is stated there."""
        mu = privacy.mu
        region, kappa = self._laid(mu)
        terms, most = self._terms, self._grouping.max_per_person
        made = draft(terms, region, min(kappa, _WIDEST_COUNT), mu)
        units = noise_units(group_sensitivity(made.body, made.count_units, self._neighbors, most), mu)
        alone = Privacy(
            round_up(made.body.sensitivity("add_remove", made.count_units) / Fraction(units)), 0.0, "add_remove"
        )
        one = finished(terms, made, alone, None, units, is_part=True)
        return GroupPlan(replace(self._request, budget=None) if is_part else self._request, one, privacy)

    def _laid(self, mu: float) -> tuple[Clip, float]:
        """Clip region and weight of the counts, which are free up to a weight of one under "replace" [G1]."""
        terms, root = self._terms, math.sqrt(self._grouping.max_per_person)
        if self._neighbors == "add_remove":
            return lay_with_count(terms, mu / root)
        region = terms.rows.region(terms.d, terms.region_options, terms.n, 2 * root / mu)
        return region, max(_FREE_COUNT, count_weight(region, terms.statistic, terms.n, mu / root))
