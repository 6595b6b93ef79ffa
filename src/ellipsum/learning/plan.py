"""Plans for Unknown rows: the schedule of rounds and a forecast, before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..display.document import Document, Table
from ..display.wording import (
    describe_guarantee,
    describe_missing,
    describe_size,
    describe_weights,
    many,
    people_facts,
)
from ..errors import MOST_COLUMNS, Floats, UsageError, choice, names
from ..plans.base import Runnable, check_width
from ..plans.plan import plan_from_dict
from ..privacy.budget import Budget, stated_from_dict
from ..privacy.guarantee import Privacy
from ..releases.description import read_release
from ..releases.release import Release
from ..releases.round_record import METHODS
from ..request.missing import Handling
from ..request.people import People, people_from_dict, unit_of
from ..request.request import COUNT, MISSING, STATISTICS, Request
from ..rows import Rows, Unknown, rows_from_dict
from ..session import Session
from ..sources import Source
from ..util import json_codec
from ..version import VERSION
from . import box
from .choosing import check_pure, is_pure, pure_errs_less
from .finish import finish, learned_rows
from .looks import Looks
from .methods import Final, prepare_for, slack_for
from .result import Learned
from .rounds import Rounds, noise_rows, promised
from .schedule import MOST_PASSES, Shares, pure_cost, sample_rate, sample_rows

FORMAT, FORMAT_1 = "ellipsum.learning-plan/2", "ellipsum.learning-plan/1"
_WRONG = "the plan has missing, unknown or wrong fields. Make it anew with es.plan."
_LOOKS = 2  # rounds that the search column by column usually takes
_BALLS = 3  # rounds that the search for the center usually takes
_HOPELESS, _ROUGH = 0.5, 0.1
_UNSPENT = ", which is forecast to err less; delta is not spent"
_USUAL, _BY_CENTER = Handling(), Handling("center", check=False)
_NO_OPTIONS: dict[str, Any] = {"options": {}, "people": None}
_OWN: dict[str, json_codec.Kind[Any]] = {
    "steps": COUNT,
    "std": json_codec.any_of(json_codec.number, json_codec.list_of(json_codec.number)),
    "clip_share": json_codec.number,
}


@dataclass(frozen=True)
class PlannedRound:
    """A kind of round, its share of mu^2 or of epsilon, and how often it is expected."""

    name: str
    share: float
    times: int


@dataclass(frozen=True, repr=False)
class LearningPlan(Runnable):
    """Release of a statistic of Unknown rows: rounds with their shares, and the forecast; no data was read.

    Guarantee: `release` is `privacy`, all rounds together [L6][L7]. The last round's own plan comes with the release.
    """

    rows: Unknown
    statistic: str
    n: int | None
    d: int
    privacy: Privacy
    method: str = "auto"
    columns: tuple[str, ...] | None = None
    stated: Mapping[str, float] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    """The method's own options."""
    people: People | None = None
    """Where rows are people: by which column, and what became of a person's rows."""
    weights: str = "equal"
    """What errors are measured in: plain units, or "relative" to each column's own spread."""
    handling: Handling = _USUAL
    """What is done about missing entries, and whether clipped rows are counted."""
    later: bool = False
    """Whether what is learned is for releases to come, and not for this one alone."""

    def __post_init__(self) -> None:
        # A plan may come from a file: what it claims is checked every time it is made.
        self.privacy.check_unit(self.people is not None)
        names("columns", self.columns, self.d)
        if self.neighbors == "replace" and self.n is None:
            raise UsageError("n is missing. State the number of rows; it is public under neighbors='replace'.")
        budget = Budget(**self.stated)
        if self.privacy.slack != self._slack(budget):
            raise UsageError("this guarantee is not that of its method. Make the plan anew.")
        if self.pure:
            check_pure(self.method)
        self.privacy.check_stated(self.stated)

    def _slack(self, budget: Budget) -> float:
        return slack_for(self.method, budget, self.neighbors)

    noise_std = noise_cov = noise_error = clipping_error = expected_squared_error = clip_radius = None

    @property
    def neighbors(self) -> str:
        return self.privacy.neighbors

    def _shares(self) -> Shares | None:
        if self.n is None or self.method != "auto":
            return None
        return self._shares_of(self.n)

    def _shares_of(self, n: float) -> Shares:
        shares = Shares.of(noise_rows(n, self.d, self.privacy), self.d, self.pure)
        return shares.for_later() if self.later else shares

    @property
    def pure(self) -> bool:
        """Whether rounds have pure noise [L8]."""
        return bool(self.privacy.pure)

    @property
    def noise(self) -> str:
        """The word that asks for these rounds: "auto", unless that would choose others."""
        chosen = pure_errs_less(Budget(**self.stated), self.n, self.d, self.neighbors, self.people, self.later)
        pure = self.stated.get("delta") == 0 or (self.method == "auto" and chosen)
        return "auto" if pure == self.pure else "norm" if self.pure else "gaussian"

    @property
    def request(self) -> Request:
        """What was asked for."""
        return Request(
            statistic="learn" if self.later else self.statistic,
            bounds=Unknown(self.rows.magnitude, self.rows.columns, method=self.method, **self.options),
            budget=Budget(**self.stated).as_typed(),
            neighbors=self.neighbors,
            n=self.n,
            columns=self.columns,
            people=self.people,
            missing=self.handling.missing,
            noise=self.noise,
            error_weights=self.weights,
            count_clipped=self.handling.check,
            d=self.d,
        )

    @staticmethod
    def read_release(text: str) -> Any:
        return read_release(json_codec.parse(text), plan_from_dict)

    @property
    def magnitude(self) -> float | Floats:
        return self.rows.magnitude

    @property
    def rounds(self) -> tuple[PlannedRound, ...]:
        """The expected schedule of method "auto"; empty where n is not stated or another method decides."""
        shares = self._shares()
        if shares is None:
            return ()
        found = self._of_few_columns() if self._boxed else self._steps(shares)
        if self.neighbors == "add_remove":
            found.insert(0, PlannedRound("count", shares.count, 1))
        if self.pure:
            found = [PlannedRound(step.name, pure_cost(step.share), step.times) for step in found]
        spent = sum(step.share * step.times for step in found)
        return (*found, PlannedRound("final", 1 - spent, 1))

    @property
    def _boxed(self) -> bool:
        """Whether the last round clamps each column to ends of its own."""
        return self.n is not None and self._looks(self.n).serve(self.later)

    def _looks(self, n: float) -> Looks:
        return box.looks_at(n, self.d, self.privacy, (self.people and self.people.rows_each) or 1)

    def _of_few_columns(self) -> list[PlannedRound]:
        """Of few columns under pure noise."""
        planned = self._looks(self.n or 0).planned
        return [PlannedRound(name, share, times) for name, (share, times) in planned.items()]

    def _steps(self, shares: Shares) -> list[PlannedRound]:
        """The rounds before the last one, and their shares."""
        relative = self.weights == "relative"
        if shares.by_columns(relative):
            found = [PlannedRound("columns", shares.columns, _LOOKS), PlannedRound("norms", shares.norms, 1)]
        elif relative and self.d > 1 and shares.sizes is not None:
            found = [PlannedRound("columns", shares.sizes, 1), PlannedRound("norms", shares.norms, _BALLS + 1)]
            found.append(PlannedRound("ball", shares.ball, _BALLS))
        else:
            found = [PlannedRound("norms", shares.norms, _BALLS + 1), PlannedRound("ball", shares.ball, _BALLS)]
        if self.d > 1 and not (relative and shares.by_columns(relative)):
            found.append(PlannedRound("scales", shares.scales, 2))
        found.append(PlannedRound("recenter", shares.center, 1))
        found.append(PlannedRound("last norms", shares.final_norms + shares.far_count, 1))
        return found

    @property
    def passes(self) -> int | None:
        """The most passes over all rows, unless an engine has them; None where each round is one [L9]."""
        return MOST_PASSES if self._sample_rows is not None else None

    @property
    def _sample_rows(self) -> float | None:
        """How many rows the early rounds ask for."""
        if self.method != "auto":
            return None
        each = (self.people and self.people.rows_each) or 1
        return sample_rows(self.d, noise_rows(1, self.d, self.privacy) / each)

    @property
    def relative_error(self) -> float | None:
        """Forecast error over the rows' spread, both as lengths over all columns; uneven columns do better."""
        shares = self._shares()
        if shares is None or self.n is None:
            return None
        return self._looks(self.n).relative_error if self._boxed else shares.relative_error

    @property
    def finest(self) -> float | None:
        """The least spread of rows, in units of the magnitude, whose center the rounds can still find."""
        shares = self._shares()
        return None if shares is None else shares.finest * self.rows.largest

    @property
    def warning(self) -> str | None:
        """In plain words, where the data cannot support a useful answer."""
        error = self.relative_error
        shares = self._shares()
        if error is None or shares is None or (error < _ROUGH and shares.reliable):
            return None
        needed = f"An error of a tenth of the spread takes about {math.ceil(self.n_needed(_ROUGH)):,} rows"
        ways = f"{needed}, or fewer columns, or a larger budget."
        if error < _HOPELESS and shares.reliable:
            return f"the answer will be rough: its error is about {error:.0%} of the rows' spread. {ways}"
        return f"the data cannot support an answer: too few rows for this budget and so many columns. {ways}"

    @property
    def doubt(self) -> str | None:
        """Why a budget spent on this plan may be wasted; a rough answer is an answer."""
        error, shares = self.relative_error, self._shares()
        hopeless = error is not None and shares is not None and not (error < _HOPELESS and shares.reliable)
        return self.warning if hopeless else None

    def n_needed(self, relative_error: float) -> float:
        """Rows for which the forecast relative error is this."""
        if self._boxed:
            return self._boxed_rows(relative_error)
        one = self._shares_of(1)
        return max(one.relative_error / relative_error, 40 / one.rows)

    def _boxed_rows(self, relative_error: float) -> float:
        """By halving: the more rows, the smaller the part of epsilon that learning takes."""
        low, high = 1.0, 2.0**50
        while high > low * (1 + 1e-6):
            middle = math.sqrt(low * high)
            enough = self._looks(middle).relative_error <= relative_error
            low, high = (low, middle) if enough else (middle, high)
        return high

    def run(self, session: Session) -> Release:
        """Learn, then release with all that is left [L7]."""
        final, rounds = self._learned(session, f"{self.statistic} of learned rows")
        return finish(rounds, final, self.statistic, session.source.columns, self.method)

    def learn(self, session: Session) -> Learned:
        """Spend the whole budget on what the rows are like."""
        final, rounds = self._learned(session, "learning")
        names = session.source.columns
        release = finish(rounds, final, "mean", names, self.method)
        known = learned_rows(final.about(release.value), release.value, release.noise.ellipsoid.unscale, names)
        history = tuple(rounds.history)
        return Learned(known, rounds.privacy, history, self.method, dict(self.stated), session.secure, self.people)

    def _learned(
        self, session: Session, note: str, rows: Source | None = None, purpose: str | None = None
    ) -> tuple[Final, Rounds]:
        """What the rounds before the last one give; rows: those that they read, in place of the session's."""
        source = session.source
        check_width(self.d, source)
        if self.neighbors == "replace" and source.reopenable and source.count() != self.n:
            what = "rows" if self.people is None else "people"
            raise UsageError(
                f"this plan is for n = {self.n} {what}, the data has {source.count()}. Plan anew for this n."
            )
        session.propose(self)
        prepare = prepare_for(self.method, self.options)
        rounds = Rounds(
            session,
            Budget(**self.stated),
            self.neighbors,
            self.n,
            slack=self.privacy.slack,
            handling=self.handling,
            relative=self.weights == "relative",
            pure=self.pure,
            note=note,
            plan=self,
            source=rows,
            purpose=purpose or ("later" if self.later else "release"),
        )
        rounds.magnitude = self.rows.magnitude
        magnitude = self.rows.magnitudes(self.d) if self.method == "auto" else self.rows.largest
        return prepare(rounds, magnitude), rounds

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "rows": self.rows.to_dict(),
            "statistic": self.statistic,
            "n": self.n,
            "d": self.d,
            "privacy": self.privacy.to_dict(),
            "method": self.method,
            "columns": None if self.columns is None else list(self.columns),
            "stated": dict(self.stated),
            "options": {**self.options, **({} if self.people is None else self.people.to_dict())},
            "weights": self.weights,
            "missing": self.handling.missing,
            "check": self.handling.check,
            **({"later": True} if self.later else {}),
            "rounds": [vars(step) for step in self.rounds],
            "relative_error": self.relative_error,
            "warning": self.warning,
        }

    def to_json(self) -> str:
        return json_codec.dump(self.to_dict())

    @staticmethod
    def from_json(text: str) -> LearningPlan:
        return LearningPlan(**learning_fields(json_codec.parse(text)))

    _error_of = "(even columns; uneven: less)"

    def _group_facts(self) -> list[tuple[str, str]]:
        """What is said of groups, where there are any."""
        return []

    def document(self, most: int | None = None) -> Document:
        asked = self.rows.usual_missing if self.handling.missing is None else self.handling.missing
        facts = [
            ("Privacy", describe_guarantee(self.privacy, self.stated)),
            *people_facts(self.people),
            *self._group_facts(),
            ("Bounds", f"learned: values are known to lie within {self.rows.shown}"),
            ("Missing", describe_missing(asked, self.statistic)),
            ("Weights", describe_weights(self.weights)),
            ("Method", f"{self.method}; center, scales and radius are learned, then the rest is released"),
        ]
        if self._sample_rows is not None:
            facts.append(("Passes", f"at most {self.passes} over all rows; {_early(self.n, self._sample_rows)}"))
        if self.pure:
            facts.append(("Mechanism", f"pure DP in every round{'' if self.stated.get('delta') == 0 else _UNSPENT}"))
        if self.relative_error is not None:
            facts.append(("Error", f"{self.relative_error:.2%} of the rows' spread {self._error_of}"))
        lines = [[step.name, f"{step.share:.2%}", f"{step.times}"] for step in self.rounds]
        rounds = Table(["round", "share of the budget", "times"], lines)
        columns = f"{many(self.d, 'column')} with unknown bounds ({describe_size(self)}; no data read)"
        warnings = [] if self.warning is None else [self.warning]
        return Document(f"Plan for a differentially private {self.statistic} of {columns}", [rounds], facts, warnings)


