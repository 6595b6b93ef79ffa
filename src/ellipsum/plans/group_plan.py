"""The plan of one release for many groups: the plan of a single group, and the guarantee of all groups.

docs/proofs/groups.md: [G1] sensitivity, [G2] noise in blocks, [G3] groups that are not listed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..display.document import Document
from ..display.wording import SHOWN, describe_statistic, many, people_facts
from ..errors import Floats, UsageError
from ..noise import Stream
from ..noise.block_law import BlockLaw
from ..noise.law import TOO_LITTLE
from ..numerics.rounding import round_down, round_up
from ..numerics.wide_integers import Ints, Wide
from ..privacy.budget import Budget
from ..privacy.guarantee import Privacy
from ..releases.documents import clamping_facts, describe_groups, describe_mechanism, missing_facts, plan_warnings
from ..releases.group_release import GroupDescription, GroupRelease, keys_of, order_of
from ..releases.numbers import GroupNumbers
from ..request.groups import Groups
from ..request.people import unit_of
from ..request.request import Request
from ..row_maps.maps import Body, noise_units, sqrt_upper
from ..session import Session
from ..sources.group_labels import publish_labels
from ..sources.group_sums import GroupSums
from ..util import json_codec
from .base import WRONG
from .build import (
    LEAST_EPSILON,
    Terms,
    blocks_may_pay,
    choose_plan,
    count_weight,
    finish,
    lay_with_count,
    make_draft,
    plan_blocks,
    weighted_error,
)
from .forecast import ForecastOfPart, columns_table, plan_facts
from .plan import Plan

_NEEDS_N = "known once the size of a group is: pass n= and the expected number of groups for the error of a mean"
_LEAST_COUNT = 0.25  # Weight of a count that no estimate needs: it adds 3% to the noise.
_THRESHOLD_COUNT = 0.6  # Weight of a count that selects the published groups.
_FREE_COUNT = 1 - 2.0**-20  # under "replace" a count of this weight costs nothing [G1]
_WIDEST_COUNT = 2.0**16
_SLACK_SHARE = 0.1  # Share of delta for the selection of groups that are not listed; the noise takes the rest.
_GROUPS_AT_ONCE = 1 << 14  # The arrays of this number of groups fit in the cache.
_BYTES = 96
"""Bytes of memory for each coordinate of a listed group."""


def group_sensitivity(body: Body, count_units: int, neighbors: str, most: int) -> Fraction:
    """[G1] L2 sensitivity of the sums of all groups. most: the largest number of groups of a person."""
    alone = body.norm**2 + count_units**2
    square = max(body.diameter**2, 2 * alone) if neighbors == "replace" else alone
    return sqrt_upper(most * square)


def request_of_group(request: Request, size: int | None) -> Request:
    """The request of a single group under add_remove. It has no budget, since all groups share one."""
    alone = replace(request, budget=None, neighbors="add_remove", people=None, groups=None)
    return replace(alone, n=size, count_clipped=False)


@dataclass(frozen=True, repr=False)
class GroupPlan(GroupNumbers, ForecastOfPart[GroupRelease]):
    """Every public number of one release for many groups, made without data by `es.plan(..., by=)`.

    Guarantee: `release` on any data satisfies `privacy` for its neighboring relation [G1][G2][G3]. The expected errors
    are those of a group of the expected size, with the same names as in `Plan`.

    Examples
    --------
    >>> import ellipsum as es
    >>> groups = es.Groups("sex", keys=["f", "m"])
    >>> plan = es.plan("mean", {"age": (0, 120)}, n=1000, by=groups, epsilon=1, delta=1e-6)
    >>> plan.size
    500
    """

    format: ClassVar[str] = "ellipsum.groups/2"
    request: Request
    """Its n is the total number of rows, or people: public under "replace", a guess under "add_remove"."""
    one: Plan
    """The plan of a single group by itself, whose rows come or go; its n is the size that is expected of a group."""
    privacy: Privacy
    considered: Mapping[str, float] = field(default_factory=dict, compare=False)
    """Expected errors under the mechanisms that were compared, root mean square."""

    def __post_init__(self) -> None:
        # A plan may come from a file, so every construction checks that the noise gives the guarantee.
        self.check_claim()
        self._check_parts()
        if isinstance(self.one.law, BlockLaw):
            self._prove_blocks()
        else:
            self._prove_gaussian()
        if self.grouping.keys is None:
            self.threshold  # noqa: B018 (raises an error if no threshold can be proved)
        self.one.check_range()
        self._check_memory()

    def _check_parts(self) -> None:
        one, keys = self.one, self.grouping.keys
        valid = one.neighbors == "add_remove" and one.count_units >= 1
        valid &= one.mechanism in ("gaussian", "knorm_linf") and not one.auxiliary.counts_clipped
        valid &= one.auxiliary.missing != "row" or one.auxiliary.absences.tolist() == [0]
        valid &= not one.auxiliary.products
        valid &= (self.privacy.slack > 0) == (keys is None)
        valid &= one.request == request_of_group(self.request, one.n)
        valid &= self.neighbors == "add_remove" or self.n is not None
        valid &= self.people is not None or self.grouping.max_per_person == 1
        if not valid:
            raise UsageError("Invalid plan file: the parts do not match. Create a new plan.")

    def _prove_gaussian(self) -> None:
        """[G1] All groups together are one vector, and all of its coordinates have noise of the same std."""
        body, most = self.one.row_map.body, self.grouping.max_per_person
        needed = group_sensitivity(body, self.one.count_units, self.neighbors, most)
        if self.privacy.pure:
            raise UsageError(TOO_LITTLE)
        self.one.noise_law.prove(self.privacy, needed, np.empty(0, np.int64))

    def _prove_blocks(self) -> None:
        """[G2] An added or removed row costs the epsilon of one group; a replaced row costs twice that."""
        own = self.one.privacy.as_pair().pure
        pure = self.privacy.pure
        times = self.grouping.max_per_person * (2 if self.neighbors == "replace" else 1)
        if len(own) != 1 or len(pure) != 1 or self.privacy.mu or Fraction(own[0]) * times > Fraction(pure[0]):
            raise UsageError(TOO_LITTLE)

    def _check_memory(self) -> None:
        """Raise an error if the listed groups do not fit into memory, before any data is read."""
        keys = self.grouping.keys
        if keys is None or not hasattr(os, "sysconf"):
            return
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if keys.size * self.width * _BYTES > memory:
            raise UsageError(
                f"keys lists {keys.size:,} groups of {self.width:,} noisy numbers, more than this machine's memory. "
                "List fewer groups, or use fewer columns."
            )

    @property
    def warning(self) -> str | None:
        if self.grouping.keys is None and self.size is not None and self.size < self.threshold:
            return (
                f"Groups of {self.size:,} will hardly be published: a noisy count of {self.threshold:.4g} is needed. "
                "Use larger groups, or list the groups in keys=."
            )
        return self.one.warning if self.size is not None else None

    # Running --------------------------------------------------------------------------------------------

    def run(self, session: Session) -> GroupRelease:
        """[G1] Exact sums of each group -> correctly rounded noisy integers -> the groups to publish."""
        stream = self.charge(session)
        _, sums = self.sum_rows(session, self.one.row_map)
        assert sums is not None
        return self.publish(sums, stream, session.secure)

    def publish(self, sums: GroupSums, stream: Stream, secure: bool) -> GroupRelease:
        """[G3] The release of the published groups."""
        places, noisy = self.noisy_groups(sums, stream)
        keys = keys_of(publish_labels(sums.labels_of(places), sums.kinds))
        noisy *= 2.0**-self.one.grid_bits  # exact: a power of two
        return self.release_class(self, noisy, secure, keys, sums.kinds)

    def noisy_groups(self, sums: GroupSums, stream: Stream) -> tuple[Ints, Floats]:
        """[G3] Add noise to every group, and select the groups to publish: listed ones, or those above the threshold.

        Returns the positions of these groups, sorted by key, and their noisy sums.
        """
        listed = self.grouping.keys is not None
        order = order_of(publish_labels(sums.labels, sums.kinds))
        if not listed:  # Leave out groups that have no rows.
            order = order[sums.rows[order] > 0]
        places, parts = [order[:0]], [np.empty((0, self.width))]
        for start in range(0, len(order), _GROUPS_AT_ONCE):
            groups = order[start : start + _GROUPS_AT_ONCE]
            noisy = self.noisy(sums.chosen(groups), stream)
            published_here = slice(None) if listed else self.reaches(noisy)
            places.append(groups[published_here])
            parts.append(noisy[published_here])
        return np.concatenate(places), np.concatenate(parts)

    def reaches(self, noisy: Floats) -> NDArray[np.bool_]:
        """Whether the noisy counts of groups that are not listed reach the threshold [G3]."""
        units, shift = self._threshold_units()
        reached: NDArray[np.bool_] = noisy[..., -1] >= math.ldexp(units, shift)
        return reached

    def noisy(self, sums: GroupSums, stream: Stream) -> Floats:
        """The noisy sums of groups in grid units; the numbers of rows come last."""
        counts = Wide.product(sums.rows, self.one.count_units)
        high = np.concatenate([sums.sums.high, counts.high[:, None]], axis=1)
        low = np.concatenate([sums.sums.low, counts.low[:, None]], axis=1)
        return self.one.noise_law.add(Wide(high, low), [], stream, stream.next)

    def own_fields(self) -> dict[str, Any]:
        threshold = self.threshold if self.grouping.keys is None else None
        return {"threshold": threshold, "one_group": self.one.to_dict()}

    @classmethod
    def from_fields(cls, fields: json_codec.Fields, request: Request, privacy: Privacy) -> Self:
        fields.maybe("threshold", json_codec.number)  # computed again
        one = fields.take("one_group", Plan.from_dict)
        if request.groups is None:
            raise UsageError(WRONG)
        return cls(request, one, privacy)

    @property
    def release_class(self) -> type[GroupRelease]:
        return GroupDescription if self.statistic == "describe" else GroupRelease

    def document(self, most: int | None = None) -> Document:
        """A line for each column of a group."""
        one, unit = self.one, "rows" if self.people is None else "people"
        group = "each group" if self.size is None else f"a group of {self.size:,} {unit}"
        more = "; independent noise in every group"
        listed = self.grouping.keys is not None
        facts = [
            *plan_facts(self, describe_mechanism(one), more),
            ("Groups", describe_groups(self.grouping, 0.0 if listed else self.threshold)),
        ]
        if not listed:
            chance = f"with probability at most {self.failure:.2g}"
            facts.append(("", f"a group of one {self.privacy.unit} is published {chance}"))
        facts += people_facts(self.people)
        if self.people is not None:
            facts.append(("", f"each person is in at most {many(self.grouping.max_per_person, 'group')}"))
        facts += [
            *missing_facts(one),
            *clamping_facts(one),
            ("Counts", f"standard error {one.count_std or 0:.4g} {unit}"),
        ]
        facts.append(("Error", _NEEDS_N if one.expected_error is None else f"errors are for {group}"))
        title = f"Plan for a differentially private {describe_statistic(self)} by group (no data read)"
        return Document(title, [columns_table(one, most or SHOWN)], facts, plan_warnings(self))


# Planning -----------------------------------------------------------------------------------------------


def plan_groups(request: Request, within: Privacy | None = None) -> GroupPlan:
    """Make the plan for the groups of a sized request, with the mechanism of smallest expected error.

    within: the guarantee that is left after earlier steps. The noise is Gaussian then.
    """
    groups = request.groups
    assert groups is not None
    size = None if request.n is None or groups.size is None else max(1, round(request.n / groups.size))
    weight = _LEAST_COUNT if groups.keys is not None else _THRESHOLD_COUNT
    one = replace(request_of_group(request, size), budget=request.budget)
    terms = Terms(one, counts_left_out=False, least_count=weight)
    if within is not None:
        return _gaussian(request, groups, terms, within, is_part=True)
    budget, slack = terms.budget, gaussian_slack(groups, terms.budget)
    with_blocks = budget.pair is not None and budget.pair[0] >= LEAST_EPSILON and blocks_may_pay(terms)
    if request.noise == "knorm" and not with_blocks:
        raise UsageError(
            "noise='knorm' with by= needs Box bounds and a budget of epsilon= and delta=: noise shared by all columns "
            "would reveal the number of groups. Use noise='gaussian'."
        )
    plans = [_blocks(request, groups, terms)] if with_blocks and request.noise != "gaussian" else []
    if request.noise != "knorm" and (budget.largest_mu is not None or not plans):
        privacy = Privacy(budget.after_slack(slack).mu, slack, request.neighbors, unit_of(request.people))
        plans.append(_gaussian(request, groups, terms, privacy))
    return choose_plan(plans, lambda plan: weighted_error(terms, plan.one))


def gaussian_slack(grouping: Groups, budget: Budget) -> float:
    """The part of delta for the selection of groups beside Gaussian noise; 0 if the groups are listed."""
    if grouping.keys is not None:
        return 0.0
    if not budget.pair or not budget.pair[1]:
        raise UsageError(
            "Groups that are not listed need delta > 0. Pass epsilon= and delta=, or list the groups: "
            "by=es.Groups(..., keys=[...])."
        )
    return _SLACK_SHARE * budget.pair[1]


def _blocks(request: Request, groups: Groups, terms: Terms) -> GroupPlan:
    """[G2] Pure DP in each group. The groups of a person together use epsilon."""
    assert terms.budget.pair is not None
    epsilon, delta = terms.budget.pair
    times = groups.max_per_person * (2 if request.neighbors == "replace" else 1)
    share = Budget(epsilon=round_down(Fraction(epsilon) / times), delta=0)
    one = plan_blocks(replace(terms, request=replace(terms.request, budget=share)))
    one = replace(one, request=replace(one.request, budget=None))
    slack = delta if groups.keys is None else 0.0
    return GroupPlan(request, one, Privacy(0.0, slack, request.neighbors, unit_of(request.people), (epsilon,)))


def _gaussian(request: Request, groups: Groups, terms: Terms, privacy: Privacy, is_part: bool = False) -> GroupPlan:
    """[G1] One Gaussian vector over all groups. is_part: the larger release holds the budget."""
    most, mu, root = groups.max_per_person, privacy.mu, math.sqrt(groups.max_per_person)
    if request.neighbors == "add_remove":
        region, kappa = lay_with_count(terms, mu / root)
    else:  # Counts up to a weight of one do not increase the sensitivity [G1].
        region = terms.region(2 * root / mu)
        kappa = max(_FREE_COUNT, count_weight(region, terms.statistic, terms.n, mu / root))
    parts = make_draft(terms, region, min(kappa, _WIDEST_COUNT), mu)
    units = noise_units(group_sensitivity(parts.body, parts.count_units, request.neighbors, most), mu)
    own_mu = round_up(parts.body.sensitivity("add_remove", parts.count_units) / Fraction(units))
    one = finish(terms, parts, Privacy(own_mu, 0.0, "add_remove"), None, units, is_part=True)
    return GroupPlan(replace(request, budget=None) if is_part else request, one, privacy)
