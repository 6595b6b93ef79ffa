"""Unknown rows in groups: bounds learned from all rows, then the release of groups with all that is left.

[G8] Rounds and release are charged against one guarantee. One region serves all groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..display.wording import many
from ..errors import UsageError, named, whole
from ..plans.group_plan import GroupPlan, InGroups
from ..plans.group_planning import check_people, gaussian_slack, plan_groups
from ..plans.json import COUNT
from ..privacy.budget import Budget
from ..releases.group_json import grouping_from_dict, grouping_to_dict
from ..releases.group_release import GroupRelease
from ..request.groups import Grouping
from ..rows import Wishes
from ..session import Session
from ..util import json_codec
from ..version import VERSION
from .plan import (
    LearningPlan,
    learning_fields,
    learning_of,
    plan_learning,
    release_handling,
    slack_for,
)

FORMAT = "ellipsum.group-learning-plan/2"
_WRONG = "the plan has missing, unknown or wrong fields. Make it anew with es.plan."


@dataclass(frozen=True, repr=False)
class GroupLearningPlan(InGroups, LearningPlan):
    """A statistic of groups of Unknown rows: rounds over all rows, then groups; no data was read.

    Guarantee: `release` is `privacy`, all rounds together [G8]. The last step's own plan comes with the release.
    """

    grouping: Grouping = None  # type: ignore[assignment]
    groups: int | None = None
    """The number of groups, listed or expected."""
    in_groups = True

    def __post_init__(self) -> None:
        check_people(self.people)
        if self.pure:
            raise UsageError(
                "Unknown rows in groups have Gaussian noise: state a delta above 0, and leave noise= out; or learn the "
                "rows first (es.learn), and group with bounds."
            )
        if self.grouping.max_groups != 1 and self.people is None:
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

    def run(self, session: Session) -> GroupRelease:  # type: ignore[override]
        """[G8] Learn from all rows, then release the groups with all that is left."""
        self.check_keys(session.source)
        with session.everyone() as rows:
            rounds = self._rounds(session, f"{self.statistic} of groups of learned rows", rows)
            region = self._learned(rounds)
        spend = replace(rounds.remaining(), slack=self.privacy.slack)
        n = self.n if self.neighbors == "replace" else round(rounds.n)
        handling, _ = release_handling(self, rounds, replace(region, absent=None))
        size = self.statistic, n, self.d, Budget(**self.stated), self.neighbors, self.columns, self.people
        grouping, wishes = replace(self.grouping, labels=()), Wishes(weights=self.weights)
        plan: GroupPlan = plan_groups(grouping, self.groups, region.rows, *size, wishes, handling, "gaussian", spend)
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
            most = many(self.grouping.max_groups, "group")
            facts.append(("", f"each person is in at most {most}; rounds before see one row of each person"))
        return facts

    def to_dict(self) -> dict[str, Any]:
        saved = {"format": FORMAT, "version": VERSION, **grouping_to_dict(self.grouping), "groups": self.groups}
        return {**saved, "learning": super().to_dict()}

    @staticmethod
    def from_json(text: str) -> GroupLearningPlan:
        with json_codec.Fields(json_codec.parse(text), _WRONG) as fields:
            fields.check_format(FORMAT, f"not a plan of format {FORMAT}. It may come from another version of ellipsum.")
            grouping = grouping_from_dict(fields, _WRONG)
            groups = fields.maybe("groups", COUNT)
            learning = fields.take("learning", learning_fields)
        if grouping.keys is not None and groups != grouping.keys.size:
            raise UsageError(_WRONG)
        return GroupLearningPlan(**learning, grouping=grouping, groups=groups)


def _slack(method: str, grouping: Grouping, budget: Budget, neighbors: str) -> float:
    """Part of delta, for groups that are not listed."""
    if slack_for(method, budget, neighbors):
        raise UsageError(f"method={method!r} is not served in groups. Use method='auto'.")
    return gaussian_slack(grouping, budget)


def plan_grouped(
    grouping: Grouping, groups: int | None, method: str, budget: Budget, neighbors: str, **words: Any
) -> GroupLearningPlan:
    """The plan of learning, for groups: part of delta is for those that are not listed."""
    many = whole("groups", groups) if groups is not None else None
    many = many if grouping.keys is None else grouping.keys.size
    made: Mapping[str, Any] = {"grouping": replace(grouping, labels=()), "groups": many}
    slack = _slack(method, grouping, budget, neighbors)
    plan = plan_learning(
        budget=budget,
        neighbors=neighbors,
        method=method,
        make=partial(GroupLearningPlan, **made),
        slack=slack,
        **words,
    )
    assert isinstance(plan, GroupLearningPlan)
    return plan
