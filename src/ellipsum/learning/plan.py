"""Plans for Unknown rows: which region, how the budget is shared out, and a forecast, before anything is spent."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..display.document import Document
from ..display.wording import (
    describe_guarantee,
    describe_missing,
    describe_size,
    describe_weights,
    many,
    people_facts,
)
from ..errors import Floats, UsageError, choice, named, names
from ..friendly.plan import require_replace
from ..noise.block_law import box_std
from ..plans.base import Requested, check_width
from ..plans.noise_selection import plan_statistic
from ..plans.plan import Plan
from ..privacy.budget import Budget
from ..privacy.guarantee import Privacy
from ..releases.learning_record import METHODS, Learning, check_stated
from ..releases.release import Release
from ..request.missing import Handling
from ..request.people import unit_of
from ..request.request import Request, request_from_dict
from ..rows import Box, Unknown
from ..session import Session
from ..sources import Source
from ..util import json_codec
from ..version import VERSION
from . import box
from .constants import FEWEST_ROWS, MOST_PASSES
from .result import Learned
from .rounds import Region, Rounds

FORMAT = "ellipsum.learning-plan/4"
_WRONG = "the plan has missing, unknown or wrong fields. Make it anew with es.plan."
_HOPELESS, _ROUGH = 0.5, 0.1  # of the rows' spread: an error that is no answer, and one that is a rough one
_GUESSED_ROWS = 10_000  # where rows are private and nobody guessed their number: it only shares out the budget
_BOX_WIDTH, _BALL_WIDTH = 5.0, 2.4  # spreads: between a column's ends; twice a ball's radius over sqrt(d)
_LEARNING_ERROR = (
    70.0  # over the rows per std of a histogram: how much more the release errs than with known ends, measured
)
_BALL_RELEASE = 0.7  # of mu^2, about what a ball's release has
_SLACK_SHARE = 0.1  # of delta, for the gate of friendly_core
Method = Callable[..., Region]


def method_of(name: str) -> Method:
    """The function behind a method's name; "auto" is that of many columns, where columns are not clamped."""
    from . import ball, published

    methods: dict[str, Method] = {
        "auto": ball.ball,
        "coinpress": published.coinpress,
        "instance_optimal": published.instance_optimal,
        "variance_aware": published.variance_aware,
        "friendly_core": published.friendly_core,
    }
    return methods[choice("method", name, METHODS)]


