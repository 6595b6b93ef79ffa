"""Privacy guarantees and their composition: pure mathematics, no data.

A guarantee is (mu, slack) for a stated neighboring relation, read as [P1]

    delta(epsilon) <= Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu) + slack,  all epsilon >= 0,

and where pure steps were taken beside, the curve of all together [P8].

What was spent is rounded up, and sums are compared exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

from ..errors import (
    UsageError,
    choice,
    non_negative,
    open_unit,
    positive,
    whole,
)
from ..numerics.rounding import round_down, round_up, sqrt_up
from ..util.json_codec import Fields, list_of, number, text
from .budget import Budget, mu_for
from .composition import composed_delta, composed_epsilon
from .gaussian_curve import gaussian_delta_upper, gaussian_epsilon_upper

NEIGHBORS = ("replace", "add_remove")
UNITS = ("row", "person")
_NEAR = 1 + 1e-6
_GUARANTEE = "A guarantee has the fields mu, slack, neighbors and, for people, unit, and no others."


@runtime_checkable
class HasPair(Protocol):
    """A guarantee with a curve of its own that can also be bounded by a (mu, slack) pair."""

    def as_pair(self) -> Privacy: ...


@dataclass(frozen=True)
class Privacy:
    """What was spent: the curve of mu plus slack, under a neighboring relation [P1].

    "replace": one row changed, the number of rows public. "add_remove": one row more or less. Where unit is
    "person", it is a person with all of theirs. pure: the epsilons of steps whose noise is not Gaussian [P8].
    """

    mu: float
    slack: float = 0.0
    neighbors: str = "replace"
    unit: str = "row"
    pure: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", non_negative("mu", self.mu))
        object.__setattr__(self, "slack", non_negative("slack", self.slack))
        if self.slack >= 1:
            raise UsageError(f"slack must be below 1, got {self.slack}. It is a probability of failure.")
        choice("neighbors", self.neighbors, NEIGHBORS)
        choice("unit", self.unit, UNITS)
        if not isinstance(self.pure, (tuple, list)):
            raise UsageError(f"pure must be a tuple of epsilons, got {type(self.pure).__name__}.")
        object.__setattr__(self, "pure", tuple(positive("pure", epsilon) for epsilon in self.pure))

    def check_unit(self, people: bool) -> None:
        """An error unless a plan says whom its rows belong to exactly where its guarantee is for people [T6]."""
        if (self.unit == "person") != people:
            raise UsageError("a guarantee for a person needs a privacy_id, and one for a row none. Make the plan anew.")

    @classmethod
    def of_pure(cls, epsilon: float, neighbors: str = "replace", unit: str = "row") -> Privacy:
        """The guarantee of a pure epsilon-DP step, such as Laplace noise."""
        return cls(0.0, 0.0, neighbors, unit, (epsilon,))

    def as_pair(self) -> Privacy:
        return self

    def delta(self, epsilon: float) -> float:
        """Upper bound on delta at this epsilon, at most 1."""
        if self.pure:
            return composed_delta(self.mu, self.pure, self.slack, epsilon)
        total = Fraction(gaussian_delta_upper(self.mu, epsilon)) + Fraction(self.slack)
        return min(1.0, round_up(total))

    def epsilon(self, delta: float) -> float:
        """Upper bound on epsilon at this delta; infinite where delta does not exceed the slack."""
        if self.pure:
            return composed_epsilon(self.mu, self.pure, self.slack, delta)
        left = round_down(Fraction(non_negative("delta", delta)) - Fraction(self.slack))
        return math.inf if left < 0 else gaussian_epsilon_upper(self.mu, left)

    def to_dict(self) -> dict[str, Any]:
        more: dict[str, Any] = {} if self.unit == "row" else {"unit": self.unit}
        more |= {"pure": list(self.pure)} if self.pure else {}
        return {"mu": self.mu, "slack": self.slack, "neighbors": self.neighbors, **more}

    @classmethod
    def from_dict(cls, saved: Any) -> Privacy:
        with Fields(saved, _GUARANTEE) as fields:
            return cls(
                fields.take("mu", number),
                fields.take("slack", number),
                fields.take("neighbors", text),
                fields.take("unit", text, "row"),
                fields.take("pure", list_of(number), ()),
            )

    def check_stated(self, stated: Mapping[str, float]) -> None:
        """An error unless the budget in the caller's words is what this guarantee spends, proved as it was made [P2].

        A little less may be spent, as where another machine rounded the calibration.
        """
        if not stated:
            return
        budget = Budget(**stated)
        if self.pure:
            self._check_pure(stated)
            return
        allowed = mu_for(stated["epsilon"], stated["delta"], self.slack) if "delta" in stated else budget.mu
        if not (self.mu <= allowed or self._proves(stated, allowed)) or self.mu * _NEAR < allowed:
            raise UsageError("this guarantee is not that of its stated budget. Make the plan anew.")

    def _check_pure(self, stated: Mapping[str, float]) -> None:
        """One pure step that spends the stated epsilon, its slack within the delta; a little less may be spent."""
        epsilon = stated.get("epsilon", 0.0)
        if (
            self.mu
            or self.slack > stated.get("delta", 0.0)
            or len(self.pure) != 1
            or not epsilon / _NEAR <= self.pure[0] <= epsilon
        ):
            raise UsageError("this guarantee is not that of its stated budget. Make the plan anew.")

    def _proves(self, stated: Mapping[str, float], allowed: float) -> bool:
        """Whether a mu a little above the one that is calibrated here keeps to the stated delta all the same."""
        near = "delta" in stated and self.mu <= allowed * _NEAR
        return near and self.delta(stated["epsilon"]) <= stated["delta"]

    @property
    def change(self) -> str:
        """What is hidden, in words."""
        return f"one {self.unit} replaced" if self.neighbors == "replace" else f"one {self.unit} added or removed"

    def __str__(self) -> str:
        slack = f" but for probability {self.slack:g}" if self.slack else ""
        parts = [f"mu = {self.mu:.6g}"] if self.mu or not self.pure else []
        parts += [f"pure epsilon = {', '.join(f'{epsilon:g}' for epsilon in self.pure)}"] if self.pure else []
        return f"{', '.join(parts)}{slack} ({self.change})"


def compose(parts: Iterable[Any]) -> Privacy:
    """The guarantee of all parts together, each chosen with the earlier results in view [P4].

    parts: guarantees, or whatever has one as its `privacy`: releases, plans, learned rows, projections.

    mu = sqrt(sum mu_i^2), slack = sum slack_i, both rounded up; pure steps are kept one by one [P8]. Parts under
    different relations, or for rows and for people, are refused.
    """
    pairs = _pairs(parts)
    relation, unit = _one_relation(pairs)
    squares, slack = _totals(pairs)
    if slack >= 1:
        raise UsageError("The slacks add up to 1 or more, so nothing is guaranteed. Spend smaller slacks.")
    pure = tuple(epsilon for pair in pairs for epsilon in pair.pure)
    return Privacy(sqrt_up(squares) if squares else 0.0, round_up(slack), relation, unit, pure)


def fits(cap: Privacy, steps: Iterable[Privacy | HasPair]) -> bool:
    """Whether the steps stay within the cap: sum mu_i^2 <= mu^2 and sum slack_i <= slack, exactly.

    Guarantee: asked before each step and obeyed, the whole interaction is private to the cap, even though
    each step's parameters may depend on earlier results [P5]. The guarantee is the cap, not the spend so far.
    """
    pairs = _pairs(steps)
    if pairs == [cap]:  # all of it at once
        return True
    _one_relation([cap, *pairs])
    squares, slack = _totals(pairs)
    within = squares <= Fraction(cap.mu) ** 2 and slack <= Fraction(cap.slack)
    return within and _pure_fits(cap.pure, [epsilon for pair in pairs for epsilon in pair.pure])


def _pure_fits(caps: tuple[float, ...], steps: list[float]) -> bool:
    """Whether pure steps stay within pure caps: one cap holds any that add up to it, several one step each [P10]."""
    if len(caps) <= 1:
        return sum(map(Fraction, steps), Fraction(0)) <= sum(map(Fraction, caps), Fraction(0))
    largest = sorted(caps, reverse=True)
    wanted = sorted(steps, reverse=True)
    return len(wanted) <= len(largest) and all(step <= cap for step, cap in zip(wanted, largest, strict=False))


def _pairs(parts: Iterable[Any]) -> list[Privacy]:
    try:
        guarantees = [getattr(part, "privacy", part) for part in parts]
    except TypeError:
        guarantees = [None]
    if not all(type(part) is Privacy or _has_pair(part) for part in guarantees):
        raise UsageError("parts must be a list of releases, plans or guarantees, as Release.privacy is one.")
    return [part.as_pair() for part in guarantees]


def _has_pair(part: Any) -> bool:
    return isinstance(part, HasPair) and not isinstance(part, type)


def _one_relation(pairs: list[Privacy]) -> tuple[str, str]:
    """The neighboring relation and the unit that all have."""
    relations, units = {pair.neighbors for pair in pairs}, {pair.unit for pair in pairs}
    if not relations:
        raise UsageError("There is nothing to compose. Pass at least one guarantee.")
    if len(relations) > 1:
        raise UsageError("Guarantees under 'replace' and 'add_remove' do not compose. Use one relation for all.")
    if len(units) > 1:
        raise UsageError("Guarantees for a row and for a person do not compose. Give every release its privacy_id.")
    return relations.pop(), units.pop()


def _totals(pairs: list[Privacy]) -> tuple[Fraction, Fraction]:
    squares = sum((Fraction(pair.mu) ** 2 for pair in pairs), Fraction(0))
    return squares, sum((Fraction(pair.slack) for pair in pairs), Fraction(0))


def basic_composition(steps: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """(sum epsilon_i, sum delta_i), rounded up: looser than `compose`, for comparison only."""
    pairs = [(Fraction(non_negative("epsilon", e)), Fraction(non_negative("delta", d))) for e, d in steps]
    return round_up(sum((e for e, _ in pairs), Fraction(0))), round_up(sum((d for _, d in pairs), Fraction(0)))


def advanced_composition(epsilon: float, delta: float, k: int, delta_prime: float) -> tuple[float, float]:
    """k-fold advanced composition, for comparison only; loose but valid for any (epsilon, delta) steps.

    epsilon' = sqrt(2 k ln(1/delta')) epsilon + k epsilon (e^epsilon - 1), total delta = k delta + delta'.

    References: Dwork, Rothblum & Vadhan 2010; stated as Theorem 3.20 in Dwork & Roth 2014.
    """
    epsilon, delta, k = positive("epsilon", epsilon), non_negative("delta", delta), whole("k", k)
    delta_prime = open_unit("delta_prime", delta_prime)
    growth = math.expm1(epsilon) if epsilon < 700 else math.inf
    total = math.sqrt(-2 * k * math.log(delta_prime)) * epsilon + k * epsilon * growth
    return total * (1 + 8e-15), round_up(k * Fraction(delta) + Fraction(delta_prime))
