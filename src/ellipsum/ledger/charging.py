"""Amounts of a budget, the caps of a data set, and the ways to charge a privacy guarantee to them [Q1].

Amounts are read as exact decimals, added exactly, and written exactly or in short.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_DOWN, ROUND_UP, Context, Decimal, Inexact
from fractions import Fraction
from typing import Any, NamedTuple, TypedDict

from ..errors import BudgetRefused, UsageError, named, non_negative
from ..numerics.rounding import round_down, round_up, sqrt_down, sqrt_up, typed, within_typed
from ..privacy.budget import mu_for
from ..privacy.composition import Filter
from ..privacy.gaussian_curve import gaussian_delta_upper
from ..privacy.guarantee import Privacy, PrivacyGuarantee

Amount = float | str | Decimal | Fraction
"""What a caller may pass as an amount."""
_LARGEST = Fraction(10) ** 300
_DECIMAL = re.compile(r"[-+.0-9eE]+", re.ASCII)
_EXACT = Context(prec=20_000, traps=[Inexact])
_SHORT = 12
PROJECTION = "a projection"
"""The note of a projection's charge: its options differ from those of other releases."""
ZERO = Fraction(0)
NOTHING_CHARGED = "No data was read and nothing was charged."
_NEAR = 1 + Fraction(1, 10**6)


def parse_amount(name: str, value: object) -> Fraction:
    """The exact amount of a text, a Decimal or a number; a double is read as the shortest decimal that it prints."""
    if not isinstance(value, (str, Decimal, Fraction)):
        return typed(non_negative(name, value))
    try:
        number = value if isinstance(value, Fraction) else read_amount(str(value).strip(), 400, 300)
        exact_text(number)
    except (ValueError, ArithmeticError):
        number = Fraction(-1)
    if not 0 <= number <= _LARGEST:
        raise UsageError(f"{name} must be a decimal number, 0 or larger. Write it as in 0.25 or 1e-6.")
    return number


def read_amount(text: str, most_digits: int = 4_000, most_places: int = 3_000) -> Fraction:
    """The amount that `exact_text` wrote. With the limits, a forged entry cannot ask for millions of digits."""
    number = Decimal(text) if len(text) <= most_digits and _DECIMAL.fullmatch(text) else Decimal(-1)
    if number < 0 or abs(number.adjusted()) > most_places:
        raise ValueError("not an amount")
    return Fraction(number)


def exact_text(value: Fraction) -> str:
    """The exact decimal, which every amount has as a sum of decimals and doubles."""
    return str(_EXACT.divide(Decimal(value.numerator), Decimal(value.denominator)))


def short_text(value: Fraction, up: bool = False) -> str:
    """The amount as people read it: exact if it is short, otherwise five digits, rounded down or up."""
    text = exact_text(value)
    if len(text) > _SHORT:
        text = str(Context(prec=5, rounding=ROUND_UP if up else ROUND_DOWN).create_decimal(text))
    return f"{float(text):.{_SHORT}g}"


@dataclass(frozen=True)
class ChargeRequest:
    """A release to be charged: its kind, guarantee, requested budget, and plan in JSON.

    columns: the columns that the caller chose, by name or position; None where the caller chose none.
    """

    note: str
    guarantee: PrivacyGuarantee
    stated: Mapping[str, float] = field(default_factory=dict)
    privacy_id: str | int | None = None
    plan: str = "{}"
    columns: tuple[str | int, ...] | None = None

    @property
    def privacy_unit(self) -> PrivacyUnit:
        return PrivacyUnit(self.guarantee.neighbors, self.guarantee.unit, self.privacy_id)

    @property
    def gaussian(self) -> bool:
        """Whether all noise is Gaussian."""
        return isinstance(self.guarantee, Privacy) and self.guarantee.mu > 0 and not self.guarantee.pure

    @property
    def pair(self) -> tuple[float, float] | None:
        """The requested (epsilon, delta), where delta is above 0."""
        return (self.stated["epsilon"], self.stated["delta"]) if self.stated.get("delta") else None


@dataclass(frozen=True)
class PrivacyUnit:
    """The privacy unit of a guarantee; None before the first release."""

    neighbors: str | None = None
    unit: str | None = None
    privacy_id: str | int | None = None
    """The column that identifies people: its name, or its position where columns have no names."""

    def fill_in(self, other: PrivacyUnit, dataset: str) -> PrivacyUnit:
        """The unit of a release, or a refusal: guarantees for different units cannot be added [Q1]."""
        same_relation = self.neighbors in (None, other.neighbors)
        same_unit = self.unit is None or (self.unit, self.privacy_id) == (other.unit, other.privacy_id)
        if same_relation and same_unit:
            return other
        raise BudgetRefused(
            f"The budget of {named(dataset)} protects: {self}. This release would protect: {other}. Guarantees for "
            f"different privacy units do not add up. {NOTHING_CHARGED} Pass the same neighbors= and privacy_id=, or "
            "use another data set."
        )

    def __str__(self) -> str:
        if self == PrivacyUnit():
            return "set by the first release"
        change = {"replace": "replace", "add_remove": "add or remove"}.get(self.neighbors or "", "")
        unit = "one row or person" if self.unit is None else f"one {self.unit}"
        column = "" if self.privacy_id is None else f" (identified by {named(self.privacy_id)})"
        return f"{change} {unit}{column}".lstrip()