@dataclass(frozen=True, repr=False)
class LearningPlan(Requested):
    """Release of a statistic of Unknown rows: rounds that learn bounds, then an ordinary release; no data was read.

    Guarantee: `release` is `privacy`, all rounds together [L7][L8]. The plan of the release itself comes with it.
    """

    request: Request
    privacy: Privacy

    def __post_init__(self) -> None:
        # A plan may come from a file: what it claims is checked every time it is made.
        self.privacy.check_unit(self.people is not None)
        names("columns", self.columns, self.d)
        if self.neighbors != self.request.neighbors:
            raise UsageError("this plan is not that of its request. Create a new plan.")
        if self.neighbors == "replace" and self.n is None:
            raise UsageError("n is missing. State the number of rows; it is public under neighbors='replace'.")
        if self.privacy.slack != self._slack:
            raise UsageError("this guarantee is not that of its method. Make the plan anew.")
        check_stated(self.privacy, self.stated)
        if self.privacy.pure and not self._boxed:
            raise UsageError("this guarantee is not that of its method. Make the plan anew.")
        if self.pure and not self.shares.enough:
            raise UsageError(f"pure noise hides these columns: {self._too_few()}")

    noise_std = noise_cov = noise_error = clipping_error = expected_squared_error = clip_radius = None
    in_groups = False
    format = FORMAT

    @property
    def _slack(self) -> float:
        return slack_for(self.method, Budget(**self.stated), self.neighbors)

    @property
    def rows(self) -> Unknown:
        assert isinstance(self.request.bounds, Unknown)
        return self.request.bounds

    @property
    def statistic(self) -> str:
        return "mean" if self.later else self.request.statistic

    @property
    def later(self) -> bool:
        """Whether bounds are learned for later releases, and none is made now."""
        return self.request.statistic == "learn"

    @property
    def method(self) -> str:
        return self.rows.method

    @property
    def weights(self) -> str:
        """What errors are measured in: plain units, or "relative" to each column's own spread."""
        return self.request.error_weights or "equal"

    @property
    def handling(self) -> Handling:
        """What is done about missing values."""
        return Handling(self.request.missing, self.request.count_clipped)

    @property
    def noise(self) -> str:
        return self.request.noise

    @property
    def pure(self) -> bool:
        """Whether all rounds have pure noise."""
        return not self.privacy.mu

    @property
    def magnitude(self) -> float | Floats:
        return self.rows.magnitude

    @property
    def _boxed(self) -> bool:
        """Whether each column is clamped to ends of its own, rather than rows clipped by their norm: a public rule."""
        return self.method == "auto" and uses_box(self.d, Budget(**self.stated), self.noise, self.in_groups)

    @cached_property
    def shares(self) -> box.Shares:
        """How the budget is shared out where columns are clamped."""
        return self._shares_of(float(_GUESSED_ROWS if self.n is None else self.n))

    def _shares_of(self, n: float) -> box.Shares:
        words = self.neighbors, self._each, self.noise, self.in_groups, self.later
        return box.shares_of(n, self.d, Budget(**self.stated), *words)

    @property
    def _each(self) -> int:
        return (self.people and self.people.rows_each) or 1

    @property
    def passes(self) -> int:
        """The most passes over the rows."""
        from . import published

        counted = self.neighbors != "replace" or self._each > 1
        if self._boxed:
            return counted + box.PASSES
        return counted + (MOST_PASSES if self.method == "auto" else published.passes(self.method, self.rows.options))

    @property
    def relative_error(self) -> float | None:
        """Forecast error of a column over its spread."""
        return None if self.n is None else self._error_of(float(self.n))

    def _error_of(self, n: float) -> float:
        if self._boxed:
            shares = self._shares_of(n)
            learning = 1 - shares.pure_release / shares.epsilon if shares.epsilon else shares.learning
            more = 1 + _LEARNING_ERROR / max(learning * shares.clear, 1e-300)
            return _BOX_WIDTH * shares.unit / n * more
        width = self._each * (1 if self.neighbors == "replace" else 0.5)
        return _BALL_WIDTH * width * math.sqrt(self.d / _BALL_RELEASE) / (self.privacy.mu * n)

    @property
    def enough(self) -> bool:
        """Whether the rows are forecast to be enough to find columns [L12]."""
        return self.n is None or self._enough(float(self.n))

    def _enough(self, n: float) -> bool:
        budget = Budget(**self.stated)
        if self.method == "auto":
            return box.counting_rows(n, self.d, budget, self.neighbors, self._each) >= FEWEST_ROWS
        return self._error_of(n) < _HOPELESS

    def _too_few(self, error: float = _HOPELESS) -> str:
        return (
            f"there are too few rows for this budget and {self.d} columns. It takes about {self.n_needed(error):,} "
            "rows, fewer columns, a larger budget, or bounds that are stated."
        )

    def n_needed(self, error: float) -> int:
        """Rows for which the forecast error is at most this, and columns are found."""
        low, high = 1.0, 2.0**60
        while high > low * 1.01:
            middle = math.sqrt(low * high)
            enough = self._enough(middle) and self._error_of(middle) <= error
            low, high = (low, middle) if enough else (middle, high)
        return math.ceil(high)

    @property
    def warning(self) -> str | None:
        """In plain words, where the data cannot support a useful answer."""
        error = self.relative_error
        if error is None:
            return None
        if not self.enough or error >= _HOPELESS:
            return f"the data cannot support an answer: {self._too_few()}"
        if error >= _ROUGH:
            return (
                f"the answer will be rough: its error is about {error:.0%} of the rows' spread. {self._too_few(_ROUGH)}"
            )
        return None

    @property
    def doubt(self) -> str | None:
        """Why a budget spent on this plan may be wasted; a rough answer is an answer."""
        error = self.relative_error
        return self.warning if error is not None and (not self.enough or error >= _HOPELESS) else None

    # Running --------------------------------------------------------------------------------------------

    def run(self, session: Session) -> Release:
        """Learn, then release with all that is left [L7]."""
        rounds = self._rounds(session, f"{self.statistic} of learned rows")
        region = self._learned(rounds)
        return publish(self, rounds, region)

    def learn(self, session: Session) -> Learned:
        """Spend the whole budget on bounds."""
        rounds = self._rounds(session, "learning")
        region = self._learned(rounds)
        rows = region.rows
        if isinstance(rows, Box):  # a column that was not found has no bounds but the stated ones
            low, high = (
                np.where(region.found, end, sign * rounds.magnitude)
                for sign, end in zip((-1, 1), rows.bounds(), strict=True)
            )
            rows = Box(low, high)
        bounds = rows._with(columns=session.source.columns or self.columns)
        facts = self.method, dict(self.stated), session.secure, self.people, region.warnings
        return Learned(bounds, rounds.privacy, tuple(rounds.steps), *facts)

    def _rounds(self, session: Session, note: str, rows: Source | None = None) -> Rounds:
        source = session.source
        check_width(self.d, source)
        if self.neighbors == "replace" and source.reopenable and source.count() != self.n:
            what = "rows" if self.people is None else "people"
            raise UsageError(
                f"this plan is for n = {self.n} {what}, the data has {source.count()}. Plan anew for this n."
            )
        session.propose(self)
        magnitude = self.rows.magnitudes(self.d)
        return Rounds(
            session, self.privacy, self.n, self.handling, magnitude, note,
            plan=self, source=rows, passes=self.passes, relative=self.weights == "relative",
        )  # fmt: skip

    def _learned(self, rounds: Rounds) -> Region:
        region = box.box(rounds, self.shares) if self._boxed else method_of(self.method)(rounds, **self.rows.options)
        texts = list(region.warnings)
        lost = [named(rounds.names[j]) for j in np.flatnonzero(~region.found)]
        if lost:
            some = ", ".join(lost[:3]) + (f" and {len(lost) - 3} more" if len(lost) > 3 else "")
            texts.insert(
                0,
                f"{some} could not be found among the noise: it has no value, and its interval is the whole range.",
            )
        if not self._enough(rounds.n):
            texts.insert(0, f"intervals cannot be trusted: {self._too_few()}")
        return replace(region, warnings=tuple(texts))

    # As JSON and in words -------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": self.format,
            "version": VERSION,
            "request": self.request.to_dict(),
            "privacy": self.privacy.to_dict(),
            "passes": self.passes,
            "relative_error": self.relative_error,
            "warning": self.warning,
        }

    def to_json(self) -> str:
        return json_codec.dump(self.to_dict())

    @staticmethod
    def from_json(text: str) -> LearningPlan:
        return LearningPlan(*learning_fields(json_codec.parse(text), FORMAT))

    @staticmethod
    def read_release(text: str) -> Any:
        return Plan.read_release(text)

    def _group_facts(self) -> list[tuple[str, str]]:
        """What is said of groups, where there are any."""
        return []

    def document(self, most: int | None = None) -> Document:
        asked = self.rows.usual_missing if self.handling.missing is None else self.handling.missing
        what = "each column is clamped to learned ends" if self._boxed else "rows are clipped by their norm"
        facts = [
            ("Privacy", describe_guarantee(self.privacy, self.stated)),
            *people_facts(self.people),
            *self._group_facts(),
            ("Bounds", f"learned: values are known to lie within {self.rows.shown}"),
            ("Missing", describe_missing(asked, self.statistic)),
            ("Weights", describe_weights(self.weights)),
            ("Method", f"{self.method}; {what}"),
            ("Passes", f"at most {self.passes} over all rows"),
        ]
        if self.relative_error is not None:
            facts.append(("Error", f"{self.relative_error:.2%} of a column's standard deviation"))
        columns = f"{many(self.d, 'column')} with unknown bounds ({describe_size(self)}; no data read)"
        warnings = [] if self.warning is None else [self.warning]
        return Document(f"Plan for a differentially private {self.statistic} of {columns}", [], facts, warnings)