def learning_fields(saved: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a plan from a file; whether they make one is checked as the plan is made."""
    other = f"not a plan of format {FORMAT}. Plans for other rows are read by es.Plan.from_json."
    with json_codec.Fields(saved, _WRONG) as fields:
        first = saved.get("format") == FORMAT_1
        fields.check_format(FORMAT_1 if first else FORMAT, other)
        for shown in ("rounds", "relative_error", "warning"):
            fields.take(shown, lambda value: None)  # worked out anew
        return {
            "rows": _unknown(fields.take("rows", rows_from_dict)),
            "statistic": fields.take("statistic", json_codec.word(*STATISTICS)),
            "n": fields.maybe("n", COUNT),
            "d": fields.take("d", json_codec.integer(1, MOST_COLUMNS)),
            "privacy": fields.take("privacy", Privacy.from_dict),
            "method": fields.take("method", json_codec.word(*METHODS)),
            "columns": fields.maybe("columns", json_codec.names),
            "stated": fields.take("stated", stated_from_dict),
            "weights": "equal" if first else fields.take("weights", json_codec.word("relative", "equal")),
            "handling": _BY_CENTER if first else _handling(fields),
            "later": fields.take("later", json_codec.flag, False),
            **fields.take("options", _options, _NO_OPTIONS),
        }


def _handling(fields: json_codec.Fields) -> Handling:
    return Handling(fields.maybe("missing", MISSING), fields.maybe("check", json_codec.flag))


def _early(n: int | None, wanted: float) -> str:
    """What the early rounds read."""
    some = f"early rounds read about {math.ceil(wanted):,} of them"
    if n is None:
        return f"{some}, or up to twice as many"
    return "early rounds read a copy in memory" if sample_rate(n, wanted) == 1 else some


def _unknown(rows: Rows) -> Unknown:
    if not isinstance(rows, Unknown):
        raise UsageError(_WRONG)
    return rows


def _options(found: Any) -> dict[str, Any]:
    """A method's own options, and people."""
    with json_codec.Fields(found, _WRONG) as fields:
        own = {name: fields.take(name, take) for name, take in _OWN.items() if name in found}
        people = {name: fields.take(name, lambda value: value) for name in found if name not in _OWN}
    return {"options": own, "people": people_from_dict(people)}


def plan_learning(request: Request) -> LearningPlan:
    """A plan for Unknown bounds."""
    rows, budget, neighbors, people = request.bounds, request.budget, request.neighbors, request.people
    assert isinstance(rows, Unknown)
    assert budget is not None
    assert request.d is not None
    method, n, d, later = rows.method, request.n, request.d, request.statistic == "learn"
    choice("method", method, METHODS)
    prepare_for(method, rows.options)
    slack = slack_for(method, budget, neighbors)
    in_groups = request.groups is not None and budget.largest_mu is not None
    noise = "gaussian" if request.noise == "auto" and in_groups else request.noise
    pure = is_pure(method, budget, noise, n, d, neighbors, people, later)
    privacy = promised(budget, slack, neighbors, unit_of(people), pure)
    named: Any = request.columns
    return LearningPlan(
        rows, "mean" if later else request.statistic, n, d, privacy, method, named, request.stated,
        dict(rows.options), people, request.error_weights or "equal",
        Handling(request.missing, request.count_clipped), later,
    )  # fmt: skip
