"""Noise distributions: the noise of each coordinate, how it is drawn, and the proof of its guarantee.

Gaussian, K-norm (L2) and Laplace noise are here, K-norm (L-infinity) noise in `block_law`. The distribution of a
coordinate of K-norm (L2) noise is in units of its scale [B4], [B5].

docs/proofs/plans.md [U9]. The coordinates are those of a plan's integer sum: values, counts beside them, and the count
of rows where there is one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np

from ..errors import Floats, UsageError, open_unit, whole
from ..numerics.roots import root
from ..numerics.rounding import round_up
from ..numerics.wide_integers import Ints, Wide
from ..privacy.guarantee import Privacy
from ..privacy.spherical_curve import Guarantee, SphericalPrivacy
from ..util import json_codec
from .gaussian import add_noise, add_noise_exact, shift_for
from .stream import Stream
from .vector_runs import Runs, ball_runs, box_runs

TOO_LITTLE = "Invalid plan file: the noise is below what the guarantee needs. Create a new plan."


class NoiseLaw:
    """Base of noise distributions; all numbers are in units of the grid."""

    kind: ClassVar[str] = ""

    def stds(self, width: int) -> Floats:
        """The std of the noise of each coordinate; width: their number."""
        raise NotImplementedError

    def multiples(self, width: int, level: float) -> Floats:
        """For each coordinate, the half-width of an interval at a level, in units of its std."""
        raise NotImplementedError

    def exceeded(self, width: int, place: int, probability: float) -> float:
        """The threshold, in stds, that the noise of a coordinate exceeds with a probability."""
        return float(self.multiples(width, 1 - 2 * probability)[place])

    def squared_radius(self, rank: int, level: float) -> float:
        """The quantile at a level of the squared length of noise, in stds; rank: its number of directions."""
        raise NotImplementedError

    def add(self, sums: Wide, last: list[int], stream: Stream, start: int = 0) -> Floats:
        """The noisy sums; `last` are coordinates that follow, which may be too wide for limbs.

        Sums of several groups or runs, one in each row, have noise of their own each; nothing follows them. start: the
        first draw of the stream; further sums take those after it (`stream.next`).
        """
        raise NotImplementedError

    def prove(self, privacy: Guarantee, sensitivity: Fraction, moves: Ints) -> None:
        """Raise unless the noise gives the guarantee; moves: the largest change of each coordinate."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        raise NotImplementedError


@dataclass(frozen=True)
class GaussianLaw(NoiseLaw):
    """Normal noise of one std in every coordinate: units * mu >= sensitivity in exact arithmetic [U1]."""

    kind: ClassVar[str] = "gaussian"
    units: float

    def stds(self, width: int) -> Floats:
        return np.broadcast_to(self.units, width)

    def multiples(self, width: int, level: float) -> Floats:
        return np.broadcast_to(normal_multiple(level), width)

    def exceeded(self, width: int, place: int, probability: float) -> float:
        return -NormalDist().inv_cdf(probability)

    def squared_radius(self, rank: int, level: float) -> float:
        from scipy.special import chdtri

        return float(chdtri(rank, 1 - level))

    def add(self, sums: Wide, last: list[int], stream: Stream, start: int = 0) -> Floats:
        shift = shift_for(self.units)
        noisy = add_noise(sums, self.units, shift, stream, start)
        if last:  # an exact rational: its integer may be too wide for limbs before the shift, never after
            noisy = noisy.join(add_noise_exact(last, self.units, shift, stream, start + len(sums)))
        values = noisy.to_float()
        scaled: Floats = np.ldexp(values, shift, out=values)
        return scaled

    def prove(self, privacy: Guarantee, sensitivity: Fraction, moves: Ints) -> None:
        mu = privacy.mu if isinstance(privacy, Privacy) and not privacy.pure else 0.0
        if not math.isfinite(self.units) or Fraction(self.units) * Fraction(mu) < sensitivity:
            raise UsageError(TOO_LITTLE)


def normal_multiple(level: float) -> float:
    """The half-width of an interval at a level, in stds of normal noise."""
    from scipy.special import ndtri

    return float(ndtri((1 + level) / 2))


