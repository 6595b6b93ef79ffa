"""What a data set may spend and has spent, and how a guarantee is charged to it [Q1]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Protocol

from ..errors import BudgetRefused, UsageError, named
from ..numerics.rounding import round_down, round_up, typed, within_typed
from ..privacy.budget import mu_for
from ..privacy.composition import Filter
from ..privacy.gaussian_curve import gaussian_delta_upper
from ..privacy.guarantee import Privacy
from .amounts import amount, read, written

_NEAR = 1 + Fraction(1, 10**6)
NOTHING = Fraction(0)


class ChargeableGuarantee(Protocol):
    """What a release spends."""

    @property
    def neighbors(self) -> str: ...

    @property
    def unit(self) -> str: ...

    def delta(self, epsilon: float) -> float: ...

    def as_pair(self) -> Privacy: ...

    def to_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class ChargeRequest:
    """A release that is to be charged: what it is, its guarantee, the budget as stated, and its plan in JSON.

    columns: those that were picked, by name or place, where somebody picked any.
    """

    note: str
    guarantee: ChargeableGuarantee
    stated: Mapping[str, float] = field(default_factory=dict)
    privacy_id: str | int | None = None
    plan: str = "{}"
    columns: tuple[str | int, ...] | None = None

    @property
    def protects(self) -> Protects:
        return Protects(self.guarantee.neighbors, self.guarantee.unit, self.privacy_id)

    @property
    def gaussian(self) -> bool:
        """Whether the noise is Gaussian, and nothing else."""
        return isinstance(self.guarantee, Privacy) and self.guarantee.mu > 0 and not self.guarantee.pure

    @property
    def pair(self) -> tuple[float, float] | None:
        """(epsilon, delta) where the budget was stated so, delta above 0."""
        said = self.stated
        return (said["epsilon"], said["delta"]) if said.get("delta") else None


@dataclass(frozen=True)
class Protects:
    """Whom a guarantee is for; None where nobody has said so yet."""

    neighbors: str | None = None
    unit: str | None = None
    privacy_id: str | int | None = None
    """The column that names people: by its name, or by its place where columns have none."""

    def fill_in(self, other: Protects, dataset: str) -> Protects:
        """The same with what was left open filled in, or a refusal: different units do not add up [Q1]."""
        same_relation = self.neighbors in (None, other.neighbors)
        same_unit = self.unit is None or (self.unit, self.privacy_id) == (other.unit, other.privacy_id)
        if same_relation and same_unit:
            return other
        raise BudgetRefused(
            f"the budget of {named(dataset)} is for {self}, and this release would be for {other}. Two such guarantees "
            "do not add up. Nothing was read or spent: give the release that unit, or a data set of its own."
        )

    def __str__(self) -> str:
        if self == Protects():
            return "what the first release protects"
        who = "one row or person" if self.unit is None else f"one {self.unit}"
        whose = "" if self.privacy_id is None else f" by {named(self.privacy_id)}"
        change = {"replace": "replaced", "add_remove": "added or removed"}.get(self.neighbors or "", "")
        return " ".join(filter(None, (f"{who}{whose}", change)))


@dataclass(frozen=True)
class ChargeStep:
    """What is charged for a release: to mu, to a pure cap, to the slack."""

    mu: Fraction
    pure: tuple[Fraction, ...]
    slack: Fraction

    def charged_to(self, caps: Filter) -> Filter:
        first, rest = self.pure[:1] or (NOTHING,), self.pure[1:]
        charged = caps.charge(mu=self.mu, epsilon=first[0], slack=self.slack)
        for epsilon in rest:
            charged = charged.charge(epsilon=epsilon)
        return charged


def ways_to_charge(request: ChargeRequest) -> Iterator[ChargeStep]:
    """The ways to charge a guarantee, the closest first: by its law, and at one point of its curve [Q1]."""
    by_point = _by_point(request)
    if isinstance(request.guarantee, Privacy):
        yield _by_law(request)
        yield from by_point
    else:
        yield from by_point
        yield _by_law(request)


def _by_law(request: ChargeRequest) -> ChargeStep:
    pair = request.guarantee.as_pair()
    pure = tuple(_as_typed(epsilon, request.stated.get("epsilon")) for epsilon in pair.pure)
    if len(pure) > 1:
        pure = tuple(map(Fraction, pair.pure))
    return ChargeStep(_as_typed(pair.mu, request.stated.get("mu")), pure, Fraction(pair.slack))


def _as_typed(spent: float, stated: float | None) -> Fraction:
    """The decimal that was typed, where what is spent is no more, and hardly less; else what is spent, exactly."""
    if stated is not None and Fraction(spent) <= typed(stated) <= Fraction(spent) * _NEAR:
        return typed(stated)
    return Fraction(spent)


def _by_point(request: ChargeRequest) -> Iterator[ChargeStep]:
    """The stated (epsilon, delta) as a pure step with slack [P8]."""
    if request.pair is None:
        return
    epsilon, delta = request.pair
    proved = Fraction(request.guarantee.delta(within_typed(epsilon)))
    if proved < 1:
        yield ChargeStep(NOTHING, (typed(epsilon),), max(proved, typed(delta)))


# Caps ---------------------------------------------------------------------------------------------------


def caps_for(budget: Mapping[str, Fraction], request: ChargeRequest) -> Filter:
    """The caps that the law of a first release fixes for a budget; no output has been seen by then [Q1]."""
    if "mu" in budget:
        return Filter(budget["mu"])
    epsilon, delta = budget["epsilon"], budget["delta"]
    slack = _slack_for(delta, request)
    if not request.gaussian or not slack < delta:
        return Filter(NOTHING, (epsilon,), delta)
    return Filter(mu_within(epsilon, delta, slack), (), slack)


def _slack_for(delta: Fraction, request: ChargeRequest) -> Fraction:
    """As large a part of the budget's delta as the release's slack is of its own."""
    slack = Fraction(request.guarantee.as_pair().slack) if request.gaussian else NOTHING
    part = slack / typed(request.pair[1]) if request.pair else Fraction(1)
    scaled = Fraction(round_up(part * delta)) if request.pair and slack else slack
    return max(slack, scaled)


def mu_within(epsilon: Fraction, delta: Fraction, slack: Fraction) -> float:
    """The largest mu that is proved to keep a budget of decimals [P2]."""
    mu = mu_for(float(epsilon), float(delta), round_up(slack))
    if Fraction(gaussian_delta_upper(mu, round_down(epsilon))) + slack <= delta:
        return mu
    return mu_for(round_down(epsilon), round_down(delta), round_up(slack))


def checked_caps(budget: Mapping[str, Fraction], stated: Mapping[str, Any]) -> Filter | None:
    """Caps as somebody stated them, proved to lie within the budget [P8]."""
    if not stated:
        return Filter(NOTHING, (budget["epsilon"],)) if budget.get("delta") == 0 else None
    unknown = set(stated) - {"mu", "epsilon", "slack"}
    if unknown or "mu" in budget:
        raise UsageError(
            "caps are mu=, epsilon= (or several of them) and slack=, beside a budget of epsilon and delta."
        )
    given = stated.get("epsilon", ())
    pure = given if isinstance(given, (list, tuple)) else (given,)
    caps = Filter(
        amount("the cap mu", stated.get("mu", 0)),
        tuple(amount("the cap epsilon", cap) for cap in pure),
        amount("the cap slack", stated.get("slack", 0)),
    )
    if not (caps.mu or caps.pure):
        raise UsageError("these caps allow nothing at all. State mu= or epsilon= above zero.")
    if not _within_budget(caps, budget):
        raise UsageError("these caps together allow more than epsilon and delta do. State smaller ones.")
    return caps


def _within_budget(caps: Filter, budget: Mapping[str, Fraction]) -> bool:
    """Pure caps that add up to epsilon at most have no delta of their own [P8](c); else the curve decides."""
    if caps.mu == 0 and sum((Fraction(cap) for cap in caps.pure), NOTHING) <= budget["epsilon"]:
        curve = NOTHING
    else:
        curve = Fraction(replace(caps, slack=NOTHING).delta(round_down(budget["epsilon"])))
    return curve + Fraction(caps.slack) <= budget["delta"]


def within(caps: Filter, budget: Mapping[str, Fraction], limit: Fraction) -> Filter:
    """Caps of a part (an analyst, a period) whose epsilon, or mu, is at most `limit`."""
    if "mu" in budget:
        return Filter(limit)
    if caps.pure and caps.mu:
        raise UsageError("caps for analysts and periods go with caps of one law, mu or epsilon, not both.")
    if caps.pure:
        return Filter(NOTHING, (limit,), caps.slack)
    return Filter(mu_within(limit, budget["delta"], Fraction(caps.slack)), (), caps.slack)


# Caps and spendings as entries hold them ----------------------------------------------------------------


def caps_to_dict(caps: Filter) -> dict[str, Any]:
    pure = [written(Fraction(cap)) for cap in caps.pure]
    return {"mu": written(Fraction(caps.mu)), "epsilon": pure, "slack": written(Fraction(caps.slack))}


def caps_from_dict(saved: Mapping[str, Any]) -> Filter:
    return Filter(read(saved["mu"]), tuple(map(read, saved["epsilon"])), read(saved["slack"]))


def spent_to_dict(caps: Filter) -> dict[str, Any]:
    pure = [written(spent) for spent in caps.pure_spent]
    return {"squares": written(caps.squares_spent), "epsilon": pure, "slack": written(caps.slack_spent)}


def with_spent(caps: Filter, saved: Mapping[str, Any] | None) -> Filter:
    if saved is None:
        return caps
    pure = tuple(map(read, saved["epsilon"]))
    squares, slack = read(saved["squares"]), read(saved["slack"])
    return replace(caps, squares_spent=squares, pure_spent=pure, slack_spent=slack)
