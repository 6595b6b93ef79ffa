"""Unknown rows in groups: one shape learned from all rows, then the release of groups with all that is left.

[G8] Rounds and release are charged against one guarantee. [G10] Listed groups that lie apart get centers of their own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from ..display.wording import many
from ..errors import UsageError, named
from ..numerics.rounding import sqrt_down
from ..plans.group_plan import GroupPlan, InGroups, group_release_from_dict
from ..plans.group_planning import check_people, gaussian_slack, plan_groups
from ..privacy.budget import Budget
from ..privacy.guarantee import Privacy
from ..releases.group_release import GroupRelease
from ..request.groups import Groups
from ..request.request import Request
from ..rows import LearnedRows, Normal, Rows
from ..session import Session
from ..util import json_codec
from ..version import VERSION
from .finish import learned_facts, learned_rows
from .methods import Final, slack_for
from .plan import LearningPlan, PlannedRound, learning_fields, plan_learning
from .recentering import MOST_TIMES, Apart, Planned, recentered, share_for
from .rounds import Rounds, promised

FORMAT = "ellipsum.group-learning-plan/1"
_WRONG = "the plan has missing, unknown or wrong fields. Make it anew with es.plan."
_HOPELESS, _ROUGH = 0.5, 0.1


@dataclass(frozen=True, repr=False)
class GroupLearningPlan(InGroups, LearningPlan):
    """A statistic of groups of Unknown rows: rounds over all rows, then groups; no data was read.

    Guarantee: `release` is `privacy`, all rounds together [G8]. The last round's own plan comes with the release.
    """

    grouping: Groups = None  # type: ignore[assignment]
    groups: int | None = None
    """The number of groups, listed or expected."""

    @property
    def request(self) -> Request:
        return replace(super().request, groups=self.grouping)

    def with_groups(self, groups: Groups) -> GroupLearningPlan:
        """The same plan for groups that other columns name."""
        return replace(self, grouping=groups)

    @staticmethod
    def read_release(text: str) -> GroupRelease:
        return group_release_from_dict(json_codec.parse(text))

    def __post_init__(self) -> None:
        check_people(self.people)
        if self.pure:
            raise UsageError(
                "Unknown rows in groups have Gaussian noise: state a delta above 0, and leave noise= out; or learn the "
                "rows first (es.learn), and group with bounds."
            )
        if self.grouping.max_per_person != 1 and self.people is None:
            raise UsageError(_WRONG)
        super().__post_init__()

    def _slack(self, budget: Budget) -> float:
        if slack_for(self.method, budget, self.neighbors):
            raise UsageError(f"method={self.method!r} is not served in groups. Use method='auto'.")
        return gaussian_slack(self.grouping, budget)

    @property
    def size(self) -> int | None:
        """The rows, or people, that are expected in a group."""
        return None if self.n is None or self.groups is None else max(1, round(self.n / self.groups))

    @property
    def _may_recenter(self) -> bool:
        """Whether groups may get centers of their own [G10]; stated numbers for missing entries have one place."""
        plain = self.grouping.keys is not None and self.people is None and self.statistic == "mean"
        return plain and self.handling.rule(self.rows, self.d)[1] is None

    @property
    def passes(self) -> int | None:
        """Centers of groups take two more each time: rough means, and the norms about them [G10]."""
        found = super().passes
        return found if found is None or not self._may_recenter else found + 2 * MOST_TIMES

    @property
    def rounds(self) -> tuple[PlannedRound, ...]:
        found, shares = super().rounds, self._shares()
        if shares is None or self.groups is None or not self._may_recenter:
            return found
        share = share_for(shares.relative_error * self.groups)
        if share is None:
            return found
        *before, last = found
        return (*before, PlannedRound("groups", share, 1), replace(last, share=last.share - share))

    @cached_property
    def forecast(self) -> GroupPlan | None:
        """The release of groups as it would be of normal rows of spread 1; None where the rounds are not known."""
        if not self.rounds:
            return None
        left = sqrt_down(Fraction(max(self.rounds[-1].share, 0.01)) * Fraction(self.privacy.mu) ** 2)
        rows = Normal(0.0, std=1.0, center_error=1.0)
        return self._planned(rows, "mean", self.n, replace(self.privacy, mu=left), (False,) * self.d)

    def _planned(
        self, rows: Rows, statistic: str, n: int | None, within: Privacy, gaps: tuple[bool, ...] | None
    ) -> GroupPlan:
        request = Request(
            statistic=statistic,
            bounds=rows.resolve(self.d),
            budget=Budget(**self.stated),
            neighbors=self.neighbors,
            n=n,
            columns=self.columns,
            people=self.people,
            groups=self.grouping,
            missing=self.handling.missing,
            noise="gaussian",
            count_clipped=self.handling.counts(rows),
            d=self.d,
            nullable=gaps,
        )
        return plan_groups(request, within)

    @property
    def relative_error(self) -> float | None:
        """Forecast error of a mean of a group of the expected size, over the rows' spread."""
        squared = None if self.forecast is None else self.forecast.expected_squared_error
        return None if squared is None else math.sqrt(squared / self.d)

    def n_needed(self, relative_error: float) -> float:
        """Rows for which groups have this error, as many as there are, and learning succeeds."""
        assert self.relative_error is not None
        assert self.n is not None
        return max(self.relative_error / relative_error * self.n, 40 / self._shares_of(1).rows)

    @property
    def warning(self) -> str | None:
        if self.forecast is not None and self.forecast.grouping.keys is None and self.forecast.doubt is not None:
            return self.forecast.doubt
        return super().warning

    def run(self, session: Session) -> GroupRelease:  # type: ignore[override]
        """[G8] Learn from all rows, then release the groups with all that is left."""
        self.check_keys(session.source)
        with session.everyone() as rows:
            note = f"{self.statistic} of groups of learned rows"
            final, rounds = self._learned(session, note, rows, purpose="groups")
        return self._last(session, final, rounds)

    def _last(self, session: Session, final: Final, rounds: Rounds) -> GroupRelease:
        region = final.region.ellipsoid
        rows = learned_rows(final, region.center, None, session.source.columns)
        n = self.n if self.neighbors == "replace" else rounds.n

        def planned(rows: Rows, within: Privacy, times: float = 1.0) -> GroupPlan:
            size = None if n is None else round(times * n)
            return self._planned(rows, self.statistic, size, within, session.source.gaps)

        apart = self._recentered(rounds, rows, planned)
        spend = rounds.charge("final", rounds.left, region.width, self.privacy.slack)
        plan = planned(rows if apart is None else apart.rows, spend)
        sums = rounds.accumulate_by(plan.one.row_map, self.grouping.keys, None if apart is None else apart.source)
        made = plan.publish(sums, rounds.stream(), session.secure)
        if apart is not None:
            made = replace(made, centers=apart.centers(plan.one).chosen(plan.order(sums)))
        return replace(made, privacy_spent=rounds.privacy, learned=learned_facts(rounds, self.method, None))

    def _recentered(self, rounds: Rounds, rows: Rows, planned: Planned) -> Apart | None:
        """[G10] Groups with centers of their own, where they are listed and it is forecast to pay; one row a person."""
        keys = self.grouping.keys
        served = self._may_recenter and rounds.session.source.local
        if not served or keys is None or not isinstance(rows, LearnedRows):
            return None
        return recentered(rounds, rows, keys, planned)

    def _group_facts(self) -> list[tuple[str, str]]:
        by, keys = ", ".join(map(named, self.grouping.by)), self.grouping.keys
        told = "not listed: published where their noisy count is large enough" if keys is None else ""
        if keys is None and self.forecast is not None:
            told = f"not listed: published where the noisy count is at least about {self.forecast.threshold:.4g}"
        facts = [("Groups", f"by {by}; {told or f'{keys.size if keys else 0:,} listed, all published'}")]
        if any(step.name == "groups" for step in self.rounds):
            facts.append(("", "with centers of their own, where they are found to lie apart"))
        if self.people is not None:
            most = many(self.grouping.max_per_person, "group")
            facts.append(("", f"each person is in at most {most}; rounds before see one row of each person"))
        return facts

    @property
    def _error_of(self) -> str:  # type: ignore[override]
        return f"in a column, for a group of {self.size} normal rows"

    def to_dict(self) -> dict[str, Any]:
        saved = {"format": FORMAT, "version": VERSION, "groups": self.grouping.to_dict()}
        return {**saved, "learning": super().to_dict()}

    @staticmethod
    def from_json(text: str) -> GroupLearningPlan:
        with json_codec.Fields(json_codec.parse(text), _WRONG) as fields:
            fields.check_format(FORMAT, f"not a plan of format {FORMAT}. It may come from another version of ellipsum.")
            groups = fields.take("groups", Groups.from_dict)
            learning = fields.take("learning", learning_fields)
        return GroupLearningPlan(**learning, grouping=groups, groups=groups.size)


def plan_grouped(request: Request) -> GroupLearningPlan:
    """The plan of learning, for groups: part of delta is for those that are not listed."""
    plan, groups, budget = plan_learning(request), request.groups, request.budget
    assert groups is not None
    assert budget is not None
    fields = {name: getattr(plan, name) for name in LearningPlan.__dataclass_fields__}
    slack = gaussian_slack(groups, budget)
    privacy = plan.privacy
    if slack and not plan.pure:
        privacy = promised(budget, slack, plan.neighbors, privacy.unit, pure=False)
    return GroupLearningPlan(**{**fields, "privacy": privacy}, grouping=groups, groups=groups.size)
