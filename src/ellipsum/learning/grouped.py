"""Unknown rows in groups: bounds learned from all rows, then the release of groups with all that is left.

[G8] Rounds and release are charged against one guarantee. One region serves all groups.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..display.wording import many
from ..errors import UsageError, named
from ..plans.group_plan import GroupPlan, InGroups
from ..plans.group_planning import check_people, gaussian_slack, plan_groups
from ..privacy.budget import Budget
from ..releases.group_release import GroupRelease
from ..request.groups import Groups
from ..request.request import Request
from ..rows import Box, Unknown
from ..session import Session
from ..util import json_codec
from .plan import (
    LearningPlan,
    choose_guarantee,
    learning_fields,
    learning_of,
    release_handling,
    slack_for,
)

FORMAT = "ellipsum.group-learning-plan/3"
_WRONG = "the plan has missing, unknown or wrong fields. Make it anew with es.plan."


@dataclass(frozen=True, repr=False)
class GroupLearningPlan(InGroups, LearningPlan):
    """A statistic of groups of Unknown rows: rounds over all rows, then groups; no data was read.

    Guarantee: `release` is `privacy`, all rounds together [G8]. The last step's own plan comes with the release.
    """

    in_groups = True
    format = FORMAT

    @property
    def grouping(self) -> Groups:  # type: ignore[override]
        assert self.request.groups is not None
        return self.request.groups

    @property
    def groups(self) -> int | None:  # type: ignore[override]
        """The number of groups, listed or expected."""
        return self.grouping.size

    def with_groups(self, groups: Groups) -> GroupLearningPlan:
        """The same plan for groups that other columns name."""
        return replace(self, request=replace(self.request, groups=groups))

    @staticmethod
    def read_release(text: str) -> Any:
        return GroupPlan.read_release(text)

    def __post_init__(self) -> None:
        check_people(self.people)
        if self.pure or self.noise == "norm":
            raise UsageError(
                "Unknown rows in groups have Gaussian noise: state a delta above 0, and leave noise= out; or learn the "
                "rows first (es.learn), and group with bounds."
            )
        if self.grouping.max_per_person != 1 and self.people is None:
            raise UsageError(_WRONG)
        super().__post_init__()

    @property
    def _slack(self) -> float:
        return _slack(self.method, self.grouping, Budget(**self.stated), self.neighbors)

    @property
    def size(self) -> int | None:
        """The rows, or people, that are expected in a group."""
        return None if self.n is None or self.groups is None else max(1, round(self.n / self.groups))

    @property
    def relative_error(self) -> float | None:
        """Forecast error of a mean of a group of the expected size, over the rows' spread."""
        whole_error = super().relative_error
        return None if whole_error is None or self.groups is None else whole_error * self.groups

    @cached_property
    def threshold(self) -> float:
        """About the noisy count from which groups that are not listed are published; 0 where they are listed."""
        if self.grouping.keys is not None:
            return 0.0
        left = replace(self.privacy, mu=self.privacy.mu * math.sqrt(1 - self.shares.learning))
        alike = Box(-np.ones(self.d), np.ones(self.d))
        request = replace(self.request, bounds=alike, missing="center", noise="gaussian", error_weights=None)
        return plan_groups(request, left).threshold

    @property
    def doubt(self) -> str | None:
        if self.size is not None and self.size < self.threshold:
            return f"groups of {self.size} will hardly be published: a noisy count of {self.threshold:.4g} is needed."
        return super().doubt

    def run(self, session: Session) -> GroupRelease:  # type: ignore[override]
        """[G8] Learn from all rows, then release the groups with all that is left."""
        self.check_keys(session.source)
        with session.everyone() as rows:
            rounds = self._rounds(session, f"{self.statistic} of groups of learned rows", rows)
            region = self._learned(rounds)
        spend = replace(rounds.remaining(), slack=self.privacy.slack)
        n = self.n if self.neighbors == "replace" else round(rounds.n)
        handling, _ = release_handling(self, rounds, replace(region, absent=None))
        request = replace(
            self.request,
            bounds=region.rows.resolve(self.d),
            n=n,
            missing=handling.missing,
            noise="gaussian",
            error_weights=self.weights,
            nullable=handling.gaps,
        )
        plan = plan_groups(request, spend)
        stream = rounds.charge_release(spend, plan.width)
        public = self.neighbors == "replace" and self.people is None
        sums = session.total_by(plan.one.row_map, self.grouping.keys, public, rounds.progress)
        made = plan.publish(sums, stream, session.secure)
        return replace(made, privacy_spent=rounds.privacy, learned=learning_of(self, rounds, region))

    def _group_facts(self) -> list[tuple[str, str]]:
        by, keys = ", ".join(map(named, self.grouping.by)), self.grouping.keys
        told = "not listed: published where their noisy count is large enough"
        facts = [("Groups", f"by {by}; {told if keys is None else f'{keys.size:,} listed, all published'}")]
        if self.people is not None:
            most = many(self.grouping.max_per_person, "group")
            facts.append(("", f"each person is in at most {most}; rounds before see one row of each person"))
        return facts

    @staticmethod
    def from_json(text: str) -> GroupLearningPlan:
        request, privacy = learning_fields(json_codec.parse(text), FORMAT)
        if request.groups is None:
            raise UsageError(_WRONG)
        return GroupLearningPlan(request, privacy)


def _slack(method: str, groups: Groups, budget: Budget, neighbors: str) -> float:
    """Part of delta, for groups that are not listed."""
    if slack_for(method, budget, neighbors):
        raise UsageError(f"method={method!r} is not supported in groups. Use method='auto'.")
    return gaussian_slack(groups, budget)


def plan_grouped(request: Request) -> GroupLearningPlan:
    """The plan of learning, for groups: part of delta is for those that are not listed."""
    rows, groups, budget = request.bounds, request.groups, request.budget
    assert isinstance(rows, Unknown)
    assert groups is not None
    assert budget is not None
    slack = _slack(rows.method, groups, budget, request.neighbors)
    return GroupLearningPlan(request, choose_guarantee(request, budget, slack, in_groups=True))
