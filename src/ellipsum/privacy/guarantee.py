"""Budgets, guarantees, calibration and composition: pure mathematics, no data.

A guarantee is (mu, slack) for a stated neighboring relation, read as [P1]

    delta(epsilon) <= Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu) + slack,  all epsilon >= 0,

and where pure steps were taken beside, the curve of all together [P8].

What may be spent is rounded down, what was spent is rounded up, and sums are compared exactly.
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
from ..util.json_codec import Fields, list_of, number, text
from .composition import composed_delta, composed_epsilon
from .gaussian_curve import (
    certified_mu,
    gaussian_delta,
    gaussian_delta_upper,
    gaussian_epsilon_upper,
    laplace_mu,
    round_down,
    round_up,
    sqrt_down,
    sqrt_up,
    within_typed,
)

__all__ = [
    "NEIGHBORS",
    "Budget",
    "HasPair",
    "Privacy",
    "advanced_composition",
    "basic_composition",
    "calibrate",
    "certified_mu",
    "compose",
    "fits",
    "gaussian_delta",
    "gaussian_delta_upper",
    "gaussian_epsilon_upper",
    "laplace_mu",
    "mu_cap_of",
    "mu_for",
    "rho_of",
]

NEIGHBORS = ("replace", "add_remove")
UNITS = ("row", "person")
LEAST_MU = 1e-100
MOST_PURE = 1e6
MOST_MU = 1e12  # noisy integers of any number of rows then fit their limbs
_NEAR = 1 + 1e-6
_GUARANTEE = "A guarantee has the fields mu, slack, neighbors and, for people, unit, and no others."
_STATE_ONE = "State epsilon= and delta=, or budget=Budget(...)."


# What may be spent -------------------------------------------------------------------------------------


@dataclass(frozen=True, init=False, repr=False)
class Budget:
    """What may be spent: Budget(epsilon=, delta=), Budget(mu=) or Budget(rho=).

    All three become one number, the largest mu that is safe: of (epsilon, delta) the certified root [P2], of
    rho the Gaussian curve mu = sqrt(2 rho) rounded down. Nothing has a default. delta=0 asks for a pure guarantee,
    which no Gaussian gives: such a budget has no mu.
    """

    largest_mu: float | None
    stated: tuple[tuple[str, float], ...]

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        mu: float | None = None,
        rho: float | None = None,
    ) -> None:
        ways = sum([epsilon is not None or delta is not None, mu is not None, rho is not None])
        if ways != 1:
            count = "none" if ways == 0 else "more than one"
            raise UsageError(f"A budget is epsilon= with delta=, or mu=, or rho=; got {count} of them. State one.")
        stated: tuple[tuple[str, float], ...]
        if epsilon is not None and _is_zero(delta):
            object.__setattr__(self, "stated", (("epsilon", _pure_epsilon(epsilon)), ("delta", 0.0)))
            object.__setattr__(self, "largest_mu", None)
            return
        if mu is not None:
            largest = positive("mu", mu)
            stated = (("mu", largest),)
        elif rho is not None:
            stated = (("rho", positive("rho", rho)),)
            largest = mu_cap_of(rho)
        else:
            loss = positive("epsilon", epsilon, "State epsilon= above zero together with delta=.")
            odds = open_unit("delta", delta, "State delta= between 0 and 1, far below one over the rows.")
            stated, largest = (("epsilon", loss), ("delta", odds)), certified_mu(loss, odds)
        if largest < LEAST_MU:
            raise UsageError(f"a budget below mu = {LEAST_MU:g} is all noise. State a larger one.")
        if largest > MOST_MU:
            raise UsageError(f"a budget beyond mu = {MOST_MU:g} adds no noise worth the name. State a smaller one.")
        object.__setattr__(self, "stated", stated)
        object.__setattr__(self, "largest_mu", largest)

    @property
    def mu(self) -> float:
        """The largest mu that is safe; a pure budget has none."""
        if self.largest_mu is None:
            raise UsageError(
                "a budget with delta=0 is pure, and Gaussian noise never is. State a delta above 0, or leave it to "
                "noise='auto' in sum, mean and plan."
            )
        return self.largest_mu

    @property
    def pair(self) -> tuple[float, float] | None:
        """(epsilon, delta) where the budget was stated so, which leaves the law of the noise open.

        epsilon is no more than the decimal that was typed, so that five releases of 0.2 together are within 1.
        """
        said = dict(self.stated)
        return (within_typed(said["epsilon"]), said["delta"]) if "delta" in said else None

    @staticmethod
    def of(epsilon: float | None = None, delta: float | None = None, budget: Budget | None = None) -> Budget:
        """The budget behind the keywords (epsilon=, delta=) or budget= of any releasing call."""
        if budget is None:
            if epsilon is None and delta is None:
                raise UsageError(f"The privacy budget is missing. {_STATE_ONE}")
            return Budget(epsilon=epsilon, delta=delta)
        if epsilon is not None or delta is not None:
            raise UsageError(f"budget= stands in place of epsilon= and delta=; got both. {_STATE_ONE}")
        if not isinstance(budget, Budget):
            raise UsageError(f"budget must be a Budget, got {type(budget).__name__}. {_STATE_ONE}")
        return budget

    def as_typed(self) -> Budget:
        """The same budget, its mu no more than the decimal that was typed: 25 releases of 0.2 are within 1."""
        said = dict(self.stated)
        if "mu" not in said or within_typed(said["mu"]) == self.largest_mu:
            return self
        spend = Budget(mu=said["mu"])
        object.__setattr__(spend, "largest_mu", within_typed(said["mu"]))  # made here, and shown to nobody yet
        return spend

    @property
    def rho(self) -> float:
        """The zCDP reading mu^2/2 (the stated number if rho was stated)."""
        return dict(self.stated).get("rho", rho_of(self.mu))

    def delta(self, epsilon: float) -> float:
        """Upper bound on delta at this epsilon once the whole budget is spent."""
        return gaussian_delta_upper(self.mu, epsilon)

    def epsilon(self, delta: float) -> float:
        """Upper bound on epsilon at this delta once the whole budget is spent."""
        return gaussian_epsilon_upper(self.mu, delta)

    def split(self, *weights: float) -> list[Budget]:
        """Budgets with these shares of mu^2; their squares never sum to more than the whole [P4]."""
        if not weights:
            raise UsageError("split needs at least one weight, as in budget.split(4, 1).")
        parts = [Fraction(positive("weight", w, "State shares above zero, as in split(4, 1).")) for w in weights]
        unit = Fraction(self.mu) ** 2 / sum(parts)
        return [Budget(mu=sqrt_down(part * unit)) for part in parts]

    def after_slack(self, slack: float) -> Budget:
        """What is left for mu when a mechanism needs a failure probability: delta - slack in place of delta.

        Only a budget stated as (epsilon, delta) has a delta to take it from.
        """
        if non_negative("slack", slack) == 0:
            return self
        said = dict(self.stated)
        if not said.get("delta"):
            raise UsageError("This release needs a failure probability. State the budget as epsilon= and delta=.")
        return Budget(mu=mu_for(said["epsilon"], said["delta"], slack))

    def __repr__(self) -> str:
        return f"Budget({', '.join(f'{name}={value!r}' for name, value in self.stated)})"

    def __str__(self) -> str:
        curve = "pure" if self.largest_mu is None else f"mu = {self.largest_mu:.6g}"
        return f"{', '.join(f'{name} = {value:g}' for name, value in self.stated)} ({curve})"


def _is_zero(delta: Any) -> bool:
    return isinstance(delta, (int, float)) and not isinstance(delta, bool) and delta == 0


def _pure_epsilon(epsilon: Any) -> float:
    """The epsilon of a pure budget, within what noise on a grid can serve."""
    loss = positive("epsilon", epsilon, "State epsilon= above zero together with delta=.")
    if not LEAST_MU <= loss <= MOST_PURE:
        raise UsageError(f"epsilon must lie between {LEAST_MU:g} and {MOST_PURE:g} with delta=0, got {loss}.")
    return loss


def stated_from_dict(saved: Any) -> dict[str, float]:
    """A budget in the caller's own words, as plans keep it; empty where nobody stated one."""
    complaint = "A stated budget is epsilon and delta, or mu, or rho."
    with Fields(saved, complaint) as fields:
        ways = [names for names in (("epsilon", "delta"), ("mu",), ("rho",)) if set(names) == set(saved)]
        stated = {name: fields.take(name, number) for name in (ways[0] if ways else ())}
    if stated:
        Budget(**stated)
    return stated


