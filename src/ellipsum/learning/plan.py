"""Plans for unknown bounds: they forecast the error, learn bounds, and release with the rest of the budget."""

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
from ..noise.block_law import box_std
from ..plans.base import WRONG, StatisticPlan
from ..plans.group_plan import GroupPlan, gaussian_slack, plan_groups
from ..plans.noise_selection import plan_statistic
from ..plans.plan import Plan
from ..privacy.budget import NEEDS_DELTA, Budget
from ..privacy.budget_split import mu_beside
from ..privacy.guarantee import Privacy
from ..releases.documents import describe_groups
from ..releases.group_release import GroupRelease
from ..releases.learned_bounds import Learned
from ..releases.learning_record import Learning
from ..releases.release import Release
from ..request.people import unit_of
from ..request.request import Request
from ..rows import Box, Unknown
from ..session import Session
from ..util import json_codec
from . import published
from .constants import FEWEST_ROWS, GUESSED_ROWS, LEARNING_COST, MEDIAN_NORM, PURE_PENALTY, USELESS, WIDTH
from .rounds import Region, Rounds, Split

_LOST = (
    "Not found among the noise: {names}. There is no estimate, and the interval is the whole range. Use more rows or a "
    "larger budget, or pass bounds."
)


def learning_share(clear_rows: float) -> float:
    """The share lam that minimizes (1 + a / lam) / (1 - lam), a = LEARNING_COST / clear_rows [L12]."""
    cost = LEARNING_COST / max(clear_rows, 1e-300)
    return math.sqrt(cost * cost + cost) - cost