def uses_box(d: int, budget: Budget, noise: str, in_groups: bool) -> bool:
    """A public rule: pure noise of a box of 5 spreads, or Gaussian noise of a ball of 1.2 sqrt(d) spreads."""
    if d == 1 or in_groups or noise == "norm" or budget.largest_mu is None:
        return True
    if noise == "gaussian" or budget.pair is None:
        return False
    return _BOX_WIDTH * box_std(d) / budget.pair[0] < _BALL_WIDTH * math.sqrt(d) / budget.mu


def slack_for(method: str, budget: Budget, neighbors: str) -> float:
    """The failure probability that a method needs beside its share of mu; most need none."""
    if method != "friendly_core":
        return 0.0
    require_replace(neighbors)
    delta = dict(budget.stated).get("delta")
    if not delta:
        raise UsageError("friendly_core needs a failure probability. State the budget as epsilon= and delta=.")
    return _SLACK_SHARE * delta


def _checked_method(method: str, options: Mapping[str, Any], budget: Budget, noise: str) -> None:
    """An error for a name, an option or a noise that there is not."""
    if method == "auto" and not options:
        return _check_noise(method, budget, noise)
    function = method_of(method)
    parameters = inspect.signature(function).parameters.values()
    offered = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    unknown = [name for name in options if name not in offered]
    if unknown:
        own = f"{method} takes {', '.join(offered)}" if offered else f"{method} takes none"
        raise UsageError(
            f"{', '.join(unknown)} cannot be chosen for Unknown rows: shape and radius are learned. {own}."
        )
    _check_noise(method, budget, noise)


def _check_noise(method: str, budget: Budget, noise: str) -> None:
    if method != "auto" and (noise == "norm" or budget.largest_mu is None):
        raise UsageError(f"method={method!r} has Gaussian rounds. Use method='auto' with delta=0 or noise='norm'.")
    if noise == "norm" and budget.pair is None:
        raise UsageError("noise='norm' needs a budget stated as epsilon= and delta=: its law is not Gaussian.")


