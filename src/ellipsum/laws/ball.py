"""The law of one coordinate and of the length of spherical noise exp(-|eta|), in units of its scale [B4]."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from ..errors import Floats, open_unit, whole
from ..roots import root

_NODES, _DROP = 400, 45.0


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
    return root(lambda x: math.log(max(ball_sf(x, d), 1e-320) / p), 0.0, most, 1e-13 * most)


def ball_length_sf(x: float, d: int) -> float:
    """P[length > x]: the length has the law Gamma(d)."""
    from scipy.special import gammaincc

    return float(gammaincc(whole("d", d), max(x, 0.0)))


def ball_length_isf(p: float, d: int) -> float:
    """The radius that the noise exceeds with probability p: a confidence region."""
    from scipy.special import gammainccinv

    return float(gammainccinv(whole("d", d), open_unit("p", p)))
