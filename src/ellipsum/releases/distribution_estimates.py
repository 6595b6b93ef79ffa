"""Decode the noisy sums of quantiles: cumulative counts by least squares, quantiles, intervals and bands.

docs/proofs/quantiles.md: [Q12] least squares, [Q13] intervals, [Q14] bands. All of this is post-processing.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats
from ..noise import shift_for
from ..noise.law import GaussianLaw, LaplaceLaw, NoiseLaw
from ..numerics.rounding import round_down
from ..privacy.gaussian_curve import normal_isf_upper
from ..privacy.guarantee import Privacy
from ..request.quantiles import Quantiles
from ..request.request import Request
from ..row_maps.distributions import cumulative_matrix
from ..row_maps.maps import sqrt_upper
from .numbers import PublicNumbers

_ANY_SHARE = float(np.finfo(float).tiny)


class Decoder(NamedTuple):
    """Least-squares weights for the cumulative counts F_1, ..., F_B, where F_B is the number of rows.

    The variances of F_t, and the covariances of F_t with F_B, are for noise of variance 1.
    """

    weights: Floats
    variances: Floats
    covariances: Floats

    def variance(self, q: float) -> Floats:
        """Variance of F_t - q F_B for every t; 0 for t = B and q = 1."""
        square: Floats = self.variances - 2 * q * self.covariances + q * q * self.covariances[-1]
        return np.maximum(square, 0.0)


@lru_cache(maxsize=8)
def decoder(form: str, bins: int) -> Decoder:
    """[Q12] The decoder of a matrix, from the same integers that the guarantee is proved for."""
    matrix = cumulative_matrix(form, bins)
    inverse = np.linalg.inv(matrix.T @ matrix).cumsum(axis=0)
    covariance = inverse.cumsum(axis=1)
    return Decoder(inverse @ matrix.T, covariance.diagonal().copy(), covariance[-1].copy())


def increasing_shares(counts: Floats) -> Floats:
    """Shares 0 = p_0 <= ... <= p_B = 1: increasing cumulative counts, divided by the number of rows.

    Isotonic regression changes no count by more than the largest error, so bands remain valid. If the noisy number
    of rows is not positive, all bins have the same share.
    """
    from scipy.optimize import isotonic_regression

    total = counts[-1]
    if not total > 0:
        return np.linspace(0, 1, counts.size + 1)
    rising = isotonic_regression(counts[:-1]).x if counts.size > 1 else counts[:-1]
    return np.concatenate([[0.0], np.clip(rising / total, 0, 1), [1.0]])


def quantile_of(edges: Floats, shares: Floats, q: Floats, are_values: bool) -> Floats:
    """The least value with a share of at least q at or below it, interpolated in its bin."""
    last = np.maximum(np.searchsorted(shares, np.maximum(q, _ANY_SHARE)), 1)
    if are_values:
        return edges[last]
    rise = shares[last] - shares[last - 1]
    part = np.divide(q - shares[last - 1], rise, out=np.ones_like(rise), where=rise > 0)
    return _between(edges[last - 1], edges[last], part)


def share_at(edges: Floats, shares: Floats, x: Floats, are_values: bool) -> Floats:
    """The share of values at most x; linear in a bin."""
    if are_values:
        return shares[np.searchsorted(edges[1:], x, side="right")]
    within = np.clip(x, edges[0], edges[-1])
    last = np.minimum(np.searchsorted(edges, within, side="right"), edges.size - 1)
    part = (within - edges[last - 1]) / (edges[last] - edges[last - 1])
    inner = _between(shares[last - 1], shares[last], part)
    return np.where(x < edges[0], 0.0, np.where(x >= edges[-1], 1.0, inner))


def _between(start: Floats, end: Floats, part: Floats) -> Floats:
    """Linear interpolation that increases with the part, whatever the rounding."""
    return np.minimum(start + (end - start) * part, end)


def interval_of(
    edges: Floats,
    counts: Floats,
    decoder: Decoder,
    q: float,
    multiple: float,
    are_values: bool,
    is_population: bool = False,
) -> tuple[float, float]:
    """[Q13] The interval of all bins that may contain the quantile: F_{t-1} - q N < 0 <= F_t - q N up to noise.

    is_population: add the error of a random sample [Q17].
    """
    excess = counts - q * counts[-1]
    half = multiple * np.sqrt(decoder.variance(q))
    if is_population:
        rows = max(float(counts[-1]) + multiple * math.sqrt(decoder.variances[-1]), 1.0)
        skewed = max(multiple**2 - 1, 0.0) / 6  # Correction for the skewness of a binomial count with a small mean.
        half = np.hypot(half, multiple * math.sqrt(rows * q * (1 - q))) + 1 + skewed
        if q in (0.0, 1.0):  # A sample does not bound the range of its population.
            half = np.full(half.size, np.inf)
    starts = np.concatenate([[True], (excess - half < 0)[:-1]])  # No value lies below the first bin.
    stops = np.concatenate([(excess + half >= 0)[:-1], [True]])  # No value lies above the last bin.
    held = np.flatnonzero(starts & stops)
    first = int(held[0]) + (1 if are_values else 0)
    return float(edges[first]), float(edges[held[-1] + 1])


def band_of(counts: Floats, decoder: Decoder, multiple: float) -> Floats:
    """[Q14] (B - 1, 2): all shares p with |F_t - p N| <= multiple stds, for every inner edge t (Fieller).

    Shares increase, so a lower bound of one edge holds for all edges above it, and an upper bound for all below.
    """
    total, scale = float(counts[-1]), multiple**2
    spread = scale * float(decoder.covariances[-1])
    if total <= 0 or total**2 <= spread:
        return np.tile([0.0, 1.0], (counts.size - 1, 1))
    square = total**2 - spread
    middle = counts[:-1] * total - scale * decoder.covariances[:-1]
    rest = counts[:-1] ** 2 - scale * decoder.variances[:-1]
    root = np.sqrt(np.maximum(middle**2 - square * rest, 0.0))
    low, high = np.clip((middle - root) / square, 0, 1), np.clip((middle + root) / square, 0, 1)
    return np.stack([np.maximum.accumulate(low), np.minimum.accumulate(high[::-1])[::-1]], axis=1)


def multiple_of(level: float, is_laplace: bool) -> float:
    """The half-width of an interval in stds. For sums of Laplace variables it is the larger of normal and Laplace."""
    from scipy.special import ndtri

    normal = float(ndtri((1 + level) / 2))
    return max(normal, -math.log(1 - level) / math.sqrt(2)) if is_laplace else normal


# Public numbers of plans ---------------------------------------------------------------------------------------


class QuantileNumbers(PublicNumbers):
    """The public numbers of a plan that quantiles are decoded with."""

    privacy: Privacy
    noise_scale: float
    """Std of the Gaussian noise, or scale of the Laplace noise, of every sum; 0 for the exponential mechanism."""

    @property
    def law(self) -> NoiseLaw:
        """The distribution of the noise of every sum."""
        return GaussianLaw(self.noise_scale) if self.privacy.mu else LaplaceLaw(self.noise_scale)

    @property
    def quantiles(self) -> Quantiles:
        assert self.request.quantiles is not None
        return self.request.quantiles

    @property
    def mechanism(self) -> str:
        if self.quantiles.method == "exponential":
            return "exponential"
        return "gaussian" if self.privacy.mu else "laplace"

    @property
    def form(self) -> str:
        """The kind of matrix whose noisy products with the counts are published."""
        return form_of(self.request, is_pure=not self.privacy.mu)

    @cached_property
    def edges(self) -> list[Floats]:
        """The edges of every column's bins, with the lower and the upper bound."""
        return self.quantiles.edges(self.rows, self.d)

    @property
    def sizes(self) -> list[int]:
        """The number of bins of every column."""
        return [edges.size - 1 for edges in self.edges]

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise of every sum."""
        return float(self.law.stds(1)[0])

    @cached_property
    def rank_error(self) -> Floats:
        """(columns, quantiles): the largest root mean square error of a quantile's rank, in rows."""
        q = self.quantiles.q
        if self.mechanism == "exponential":
            return np.broadcast_to([math.sqrt(2) / float(self._rate(one)) for one in q], (self.d, len(q)))
        decoders = [decoder(self.form, bins) for bins in self.sizes]
        stds = [[math.sqrt(float(one.variance(p).max())) for p in q] for one in decoders]
        return self.noise_std * np.array(stds)

    @property
    def width(self) -> int:
        """The number of published numbers of a group."""
        if self.mechanism == "exponential":
            return self.d * len(self.quantiles.q)
        return sum(len(cumulative_matrix(self.form, bins)) for bins in self.sizes)

    def reaches(self, noisy: Floats) -> NDArray[np.bool_]:
        """Whether groups that are not listed may be published, from their noisy sums [Q15]."""
        units, shift = self._threshold_units()
        places = np.cumsum([len(cumulative_matrix(self.form, bins)) for bins in self.sizes]) - 1
        reached: NDArray[np.bool_] = np.ldexp(noisy[:, places], -shift).sum(axis=1) >= units
        return reached

    @property
    def threshold(self) -> float:
        """A group that is not listed is published if its noisy number of values is at least this [Q15]."""
        units, shift = self._threshold_units()
        return math.ldexp(units, shift) / self._count_unit

    @property
    def _count_unit(self) -> int:
        """The amount that one row adds to the sum of the counts of all columns."""
        return int(sum(cumulative_matrix(self.form, bins)[-1, 0] for bins in self.sizes))

    def _threshold_units(self) -> tuple[int, int]:
        assert self.grouping is not None
        shift = shift_for(self.noise_scale)
        failure = round_down(Fraction(self.privacy.slack) / self.grouping.max_per_person)
        farthest = Fraction(self.noise_scale) * sqrt_upper(self.d) * Fraction(normal_isf_upper(failure))
        return math.ceil((self._count_unit + farthest) / Fraction(2) ** shift + Fraction(self.d, 2)), shift

    def _rate(self, q: float) -> Fraction:
        """The change of the exponent for one row of rank error [Q20]."""
        return exponential_rate(self.request, self.privacy.pure[0], q)


def form_of(request: Request, is_pure: bool) -> str:
    """The kind of matrix with the smallest sensitivity: by distances for replaced rows, else by norms."""
    if is_pure:
        return "tree"
    return "circulant" if request.neighbors == "replace" and request.groups is None else "skew"


def exponential_rate(request: Request, epsilon: float, q: float) -> Fraction:
    """[Q20] epsilon / (2 sensitivity) of one choice; there is one choice for each column and quantile."""
    quantiles, groups = request.quantiles, request.groups
    assert quantiles is not None
    times = 1 if groups is None else groups.max_per_person * (2 if request.neighbors == "replace" else 1)
    moves = (
        max(Fraction(q), 1 - Fraction(q)) if request.neighbors == "add_remove" or groups is not None else Fraction(1)
    )
    moves *= (request.people.rows_each if request.people else None) or 1
    choices = (request.d or 1) * len(quantiles.q) * times
    return Fraction(epsilon) / (2 * moves * choices)