def plan_learning(request: Request) -> LearningPlan:
    """A plan for Unknown bounds."""
    rows, budget = request.bounds, request.budget
    assert isinstance(rows, Unknown)
    assert budget is not None
    gate = slack_for(rows.method, budget, request.neighbors)
    return LearningPlan(request, choose_guarantee(request, budget, gate, in_groups=False))


def choose_guarantee(request: Request, budget: Budget, slack: float, in_groups: bool) -> Privacy:
    """What the steps of learning and the release guarantee together; slack: what they need of delta."""
    rows, people = request.bounds, request.people
    assert isinstance(rows, Unknown)
    assert request.d is not None
    _checked_method(rows.method, rows.options, budget, request.noise)
    neighbors, unit = request.neighbors, unit_of(people)
    mu = 0.0
    pure: tuple[float, ...] = ()
    if rows.method == "auto" and uses_box(request.d, budget, request.noise, in_groups):
        size = float(_GUESSED_ROWS if request.n is None else request.n)
        each = (people and people.rows_each) or 1
        later = request.statistic == "learn"
        shares = box.shares_of(size, request.d, budget, neighbors, each, request.noise, in_groups, later)
        mu = shares.mu
        pure = (shares.pure_release if mu else shares.epsilon,) if shares.epsilon else ()
    if pure:
        return Privacy(mu, 0.0, neighbors, unit, pure)
    return Privacy(budget.after_slack(slack).mu, slack, neighbors, unit)


def publish(plan: LearningPlan, rounds: Rounds, region: Region) -> Release:
    """An ordinary release in the region, with all the budget that is left, and what its interval needs [L10][L11]."""
    spend = rounds.remaining()
    budget = (Budget(epsilon=spend.pure[0], delta=0) if spend.pure else Budget(mu=spend.mu)).as_typed()
    n = plan.n if rounds.public_rows else round(rounds.n)
    handling, absent = release_handling(plan, rounds, region)
    is_relative = isinstance(region.rows, Box) and plan.weights == "relative"
    request = Request(
        statistic=plan.statistic,
        bounds=region.rows.resolve(plan.d),
        budget=budget,
        neighbors=plan.neighbors,
        n=n,
        columns=rounds.source.columns,
        people=plan.people,
        missing=handling.missing,
        noise=plan.noise,
        error_weights="relative" if is_relative else None,
        count_clipped=handling.counts(region.rows),
        d=plan.d,
        nullable=handling.gaps,
    )
    final: Plan = plan_statistic(request)
    stream = rounds.charge_release(final.privacy.as_pair(), final.row_map.width)
    partial = rounds.session.total(final.row_map, rounds.public_rows, rounds.progress, rounds.source)
    release = final.publish(final.noisy_sums(partial, stream), rounds.session.secure)
    return replace(release, privacy_spent=rounds.privacy, learned=learning_of(plan, rounds, region, absent))


def learning_of(plan: LearningPlan, rounds: Rounds, region: Region, absent: Any = None) -> Learning:
    """What the release tells of its rounds."""
    steps, stated = tuple(rounds.steps), dict(plan.stated)
    facts = region.bias, region.found, region.unnoticed, region.warnings
    return Learning(plan.method, stated, rounds.magnitude, steps, *facts, absent)


def release_handling(plan: LearningPlan, rounds: Rounds, region: Region) -> tuple[Handling, Any]:
    """What the release does about missing entries: those that were counted before are filled in."""
    asked = plan.handling.missing
    handling = replace(rounds.handling, check=region.unmeasured and plan.handling.check)
    rule, fill = rounds.handling.rule(plan.rows, plan.d)
    if rule == "column" and region.absent is not None:
        return replace(handling, missing=region.absent.fill.tolist()), region.absent
    if fill is not None and isinstance(region.rows, Box):
        return replace(handling, missing=np.clip(fill, *region.rows.bounds()).tolist()), None
    return replace(handling, missing=asked), None


def learning_fields(saved: Mapping[str, Any], plan_format: str) -> tuple[Request, Privacy]:
    """The fields of a plan from a file; whether they make one is checked as the plan is made."""
    other = f"not a plan of format {plan_format}. It may come from another version of ellipsum."
    with json_codec.Fields(saved, _WRONG) as fields:
        fields.check_format(plan_format, other)
        for shown in ("passes", "relative_error", "warning"):
            fields.take(shown, lambda value: None)  # worked out anew
        request, privacy = fields.take("request", request_from_dict), fields.take("privacy", Privacy.from_dict)
    if not isinstance(request.bounds, Unknown) or request.budget is None:
        raise UsageError(_WRONG)
    return request, privacy