@dataclass(frozen=True, repr=False)
class LearningPlan(StatisticPlan[Any]):
    """The plan of a statistic with unknown bounds, made without data: rounds learn bounds, then an ordinary release.

    Guarantee: all rounds and the release together have `privacy` [L7][L8][G8]. Everything follows from the request. All
    groups share the same bounds.
    """

    format: ClassVar[str] = "ellipsum.learning-plan/5"
    request: Request

    def __post_init__(self) -> None:
        names("columns", self.columns, self.d)
        method, people = self.rows.method, self.people
        published.read_options(method, self.rows.options)
        if method == "friendly_core" and self.grouping is not None:
            raise UsageError("method='friendly_core' is not supported in groups. Use method='auto'.")
        if method == "friendly_core" and people is not None and people.rows_each is not None:
            raise UsageError(  # [L26]
                "method='friendly_core' is not supported with per_person='rows': a person must be one row. Use 'mean' "
                "or 'sum', or method='auto'."
            )
        if self.request.noise == "knorm" and self._budget.pair is None:
            raise UsageError("noise='knorm' needs a budget stated as epsilon= and delta=.")
        if self.request.noise == "gaussian" and self._budget.largest_mu is None:
            raise UsageError(NEEDS_DELTA)
        if method != "auto" and self._is_pure:
            raise UsageError(f"method={method!r} has Gaussian rounds. Use method='auto' with delta=0 or noise='knorm'.")
        if self.grouping is not None and self.split.privacy.pure:
            raise UsageError(
                "Unknown bounds in groups need Gaussian noise. Pass a delta above 0 and leave noise= out, or learn "
                "the bounds first with es.learn."
            )
        if self._is_pure and self.n is not None and self.n < self._rows_to_learn:
            raise UsageError(f"Pure noise hides these columns: {self._describe_need(self._rows_to_learn)}")

    noise_std = noise_cov = noise_error = clipping_error = expected_squared_error = clip_radius = None

    @property
    def rows(self) -> Unknown:
        assert isinstance(self.request.bounds, Unknown)
        return self.request.bounds

    @property
    def statistic(self) -> str:
        """The statistic of the forecast. Learned bounds are meant for a mean."""
        return "mean" if self.request.statistic == "learn" else self.request.statistic

    @property
    def privacy(self) -> Privacy:  # type: ignore[override]
        return self.split.privacy

    @property
    def _budget(self) -> Budget:
        assert self.request.budget is not None
        return self.request.budget

    @property
    def _is_pure(self) -> bool:
        """Whether rounds and release all have pure noise."""
        return self._budget.largest_mu is None or self.request.noise == "knorm"

    # How the budget is split ------------------------------------------------------------------------------

    @cached_property
    def split(self) -> Split:
        """The split with the smallest expected noise: Gaussian or pure rounds, a Gaussian or pure release [L8]."""
        request, budget, d, n = self.request, self._budget, self.d, float(self.n or GUESSED_ROWS)
        slack = published.required_slack(self.rows.method, budget, request.neighbors)
        if request.groups is not None:
            slack = gaussian_slack(request.groups, budget)
        sides, each, is_box = 2 if request.neighbors == "replace" else 1, self.rows_each or 1, self._uses_box
        epsilon = budget.pair[0] if budget.pair else 0.0
        mu = 0.0 if self._is_pure else budget.after_slack(slack).mu
        histogram_noise = each * (math.sqrt(sides * d) / mu if mu else math.sqrt(2) * sides * d / epsilon)
        clear_rows = n / histogram_noise
        share = learning_share(clear_rows if is_box else 2 * clear_rows)  # A row has one norm, whatever d is.
        if request.statistic == "learn" and is_box:
            share, release_share = 1.0, 1.0  # A later release is taken to have the same budget.
        else:
            release_share = 1 - share
        is_pure_offered = self._is_pure or (is_box and epsilon and request.noise == "auto" and request.groups is None)
        pure_unit = box_std(d) / (release_share * epsilon) if is_pure_offered else math.inf
        gaussian_unit = math.sqrt(d if is_box else 1) / (mu * math.sqrt(release_share)) if mu else math.inf
        unit, pure = min(pure_unit, gaussian_unit), () if mu else (epsilon,)
        if mu and budget.pair and pure_unit < gaussian_unit and release_share < 1:
            beside = mu_beside(release_share * epsilon, *budget.pair)
            if beside is None:
                unit = gaussian_unit
            else:
                mu, share, pure = beside, 1.0, (release_share * epsilon,)
        privacy = Privacy(mu, slack, request.neighbors, unit_of(request.people), pure)
        return Split(privacy, share, is_box, unit * each * sides / 2, clear_rows / (1 if mu else PURE_PENALTY))

    @property
    def _uses_box(self) -> bool:
        """Whether columns get bounds of their own [L8].

        The rule is public: it compares pure noise of a box of 5 spreads with Gaussian noise of a ball about most rows.
        """
        budget, noise = self._budget, self.request.noise
        if self.rows.method != "auto":
            return False
        if self.d == 1 or self.grouping is not None or self._is_pure:
            return True
        if noise == "gaussian" or budget.pair is None:
            return False
        return WIDTH * box_std(self.d) / budget.pair[0] < 2 * MEDIAN_NORM * math.sqrt(self.d) / budget.mu

    # The forecast -----------------------------------------------------------------------------------------

    @property
    def passes(self) -> int:
        """The most passes over the rows."""
        counts_rows = self.neighbors != "replace" or self.rows_each is not None
        return counts_rows + published.passes(self.rows.method, self.rows.options, self.split.is_box)

    @property
    def relative_error(self) -> float | None:
        """Expected error of a column, or of a column of a group of the expected size, over its standard deviation."""
        if self.n is None:
            return None
        if self._group_plan is not None:
            return None if self._group_plan.noise_std is None else float(self._group_plan.noise_std[0])
        width = WIDTH if self.split.is_box or self.request.error_weights == "relative" else 2 * MEDIAN_NORM
        return width * self.split.unit * (1 if self.split.is_box else math.sqrt(self.d)) / self.n

    @property
    def mechanism(self) -> str:
        """Empty: each step has its own mechanism."""
        return ""

    @property
    def budget_error(self) -> tuple[float | None, str]:
        return self.relative_error, "error / standard deviation of the rows"

    @cached_property
    def _group_plan(self) -> GroupPlan | None:
        """The forecast plan of the groups: each column is taken to lie within WIDTH standard deviations."""
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
        """The approximate noisy count from which an unlisted group is published; 0 where groups are listed."""
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
        """Why this plan may waste its budget; None if there is no reason."""
        if self.n is None:
            return None
        size = None if self._group_plan is None else self._group_plan.size
        if size is not None and size < self.threshold:
            return f"Groups of {size} will hardly be published: a noisy count of {self.threshold:.4g} is needed."
        needed = max(self._rows_to_learn, self.n * (self.relative_error or 0.0) / USELESS)
        return None if self.n >= needed else f"The data cannot support an answer: {self._describe_need(needed)}"

    # Running --------------------------------------------------------------------------------------------

    def run(self, session: Session) -> Any:  # type: ignore[override]
        """Learn bounds, then release with the rest of the budget [L7][G8]; for `es.learn`, return the bounds."""
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
        if isinstance(bounds, Box):  # A column that was not found keeps its magnitude as bounds.
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
        """The region of the release, with warnings about columns that were not found and about too few rows."""
        region = published.learn(rounds, self.rows.method, self.rows.options)
        lost = [rounds.names[j] for j in np.flatnonzero(~region.found)]
        needed = self._rows_to_learn
        few = (f"Intervals cannot be trusted: {self._describe_need(needed)}",) if rounds.n < needed else ()
        return replace(
            region, warnings=(*few, *((_LOST.format(names=listing(lost)),) if lost else ()), *region.warnings)
        )

    def _release_within(self, rounds: Rounds, region: Region) -> Release | GroupRelease:
        """Release with the learned bounds and the rest of the budget [L10][L11][G8].

        Missing values that were counted before are replaced by a number within the bounds.
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
            bounds=region.rows,
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
            plan = plan_statistic(replace(request, budget=budget))
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
        plan = cls(request)
        if plan.privacy != privacy:
            raise UsageError("The guarantee of this plan is not that of its request. Create a new plan with es.plan.")
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
