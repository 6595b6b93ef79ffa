"""Plans for unknown bounds: learning, and a release with all that is left; a forecast before anything is spent."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ..display.document import Document
from ..display.wording import (
    describe_guarantee,
    describe_missing,
    describe_size,
    describe_statistic,
    describe_weights,
    many,
    people_facts,
)
from ..errors import UsageError, listing, names
from ..plans.base import WRONG, StatisticPlan
from ..plans.group_plan import GroupPlan, plan_groups
from ..plans.noise_selection import plan_statistic
from ..plans.plan import Plan
from ..privacy.budget import Budget
from ..privacy.guarantee import Privacy
from ..releases.documents import describe_groups
from ..releases.group_release import GroupRelease
from ..releases.learned_bounds import Learned
from ..releases.learning_record import Learning
from ..releases.release import Release
from ..request.request import Request
from ..rows import Box, Unknown
from ..session import Session
from ..util import json_codec
from . import published
from .ball import learn_ball
from .columns import PASSES, find_columns
from .constants import FEWEST_ROWS, GUESSED_ROWS, MEDIAN_NORM, MOST_PASSES, USELESS, WIDTH
from .rounds import Region, Rounds
from .split import Split, split_budget

_LOST = (
    "not found among the noise: {names}. There is no estimate, and the interval is the whole range. Use more rows or a "
    "larger budget, or pass bounds."
)


@dataclass(frozen=True, repr=False)
class LearningPlan(StatisticPlan[Any]):
    """A statistic with unknown bounds: rounds that learn bounds, then an ordinary release; no data was read.

    Guarantee: `release` is `privacy`, all rounds together [L7][L8][G8]. Everything follows from the request. In groups,
    all groups share the bounds.
    """

    format: ClassVar[str] = "ellipsum.learning-plan/5"
    request: Request

    def __post_init__(self) -> None:
        names("columns", self.columns, self.d)
        if self.grouping is not None and self.split.privacy.pure:
            raise UsageError(
                "unknown bounds in groups need Gaussian noise. Pass a delta above 0 and leave noise= out, or learn "
                "the bounds first with es.learn."
            )
        if not self.privacy.mu and self.n is not None and self.n < self._rows_to_learn:
            raise UsageError(f"pure noise hides these columns: {self._describe_need(self._rows_to_learn)}")

    noise_std = noise_cov = noise_error = clipping_error = expected_squared_error = clip_radius = None

    @cached_property
    def split(self) -> Split:
        """How the budget is split between learning and the release."""
        return split_budget(self.request, float(self.n or GUESSED_ROWS))

    @property
    def privacy(self) -> Privacy:  # type: ignore[override]
        return self.split.privacy

    @property
    def rows(self) -> Unknown:
        assert isinstance(self.request.bounds, Unknown)
        return self.request.bounds

    @property
    def statistic(self) -> str:
        """The statistic of the forecast. Learned bounds are meant for a mean."""
        return "mean" if self.request.statistic == "learn" else self.request.statistic

    @property
    def passes(self) -> int:
        """The most passes over the rows."""
        counts_rows = self.neighbors != "replace" or self.rows_each is not None
        if self.rows.method == "auto":
            return counts_rows + (PASSES if self.split.is_box else MOST_PASSES)
        return counts_rows + published.passes(self.rows.method, self.rows.options)

    @property
    def relative_error(self) -> float | None:
        """Expected error of a column, or of a column of a group of the expected size, over its standard deviation."""
        if self.n is None:
            return None
        if self._group_plan is not None:
            return None if self._group_plan.noise_std is None else float(self._group_plan.noise_std[0])
        if self.split.is_box:
            return WIDTH * self.split.unit / self.n
        width = WIDTH if self.request.error_weights == "relative" else 2 * MEDIAN_NORM
        return width * self.split.unit * math.sqrt(self.d) / self.n

    @property
    def mechanism(self) -> str:
        """Every step has a mechanism of its own."""
        return ""

    @property
    def budget_error(self) -> tuple[float | None, str]:
        return self.relative_error, "error / standard deviation of the rows"

    @cached_property
    def _group_plan(self) -> GroupPlan | None:
        """The release of groups, if columns lie within WIDTH standard deviations."""
        if self.grouping is None:
            return None
        left = replace(self.privacy, mu=self.privacy.mu * math.sqrt(1 - self.split.share))
        box = Box([-WIDTH / 2] * self.d, [WIDTH / 2] * self.d)
        missing = self.request.missing
        if not isinstance(missing, str | None):
            missing = 0.0  # The box has standardized units. A replacement in the units of the data may lie outside.
        request = replace(self.request, bounds=box, noise="gaussian", error_weights=None, missing=missing)
        return plan_groups(request, left)

    @property
    def threshold(self) -> float:
        """About the noisy count from which groups that are not listed are published; 0 where all are."""
        if self._group_plan is None or self._group_plan.grouping.keys is not None:
            return 0.0
        return self._group_plan.threshold

    @property
    def _rows_to_learn(self) -> float:
        """The number of rows from which the columns are found [L12]."""
        rows = float(self.n or GUESSED_ROWS)
        if self.rows.method != "auto":  # how far they must lie apart is not known of published methods
            return rows * (self.relative_error or 0.0) / USELESS
        return rows * FEWEST_ROWS / self.split.clear_rows

    def _describe_need(self, rows: float) -> str:
        return (
            f"there are too few rows for this budget and {many(self.d, 'column')}. Use about {math.ceil(rows):,} rows, "
            "fewer columns or a larger budget, or pass bounds."
        )

    @property
    def warning(self) -> str | None:
        """Why a budget spent on this plan may be wasted."""
        if self.n is None:
            return None
        size = None if self._group_plan is None else self._group_plan.size
        if size is not None and size < self.threshold:
            return f"groups of {size} will hardly be published: a noisy count of {self.threshold:.4g} is needed."
        needed = max(self._rows_to_learn, self.n * (self.relative_error or 0.0) / USELESS)
        return None if self.n >= needed else f"the data cannot support an answer: {self._describe_need(needed)}"

    # Running --------------------------------------------------------------------------------------------

    def run(self, session: Session) -> Any:  # type: ignore[override]
        """Learn, then release with all that is left [L7][G8]; for `es.learn`, the bounds themselves."""
        source = session.source
        self._check_source(source)
        if self.neighbors == "replace" and source.reopenable:
            self.check_rows(source.count())
        with session.everyone() if self.grouping else nullcontext(source) as rows:
            rounds = Rounds(session, self, self.split, self.passes, rows)
            region = self._learn_region(rounds)
        if self.request.statistic != "learn":
            return self._release_within(rounds, region)
        bounds = region.rows
        if isinstance(bounds, Box):  # of a column that was not found, those that were passed
            low, high = bounds.bounds()
            widest = rounds.magnitude
            bounds = Box(np.where(region.found, low, -widest), np.where(region.found, high, widest))
        bounds = bounds._with(columns=rounds.source.columns or self.columns)
        facts = self.rows.method, self.stated, session.secure, self.people, region.warnings
        return Learned(bounds, rounds.privacy, tuple(rounds.steps), *facts)

    def read_release(self, text: str) -> Any:  # type: ignore[override]
        """A result of this plan, from its JSON."""
        if self.request.statistic == "learn":
            return Learned.from_json(text)
        return (Plan if self.grouping is None else GroupPlan).read_release(text)

    def _learn_region(self, rounds: Rounds) -> Region:
        """The region of the release, with warnings of columns that were not found, and of too few rows."""
        if self.rows.method == "auto":
            region = find_columns(rounds) if self.split.is_box else learn_ball(rounds)
        else:
            region = published.METHODS[self.rows.method](rounds, **self.rows.options)
        lost = [rounds.names[j] for j in np.flatnonzero(~region.found)]
        needed = self._rows_to_learn
        few = (f"intervals cannot be trusted: {self._describe_need(needed)}",) if rounds.n < needed else ()
        return replace(
            region, warnings=(*few, *((_LOST.format(names=listing(lost)),) if lost else ()), *region.warnings)
        )

    def _release_within(self, rounds: Rounds, region: Region) -> Release | GroupRelease:
        """An ordinary release in the region, with all the budget that is left [L10][L11][G8].

        Missing values that were counted before are filled in.
        """
        session, spend, groups = rounds.session, rounds.remaining(), self.grouping
        rule, fill = rounds.missing_values.rule(self.rows, self.d)
        missing, counts = rounds.missing_values.missing, region.missing_counts if groups is None else None
        counts = counts if rule == "column" else None
        if counts is not None:
            missing = counts.fill.tolist()
        elif fill is not None and isinstance(region.rows, Box):
            missing = np.clip(fill, *region.rows.bounds()).tolist()
        request = replace(
            self.request,
            bounds=region.rows.resolve(self.d),
            n=self.n if self.neighbors == "replace" and rounds.has_public_rows else round(rounds.n),
            columns=rounds.source.columns,
            missing=missing,
            error_weights=self.request.error_weights if isinstance(region.rows, Box) else None,
            count_clipped=not region.measures_bias and rounds.missing_values.counts(region.rows),
            nullable=rounds.missing_values.gaps,
        )
        release: Release | GroupRelease
        if groups is None:
            budget = Budget(epsilon=spend.pure[0], delta=0) if spend.pure else Budget(mu=spend.mu)
            plan = plan_statistic(replace(request, budget=budget.as_typed()))
            stream = rounds.charge_release(plan.privacy.as_pair(), plan.row_map.width)
            partial = session.total(plan.row_map, rounds.has_public_rows, rounds.progress, rounds.source)
            release = plan.publish(plan.noisy_sums(partial, stream), session.secure)
        else:
            is_public = self.neighbors == "replace" and self.people is None
            spend = replace(spend, slack=self.privacy.slack)
            group_plan = plan_groups(replace(request, noise="gaussian"), spend)
            stream = rounds.charge_release(group_plan.privacy, group_plan.width)
            sums = session.total_by(group_plan.one.row_map, groups.keys, is_public, rounds.progress)
            release = group_plan.publish(sums, stream, session.secure)
        facts = region.bias, region.found, region.unnoticed, region.warnings
        learned = Learning(self.rows.method, self.stated, rounds.magnitude, tuple(rounds.steps), *facts, counts)
        return replace(release, privacy_spent=rounds.privacy, learned=learned)

    # As JSON and in words -------------------------------------------------------------------------------

    def own_fields(self) -> dict[str, Any]:
        return {"passes": self.passes, "relative_error": self.relative_error}

    @classmethod
    def from_fields(cls, fields: json_codec.Fields, request: Request, privacy: Privacy) -> LearningPlan:
        """Everything in a plan follows from its request, and is computed again."""
        for derived in ("passes", "relative_error"):
            fields.take(derived, lambda value: None)
        has_size = request.n is not None or request.neighbors == "add_remove"
        if not request.learns or request.budget is None or not has_size:
            raise UsageError(WRONG)
        plan = plan_learning(request)
        if plan.privacy != privacy:
            raise UsageError("the guarantee of this plan is not that of its request. Create a new plan with es.plan.")
        return plan

    def document(self, most: int | None = None) -> Document:
        missing = self.rows.usual_missing if self.request.missing is None else self.request.missing
        what = "each column is clamped to learned ends" if self.split.is_box else "rows are clipped by their norm"
        facts = [
            ("Privacy", describe_guarantee(self.privacy, self.stated)),
            *people_facts(self.people),
            *([] if self.grouping is None else [("Groups", describe_groups(self.grouping, self.threshold))]),
            ("Bounds", f"learned: values lie within {self.rows.shown}"),
            ("Missing", describe_missing(missing, self.statistic)),
            ("Weights", describe_weights(str(self.request.error_weights or "equal"))),
            ("Method", f"{self.rows.method}; {what}"),
            ("Passes", f"at most {self.passes} over all rows"),
        ]
        if self.relative_error is not None:
            facts.append(("Error", f"{self.relative_error:.2%} of a column's standard deviation"))
        title = f"Plan for a differentially private {describe_statistic(self)} with unknown bounds"
        size = f"({describe_size(self)}; no data read)"
        return Document(f"{title} {size}", [], facts, [] if self.warning is None else [self.warning])


def plan_learning(request: Request) -> LearningPlan:
    """A plan for unknown bounds."""
    rows, budget = request.bounds, request.budget
    assert isinstance(rows, Unknown)
    assert budget is not None
    if rows.method == "friendly_core" and request.groups is not None:
        raise UsageError("method='friendly_core' is not supported in groups. Use method='auto'.")
    if rows.method == "friendly_core" and request.people is not None and request.people.rows_each is not None:
        raise UsageError(  # [L26]
            "method='friendly_core' is not supported with per_person='rows': a person must be one row. Use 'mean' or "
            "'sum', or method='auto'."
        )
    if rows.method != "auto":
        published.check_options(rows.method, rows.options)
        if request.noise == "knorm" or budget.largest_mu is None:
            raise UsageError(
                f"method={rows.method!r} has Gaussian rounds. Use method='auto' with delta=0 or noise='knorm'."
            )
    elif rows.options:
        raise UsageError(f"method='auto' takes no options, got {', '.join(rows.options)}.")
    if request.noise == "knorm" and budget.pair is None:
        raise UsageError("noise='knorm' needs a budget stated as epsilon= and delta=.")
    return LearningPlan(request)
