"""The Gaussian privacy curve: fast in double precision, and certified in ball arithmetic.

Every number that a guarantee rests on ends here in a comparison of true functions: python-flint's balls
enclose the exact value, and the comparison is made with a precision that decides it [P2].

Symbols: a, b = epsilon/mu -+ mu/2; Q the upper tail of the normal law, phi its density, M = Q/phi.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ..errors import Floats, UsageError, non_negative, open_unit, positive
from ..numerics.rounding import FLINT, enclose_ever_tighter, find_safe, is_proved_nonnegative, round_ball_up

if TYPE_CHECKING:
    from flint import arb

_LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)
_NEAR = 0.03  # below this mu, M(a) - M(b) is integrated rather than subtracted
_GAUSS_3 = ((0.0, 8 / 9), (math.sqrt(0.6), 5 / 9), (-math.sqrt(0.6), 5 / 9))
_SMALLEST = math.ulp(0.0)


@overload
def gaussian_delta(mu: float, epsilon: float) -> float: ...
@overload
def gaussian_delta(mu: Floats, epsilon: float | Floats) -> Floats: ...
@overload
def gaussian_delta(mu: float, epsilon: Floats) -> Floats: ...
def gaussian_delta(mu: float | Floats, epsilon: float | Floats) -> float | Floats:
    """delta(epsilon) of a Gaussian release of sensitivity/std = mu, numbers or arrays [P1].

    delta = Q(a) - e^epsilon Q(b) = phi(a) (M(a) - M(b)), to about 1e-12 relative for mu <= 100 and
    delta >= 1e-300. A good estimate; `gaussian_delta_upper` is the bound to rest a guarantee on.

    References: Balle & Wang 2018, Theorem 8.
    """
    m, e = np.broadcast_arrays(np.asarray(mu, np.float64), np.asarray(epsilon, np.float64))
    if not ((m >= 0) & (m < math.inf) & (e >= 0)).all():
        raise UsageError("mu must be >= 0 and finite, and epsilon >= 0. Check for NaN and negative values.")
    live = np.where(m > 0, m, 1.0)
    with np.errstate(over="ignore", under="ignore"):
        a = np.minimum(e / live - live / 2, 60.0)  # phi(60) is zero in double precision
        value = np.where(m > 0, np.exp(_log_delta(live, a)), 0.0)
    return float(value) if value.ndim == 0 else value


def _mills(x: Any) -> Any:
    from scipy.special import erfcx

    return math.sqrt(math.pi / 2) * erfcx(x * math.sqrt(0.5))


def _log_delta(mu: Any, a: Any) -> Any:
    """log(phi(a) (M(a) - M(a + mu))), without cancellation: M(a) - M(b) = integral of 1 - x M(x)."""
    from scipy.special import ndtr

    mu, a = np.asarray(mu), np.asarray(a)
    b = a + mu
    near, left = mu < _NEAR, a < -8.0
    gap = _mills(np.maximum(a, -8.0)) - _mills(b)
    if near.any():
        middle, half = a + mu / 2, mu / 2
        nodes = ((weight, middle + node * half) for node, weight in _GAUSS_3)
        small = half * sum(weight * (1 - x * _mills(x)) for weight, x in nodes)
        gap = np.where(near, small, gap)
    # The lower bound changes only values that `left` replaces, or rounding noise where phi(a) is zero.
    value = -0.5 * a * a - _LOG_ROOT_2PI + np.log(np.maximum(gap, _SMALLEST))
    if left.any():
        far = ndtr(-a) - np.exp(-0.5 * a * a - _LOG_ROOT_2PI) * _mills(b)
        value = np.where(left & ~near, np.log(np.maximum(far, _SMALLEST)), value)
    return value


def _mu_estimate(epsilon: float, delta: float) -> float:
    """The root mu of delta(mu) = delta: Newton's method in log mu, from the left.

    log delta is concave and increasing in log mu, and delta <= Q(a) puts the start left of the root, so
    the iteration climbs to it from any start [P3]. By balls, which certify it next: importing scipy takes longer than
    a small release.
    """
    a = _upper_quantile(delta)
    b = math.hypot(a, math.sqrt(2 * epsilon))
    mu = 2 * epsilon / (a + b) if a > 0 else b - a
    log_target = math.log(delta)
    for _ in range(100):
        if not 0 < mu < math.inf:
            break
        a = epsilon / mu - mu / 2
        log_delta = _log_delta_at(mu, epsilon)
        log_slope = math.log(mu) - 0.5 * a * a - _LOG_ROOT_2PI - log_delta
        step = (log_target - log_delta) * math.exp(-log_slope)
        mu *= math.exp(min(step, 600.0))
        if abs(step) < 1e-13:
            break
    return mu


def _upper_quantile(delta: float) -> float:
    """An approximation of the a with Q(a) = delta."""
    from flint import arb, ctx

    with FLINT, ctx.workprec(64):
        return float((arb(2).sqrt() * (2 * arb(delta)).erfcinv()).mid())


def _log_delta_at(mu: float, epsilon: float) -> float:
    """log delta(epsilon) of the curve mu, nearly; NaN if no precision distinguishes it from zero."""
    for ball in enclose_ever_tighter(lambda: _delta_ball(mu, epsilon)):
        if ball.rel_accuracy_bits() >= 64:
            break
    return float(ball.log().mid())


def _epsilon_estimate(mu: float, delta: float) -> float:
    """The root epsilon of delta(epsilon) = delta: Newton's method in a, from the right [P3]."""
    from scipy.special import ndtri

    a, log_target = -float(ndtri(delta)), math.log(delta)
    for _ in range(100):
        log_delta = float(_log_delta(mu, a))
        # minus the slope of log delta in a: mu M(b) phi(a) / delta
        log_slope = math.log(mu * float(_mills(a + mu))) - 0.5 * a * a - _LOG_ROOT_2PI - log_delta
        step = (log_delta - log_target) * math.exp(-log_slope)
        a += step
        if abs(step) < 1e-14 * (1 + abs(a)):
            break
    return mu * (a + mu / 2)


