"""Sensitivity and noise of a friendly mean whose rows agree, and the gate's share of the budget: public numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import Floats, UsageError
from ..numerics.rounding import find_safe, is_proved_nonnegative
from ..privacy.gaussian_curve import laplace_mu

WEIGHT_SENSITIVITY = 3
"""[F2] One replaced row moves the sum of weights by at most 3."""
FEWEST_ROWS = 4
_USUAL = 1.2816  # the gate's forecast is its lower decile: 9 releases in 10 do better
_SHARES = np.concatenate([np.geomspace(1e-4, 0.1, 40), np.linspace(0.1, 0.95, 86)[1:]])


@lru_cache(maxsize=256)
def gate_margin(gate: str, slack: float) -> float:
    """z with P[noise > z] <= slack for the gate's noise of scale 1, proved in ball arithmetic [F5]."""
    from flint import arb
    from scipy.special import ndtri

    if gate == "laplace":
        start = max(-math.log(2 * slack), 0.0)

        def room(z: float) -> Any:
            return 2 * arb(slack) - (-arb(z)).exp()
    else:
        start = max(-float(ndtri(slack)), 0.0)

        def room(z: float) -> Any:
            return 2 * arb(slack) - (arb(z) / arb(2).sqrt()).erfc()

    margin = find_safe(start, start + 1, lambda z: is_proved_nonnegative(lambda: room(z)))
    if margin is None:
        raise UsageError(f"slack={slack} is out of reach of certified arithmetic. State between 1e-300 and 0.5.")
    return margin


def mean_constant(weight: Fraction, n: int) -> Fraction:
    """[F4] k(W'): |m - m'| <= r k(W') / W for neighboring data sets with sums of weights W and W'."""
    moved = 3 - (weight - 1) / (n - 1)
    far = (2 * (n + 1 - weight) + Fraction(n - 1, 4) + 1) / weight
    return moved + min(moved, far)


def mean_sensitivity(lower: Fraction, n: int) -> Fraction:
    """[F4] How far the mean moves, in radii, if the larger of the two sums of weights is at least `lower`."""
    return mean_constant(lower - WEIGHT_SENSITIVITY, n) / lower


@lru_cache(maxsize=256)
def pure_epsilon(mu: float) -> float:
    """The largest epsilon (nearly) whose Laplace step costs at most mu [P6]."""
    from scipy.special import log_ndtr

    start = float(log_ndtr(mu / 2) - log_ndtr(-mu / 2))
    epsilon = find_safe(start, -start, lambda e: e > 0 and laplace_mu(e) <= mu)
    if epsilon is None:
        raise UsageError("this budget is too small for a Laplace gate. Use FriendlyGate('gaussian').")
    return epsilon


@dataclass(frozen=True)
class Steps:
    """What the gate and the mean of n rows share: a mu, of which they take parts of the square, or an epsilon.

    dimension: of spherical noise, under which the mean has sqrt(dimension + 1) times its scale [B4].
    """

    gate: str
    n: int
    slack: float
    floor: float
    whole: float
    dimension: int | None = None

    def parts(self, share: Floats) -> tuple[Floats, Floats]:
        """The scale of the gate's noise, in weights, and what the mean's std is the inverse of, in sensitivities."""
        from scipy.special import log_ndtr

        if self.dimension is not None:
            return WEIGHT_SENSITIVITY / (self.whole * share), self.whole * (1 - share) / math.sqrt(self.dimension + 1)
        cost = self.whole * np.sqrt(share)
        if self.gate == "laplace":
            cost = log_ndtr(cost / 2) - log_ndtr(-cost / 2)
        return WEIGHT_SENSITIVITY / cost, self.whole * np.sqrt(1 - share)

    def best_share(self) -> float:
        """The gate's share with the least noise of the mean when all rows agree."""
        noise = self.noise(_SHARES)
        return float(_SHARES[np.argmin(noise)]) if np.isfinite(noise).any() else float(_SHARES[-1])

    def noise(self, share: Floats) -> Floats:
        """The mean's noise in radii, where the gate passes nine times in ten, else infinite."""
        scale, mean_mu = self.parts(share)
        return forecast(self.gate, 1.0, self.n, self.slack, self.floor, scale, mean_mu)

    def require_rows(self, share: float) -> None:
        """Refuse an n for which even full agreement would mostly fail: a fact of public numbers alone."""
        scale = self.parts(np.array([share]))[0]

        def enough(rows: int) -> bool:
            lower = _usual_lower(self.gate, 1.0, rows, self.slack, scale)[0]
            return bool(lower >= max(self.floor * rows, FEWEST_ROWS))

        if enough(self.n):
            return
        low, high = self.n, 2 * self.n
        while not enough(high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        raise UsageError(
            f"n = {self.n} is too few: at this budget the gate passes 9 times in 10 from n = {high} on, if all agree. "
            "Use more rows or blocks, or state a larger budget."
        )


def forecast(
    gate: str, agreement: float, n: int, slack: float, floor: float, gate_scale: Floats, mean_mu: Floats
) -> Floats:
    """Noise std of a coordinate of the mean in radii; nine releases in ten have less."""
    lower = _usual_lower(gate, agreement, n, slack, gate_scale)
    noise = np.where(lower < max(floor * n, FEWEST_ROWS), np.inf, _noise_in_radii(lower, n, mean_mu))
    return np.asarray(noise)


def _usual_lower(gate: str, agreement: float, n: int, slack: float, gate_scale: Floats) -> Floats:
    """Lower decile of the gate's L when the weights sum to agreement * n."""
    decile = math.log(5) if gate == "laplace" else _USUAL
    return agreement * n - (gate_margin(gate, slack) + decile) * gate_scale


def _noise_in_radii(lower: Floats, n: int, mean_mu: Floats) -> Floats:
    weight = np.maximum(lower - WEIGHT_SENSITIVITY, 1e-9)
    moved = 3 - (weight - 1) / (n - 1)
    far = (2 * (n + 1 - weight) + (n - 1) / 4 + 1) / weight
    noise: Floats = (moved + np.minimum(moved, far)) / (np.maximum(lower, 1e-9) * mean_mu)
    return noise
