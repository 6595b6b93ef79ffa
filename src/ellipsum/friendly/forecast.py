"""Options of a FriendlyCore mean, its radius, its sensitivity, and its noise if all rows lie close together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ..errors import UsageError, choice, open_unit, positive, whole
from ..numerics.rounding import find_safe, is_proved_nonnegative
from ..privacy.gaussian_curve import laplace_mu
from ..rows import Normal

if TYPE_CHECKING:
    from flint import arb

Number = TypeVar("Number", float, Fraction)
Radius = float | tuple[float, float]
"""The radius that a caller passes, if not Normal rows: a number, or (low, high) to search between."""
WEIGHT_SENSITIVITY = 3
"""[F2] One replaced row changes the sum of weights by at most 3."""
FEWEST_ROWS = 4
GATES = ("gaussian", "laplace")
_SMALLEST_RADIUS, _LARGEST_RADIUS = 2.0**-900, 2.0**900
_RADIUS_STEP = math.sqrt(2)
_MOST_CANDIDATES = 1024
_DECILES = {"laplace": math.log(5), "gaussian": 1.2816}
"""In nine releases of ten, the noise of the stability test is above minus this many scales."""
_SHARES: list[float] = [1e-4 * 1000 ** (step / 39) for step in range(40)] + [0.1 + 0.01 * step for step in range(1, 86)]


@dataclass(frozen=True)
class FriendlyGate:
    """Options of the stability test of a FriendlyCore mean, and of the search for its radius.

    The test adds noise to the sum of the rows' weights and compares it with a floor. It decides whether a mean is
    released, and how little noise the mean needs.

    Parameters
    ----------
    law : {"gaussian", "laplace"}, optional
        Noise of the test. By default Gaussian, or Laplace where the mean has K-norm noise.
    slack : float, optional
        Failure probability of the test, a part of delta. By default a quarter of delta, or all of it where the mean
        has K-norm noise. Required where the budget is in mu or rho.
    share : float, optional
        The test's share of the budget, of mu squared or of epsilon. By default the share with the least noise.
    search_share : float, default 0.2
        The share that a search for the radius takes of the budget.
    target : float, default 0.75
        The noisy core fraction at which a search accepts a radius.
    floor : float, default 0.25
        The least core fraction at which a mean is released.

    Raises
    ------
    UsageError
        If an option is outside its range.

    Notes
    -----
    Privacy proof: [F5], [F6], [F8].

    Examples
    --------
    >>> import numpy as np
    >>> import ellipsum as es
    >>> gate = es.FriendlyGate(floor=0.5)
    >>> bool(es.friendly_mean(np.zeros((300, 2)), 1.0, epsilon=2, delta=1e-6, gate=gate))
    True
    """

    law: str | None = None
    slack: float | None = None
    share: float | None = None
    search_share: float = 0.2
    target: float = 0.75
    floor: float = 0.25

    def __post_init__(self) -> None:
        if self.law is not None:
            choice("law", self.law, GATES)
        if self.slack is not None:
            open_unit("slack", self.slack, "Pass a failure probability below delta.")
        if self.share is not None:
            open_unit("share", self.share, "Pass the test's share of the budget, between 0 and 1.")
        open_unit("search_share", self.search_share)
        open_unit("target", self.target)
        open_unit("floor", self.floor, "Pass the least core fraction for a release, between 0 and 1.")


def check_radius(radius: object) -> float:
    """The radius, or an error if doubles cannot hold its grid."""
    number = positive("radius", radius, "Pass the largest distance of two typical rows.")
    if not _SMALLEST_RADIUS <= number <= _LARGEST_RADIUS:
        raise UsageError(f"radius must be between 1e-270 and 1e270, got {number}. Rescale the columns.")
    return number


def candidate_radii(radius: Radius | Normal, d: int) -> float | tuple[float, ...]:
    """One radius, or the candidates of a search, smallest first."""
    if isinstance(radius, Normal):
        return radius_for(radius.resolve(d), d)
    if not isinstance(radius, (tuple, list)):
        return check_radius(radius)
    if len(radius) != 2:
        raise UsageError("radius must be a number, a pair (low, high) to search between, or Normal rows.")
    low, high = map(check_radius, radius)
    if low >= high:
        raise UsageError(f"radius must be a pair (low, high) with low < high, got ({low}, {high}).")
    count = math.ceil(round((math.log(high) - math.log(low)) / math.log(_RADIUS_STEP), 9)) + 1
    if count > _MOST_CANDIDATES:
        raise UsageError("radius spans too many orders of magnitude. Pass a narrower pair.")
    return tuple(min(low * _RADIUS_STEP**k, high) for k in range(count))


def radius_for(rows: Normal, d: int | None = None, outside: float = 0.02) -> float:
    """The radius within which two independent normal rows lie, except for a share `outside` of pairs.

    The difference of two rows of N(c, Sigma) is N(0, 2 Sigma): its squared length is a weighted chi-square.
    """
    from ..numerics.weighted_chisquare import WeightedChiSquare

    if rows.cov is None:
        stds = np.broadcast_to(np.asarray(rows.std, float), (whole("d", rows.d if d is None else d),))
    else:
        stds = rows.axes[0]
    largest = float(stds.max())
    squared = WeightedChiSquare(2 * (stds / largest) ** 2)
    return largest * math.sqrt(float(squared.isf(outside)))


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
    change = 3 - (weight - 1) / (n - 1)
    far = (2 * (n + 1 - weight) + Fraction(n - 1, 4) + 1) / weight
    return change + min(change, far)


def mean_sensitivity(lower: Number, n: int) -> Number:
    """[F4] The largest change of the mean, in radii, if the larger of the two sums of weights is at least `lower`."""
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
    """The stability test and the mean of n rows, which share a budget.

    budget: with Gaussian noise of the mean a mu, whose square is shared; with K-norm (L2) noise an epsilon. dimension:
    the standard deviation of K-norm noise is sqrt(dimension + 1) times its scale [B4]; None for Gaussian noise.
    """

    gate: str
    n: int
    slack: float
    floor: float
    budget: float
    dimension: int | None = None

    def choose_share(self, requested: float | None) -> float:
        """The test's share of the budget, by default the one with the least noise.

        It is an error if the test mostly fails even where all rows lie close together.
        """
        share = min(_SHARES, key=self._noise) if requested is None else requested
        if requested is None and self._noise(share) == math.inf:
            share = _SHARES[-1]
        loss = self._usual_loss(self._gate_scale(share))
        if self.n - loss < max(self.floor * self.n, FEWEST_ROWS):
            fewest = math.ceil(max(loss / (1 - self.floor), loss + FEWEST_ROWS))
            raise UsageError(
                f"n = {self.n} is too few for this budget: the stability test passes 9 times in 10 from n = {fewest} "
                "on. Use more rows or blocks, or a larger budget."
            )
        return share

    def expected_noise(self, gate_scale: float, std: float) -> float:
        """Noise of the mean in radii; nine releases in ten have less. It is infinite where fewer pass the test.

        std: of the noise, in sensitivities.
        """
        lower = self.n - self._usual_loss(gate_scale)
        if lower < max(self.floor * self.n, FEWEST_ROWS):
            return math.inf
        return float(mean_sensitivity(lower, self.n)) * std

    def _gate_scale(self, share: float) -> float:
        """The scale of the test's noise, in weights."""
        if self.dimension is not None:
            return WEIGHT_SENSITIVITY / (self.budget * share)
        mu = self.budget * math.sqrt(share)
        return WEIGHT_SENSITIVITY / (pure_epsilon(mu) if self.gate == "laplace" else mu)

    def _noise(self, share: float) -> float:
        """The mean's noise in radii."""
        if self.dimension is None:
            std = 1 / (self.budget * math.sqrt(1 - share))
        else:
            std = math.sqrt(self.dimension + 1) / (self.budget * (1 - share))
        return self.expected_noise(self._gate_scale(share), std)

    def _usual_loss(self, gate_scale: float) -> float:
        """The distance of the test's L below the sum of weights; in nine releases of ten it is smaller."""
        return (gate_margin(self.gate, self.slack) + _DECILES[self.gate]) * gate_scale