@dataclass(frozen=True)
class ChargeStep:
    """The amounts that a release is charged in mu, epsilon and delta."""

    mu: Fraction
    pure: tuple[Fraction, ...]
    slack: Fraction

    def charged_to(self, caps: Filter) -> Filter:
        """The caps after this charge, or `BudgetRefused`."""
        charged = caps.charge(mu=self.mu, slack=self.slack)
        for epsilon in self.pure:
            charged = charged.charge(epsilon=epsilon)
        return charged

    def fits(self, caps: Filter) -> bool:
        try:
            self.charged_to(caps)
        except BudgetRefused:
            return False
        return True


def ways_to_charge(request: ChargeRequest) -> list[ChargeStep]:
    """The ways to charge a guarantee, the cheapest first: as its own kind, or as one point of its curve [Q1]."""
    by_kind, by_point = [_charge_by_kind(request)], _charge_by_point(request)
    return by_kind + by_point if isinstance(request.guarantee, Privacy) else by_point + by_kind


def _charge_by_kind(request: ChargeRequest) -> ChargeStep:
    pair = request.guarantee.as_pair()
    pure = tuple(map(Fraction, pair.pure))
    if len(pure) == 1:
        pure = (_requested_or_spent(pair.pure[0], request.stated.get("epsilon")),)
    mu = _requested_or_spent(pair.mu, request.stated.get("mu"))
    return ChargeStep(mu, pure, _requested_or_spent(pair.slack, request.stated.get("delta")))


def _requested_or_spent(spent: float, requested: float | None) -> Fraction:
    """The requested decimal, if hardly less is spent: then five times 0.2 is 1. Otherwise the spent amount."""
    if requested is not None and Fraction(spent) <= typed(requested) <= Fraction(spent) * _NEAR:
        return typed(requested)
    return Fraction(spent)


def _charge_by_point(request: ChargeRequest) -> list[ChargeStep]:
    """The requested (epsilon, delta) as a pure step and a delta [P8]."""
    if request.pair is None:
        return []
    epsilon, delta = request.pair
    proved = Fraction(request.guarantee.delta(within_typed(epsilon)))
    return [ChargeStep(ZERO, (typed(epsilon),), max(proved, typed(delta)))] if proved < 1 else []


# Caps ---------------------------------------------------------------------------------------------------


def caps_for(budget: Mapping[str, Fraction], request: ChargeRequest) -> Filter:
    """The caps that the first release sets for a budget; no output exists before it [Q1]."""
    if "mu" in budget:
        return Filter(budget["mu"])
    epsilon, delta = budget["epsilon"], budget["delta"]
    slack = _slack_for(delta, request)
    if not request.gaussian or not slack < delta:
        return Filter(ZERO, (epsilon,), delta)
    return Filter(largest_mu(epsilon, delta, slack), (), slack)


def _slack_for(delta: Fraction, request: ChargeRequest) -> Fraction:
    """The budget's delta times the share of its own delta that the release charges directly."""
    slack = Fraction(request.guarantee.as_pair().slack) if request.gaussian else ZERO
    if request.pair is None or not slack:
        return slack
    return max(slack, Fraction(round_up(slack / typed(request.pair[1]) * delta)))


def largest_mu(epsilon: Fraction, delta: Fraction, slack: Fraction) -> float:
    """The largest mu that is proved to keep a budget of decimals [P2]."""
    proved = mu_for(round_down(epsilon), round_down(delta), round_up(slack))
    mu = mu_for(float(epsilon), float(delta), round_up(slack))
    if mu > proved and Fraction(gaussian_delta_upper(mu, round_down(epsilon))) + slack <= delta:
        return mu
    return proved


