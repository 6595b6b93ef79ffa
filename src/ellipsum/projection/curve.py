"""The privacy curve of a random projection, exact and certified: docs/proofs/projections.md.

A row change of full size shifts the projected row by a random length: mu(w) = scale (w + excess), where
k w^2 ~ chi-square with k degrees of freedom. Averaging the Gaussian curve over w gives the curve [J1]

    delta(epsilon) = E[ delta_gauss(epsilon; scale (w + excess)) ].

Symbols: scale = (diameter of a row) (std of the matrix) sqrt(k) / (std of the noise); excess = what rounding
the matrix to integers can add to w [J2].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..errors import MOST_COLUMNS, Floats, UsageError, choice, columns_of, non_negative, open_unit, positive
from ..numerics.roots import root
from ..numerics.rounding import enclose_ever_tighter, find_safe, is_proved_nonnegative, round_ball_up, round_up
from ..privacy.gaussian_curve import _epsilon_estimate, _mu_estimate, gaussian_delta
from ..privacy.guarantee import UNITS, Privacy
from ..util import json_codec

if TYPE_CHECKING:
    from flint import arb

CALIBRATIONS = ("exact", "tail", "composition")
_NODES = 512
_DROP = 45.0  # This many nats below its peak, the integrand is below double precision.
_TAIL_NATS = 36.0  # The part outside the certified integral is this far below the target.
_MOST_EPSILON = 1.001e5  # Beyond it, integrals take minutes and guarantees mean nothing.
_MOST_SCALE = 500.0  # Larger than the scale of a projection with such an epsilon.
_WIDEST_LOG = 5.0  # w < e^5 holds except with probability e^-10000.


@dataclass(frozen=True)
class ProjectionPrivacy:
    """Privacy guarantee of an oblivious projection: the exact privacy curve over the draw of its matrix.

    It holds where one row (or person) is replaced, n is public, and the data does not depend on the matrix.

    Parameters
    ----------
    k : int
        Numbers per row.
    scale : float
        diameter of a row * std of the matrix * sqrt(k) / std of the noise.
    excess : float
        What rounding the matrix to integers can add to the relative length of a row's change.
    stated_delta : float
        The requested delta. It selects the (mu, delta) pair that stands for the curve in a composition.
    unit : {"row", "person"}, default "row"
        The privacy unit.

    Notes
    -----
    Privacy proof: [J1], [J2]; [J3] for the pair, [J4] for the evaluation.

    Examples
    --------
    >>> import ellipsum as es
    >>> privacy = es.ProjectionPrivacy(k=20, scale=0.5, excess=0.0, stated_delta=1e-6)
    >>> round(privacy.epsilon(1e-6), 2)
    2.73
    """

    k: int
    scale: float
    excess: float
    stated_delta: float
    unit: str = "row"
    neighbors: ClassVar[str] = "replace"

    def __post_init__(self) -> None:
        columns_of("k", self.k)
        positive("scale", self.scale)
        non_negative("excess", self.excess)
        open_unit("stated_delta", self.stated_delta)
        choice("unit", self.unit, UNITS)

    def delta(self, epsilon: float) -> float:
        """The least delta at this epsilon, rounded up and proved [J4]."""
        return projection_delta_upper(self.scale, self.k, non_negative("epsilon", epsilon), self.excess)

    def epsilon(self, delta: float) -> float:
        """The least epsilon at this delta, rounded up and proved; infinite at delta = 0 [J4]."""
        return projection_epsilon_upper(self.scale, self.k, non_negative("delta", delta), self.excess)

    def as_pair(self, slack: float | None = None) -> Privacy:
        """A (mu, slack) pair that bounds the whole curve, for composition with other releases [J3].

        By default the pair with the least epsilon at `stated_delta`.
        """
        chosen = _best_slack(self) if slack is None else open_unit("slack", slack)
        reach = Fraction(chi_reach_upper(self.k, chosen)) + Fraction(self.excess)
        return Privacy(round_up(Fraction(self.scale) * reach), chosen, self.neighbors, self.unit)

    @property
    def change(self) -> str:
        """The neighboring relation, in words."""
        return f"one {self.unit} replaced"

    def to_dict(self) -> dict[str, Any]:
        unit = {} if self.unit == "row" else {"unit": self.unit}
        return {"k": self.k, "scale": self.scale, "excess": self.excess, "stated_delta": self.stated_delta, **unit}

    @classmethod
    def from_dict(cls, saved: object) -> ProjectionPrivacy:
        complaint = "A projection's guarantee has the fields k, scale, excess, stated_delta and, for people, unit."
        with json_codec.Fields(saved, complaint) as fields:
            return cls(
                fields.take("k", json_codec.integer(1, MOST_COLUMNS)),
                fields.take("scale", json_codec.number),
                fields.take("excess", json_codec.number),
                fields.take("stated_delta", json_codec.number),
                fields.take("unit", json_codec.text, "row"),
            )

    def __str__(self) -> str:
        epsilon = self.epsilon(self.stated_delta)
        return f"epsilon = {epsilon:.6g} at delta = {self.stated_delta:g} ({self.change}, fresh matrix)"


def certified_scale(epsilon: float, delta: float, k: int, excess: float = 0.0, calibration: str = "exact") -> float:
    """The scale of an (epsilon, delta) projection: its noise std is diameter * matrix std * sqrt(k) / scale.

    "exact" is the largest scale that the curve [J1] allows, within a factor 1 - 1e-9. "tail" and "composition" are the
    published closed forms, corrected [J5], for comparison ("composition" needs epsilon < 1).

    Guarantee: for the returned double, delta(epsilon) <= delta holds with the true functions, hence also for every
    smaller scale.

    References: Tu 2013, Theorems 1 and 2, with the departures listed under [J5].
    """
    choice("calibration", calibration, CALIBRATIONS)
    epsilon, delta, k = positive("epsilon", epsilon), open_unit("delta", delta), columns_of("k", k)
    excess = non_negative("excess", excess)
    if calibration == "exact":
        return _exact_scale(epsilon, delta, k, excess)
    if delta >= 0.5:
        raise UsageError(f"calibration={calibration!r} needs delta < 0.5, got {delta}. Use calibration='exact'.")
    if calibration == "composition" and epsilon >= 1:
        raise UsageError(f"calibration='composition' needs epsilon < 1, got {epsilon}. Use calibration='exact'.")
    noise = _tail_noise if calibration == "tail" else _composition_noise
    return _rounded_inverse(lambda: noise(epsilon, delta, k, excess))


def _log_delta(scale: float, k: int, epsilon: float, excess: float) -> float:
    """log delta(epsilon) of the curve [J1] to about 1e-10; `projection_delta_upper` is the bound.

    The trapezoid rule in x = log w, where the integrand is smooth, single-peaked and falls off fast.
    """
    left, right = -80.0, _WIDEST_LOG
    for _ in range(40):
        x = np.linspace(left, right, _NODES)
        height = _log_integrand(x, scale, k, epsilon, excess)
        peak = float(height.max())
        if peak == -math.inf:
            return peak
        high = np.flatnonzero(height > peak - _DROP)
        first, last = max(int(high[0]) - 1, 0), min(int(high[-1]) + 1, _NODES - 1)
        settled = last - first > 0.9 * _NODES
        left, right = float(x[first]), float(x[last])
        if settled:
            break
    return peak + math.log(float(np.sum(np.exp(height - peak)))) + math.log(float(x[1] - x[0]))


def _log_integrand(x: Floats, scale: float, k: int, epsilon: float, excess: float) -> Floats:
    w = np.exp(x)
    with np.errstate(divide="ignore"):
        log_delta = np.log(gaussian_delta(scale * (w + excess), epsilon))
    # The density of x is e^(constant + (k/2) (2x + 1 - e^(2x))), written without cancellation near x = 0.
    return _log_density_constant(k) + k / 2 * (2 * x - np.expm1(2 * x)) + log_delta


def _log_density_constant(k: int) -> float:
    """log of 2 z^z e^-z / Gamma(z), z = k/2; by Stirling's series where the plain form would cancel."""
    z = k / 2
    if z < 50:
        return math.log(2) + z * math.log(z) - z - math.lgamma(z)
    return math.log(2) + 0.5 * math.log(z / (2 * math.pi)) - 1 / (12 * z) + 1 / (360 * z**3) - 1 / (1260 * z**5)