def _delta_ball(mu: float, epsilon: float) -> arb:
    from flint import arb

    ratio, half, root = arb(epsilon) / arb(mu), arb(mu) / 2, arb(2).sqrt()
    return (((ratio - half) / root).erfc() - arb(epsilon).exp() * ((ratio + half) / root).erfc()) / 2


def _delta_is_safe(mu: float, epsilon: float, delta: float) -> bool:
    from flint import arb

    return is_proved_nonnegative(lambda: arb(delta) - _delta_ball(mu, epsilon))


@lru_cache(maxsize=1024)
def certified_mu(epsilon: float, delta: float) -> float:
    """The largest mu with delta(epsilon) <= delta, rounded down and proved.

    Guarantee: the inequality holds for the exact curve at the returned double, hence for every smaller mu
    [P1][P2]. For epsilon in [1e-8, 1e4] and delta in [1e-300, 0.5] the result is within 1e-12 of the largest;
    elsewhere it is proved all the same (and may be looser), or the call is refused.
    """
    epsilon, delta = positive("epsilon", epsilon), open_unit("delta", delta)
    start = _mu_estimate(epsilon, delta)
    if 0 < start < math.inf:
        mu = find_safe(start, -start, lambda m: m > 0 and _delta_is_safe(m, epsilon, delta))
        if mu is not None:
            return mu
    raise UsageError(
        f"epsilon={epsilon}, delta={delta} is outside the supported range: epsilon in [1e-8, 1e4], "
        "delta in [1e-300, 0.5]."
    )


def gaussian_delta_upper(mu: float, epsilon: float) -> float:
    """delta(epsilon) of the curve mu, rounded up to a double and proved to be no less [P2]."""
    mu, epsilon = non_negative("mu", mu), non_negative("epsilon", epsilon)
    if mu == 0:
        return 0.0
    upper = 1.0
    for ball in enclose_ever_tighter(lambda: _delta_ball(mu, epsilon)):
        upper = min(upper, round_ball_up(ball))
        if ball.rel_accuracy_bits() >= 64 or upper <= _SMALLEST:
            break
    return upper


def gaussian_epsilon_upper(mu: float, delta: float) -> float:
    """The least epsilon with delta(epsilon) <= delta on the curve mu, rounded up and proved [P2].

    For mu in [1e-10, 200] and delta in [1e-300, 0.5] the excess is below 1e-12 (mu + mu^2 + epsilon).
    Infinite where no finite one exists (delta = 0 < mu) or none could be proved; 0 where mu = 0.
    """
    mu, delta = non_negative("mu", mu), non_negative("delta", delta)
    if mu == 0 or delta >= 1:
        return 0.0
    if delta == 0:
        return math.inf
    if _delta_is_safe(mu, 0.0, delta):
        return 0.0
    start = _epsilon_estimate(mu, delta)
    if not math.isfinite(start):
        return math.inf
    unit = mu * (1 + mu) + abs(start)
    epsilon = find_safe(max(start, 0.0), unit, lambda e: e < math.inf and _delta_is_safe(mu, e, delta))
    return math.inf if epsilon is None else epsilon


def laplace_mu(epsilon: float) -> float:
    """The Gaussian curve that covers any pure epsilon-DP step: mu >= -2 Phi^-1(1/(1 + e^epsilon)) [P6].

    Rounded up and proved: Q(mu/2) (1 + e^epsilon) <= 1 in ball arithmetic.
    """
    from flint import arb
    from scipy.special import erfinv, ndtri_exp

    epsilon = non_negative("epsilon", epsilon)
    if epsilon == 0:
        return 0.0
    if epsilon < 1:
        start = 2 * math.sqrt(2) * float(erfinv(math.tanh(epsilon / 2)))
    else:
        start = -2 * float(ndtri_exp(-epsilon - math.log1p(math.exp(-epsilon))))

    def margin(mu: float) -> arb:
        return 2 - (arb(mu) / arb(8).sqrt()).erfc() * (1 + arb(epsilon).exp())

    mu = find_safe(start, start, lambda m: is_proved_nonnegative(lambda: margin(m)))
    if mu is None:
        raise UsageError(f"epsilon must be at most 1e8, got {epsilon}.")
    return mu


@lru_cache(maxsize=256)
def normal_isf_upper(p: float) -> float:
    """A z with P[standard normal >= z] <= p proved, next to the least: what a private threshold rests on [G3]."""
    from flint import arb
    from scipy.special import ndtri

    p = open_unit("p", p)
    start = max(-float(ndtri(p)), 0.0)
    z = find_safe(
        start, start + 1, lambda x: is_proved_nonnegative(lambda: arb(p) - (arb(x) / arb(2).sqrt()).erfc() / 2)
    )
    if z is None:
        raise UsageError(f"p must be above 1e-300, got {p}.")
    return z
