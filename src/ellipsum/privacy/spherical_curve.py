"""The exact, certified privacy curve of K-norm (L2) noise: density proportional to exp(-|eta| / scale) [B1], [B2].

Everything depends on two public numbers: the dimension d, and ratio = sensitivity / scale. With z = ratio / 2 the
privacy loss is 2 z cos(theta), and theta in [0, pi] has the density

    c e^(z cos theta) sin^(d-2)(theta) (rho + sin^2(theta)),    rho = (d-1) K_{d/2}(z) / (z K_{d/2-1}(z)).

Guarantees rest on balls that enclose the one integral left; doubles only propose where to look.

References: Joseph, Kulesza & Yu 2025 (the mechanism).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import Floats, UsageError, non_negative, open_unit, positive, whole
from ..numerics.roots import gauss_legendre, root
from ..numerics.rounding import enclose_ever_tighter, round_ball_up
from ..util import json_codec
from .guarantee import MISMATCH, Privacy

if TYPE_CHECKING:
    from flint import arb

_FIRST_BITS, _LAST_BITS = 64, 1024
_SMALLEST = math.ulp(0.0)
_ACCURATE = 50  # bits to which an integral is asked for
_MOST_EVALUATIONS = 20_000
_NUDGES = range(36, 0, -3)  # how far a proposal is moved towards more noise: 2^-36 of itself, 2^-33, ...
_ZOOMS, _CELLS, _DROP = 3, 200, 50.0
_STEPS = 60  # of the recurrence for rho
_NEAR = 1 + 1e-6
_EPSILONS, _DELTAS = (1e-4, 100.0), (1e-30, 0.5)  # where the curve is evaluated closely [B2]
_WRONG = "A guarantee has the fields ratio, dimension, neighbors and, for people, unit, and no others."


def _log_delta(ratio: float, epsilon: float, d: int) -> float:
    """log delta(epsilon) of d-dimensional noise, sensitivity / scale = ratio: an estimate, not a bound."""
    if ratio <= epsilon:
        return -math.inf
    if d == 1:
        return math.log(-math.expm1((epsilon - ratio) / 2))
    z, rho = ratio / 2, _rho(d, ratio / 2)
    last = 2 * math.asin(math.sqrt((ratio - epsilon) / (2 * ratio)))

    def powers(theta: Floats) -> Floats:
        sine = np.sin(theta)
        value: Floats = (d - 2) * np.log(sine) + np.log(rho + sine * sine)
        return value

    def gain(theta: Floats) -> Floats:
        loss = 2 * z * np.sin((last + theta) / 2) * np.sin((last - theta) / 2)  # z cos(theta) - epsilon/2
        value: Floats = powers(theta) + loss + np.log(-np.expm1(-2 * loss))
        return value

    whole_law = _log_integral(lambda theta: powers(theta) + z * np.cos(theta), math.pi)
    return min(0.0, epsilon / 2 + _log_integral(gain, last) - whole_law)


def _rho(d: int, z: float) -> float:
    """(d-1) K_{d/2}(z) / (z K_{d/2-1}(z)) by its recurrence, in which the error of the start vanishes."""
    order = d / 2
    steps = min(_STEPS, (d - 1) // 2)
    first = order - steps
    if first == 0.5:
        quotient = 1.0
    elif first == 1.0:
        quotient = _bessel_quotient(z)
    else:
        quotient = (first - 0.5 + math.hypot(first - 0.5, z)) / z
    for step in range(steps):
        quotient = 1 / quotient + 2 * (first + step) / z
    return (d - 1) * quotient / z


def _bessel_quotient(z: float) -> float:
    """K_1(z) / K_0(z): e^z K_n(z) is the integral of cosh(n t) exp(-2 z sinh^2(t/2)), by the trapezoid rule."""
    t = np.arange(0.0, 2 * math.asinh(math.sqrt(_DROP / z)), 0.2 / math.sqrt(1 + z))
    weights = np.exp(-2 * z * np.sinh(t / 2) ** 2)
    weights[0] /= 2
    return float(weights @ np.cosh(t)) / float(weights.sum())


def _log_integral(log_value: Callable[[Floats], Floats], end: float) -> float:
    """log of the integral of exp(log_value) over (0, end), a single peak: zoom in on it, then Gauss nodes."""
    low, high = 0.0, end
    middles = (np.arange(_CELLS) + 0.5) / _CELLS
    for _ in range(_ZOOMS):
        cell = (high - low) / _CELLS
        values = log_value(low + (high - low) * middles)
        seen = np.flatnonzero(values > values.max() - _DROP)
        low, high = low + max(seen[0] - 1, 0) * cell, min(low + min(seen[-1] + 2, _CELLS) * cell, end)
    nodes, weights = gauss_legendre(_CELLS)
    half = (high - low) / 2
    values = log_value(low + half * (1 + nodes))
    top = float(values.max())
    return top + math.log(half * float(weights @ np.exp(values - top)))


def _delta_ball(ratio: float, epsilon: float, d: int, near: float) -> arb:
    """A ball that holds delta(epsilon) at the precision in force; `near` says how small an error matters [B2]."""
    from flint import acb, arb

    loss, top = arb(epsilon), arb(ratio)
    if top <= loss:
        return arb(0)
    if d == 1:
        return -((loss - top) / 2).expm1()
    z, order = top / 2, arb(d) / 2
    lower, upper = z.bessel_k(order - 1), z.bessel_k(order)
    rho = (d - 1) * upper / (z * lower)
    scale = z * z * lower * (z / 2) ** (order - 1) / (arb.pi().sqrt() * (order + arb(0.5)).gamma())
    factor = scale * (loss / 2).exp()
    if not (factor.is_finite() and rho.is_finite()):
        return arb.nan()

    def integrand(theta: acb, _: Any) -> acb:
        sine = theta.sin()
        return factor * (z * theta.cos() - loss / 2).sinh() * sine ** (d - 2) * (rho + sine * sine)

    tolerance = arb(2) ** -_ACCURATE
    last = acb((loss / top).acos())
    return acb.integral(
        integrand, acb(0), last, rel_tol=tolerance, abs_tol=tolerance * arb(near), eval_limit=_MOST_EVALUATIONS
    ).real


def _balls(ratio: float, epsilon: float, d: int, near: float) -> Iterator[arb]:
    """Enclosures of delta at 64, 128, ... bits."""
    return enclose_ever_tighter(lambda: _delta_ball(ratio, epsilon, d, near), _FIRST_BITS, _LAST_BITS)


def _is_safe(ratio: float, epsilon: float, delta: float, d: int) -> bool:
    """Whether delta(epsilon) <= delta is proved; an enclosure that is not finite proves nothing [B2]."""
    if ratio <= epsilon:
        return True
    for ball in _balls(ratio, epsilon, d, delta):
        if not ball.is_finite():
            continue
        if ball <= delta:
            return True
        if ball > delta:
            return False
    return False


def ball_delta_upper(ratio: float, epsilon: float, d: int) -> float:
    """delta(epsilon), rounded up and proved to be no less [B2]."""
    ratio, epsilon, d = non_negative("ratio", ratio), non_negative("epsilon", epsilon), whole("d", d)
    if ratio <= epsilon:
        return 0.0
    near = max(math.exp(_log_delta(ratio, epsilon, d)), _SMALLEST)
    upper = 1.0
    for ball in _balls(ratio, epsilon, d, near):
        upper = min(upper, round_ball_up(ball))
        if ball.is_finite() and (ball.rel_accuracy_bits() >= 30 or upper <= _SMALLEST):
            break
    return upper


@lru_cache(maxsize=1024)
def certified_ratio(epsilon: float, delta: float, d: int) -> float:
    """The largest sensitivity / scale with delta(epsilon) <= delta in d dimensions, rounded down and proved.

    Guarantee: the inequality holds for the exact curve at the returned double, hence for every smaller ratio [B1],
    [B2]. delta = 0 gives epsilon itself. For epsilon in [1e-4, 100], delta in [1e-30, 0.5] and d up to 10^6 the
    result is within 1e-8 of the largest; elsewhere it is proved all the same, or the call is refused.
    """
    epsilon, d = positive("epsilon", epsilon), whole("d", d)
    if delta == 0:
        return epsilon
    delta = open_unit("delta", delta)
    start = _ratio_estimate(epsilon, delta, d)
    for shift in (*_NUDGES, 0):
        candidate = max(start - math.ldexp(start, -shift), epsilon)  # the pure ratio is always safe
        if _is_safe(candidate, epsilon, delta, d):
            return candidate
    raise AssertionError("the pure ratio is safe")


def _ratio_estimate(epsilon: float, delta: float, d: int) -> float:
    """The root of delta(ratio) = delta: log delta grows with log(ratio - epsilon)."""

    def excess(log_gap: float) -> float:
        return _log_delta(epsilon + math.exp(log_gap), epsilon, d) - math.log(delta)

    least = math.log(epsilon) - 36.0  # below this, ratio is epsilon to the last bit
    if excess(least) >= 0:
        return epsilon
    most = math.log(epsilon)
    while excess(most) < 0:
        most += 2.0
        if most > 60:
            raise UsageError(f"epsilon={epsilon}, delta={delta} is outside the supported range in {d} dimensions.")
    return epsilon + math.exp(root(excess, least, most, 1e-12))


def ball_epsilon_upper(ratio: float, delta: float, d: int) -> float:
    """The least epsilon with delta(epsilon) <= delta, rounded up and proved; ratio itself at delta = 0 [B2]."""
    ratio, delta, d = non_negative("ratio", ratio), non_negative("delta", delta), whole("d", d)
    if delta >= 1 or ratio == 0:
        return 0.0
    if delta == 0:
        return ratio
    if _is_safe(ratio, 0.0, delta, d):
        return 0.0

    def excess(epsilon: float) -> float:
        return max(_log_delta(ratio, epsilon, d), -1e300) - math.log(delta)

    start = root(excess, 0.0, ratio, 1e-12 * ratio) if excess(0.0) > 0 else 0.0
    for shift in _NUDGES:
        candidate = min(start + math.ldexp(ratio, -shift), ratio)
        if _is_safe(ratio, candidate, delta, d):
            return candidate
    return ratio


def safe_ratio(epsilon: float, delta: float, dimension: int) -> float:
    """The largest sensitivity / scale that is proved for (epsilon, delta); far out the pure one, which always is."""
    near = _EPSILONS[0] <= epsilon <= _EPSILONS[1] and _DELTAS[0] <= delta <= _DELTAS[1]
    return certified_ratio(epsilon, delta, dimension) if near else epsilon


@dataclass(frozen=True)
class SphericalPrivacy:
    """What one release under K-norm (L2) noise spends: sensitivity / scale, and the dimension of the noise.

    delta(epsilon) is the exact curve, rounded up; at epsilon = ratio it is pure DP.
    """

    ratio: float
    dimension: int
    neighbors: str = "replace"
    unit: str = "row"

    slack = 0.0

    def __post_init__(self) -> None:
        positive("ratio", self.ratio)
        whole("dimension", self.dimension)
        self.as_pair()  # checks relation and unit

    def as_pair(self) -> Privacy:
        """For composition: a pure step of epsilon = ratio."""
        return Privacy.of_pure(self.ratio, self.neighbors, self.unit)

    def check_unit(self, people: bool) -> None:
        self.as_pair().check_unit(people)

    def delta(self, epsilon: float) -> float:
        """Upper bound on delta at this epsilon."""
        return ball_delta_upper(self.ratio, epsilon, self.dimension)

    def epsilon(self, delta: float) -> float:
        """Upper bound on epsilon at this delta; at 0 it is the ratio itself."""
        return ball_epsilon_upper(self.ratio, delta, self.dimension)

    def check_stated(self, stated: Mapping[str, float]) -> None:
        """An error unless the stated budget is what this spends, proved as it was made [B2]."""
        if not stated:
            return
        if "delta" not in stated:
            raise UsageError(MISMATCH)
        epsilon, delta = stated["epsilon"], stated["delta"]
        allowed = safe_ratio(epsilon, delta, self.dimension)
        proved = self.ratio <= allowed or (self.ratio <= allowed * _NEAR and self.delta(epsilon) <= delta)
        if not proved or self.ratio * _NEAR < allowed:
            raise UsageError(MISMATCH)

    @property
    def change(self) -> str:
        return self.as_pair().change

    def to_dict(self) -> dict[str, Any]:
        unit = {} if self.unit == "row" else {"unit": self.unit}
        return {"ratio": self.ratio, "dimension": self.dimension, "neighbors": self.neighbors, **unit}

    @classmethod
    def from_dict(cls, saved: object) -> SphericalPrivacy:
        with json_codec.Fields(saved, _WRONG) as fields:
            return cls(
                fields.take("ratio", json_codec.number),
                fields.take("dimension", json_codec.integer(1, 1 << 40)),
                fields.take("neighbors", json_codec.text),
                fields.take("unit", json_codec.text, "row"),
            )

    def __str__(self) -> str:
        return f"epsilon = {self.ratio:.6g} pure DP, less at delta > 0 ({self.change})"


Guarantee = Privacy | SphericalPrivacy


def guarantee_from_dict(saved: object) -> Guarantee:
    """A guarantee of either kind."""
    if isinstance(saved, Mapping) and "ratio" in saved:
        return SphericalPrivacy.from_dict(saved)
    return Privacy.from_dict(saved)
