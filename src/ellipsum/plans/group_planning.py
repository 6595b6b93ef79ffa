"""How a plan of groups is made: the plan of one group, under the law that is forecast to err least."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

from ..errors import UsageError, choice, whole
from ..numerics.rounding import round_down, round_up
from ..privacy.budget import Budget
from ..privacy.guarantee import Privacy
from ..regions.ellipsoid import Clip
from ..request.groups import Grouping
from ..request.missing import Handling
from ..request.people import People, unit_of
from ..row_maps.grid import noise_units
from ..rows import Rows, Wishes
from .build import (
    LEAST_EPSILON,
    NOISE,
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
from .plan import Plan

_LEAST_COUNT = 0.25  # weight of a count that nothing else needs: three percent more noise
_THRESHOLD_COUNT = 0.6  # weight of a count that decides which groups are published
_FREE_COUNT = 1 - 2.0**-20  # under "replace" a count of this weight costs nothing [G1]
_WIDEST_COUNT = 2.0**16
_SLACK_SHARE = 0.1  # of delta, for groups that are not listed, where the noise needs the rest


def plan_groups(
    grouping: Grouping,
    groups: int | None,
    rows: Rows,
    statistic: str,
    n: int | None,
    d: int,
    budget: Budget,
    neighbors: str,
    columns: tuple[str, ...] | None,
    people: People | None,
    wishes: Wishes,
    handling: Handling,
    noise: str = "auto",
    within: Privacy | None = None,
) -> GroupPlan:
    """A plan for the groups of rows whose region can be laid from what is stated.

    groups: the number of groups that is expected, where they are not listed; with n it gives their size. within: what
    is left of the budget after other rounds; the noise is Gaussian then.
    """
    choice("noise", noise, NOISE)
    check_people(people)
    if grouping.keys is not None:
        groups = grouping.keys.size
    elif groups is not None:
        groups = whole("groups", groups)
    size = None if n is None or groups is None else max(1, round(n / groups))
    weight = _LEAST_COUNT if grouping.keys is not None else _THRESHOLD_COUNT
    terms = Terms(
        rows.resolve(d), statistic, size, d, budget, "add_remove", columns, None, replace(wishes, check=False),
        replace(handling, check=False, counts_left_out=False), noise, least_count=weight,
    )  # fmt: skip
    return _Maker(terms, grouping, groups, n, neighbors, people).best(within)


def check_people(people: People | None) -> None:
    """An error where a person would have several rows in a group."""
    if people is not None and people.rows_each is not None:
        raise UsageError("per_person='rows' is not served in groups: a person has one row in each. Take mean or sum.")


def gaussian_slack(grouping: Grouping, budget: Budget) -> float:
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

    def __init__(
        self,
        terms: Terms,
        grouping: Grouping,
        groups: int | None,
        n: int | None,
        neighbors: str,
        people: People | None,
    ) -> None:
        self._terms, self._grouping, self._groups = terms, grouping, groups
        self._n, self._neighbors, self._people = n, neighbors, people
        self._budget = terms.budget

    def best(self, within: Privacy | None) -> GroupPlan:
        if within is not None:
            return self._under(within, {})
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
        times = self._grouping.max_groups * (2 if self._neighbors == "replace" else 1)
        share = Budget(epsilon=round_down(Fraction(epsilon) / times), delta=0)
        one = replace(boxed(replace(self._terms, budget=share)), stated={})
        slack = delta if self._grouping.keys is None else 0.0
        privacy = Privacy(0.0, slack, self._neighbors, unit_of(self._people), (epsilon,))
        return self._finished(one, privacy, self._budget.stated)

    def _gaussian(self) -> GroupPlan:
        """[G1] One Gaussian vector over all groups."""
        mu = self._budget.after_slack(self._slack).mu
        return self._under(Privacy(mu, self._slack, self._neighbors, unit_of(self._people)), self._budget.stated)

    def _under(self, privacy: Privacy, stated: Any) -> GroupPlan:
        """The plan of Gaussian noise for a guarantee; stated: the budget that it is all of."""
        mu = privacy.mu
        region, kappa = self._laid(mu)
        terms, most = self._terms, self._grouping.max_groups
        made = draft(terms, region, min(kappa, _WIDEST_COUNT), mu)
        units = noise_units(group_sensitivity(made.body, made.count_units, self._neighbors, most), mu)
        alone = Privacy(
            round_up(made.body.sensitivity("add_remove", made.count_units) / Fraction(units)), 0.0, "add_remove"
        )
        one = finished(terms, made, alone, None, units, stated={})
        return self._finished(one, privacy, stated)

    def _laid(self, mu: float) -> tuple[Clip, float]:
        """Clip region and weight of the counts, which are free up to a weight of one under "replace" [G1]."""
        terms, root = self._terms, math.sqrt(self._grouping.max_groups)
        if self._neighbors == "add_remove":
            return lay_with_count(terms, mu / root)
        region = terms.rows.region(terms.d, terms.wishes, terms.n, 2 * root / mu)
        return region, max(_FREE_COUNT, count_weight(region, terms.statistic, terms.n, mu / root))

    def _finished(self, one: Plan, privacy: Privacy, stated: Any) -> GroupPlan:
        parts = self._grouping, privacy, self._n, self._groups
        return GroupPlan(one, *parts, dict(stated), self._people)
