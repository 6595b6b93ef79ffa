"""Free clean-up of a release: post-processing costs no privacy, and adds none (docs/proofs/postprocess.md).

Off by default. Each method trades variance for bias about the center; the noise std of a denoised release
is that of the raw one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from ..errors import (
    Floats,
    UsageError,
    choice,
    floats,
    positive,
    vector,
)
from ..numerics.roots import root
from .noise_covariance import Noise, in_doubt

_LEAST_GROUPS = 4  # James-Stein shrinkage towards a mean that is estimated helps from here on


class Cleanable(Protocol):
    """What the clean-up reads of a release."""

    @property
    def value(self) -> Floats: ...
    @property
    def noise(self) -> Noise: ...
    @property
    def noise_std(self) -> Floats: ...
    @property
    def statistic(self) -> str: ...
    @property
    def row_count(self) -> float | None: ...
    @property
    def counts(self) -> Any: ...
    @property
    def denoised(self) -> str | None: ...
    @property
    def learned(self) -> Any: ...
    @property
    def plan(self) -> Any: ...


def denoised(release: Cleanable, method: str, **options: Any) -> Floats:
    """The value of a release, cleaned by "james_stein", "soft_threshold", "wiener" or "clamp"."""
    choice("method", method, METHODS)
    if release.denoised is not None:
        raise UsageError(f"this release was denoised already, by {release.denoised}. Start from the raw release.")
    if np.isnan(release.value).any():
        raise UsageError("a column that was not found has no value to clean. Leave it out.")
    try:
        return _METHODS[method](release, **options)
    except TypeError:
        raise UsageError(f"{method} does not take {', '.join(options)}.") from None


def target(release: Cleanable) -> Floats:
    """Where shrinkage pulls to: the plan's center, times the (public or noisy) count of each column for a sum."""
    center: Floats = release.plan.ellipsoid.center
    if release.statistic == "mean":
        return center
    if release.counts is not None:
        return np.asarray(center * release.counts.rows)
    count = release.row_count if release.row_count is not None else release.plan.n
    return center * float(count or 0)


def james_stein(release: Cleanable) -> Floats:
    """[O1] Positive-part shrinkage towards the center, refused where it could raise the error.

    t + (1 - (p - 2) / Q)_+ (v - t),  Q = (v - t)^T V^-1 (v - t),  p = tr V / lambda_max(V) > 2.

    References: Bock 1975, Theorem 2 (minimax for unequal variances).
    """
    # The offset from the center carries the sums' noise alone: the counts' is in the target, or in factors.
    noise, pull = replace(release.noise, count_direction=None, own=None), target(release)
    if release.statistic == "mean" and _in_doubt(release.counts):
        raise UsageError(
            "james_stein needs counts of rows that are well above their noise, and not all of these are. "
            "Use soft_threshold or nothing."
        )
    effective = effective_dimension(noise)
    if effective <= 2:
        raise UsageError(
            "james_stein needs noise spread over more than two columns' worth "
            f"(tr V / largest eigenvalue = {effective:.3g}, must exceed 2). Use soft_threshold or nothing."
        )
    offset = release.value - pull
    square = noise.squared_length(offset)
    shrink = max(0.0, 1 - (effective - 2) / square) if square > 0 else 0.0
    return pull + shrink * offset


def _in_doubt(counts: Any) -> bool:
    """Whether a column may have been held to its region [U3], so that its noise is no Gaussian."""
    return counts is not None and bool(in_doubt(counts.rows, counts.stds).any())


def effective_dimension(noise: Noise) -> float:
    """tr V / lambda_max(V), or less where columns of a rotated region have counts of their own."""
    straight = noise.ellipsoid.axes is None
    lengths = noise.sums_stds if straight else noise.ellipsoid.unscale * noise.std
    largest = float(np.max(lengths)) ** 2
    return noise.total / largest if largest > 0 else 0.0


