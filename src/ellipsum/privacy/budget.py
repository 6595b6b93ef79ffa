"""Privacy budgets: what may be spent, and the largest mu that is safe. Budgets are rounded down."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ..errors import UsageError, checks_keywords, choice, non_negative, open_unit, positive
from ..numerics.rounding import round_down, round_up, sqrt_down, within_typed
from ..util.json_codec import Fields, number
from .gaussian_curve import certified_mu, gaussian_delta_upper, gaussian_epsilon_upper

NEEDS_DELTA = "The Gaussian mechanism needs delta > 0. Pass delta > 0, or use noise='auto' or 'knorm' for pure DP."
LEAST_MU = 1e-100
MOST_PURE = 1e6
MOST_MU = 1e12  # noisy integers of any number of rows then fit their limbs
_PASS_ONE = "Pass epsilon= and delta=, or budget=es.Budget(...)."
_EPSILON = "Pass a number above 0 together with delta=."
_DELTA = "Use a value much smaller than 1/n, e.g. delta=1e-6, or delta=0 for pure DP."


@checks_keywords
@dataclass(frozen=True, init=False, repr=False)
class Budget:
    """Privacy budget: the privacy loss that may be spent.

    All three forms become one number, the largest mu that is safe: of (epsilon, delta) the certified root [P2], of
    rho the Gaussian curve mu = sqrt(2 rho) rounded down. Nothing has a default.

    Parameters
    ----------
    epsilon, delta : float, optional
        Privacy-loss parameters. delta=0 asks for pure DP, which no Gaussian noise gives: such a budget has no mu.
    mu : float, optional
        Parameter of Gaussian DP.
    rho : float, optional
        Parameter of zero-concentrated DP.

    Raises
    ------
    UsageError
        Unless exactly one of the three forms is given, in the supported range.

    Examples
    --------
    >>> import ellipsum as es
    >>> budget = es.Budget(epsilon=1, delta=1e-6)
    >>> round(budget.mu, 4)
    0.2367
    >>> [round(part.mu, 4) for part in budget.split(3, 1)]
    [0.205, 0.1184]
    """

    largest_mu: float | None
    stated: tuple[tuple[str, float], ...]
    """The budget as the caller requested it."""

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
            raise UsageError(f"A budget is epsilon= with delta=, or mu=, or rho=, got {count} of them. Pass one.")
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
            loss, odds = positive("epsilon", epsilon, _EPSILON), open_unit("delta", delta, _DELTA)
            stated, largest = (("epsilon", loss), ("delta", odds)), certified_mu(loss, odds)
        if largest < LEAST_MU:
            raise UsageError(f"mu must be at least {LEAST_MU:g}, got {largest:g}: smaller values leave only noise.")
        if largest > MOST_MU:
            raise UsageError(
                f"mu must be at most {MOST_MU:g}, got {largest:g}: larger values add practically no noise."
            )
        object.__setattr__(self, "stated", stated)
        object.__setattr__(self, "largest_mu", largest)

    @property
    def mu(self) -> float:
        """The largest mu that is safe; a pure budget has none."""
        if self.largest_mu is None:
            raise UsageError(NEEDS_DELTA)
        return self.largest_mu

    @property
    def pair(self) -> tuple[float, float] | None:
        """(epsilon, delta) where the budget has this form, which leaves the choice of the mechanism open.

        Both are no more than the decimals that were typed, so that five releases of 0.2 together are within 1.
        """
        fields = dict(self.stated)
        return (within_typed(fields["epsilon"]), within_typed(fields["delta"])) if "delta" in fields else None

    @staticmethod
    def of(epsilon: float | None = None, delta: float | None = None, budget: Budget | None = None) -> Budget:
        """The budget behind the keywords (epsilon=, delta=) or budget= of any releasing call."""
        if budget is None:
            if epsilon is None and delta is None:
                raise UsageError(f"The privacy budget is missing. {_PASS_ONE}")
            return Budget(epsilon=epsilon, delta=delta)
        if epsilon is not None or delta is not None:
            raise UsageError(f"budget= replaces epsilon= and delta=, got both. {_PASS_ONE}")
        if not isinstance(budget, Budget):
            raise UsageError(f"budget must be a Budget, got {type(budget).__name__}. {_PASS_ONE}")
        return budget

    def as_typed(self) -> Budget:
        """The same budget, its mu proved for the decimals that were typed: 25 releases of mu = 0.2 are within 1."""
        fields = dict(self.stated)
        mu = within_typed(fields["mu"]) if "mu" in fields else self.largest_mu
        if self.pair is not None and self.pair[1]:
            mu = certified_mu(*self.pair)
        if mu == self.largest_mu:
            return self
        budget = Budget(**fields)
        object.__setattr__(budget, "largest_mu", mu)  # no caller has seen this object yet
        return budget

    @property
    def rho(self) -> float:
        """The zCDP parameter mu^2/2, or the rho that was requested."""
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
        parts = [Fraction(positive("weight", w, "Pass weights above 0, as in split(4, 1).")) for w in weights]
        unit = Fraction(self.mu) ** 2 / sum(parts)
        return [Budget(mu=sqrt_down(part * unit)) for part in parts]

    def after_slack(self, slack: float) -> Budget:
        """The budget for delta - slack, where a mechanism needs a failure probability of its own."""
        if non_negative("slack", slack) == 0:
            return self
        if self.pair is None or not self.pair[1]:
            raise UsageError("This release needs a part of delta. Pass the budget as epsilon= and delta= > 0.")
        return Budget(mu=mu_for(*self.pair, slack))

    def __repr__(self) -> str:
        return f"Budget({', '.join(f'{name}={value!r}' for name, value in self.stated)})"

    def __str__(self) -> str:
        curve = "pure DP" if self.largest_mu is None else f"mu = {self.largest_mu:.6g} Gaussian DP"
        return f"{', '.join(f'{name} = {value:g}' for name, value in self.stated)} ({curve})"


def _is_zero(delta: Any) -> bool:
    return isinstance(delta, (int, float)) and not isinstance(delta, bool) and delta == 0


def _pure_epsilon(epsilon: Any) -> float:
    """The epsilon of a pure budget, within what noise on a grid can serve."""
    loss = positive("epsilon", epsilon, _EPSILON)
    if not LEAST_MU <= loss <= MOST_PURE:
        raise UsageError(f"epsilon must lie between {LEAST_MU:g} and {MOST_PURE:g} with delta=0, got {loss}.")
    return loss


def stated_from_dict(saved: object) -> dict[str, float]:
    """A requested budget from a file; empty for one part of a larger release."""
    complaint = "A requested budget is epsilon and delta, or mu, or rho."
    with Fields(saved, complaint) as fields:
        ways = [names for names in (("epsilon", "delta"), ("mu",), ("rho",)) if set(names) == set(fields)]
        stated = {name: fields.take(name, number) for name in (ways[0] if ways else ())}
    if stated:
        Budget(**stated)
    return stated


def mu_for(epsilon: float, delta: float, slack: float) -> float:
    """The largest certified mu with delta(epsilon) + slack <= delta."""
    delta, slack = open_unit("delta", delta), non_negative("slack", slack)
    if slack >= delta:
        raise UsageError(f"slack must be below delta={delta}, got {slack}. Use a larger delta.")
    return certified_mu(epsilon, round_down(Fraction(delta) - Fraction(slack)))


def calibrate(epsilon: float, delta: float, method: str = "analytic") -> float:
    """Return the noise multiplier (std / sensitivity) of an (epsilon, delta) Gaussian release.

    Parameters
    ----------
    epsilon : float
        Privacy-loss parameter, above 0.
    delta : float
        Privacy-loss parameter, above 0.
    method : {"analytic", "classic"}, default "analytic"
        "analytic": the least, 1/mu of the exact curve, within a factor 1 + 1e-9. "classic":
        sqrt(2 ln(1.25/delta))/epsilon, for epsilon < 1 only.

    Returns
    -------
    float
        A multiplier z for which delta(epsilon) <= delta holds exactly at mu = 1/z, and at the double nearest to 1/z.

    Raises
    ------
    UsageError
        If an argument is outside its range.

    Notes
    -----
    Certified by interval arithmetic: [P2], [P3].

    References
    ----------
    Balle & Wang 2018, Theorem 8; Dwork & Roth 2014, Theorem A.1.

    Examples
    --------
    >>> import ellipsum as es
    >>> round(es.calibrate(1.0, 1e-6), 3)
    4.225
    """
    choice("method", method, ("analytic", "classic"))
    epsilon, delta = positive("epsilon", epsilon), open_unit("delta", delta)
    least = round_up(1 / Fraction(certified_mu(epsilon, delta)))
    if method == "analytic":
        return least
    if epsilon >= 1:
        raise UsageError(f"method='classic' needs epsilon < 1, got {epsilon}. Use method='analytic'.")
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