def _root(function: Callable[[float], float], start: float) -> float:
    """The zero of an increasing function of log x, as x, bracketed by doubling from start."""
    low = high = math.log(start)
    while function(math.exp(low)) > 0:
        low -= 1.0
        if low < -700:
            return 0.0
    while function(math.exp(high)) < 0:
        high += 1.0
        if high > 700:
            return math.inf
    if low == high:
        return start
    return math.exp(root(lambda t: function(math.exp(t)), low, high, 1e-14))


@lru_cache(maxsize=256)
def _exact_scale(epsilon: float, delta: float, k: int, excess: float) -> float:
    target = math.log(delta)
    start = _mu_estimate(epsilon, delta)
    if 0 < start < math.inf and epsilon <= _MOST_EPSILON:
        estimate = _root(lambda s: _log_delta(s, k, epsilon, excess) - target, start)
        if 0 < estimate < math.inf:
            safe = find_safe(estimate, -estimate, lambda s: s > 0 and _is_safe(s, k, epsilon, excess, delta))
            if safe is not None:
                return safe
    raise UsageError(
        f"epsilon={epsilon}, delta={delta} at k={k} is outside the supported range: epsilon in [1e-8, 1e5], delta in "
        "[1e-300, 0.5]."
    )


def projection_delta_upper(scale: float, k: int, epsilon: float, excess: float = 0.0) -> float:
    """A double proved to be at least delta(epsilon) of the curve [J1], within 1e-9 relative of it [J4].

    It is 1, which always holds, for scales beyond 500: the integrals of such projections take minutes.
    """
    if scale > _MOST_SCALE:
        return 1.0
    near = max(math.exp(min(_log_delta(scale, k, epsilon, excess), 0.0)), math.ulp(0.0))
    upper = 1.0
    for ball in enclose_ever_tighter(lambda: _delta_ball(scale, k, epsilon, excess, near)):
        upper = min(upper, round_ball_up(ball))
        if upper <= near * (1 + 1e-9) or ball.rel_accuracy_bits() >= 40:
            break
    return upper