def check_caps(budget: Mapping[str, Fraction], stated: Mapping[str, object]) -> Filter | None:
    """The caps that the caller passed, proved to lie within the budget [P8]."""
    if not stated and "mu" in budget:
        return Filter(budget["mu"])
    if not stated:
        return Filter(ZERO, (budget["epsilon"],)) if budget["delta"] == 0 else None
    if set(stated) - {"mu", "epsilon", "delta"} or "mu" in budget:
        raise UsageError("caps may have mu=, epsilon= (a number or a list) and delta=. The budget must be in epsilon.")
    epsilons = stated.get("epsilon", ())
    pure = epsilons if isinstance(epsilons, (list, tuple)) else (epsilons,)
    caps = Filter(
        parse_amount("the cap mu", stated.get("mu", 0)),
        tuple(parse_amount("the cap epsilon", cap) for cap in pure),
        parse_amount("the cap delta", stated.get("delta", 0)),
    )
    if not (caps.mu or caps.pure):
        raise UsageError("These caps allow no release. Pass mu= or epsilon= above 0.")
    if not _is_within_budget(caps, budget):
        raise UsageError("These caps together allow more than the budget's epsilon and delta. Pass smaller caps.")
    return caps


def _is_within_budget(caps: Filter, budget: Mapping[str, Fraction]) -> bool:
    """Pure caps whose sum is at most epsilon need no delta of their own [P8](c); otherwise the curve decides."""
    curve = ZERO
    if caps.mu or sum((Fraction(cap) for cap in caps.pure), ZERO) > budget["epsilon"]:
        curve = Fraction(replace(caps, slack=ZERO).delta(round_down(budget["epsilon"])))
    return curve + Fraction(caps.slack) <= budget["delta"]


def caps_within(caps: Filter, budget: Mapping[str, Fraction], limit: Fraction) -> Filter:
    """Caps of an analyst or a period, whose epsilon (or mu) is at most `limit`."""
    if "mu" in budget:
        return Filter(limit)
    if caps.pure and caps.mu:
        raise UsageError("Limits of analysts and periods need caps of one kind, mu or epsilon, not both.")
    if caps.pure:
        return Filter(ZERO, (limit,), caps.slack)
    return Filter(largest_mu(limit, budget["delta"], Fraction(caps.slack)), (), caps.slack)


# Spent amounts, in JSON and in words --------------------------------------------------------------------


class Amounts(TypedDict):
    """Spent amounts as exact decimals: the sum of squares of mu, each pure epsilon, delta."""

    squares: str
    epsilon: list[str]
    delta: str


def caps_to_dict(caps: Filter) -> dict[str, Any]:
    pure = [exact_text(Fraction(cap)) for cap in caps.pure]
    return {"mu": exact_text(Fraction(caps.mu)), "epsilon": pure, "delta": exact_text(Fraction(caps.slack))}


def caps_from_dict(saved: Mapping[str, Any]) -> Filter:
    return Filter(read_amount(saved["mu"]), tuple(map(read_amount, saved["epsilon"])), read_amount(saved["delta"]))


def spent_to_dict(caps: Filter) -> Amounts:
    pure = [exact_text(spent) for spent in caps.pure_spent]
    return {"squares": exact_text(caps.squares_spent), "epsilon": pure, "delta": exact_text(caps.slack_spent)}


def with_spent(caps: Filter, saved: Amounts | None) -> Filter:
    if saved is None:
        return caps
    pure = tuple(map(read_amount, saved["epsilon"]))
    squares, slack = read_amount(saved["squares"]), read_amount(saved["delta"])
    return replace(caps, squares_spent=squares, pure_spent=pure, slack_spent=slack)


def describe_spent(caps: Filter) -> str:
    """The spent part of each cap, in words."""
    spent = [(part, short_text(part.spent, up=True)) for part in budget_parts(caps)]
    return ", ".join(f"{part.name} = {text} of {short_text(part.cap)}" for part, text in spent)


def describe_remaining(caps: Filter) -> str:
    """The rest of each cap, in words."""
    return ", ".join(f"{part.name} = {short_text(part.left)}" for part in budget_parts(caps))


class BudgetPart(NamedTuple):
    """One cap, its spent part (rounded up) and the rest (rounded down)."""

    name: str
    cap: Fraction
    spent: Fraction
    left: Fraction


def budget_parts(caps: Filter) -> list[BudgetPart]:
    """The caps above 0."""
    squares, mu = caps.squares_spent, Fraction(caps.mu)
    parts = [
        BudgetPart("epsilon", Fraction(cap), spent, Fraction(cap) - spent)
        for cap, spent in zip(caps.pure, caps.pure_spent, strict=True)
    ]
    if mu:
        spent, left = (Fraction(sqrt_up(squares)), Fraction(sqrt_down(mu**2 - squares))) if squares else (ZERO, mu)
        parts.append(BudgetPart("mu", mu, spent, left))
    slack = Fraction(caps.slack)
    return parts + ([BudgetPart("delta", slack, caps.slack_spent, slack - caps.slack_spent)] if slack else [])