def soft_threshold(release: Cleanable, threshold: float | None = None) -> Floats:
    """[O2] Pull every coordinate towards the center by `threshold` noise stds, and to it if it is nearer.

    The default sqrt(2 ln d) is the universal threshold: good where most columns sit at their center.

    References: Donoho & Johnstone 1994; Balle & Wang 2018, section 4.
    """
    pull, d = target(release), release.value.size
    stds = math.sqrt(2 * math.log(d)) if threshold is None else positive("threshold", threshold)
    offset = release.value - pull
    return np.asarray(pull + np.sign(offset) * np.maximum(np.abs(offset) - stds * release.noise_std, 0.0))


def clamp(release: Cleanable, lower: Any = None, upper: Any = None) -> Floats:
    """[O3] Move each coordinate into public bounds: the given ones, or those of Box and Ball rows."""
    d = release.value.size
    if lower is None and upper is None:
        low, high = _stated_bounds(release)
    else:
        low, high = _bound("lower", lower, -math.inf, d), _bound("upper", upper, math.inf, d)
        if (low > high).any():
            raise UsageError("lower must be <= upper in every column.")
    return np.clip(release.value, low, high)


def _stated_bounds(release: Cleanable) -> tuple[Floats, Floats]:
    low: Floats
    high: Floats
    low, high = release.plan.rows.bounds()
    if release.statistic == "mean":
        return low, high
    if release.plan.neighbors != "replace" or release.plan.n is None:
        raise UsageError("a sum of an unknown number of rows has no stated bounds. State lower= and upper=.")
    return low * release.plan.n, high * release.plan.n


def _bound(name: str, value: Any, default: float, d: int) -> Floats:
    if value is None:
        return np.full(d, default)
    bounds = floats(name, value)
    if bounds.ndim:
        return vector(name, bounds, d)
    if np.isnan(bounds):
        raise UsageError(f"{name} must be a number, or one per column.")
    return np.full(d, float(bounds))


def wiener(release: Cleanable) -> Floats:
    """[O4] The linear filter of least expected error when the law of the rows is stated (Normal rows)."""
    if release.plan.rows.kind != "normal" or release.learned is not None:
        raise UsageError("wiener needs the law of the rows as the caller stated it: it is for Normal rows.")
    from ..regions.normal_shape import wiener_gains

    plan = release.plan
    count = plan.n if release.row_count is None else release.row_count
    gains = wiener_gains(plan.rows, plan.ellipsoid, plan.scaled_std, count)
    pull = target(release)
    axes: Floats | None = plan.ellipsoid.axes
    offset = release.value - pull
    if axes is None:
        return pull + gains * offset
    return pull + axes @ (gains * (axes.T @ offset))


_METHODS: dict[str, Callable[..., Floats]] = {
    "james_stein": james_stein,
    "soft_threshold": soft_threshold,
    "wiener": wiener,
    "clamp": clamp,
}

METHODS = tuple(_METHODS)
OPTIONS = ("threshold", "lower", "upper")


# Groups -------------------------------------------------------------------------------------------------


def shrink_means(value: Floats, stds: Floats) -> Floats:
    """[G7] Group means pulled towards their weighted mean, column by column, by what noise alone explains.

    The spread between groups is what their distances exceed their noise by; each mean keeps the share of its own
    distance that this spread has in spread and noise together.
    """
    groups = len(value)
    if groups < _LEAST_GROUPS:
        return value.copy()
    out = value.copy()
    for j in range(value.shape[1]):
        squares = stds[:, j] ** 2
        if not (squares > 0).all():
            continue
        between = _between(value[:, j], squares)
        weights = 1 / (squares + between)
        middle = float(weights @ value[:, j] / weights.sum())
        share = (groups - 3) / (groups - 1) * squares / (squares + between)
        out[:, j] = value[:, j] + share * (middle - value[:, j])
    return out


def _between(value: Floats, squares: Floats) -> float:
    """The variance between groups for which their weighted squared distances are as many as groups less one."""

    def excess(between: float) -> float:
        weights = 1 / (squares + between)
        middle = weights @ value / weights.sum()
        return float(weights @ (value - middle) ** 2) - (len(value) - 1)

    if excess(0.0) <= 0:
        return 0.0
    most = float(np.var(value)) * len(value) + float(squares.max())
    while excess(most) > 0:
        most *= 4
    return root(excess, 0.0, most, 1e-10 * most)