def joined(sums: Wide, last: list[int]) -> Wide:
    """The sums, followed by whole numbers."""
    if not last:
        return sums
    return sums.join(Wide.from_ints(last))


_NODES, _DROP = 400, 45.0
_SMALLEST = 1e-320


def ball_std(d: int) -> float:
    """Standard deviation of a coordinate in d dimensions."""
    return math.sqrt(d + 1)


def ball_sf(x: float, d: int) -> float:
    """P[coordinate > x]: the mean of the normal tail over the shared factor, by the trapezoid rule [B4]."""
    from scipy.special import log_ndtr

    if x <= 0:
        return 0.5 if x == 0 else 1 - ball_sf(-x, d)
    shape = (whole("d", d) + 1) / 2
    spread = x / math.sqrt(2 * shape)

    def log_value(t: Floats) -> Floats:  # half the squared factor is shape e^t
        value: Floats = log_ndtr(-spread * np.exp(-t / 2)) + shape * (t - np.expm1(t))
        return value

    return _factor_mean(log_value, shape)


def _factor_mean(log_value: Callable[[Floats], Floats], shape: float) -> float:
    """The mean over the shared factor, of which log_value has the density without its constant: a log-concave peak."""
    low, high = _window(log_value, 1 / math.sqrt(shape))
    t = np.linspace(low, high, _NODES)
    values = log_value(t)
    top = float(values.max())
    total = math.log(float(np.exp(values - top).sum()) * (high - low) / (_NODES - 1))
    return math.exp(top + total + _log_peak(shape))


def _window(log_value: Callable[[Floats], Floats], step: float) -> tuple[float, float]:
    """Where a concave function is within 45 of its largest value, and a little beyond."""

    def at(t: float) -> float:
        return float(log_value(np.array([t]))[0])

    peak, stride = 0.0, step
    while stride > step / 64:
        here = at(peak)
        if at(peak + stride) > here:
            peak += stride
        elif at(peak - stride) > here:
            peak -= stride
        else:
            stride /= 2
    floor = at(peak) - _DROP
    ends = []
    for side in (-1.0, 1.0):
        reach = step
        while at(peak + side * reach) > floor:
            reach *= 1.25
        ends.append(peak + side * reach)
    return ends[0], ends[1]


def _log_peak(shape: float) -> float:
    """shape log(shape) - shape - log Gamma(shape), without cancellation."""
    if shape < 50:
        return shape * math.log(shape) - shape - math.lgamma(shape)
    inverse = 1 / shape
    series = inverse / 12 - inverse**3 / 360 + inverse**5 / 1260
    return 0.5 * math.log(shape / (2 * math.pi)) - series


@lru_cache(maxsize=256)
def ball_isf(p: float, d: int) -> float:
    """The x with P[coordinate > x] = p."""
    p = open_unit("p", p)
    if p >= 0.5:
        return 0.0 if p == 0.5 else -ball_isf(1 - p, d)
    most = ball_std(d)
    while ball_sf(most, d) > p:
        most *= 2
    return root(lambda x: math.log(max(ball_sf(x, d), _SMALLEST) / p), 0.0, most, 1e-13 * most)


def ball_square_sf(x: float, rank: int, d: int) -> float:
    """P[squared length of `rank` coordinates > x]: a chi-square tail, averaged over the shared factor [B5]."""
    from scipy.special import gammaincc

    if x <= 0:
        return 1.0
    shape = (whole("d", d) + 1) / 2

    def log_value(t: Floats) -> Floats:  # half the squared factor is shape e^t
        tail = np.maximum(gammaincc(rank / 2, x / (4 * shape) * np.exp(-t)), _SMALLEST)
        value: Floats = np.log(tail) + shape * (t - np.expm1(t))
        return value

    return _factor_mean(log_value, shape)


@lru_cache(maxsize=256)
def ball_square_isf(p: float, rank: int, d: int) -> float:
    """The x that the squared length of `rank` coordinates exceeds with probability p: a confidence region."""
    from scipy.special import chdtri

    p = open_unit("p", p)
    half = math.sqrt(p)  # both factors above these: probability p; one of them above those: at most p
    least, most = (float(chdtri(d + 1, tail) * chdtri(rank, tail)) for tail in (half, p / 2))
    return root(lambda x: math.log(ball_square_sf(x, rank, d) / p), least, most, 1e-13 * most)


