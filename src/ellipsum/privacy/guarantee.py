"""Privacy guarantees, their composition, and what they mean for an attacker who guesses [P11]: no data.

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
from typing import Any, Protocol

from ..errors import UsageError, choice, non_negative, positive
from ..numerics.rounding import round_down, round_up, sqrt_up
from ..util.json_codec import Fields, list_of, number, text
from .budget import Budget, mu_for
from .composition import composed_delta, composed_epsilon
from .gaussian_curve import gaussian_delta_upper, gaussian_epsilon_upper

NEIGHBORS = ("replace", "add_remove")
UNITS = ("row", "person")
_NEAR = 1 + 1e-6
_GUARANTEE = "A guarantee has the fields mu, slack, neighbors and, for people, unit, and no others."
MISMATCH = (
    "Invalid plan file: the privacy guarantee does not match the requested budget. Create a new plan with es.plan."
)


class PrivacyGuarantee(Protocol):
    """A guarantee of any kind, with its privacy curve."""

    @property
    def neighbors(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def change(self) -> str:
        """How neighboring data sets differ."""

    def delta(self, epsilon: float) -> float: ...
    def epsilon(self, delta: float) -> float: ...
    def as_pair(self) -> Privacy:
        """The guarantee as mu, slack and pure steps, for composition."""

    def to_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Privacy:
    """Privacy guarantee of one or more releases: mu-Gaussian DP, pure-DP steps and an additional delta [P1].

    Parameters
    ----------
    mu : float
        Parameter of Gaussian DP; 0 for none.
    slack : float, default 0
        Additional delta: a failure probability.
    neighbors : {"replace", "add_remove"}, default "replace"
        Neighboring relation: one row replaced (the number of rows is public), or one row more or less.
    unit : {"row", "person"}, default "row"
        What is protected: a row, or a person with all of their rows.
    pure : tuple of float, default ()
        Epsilons of steps whose noise is not Gaussian [P8].

    Examples
    --------
    >>> import ellipsum as es
    >>> guarantee = es.Privacy(mu=0.5)
    >>> round(guarantee.epsilon(1e-6), 3)
    2.254
    >>> print(es.compose([guarantee, guarantee]))
    mu = 0.707107 Gaussian DP (one row replaced)
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
            raise UsageError(f"slack must be below 1, got {self.slack}: it is a failure probability.")
        choice("neighbors", self.neighbors, NEIGHBORS)
        choice("unit", self.unit, UNITS)
        if not isinstance(self.pure, (tuple, list)):
            raise UsageError(f"pure must be a tuple of epsilons, got {type(self.pure).__name__}.")
        object.__setattr__(self, "pure", tuple(positive("pure", epsilon) for epsilon in self.pure))

    def check_unit(self, people: bool) -> None:
        """An error unless a plan has a privacy_id exactly where its guarantee protects people [T6]."""
        if (self.unit == "person") != people:
            raise UsageError("Invalid plan file: privacy_id does not match the guarantee. Create a new plan.")

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
    def from_dict(cls, saved: object) -> Privacy:
        with Fields(saved, _GUARANTEE) as fields:
            return cls(
                fields.take("mu", number),
                fields.take("slack", number),
                fields.take("neighbors", text),
                fields.take("unit", text, "row"),
                fields.take("pure", list_of(number), ()),
            )

    def check_stated(self, stated: Mapping[str, float]) -> None:
        """An error unless the requested budget is what this guarantee spends, proved as it was made [P2].

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
            raise UsageError(MISMATCH)

    def _check_pure(self, stated: Mapping[str, float]) -> None:
        """One pure step that spends the stated epsilon, its slack within the delta; a little less may be spent."""
        epsilon = stated.get("epsilon", 0.0)
        valid = not self.mu and self.slack <= stated.get("delta", 0.0) and len(self.pure) == 1
        if not valid or not epsilon / _NEAR <= self.pure[0] <= epsilon:
            raise UsageError(MISMATCH)

    def _proves(self, stated: Mapping[str, float], allowed: float) -> bool:
        """Whether a mu a little above the one that is calibrated here keeps to the stated delta all the same."""
        near = "delta" in stated and self.mu <= allowed * _NEAR
        return near and self.delta(stated["epsilon"]) <= stated["delta"]

    @property
    def change(self) -> str:
        """How neighboring data sets differ."""
        return f"one {self.unit} replaced" if self.neighbors == "replace" else f"one {self.unit} added or removed"

    def __str__(self) -> str:
        parts = [f"mu = {self.mu:.6g} Gaussian DP"] if self.mu or not self.pure else []
        parts += [f"epsilon = {epsilon:g} pure DP" for epsilon in self.pure]
        parts += [f"delta = {self.slack:g}"] if self.slack else []
        return f"{' plus '.join(parts)} ({self.change})"


def compose(parts: Iterable[Any]) -> Privacy:
    """Compute the guarantee of several releases together, each chosen with the earlier results in view.

    Parameters
    ----------
    parts : iterable
        Guarantees, or whatever has one as its `privacy`: releases, plans, learned bounds, projections.

    Returns
    -------
    Privacy
        mu = sqrt(sum mu_i^2) and slack = sum slack_i, both rounded up; pure steps are kept one by one.

    Raises
    ------
    UsageError
        If the parts have different neighboring relations or privacy units.

    Notes
    -----
    Adaptive composition: [P4]; of pure and Gaussian steps on one curve: [P8].

    Examples
    --------
    >>> import ellipsum as es
    >>> parts = [es.plan("mean", {"age": (0, 120)}, n=500, epsilon=0.5, delta=0) for _ in range(2)]
    >>> es.compose(parts).epsilon(0)
    1.0
    """
    pairs = _pairs(parts)
    relation, unit = _one_relation(pairs)
    squares, slack = _totals(pairs)
    if slack >= 1:
        raise UsageError("The failure probabilities add up to 1 or more, so nothing is guaranteed.")
    pure = tuple(epsilon for pair in pairs for epsilon in pair.pure)
    return Privacy(sqrt_up(squares) if squares else 0.0, round_up(slack), relation, unit, pure)


def fits(cap: Privacy, steps: Iterable[PrivacyGuarantee]) -> bool:
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
    in_order = sorted(steps, reverse=True)
    return len(in_order) <= len(largest) and all(step <= cap for step, cap in zip(in_order, largest, strict=False))


def _pairs(parts: Iterable[Any]) -> list[Privacy]:
    try:
        guarantees = [getattr(part, "privacy", part) for part in parts]
    except TypeError:
        guarantees = [None]
    if not all(hasattr(part, "as_pair") and not isinstance(part, type) for part in guarantees):
        raise UsageError("parts must be a list of releases, plans or guarantees.")
    return [part.as_pair() for part in guarantees]


def _one_relation(pairs: list[Privacy]) -> tuple[str, str]:
    """The neighboring relation and the unit that all have."""
    relations, units = {pair.neighbors for pair in pairs}, {pair.unit for pair in pairs}
    if not relations:
        raise UsageError("There is nothing to compose. Pass at least one guarantee.")
    if len(relations) > 1:
        raise UsageError("Guarantees for 'replace' and 'add_remove' do not compose. Use one relation for all releases.")
    if len(units) > 1:
        raise UsageError("Guarantees for rows and for people do not compose. Pass privacy_id to every release.")
    return relations.pop(), units.pop()


def _totals(pairs: list[Privacy]) -> tuple[Fraction, Fraction]:
    squares = sum((Fraction(pair.mu) ** 2 for pair in pairs), Fraction(0))
    return squares, sum((Fraction(pair.slack) for pair in pairs), Fraction(0))


_LEAST = -12.0  # log of the least order that is tried
_STEPS = 40
_GOLDEN = (math.sqrt(5) - 1) / 2
_ROUNDING = 1 + 2.0**-48


def max_guess_accuracy(guarantee: PrivacyGuarantee) -> float:
    """The largest share of right guesses between two equally likely data sets: (1 + delta(0)) / 2, up [P11]."""
    return min(1.0, round_up((1 + Fraction(guarantee.delta(0.0))) / 2))


def max_true_positive_rate(guarantee: PrivacyGuarantee, alarms: float) -> float:
    """The largest true-positive rate of any attack at this false-positive rate [P11].

    The least of e^epsilon alarms + delta(epsilon) over all real epsilon, which falls and then rises: every epsilon
    gives a bound, so a search that stops early returns a larger one.
    """
    low, high = _LEAST, -math.log(alarms)
    bounds = [_bound(guarantee, alarms, 0.0)]
    for _ in range(_STEPS):
        inner = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        left, right = (_bound(guarantee, alarms, epsilon) for epsilon in inner)
        bounds += [left, right]
        low, high = (low, inner[1]) if left <= right else (inner[0], high)
    return min(1.0, *bounds)


def _bound(guarantee: PrivacyGuarantee, alarms: float, epsilon: float) -> float:
    """The bound at one epsilon, rounded up; below 0, delta(epsilon) = 1 - e^epsilon + e^epsilon delta(-epsilon)."""
    if epsilon >= 0:
        return (math.exp(epsilon) * alarms + guarantee.delta(epsilon)) * _ROUNDING
    order = math.exp(epsilon)
    return (1 - order * (1 - alarms - guarantee.delta(-epsilon))) * _ROUNDING


def percent_up(share: float) -> str:
    """A share in percent, rounded up to a tenth."""
    tenths = math.ceil(Fraction(share) * 1000)
    return f"{tenths // 10}" if tenths % 10 == 0 else f"{tenths // 10}.{tenths % 10}"