def mu_for(epsilon: float, delta: float, slack: float) -> float:
    """The largest certified mu with delta(epsilon) + slack <= delta."""
    delta, slack = open_unit("delta", delta), non_negative("slack", slack)
    if slack >= delta:
        raise UsageError(f"slack must be below delta={delta}, got {slack}. State a larger delta.")
    return certified_mu(epsilon, round_down(Fraction(delta) - Fraction(slack)))


def calibrate(epsilon: float, delta: float, method: str = "analytic") -> float:
    """Noise multiplier (std / sensitivity) of an (epsilon, delta) Gaussian release, certified.

    "analytic" is the least, 1/mu of the exact curve, within a factor 1 + 1e-9; "classic" is
    sqrt(2 ln(1.25/delta))/epsilon, for epsilon < 1 only.

    Guarantee: for the returned double z, delta(epsilon) <= delta holds exactly at mu = 1/z, and at the double
    nearest to 1/z [P2][P3].

    References: Balle & Wang 2018, Theorem 8; Dwork & Roth 2014, Theorem A.1.
    """
    choice("method", method, ("analytic", "classic"))
    epsilon, delta = positive("epsilon", epsilon), open_unit("delta", delta)
    least = round_up(1 / Fraction(certified_mu(epsilon, delta)))
    if method == "analytic":
        return least
    if epsilon >= 1:
        raise UsageError(f"The classic calibration needs epsilon < 1, got {epsilon}. Use method='analytic'.")
    classic = math.sqrt(2 * (math.log(1.25) - math.log(delta))) / epsilon
    return max(least, classic * (1 + 8e-15))  # covers a dozen rounding errors of 2^-53


# What was spent ----------------------------------------------------------------------------------------


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


# By name, for comparison -------------------------------------------------------------------------------


def rho_of(mu: float) -> float:
    """The zCDP parameter mu^2/2 of the Gaussian curve mu, rounded up [P7]."""
    return round_up(Fraction(non_negative("mu", mu)) ** 2 / 2)


def mu_cap_of(rho: float) -> float:
    """The cap sqrt(2 rho) on Gaussian steps that a rho budget allows, rounded down.

    One direction only: every release on the curve mu <= sqrt(2 rho) is rho-zCDP, but an arbitrary rho-zCDP
    mechanism need not lie on that curve [P7]. Never use this to turn a zCDP guarantee into a `Privacy`.
    """
    return sqrt_down(2 * Fraction(non_negative("rho", rho)))


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
