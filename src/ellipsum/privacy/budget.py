"""Privacy budgets: how they are stated, and the largest mu that is safe. What may be spent is rounded down."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ..errors import UsageError, choice, non_negative, open_unit, positive
from ..numerics.rounding import round_down, round_up, sqrt_down, within_typed
from ..util.json_codec import Fields, number
from .gaussian_curve import certified_mu, gaussian_delta_upper, gaussian_epsilon_upper

LEAST_MU = 1e-100
MOST_PURE = 1e6
MOST_MU = 1e12  # noisy integers of any number of rows then fit their limbs
_STATE_ONE = "State epsilon= and delta=, or budget=Budget(...)."


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


def rho_of(mu: float) -> float:
    """The zCDP parameter mu^2/2 of the Gaussian curve mu, rounded up [P7]."""
    return round_up(Fraction(non_negative("mu", mu)) ** 2 / 2)


def mu_cap_of(rho: float) -> float:
    """The cap sqrt(2 rho) on Gaussian steps that a rho budget allows, rounded down.

    One direction only: every release on the curve mu <= sqrt(2 rho) is rho-zCDP, but an arbitrary rho-zCDP
    mechanism need not lie on that curve [P7]. Never use this to turn a zCDP guarantee into a `Privacy`.
    """
    return sqrt_down(2 * Fraction(non_negative("rho", rho)))