@dataclass(frozen=True)
class SphericalLaw(NoiseLaw):
    """K-norm (L2) noise of density exp(-‖x‖/scale): scale * ratio >= sensitivity in exact arithmetic [B1]."""

    kind: ClassVar[str] = "knorm_l2"
    scale: float
    dimension: int

    def stds(self, width: int) -> Floats:
        return np.broadcast_to(self.scale * ball_std(self.dimension), width)

    def multiples(self, width: int, level: float) -> Floats:
        return np.broadcast_to(ball_isf((1 - level) / 2, self.dimension) / ball_std(self.dimension), width)

    def squared_radius(self, rank: int, level: float) -> float:
        return ball_square_isf(1 - level, rank, self.dimension) / ball_std(self.dimension) ** 2  # [B5]

    def add(self, sums: Wide, last: list[int], stream: Stream, start: int = 0) -> Floats:
        from .vectors import add_sphere_noise  # compiles

        runs, unit = self._drawing
        values = add_sphere_noise(joined(sums, last), runs, stream, start).to_float()
        values *= unit
        return values

    @cached_property
    def _drawing(self) -> tuple[Runs, float]:
        """The coordinates as one run, and 2^shift."""
        runs = ball_runs(self.scale, self.dimension)
        return runs, math.ldexp(1.0, int(runs.shifts[0]))

    def prove(self, privacy: Guarantee, sensitivity: Fraction, moves: Ints) -> None:
        valid = math.isfinite(self.scale) and self.dimension == len(moves) and isinstance(privacy, SphericalPrivacy)
        if not valid or not isinstance(privacy, SphericalPrivacy) or privacy.dimension != self.dimension:
            raise UsageError(TOO_LITTLE)
        if Fraction(self.scale) * Fraction(privacy.ratio) < sensitivity:
            raise UsageError(TOO_LITTLE)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "scale": self.scale, "dimension": self.dimension}

    @classmethod
    def from_fields(cls, fields: json_codec.Fields) -> SphericalLaw:
        return cls(fields.take("scale", json_codec.number), fields.take("dimension", json_codec.integer(1, 1 << 40)))

    @staticmethod
    def least(privacy: SphericalPrivacy, sensitivity: Fraction) -> SphericalLaw:
        return SphericalLaw(round_up(sensitivity / Fraction(privacy.ratio)), privacy.dimension)


@dataclass(frozen=True)
class LaplaceLaw(NoiseLaw):
    """Independent Laplace noise: scale * epsilon >= the l1-sensitivity in exact arithmetic [H4]."""

    kind: ClassVar[str] = "laplace"
    scale: float

    @staticmethod
    def least(sensitivity: int, epsilon: float) -> LaplaceLaw:
        """[H4] The least noise for an l1-sensitivity, rounded up."""
        return LaplaceLaw(round_up(Fraction(sensitivity) / Fraction(epsilon)))

    def stds(self, width: int) -> Floats:
        return np.full(width, math.sqrt(2) * self.scale)

    def multiples(self, width: int, level: float) -> Floats:
        return np.full(width, -math.log1p(-level) / math.sqrt(2))

    def add(self, sums: Wide, last: list[int], stream: Stream, start: int = 0) -> Floats:
        from .vectors import add_block_noise  # compiles

        whole = joined(sums, last)
        shape, size = whole.high.shape, whole.high.size
        flat = Wide(whole.high.reshape(-1), whole.low.reshape(-1))
        runs = box_runs(np.ones(size, np.int64), np.full(size, self.scale))
        noisy = add_block_noise(flat, runs, stream, start).to_float()
        return np.ldexp(noisy, runs.shifts).reshape(shape)

    def prove(self, privacy: Guarantee, sensitivity: Fraction, moves: Ints) -> None:
        """As for every distribution, but the sensitivity is in l1."""
        pure = privacy.pure if isinstance(privacy, Privacy) and not privacy.mu else ()
        enough = len(pure) == 1 and math.isfinite(self.scale)
        if not enough or Fraction(self.scale) * Fraction(pure[0]) < sensitivity:
            raise UsageError(TOO_LITTLE)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "scale": self.scale}
