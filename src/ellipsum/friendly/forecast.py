"""Sensitivity of a FriendlyCore mean, and its expected noise if all rows lie close together: public numbers only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from ..errors import UsageError
from ..numerics.rounding import find_safe, is_proved_nonnegative
from ..privacy.gaussian_curve import laplace_mu

if TYPE_CHECKING:
    from flint import arb

Number = TypeVar("Number", float, Fraction)
WEIGHT_SENSITIVITY = 3
"""[F2] One replaced row moves the sum of weights by at most 3."""
FEWEST_ROWS = 4
_DECILES = {"laplace": math.log(5), "gaussian": 1.2816}
"""Nine times in ten the noise of the stability test is above minus this many scales."""
_SHARES: list[float] = [1e-4 * 1000 ** (step / 39) for step in range(40)] + [0.1 + 0.01 * step for step in range(1, 86)]


@lru_cache(maxsize=256)
def gate_margin(gate: str, slack: float) -> float:
    """z with P[noise > z] <= slack for the test's noise of scale 1, proved in ball arithmetic [F5]."""
    from flint import arb
    from scipy.special import ndtri

    start = max(-math.log(2 * slack) if gate == "laplace" else -float(ndtri(slack)), 0.0)

    def surplus(z: float) -> arb:
        tail: arb = (-arb(z)).exp() if gate == "laplace" else (arb(z) / arb(2).sqrt()).erfc()
        return 2 * arb(slack) - tail

    margin = find_safe(start, start + 1, lambda z: is_proved_nonnegative(lambda: surplus(z)))
    if margin is None:
        raise UsageError(f"slack={slack} is outside the supported range [1e-300, 0.5].")
    return margin


def mean_constant(weight: Number, n: int) -> Number:
    """[F4] k(W'): |m - m'| <= r k(W') / W for neighboring data sets with sums of weights W and W'."""
    moved = 3 - (weight - 1) / (n - 1)
    far = (2 * (n + 1 - weight) + Fraction(n - 1, 4) + 1) / weight
    return moved + min(moved, far)


def mean_sensitivity(lower: Number, n: int) -> Number:
    """[F4] How far the mean moves, in radii, if the larger of the two sums of weights is at least `lower`."""
    return mean_constant(lower - WEIGHT_SENSITIVITY, n) / lower


@lru_cache(maxsize=256)
def pure_epsilon(mu: float) -> float:
    """The largest epsilon (nearly) whose Laplace step costs at most mu [P6]."""
    from scipy.special import log_ndtr

    start = float(log_ndtr(mu / 2) - log_ndtr(-mu / 2))
    epsilon = find_safe(start, -start, lambda e: e > 0 and laplace_mu(e) <= mu)
    if epsilon is None:
        raise UsageError("The budget is too small for a Laplace test. Use FriendlyGate('gaussian').")
    return epsilon


@dataclass(frozen=True)
class Steps:
    """The budget that the stability test and the mean of n rows share: a mu, or an epsilon.

    Of a mu they take parts of the square. dimension: of the spherical noise of a pure mean, whose standard deviation is
    sqrt(dimension + 1) times its scale [B4]; None for Gaussian noise.
    """

    gate: str
    n: int
    slack: float
    floor: float
    whole: float
    dimension: int | None = None

    def gate_scale(self, share: float) -> float:
        """The scale of the test's noise, in weights."""
        if self.dimension is not None:
            return WEIGHT_SENSITIVITY / (self.whole * share)
        mu = self.whole * math.sqrt(share)
        return WEIGHT_SENSITIVITY / (pure_epsilon(mu) if self.gate == "laplace" else mu)

    def noise(self, share: float) -> float:
        """The mean's noise in radii."""
        std = 1 / (self.whole * math.sqrt(1 - share))
        if self.dimension is not None:
            std = math.sqrt(self.dimension + 1) / (self.whole * (1 - share))
        return self.expected_noise(self.gate_scale(share), std)

    def expected_noise(self, gate_scale: float, std: float, core_fraction: float = 1.0) -> float:
        """Noise of the mean in radii; nine releases in ten have less, or it is infinite where fewer pass the test.

        std: of the noise, in sensitivities.
        """
        lower = self._usual_lower(self.n, gate_scale, core_fraction)
        if lower < max(self.floor * self.n, FEWEST_ROWS):
            return math.inf
        return float(mean_sensitivity(lower, self.n)) * std

    def best_share(self) -> float:
        """The test's share with the least noise of the mean if all rows lie close together."""
        share = min(_SHARES, key=self.noise)
        return share if math.isfinite(self.noise(share)) else _SHARES[-1]

    def require_rows(self, share: float) -> None:
        """Refuse an n for which even rows that all lie close together would mostly fail the test."""
        scale = self.gate_scale(share)

        def enough(rows: int) -> bool:
            return self._usual_lower(rows, scale) >= max(self.floor * rows, FEWEST_ROWS)

        if enough(self.n):
            return
        low, high = self.n, 2 * self.n
        while not enough(high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        raise UsageError(
            f"n = {self.n} is too few for this budget: the stability test passes 9 times in 10 from n = {high} on. "
            "Use more rows or blocks, or a larger budget."
        )

    def _usual_lower(self, n: int, gate_scale: float, core_fraction: float = 1.0) -> float:
        """Lower decile of the test's L when the weights sum to core_fraction * n."""
        return core_fraction * n - (gate_margin(self.gate, self.slack) + _DECILES[self.gate]) * gate_scale