def projection_epsilon_upper(scale: float, k: int, delta: float, excess: float = 0.0) -> float:
    """An epsilon proved to satisfy delta(epsilon) <= delta, within 1e-9 of the least [J4]; infinite above 1e5."""
    if delta >= 1:
        return 0.0
    if delta == 0 or scale > _MOST_SCALE:
        return math.inf
    if _is_safe(scale, k, 0.0, excess, delta):
        return 0.0
    target = math.log(delta)
    estimate = _root(lambda e: target - _log_delta(scale, k, e, excess), max(scale, 1e-8))
    if not 0 < estimate <= _MOST_EPSILON:
        return math.inf
    safe = find_safe(estimate, estimate, lambda e: _is_safe(scale, k, e, excess, delta))
    return math.inf if safe is None else safe


def _is_safe(scale: float, k: int, epsilon: float, excess: float, delta: float) -> bool:
    """Whether delta(epsilon) <= delta is proved for the true functions [J4]."""
    for ball in enclose_ever_tighter(lambda: _delta_ball(scale, k, epsilon, excess, delta)):
        if ball <= delta:
            return True
        if ball > delta or ball.rel_accuracy_bits() >= 40:  # In a tie, more digits do not help.
            return False
    return False


def _delta_ball(scale: float, k: int, epsilon: float, excess: float, target: float) -> arb:
    """Encloses delta(epsilon): a rigorous integral over [low, high], and bounds on what lies outside [J4]."""
    from flint import acb, arb

    low, high = _window(scale, k, epsilon, excess, math.log(target))
    half_k, loss = arb(k) / 2, arb(epsilon)
    factor, shift = arb(scale), arb(excess)
    growth, root = loss.exp(), arb(2).sqrt()
    log_constant = half_k * half_k.log() - half_k.lgamma()  # The density's 2 and the curve's 1/2 cancel.

    def curve(mu: Any) -> Any:
        ratio, half = loss / mu, mu / 2
        return ((ratio - half) / root).erfc() - growth * ((ratio + half) / root).erfc()

    def integrand(w: Any, analytic: bool) -> Any:
        log_density = (k - 1) * w.log(analytic=analytic) - half_k * w * w + log_constant
        return log_density.exp() * curve(factor * (w + shift))

    tolerance = arb(target) * arb(2) ** -50
    middle = acb.integral(integrand, acb(low), acb(high), abs_tol=tolerance, rel_tol=arb(2) ** -60, eval_limit=10**5)
    below = _chernoff(low, half_k) * curve(factor * (arb(low) + shift)) / 2
    outside = below + _chernoff(high, half_k)
    total: arb = middle.real + outside.union(arb(0))
    return total


def _chernoff(w: float, half_k: arb) -> arb:
    """An upper bound on P[chi > w sqrt(k)] for w > 1, on P[chi < w sqrt(k)] for w < 1: (w^2 e^(1 - w^2))^(k/2)."""
    from flint import arb

    square = arb(w) ** 2
    bound: arb = (half_k * (1 + square.log() - square)).exp()
    return bound


def _window(scale: float, k: int, epsilon: float, excess: float, log_target: float) -> tuple[float, float]:
    """Ends of the certified integral. Any ends give a bound; these make it tight."""

    def log_chernoff(w: float) -> float:
        return k / 2 * (1 + 2 * math.log(w) - w * w)

    def log_below(w: float) -> float:
        value = gaussian_delta(scale * (w + excess), epsilon)
        return log_chernoff(w) + (math.log(value) if value > 0 else -math.inf)

    floor = log_target - _TAIL_NATS
    low, high = (_bisect(log_below, -80.0, 0.0, floor), _bisect(lambda w: -log_chernoff(w), 0.0, _WIDEST_LOG, -floor))
    return math.exp(low[0]), math.exp(high[1])


def _bisect(function: Callable[[float], float], left: float, right: float, level: float) -> tuple[float, float]:
    """The logarithms of two points between which an increasing function of w crosses a level."""
    for _ in range(30):
        middle = (left + right) / 2
        if function(math.exp(middle)) < level:
            left = middle
        else:
            right = middle
    return left, right


@lru_cache(maxsize=256)
def chi_reach_upper(k: int, slack: float) -> float:
    """A w with P[chi-square_k > k w^2] <= slack proved, within 1e-12 of the least [J3]."""
    from flint import arb
    from scipy.special import gammainccinv

    start = math.sqrt(2 * float(gammainccinv(k / 2, slack)) / k)
    if not 0 < start < math.inf:  # Outside the range of the inverse: use the Laurent-Massart bound.
        log_odds = -math.log(slack)
        start = math.sqrt(1 + 2 * math.sqrt(log_odds / k) + 2 * log_odds / k)

    def surplus(w: float) -> arb:
        return arb(slack) - (k * arb(w) ** 2 / 2).gamma_upper(arb(k) / 2, regularized=1)

    reach = find_safe(start, start, lambda w: is_proved_nonnegative(lambda: surplus(w)))
    if reach is None:
        raise UsageError(f"slack={slack} at k={k} is outside the supported range. Use a larger slack.")
    return reach


@lru_cache(maxsize=256)
def _best_slack(privacy: ProjectionPrivacy) -> float:
    """The slack whose pair has the least epsilon at the stated delta; any choice is valid [J3]."""
    from scipy.special import gammainccinv

    k, delta = privacy.k, privacy.stated_delta
    shares = np.exp(np.linspace(math.log(1e-4), math.log(0.9), 60))
    reach = np.sqrt(2 * gammainccinv(k / 2, shares * delta) / k)
    cost = [
        _epsilon_estimate(privacy.scale * (float(w) + privacy.excess), delta * (1 - float(share)))
        for w, share in zip(reach, shares, strict=True)
    ]
    return float(shares[int(np.argmin(cost))]) * delta


def _rounded_inverse(evaluate: Callable[[], arb]) -> float:
    """The greatest double proved to be at most 1 / evaluate()."""
    for ball in enclose_ever_tighter(lambda: -1 / evaluate()):
        if ball.rel_accuracy_bits() >= 64:
            break
    return -round_ball_up(ball)


def _gauss_noise(epsilon: arb, log_odds: arb) -> arb:
    """std / sensitivity of an (epsilon, delta) release, log_odds = log(1/(2 delta)) > 0 [J5]."""
    return (2 * (log_odds + epsilon)).sqrt() / epsilon


def _tail_noise(epsilon: float, delta: float, k: int, excess: float) -> arb:
    """1 / scale of theorem 1: half of delta for the length of the shift, half for the noise [J5]."""
    from flint import arb

    tail = (2 / arb(delta)).log()
    reach = (1 + 2 * (tail / k).sqrt() + 2 * tail / k).sqrt()
    return (reach + arb(excess)) * _gauss_noise(arb(epsilon), (1 / arb(delta)).log())


def _composition_noise(epsilon: float, delta: float, k: int, excess: float) -> arb:
    """1 / scale of theorem 2: k columns of delta/(2k) each, half of that for the shift [J5]."""
    from flint import arb

    linear = (2 * k * (2 / arb(delta)).log()).sqrt()
    each = ((linear**2 + 8 * k * arb(epsilon)).sqrt() - linear) / (4 * k)
    reach = (2 * (4 * k / arb(delta)).log() / k).sqrt() + arb(excess) / arb(k).sqrt()
    return reach * _gauss_noise(each, (2 * k / arb(delta)).log())
