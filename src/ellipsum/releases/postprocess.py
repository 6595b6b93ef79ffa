"""Denoising of releases: post-processing, at no privacy cost (docs/proofs/postprocess.md).

It is off by default. Each method reduces variance and adds bias towards the center. The noise std of a denoised
release is that of the raw release.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..errors import Floats, UsageError, choice, floats, positive, vector
from ..numerics.roots import root
from ..request.request import SUMS
from ..rows import Normal, Rows
from .decode import Counts, Noise, in_doubt
from .numbers import VectorNumbers

_LEAST_GROUPS = 4  # The fewest groups for which shrinkage towards an estimated mean reduces the error.


@dataclass(frozen=True)
class RawEstimate:
    """A release before denoising. raw_value: the value before it is clamped to what is possible."""

    plan: VectorNumbers
    value: Floats
    raw_value: Floats
    noise: Noise
    counts: Counts | None
    row_count: float | None

    @property
    def target(self) -> Floats:
        """The target of shrinkage: the plan's center; for a sum, times the (public or noisy) count of each column."""
        center: Floats = self.plan.ellipsoid.center
        if self.plan.statistic not in SUMS or self.counts is None:
            return center
        return np.asarray(center * self.counts.rows)


def denoise(raw: RawEstimate, method: str, **options: Any) -> Floats:
    """Denoise the value of a release by "james_stein", "soft_threshold", "wiener" or "clamp"."""
    choice("method", method, METHODS)
    if np.isnan(raw.value).any():
        raise UsageError("A column whose bounds were not found has no value to denoise. Leave it out.")
    try:
        return _METHODS[method](raw, **options)
    except TypeError:
        raise UsageError(f"method={method!r} has no option {', '.join(options)}.") from None


def james_stein(raw: RawEstimate) -> Floats:
    """[O1] Positive-part shrinkage towards the center; an error if it could increase the error.

    t + (1 - (p - 2) / Q)_+ (v - t),  Q = (v - t)^T V^-1 (v - t),  p = tr V / lambda_max(V) > 2.

    References: Bock 1975, Theorem 2 (minimax for unequal variances).
    """
    # The offset from the center has only the noise of the sums. The noise of counts is in the target or in factors.
    noise, target = replace(raw.noise, count_direction=None, own=None), raw.target
    counts = raw.counts
    if raw.plan.statistic == "mean" and counts is not None and in_doubt(counts.rows, counts.stds).any():
        raise UsageError(
            "method='james_stein' needs counts of rows well above their noise, and some of these are not. "
            "Use method='soft_threshold'."
        )
    effective = effective_dimension(noise)
    if effective <= 2:
        raise UsageError(
            f"method='james_stein' needs noise in more than two columns of similar size: tr V / (largest eigenvalue) "
            f"must exceed 2, got {effective:.3g}. Use method='soft_threshold'."
        )
    offset = raw.raw_value - target
    square = noise.squared_length(offset)
    shrink = max(0.0, 1 - (effective - 2) / square) if square > 0 else 0.0
    return target + shrink * offset


def effective_dimension(noise: Noise) -> float:
    """tr V / lambda_max(V), or less if columns of a rotated region have counts of their own."""
    straight = noise.ellipsoid.axes is None
    lengths = noise.sums_stds if straight else noise.ellipsoid.unscale * noise.std
    largest = float(np.max(lengths)) ** 2
    return noise.total / largest if largest > 0 else 0.0


def soft_threshold(raw: RawEstimate, threshold: float | None = None) -> Floats:
    """[O2] Shift every coordinate towards the center by `threshold` noise stds; nearer ones are set to the center.

    The default sqrt(2 ln d) is the universal threshold. It suits data with most columns at their center.

    References: Donoho & Johnstone 1994; Balle & Wang 2018, section 4.
    """
    target, d = raw.target, raw.value.size
    stds = math.sqrt(2 * math.log(d)) if threshold is None else positive("threshold", threshold)
    offset = raw.raw_value - target
    return np.asarray(target + np.sign(offset) * np.maximum(np.abs(offset) - stds * raw.noise.stds, 0.0))


def clamp(raw: RawEstimate, lower: ArrayLike | None = None, upper: ArrayLike | None = None) -> Floats:
    """[O3] Clamp each coordinate to public bounds: the given ones, or those of Box and Ball rows."""
    d = raw.value.size
    if lower is None and upper is None:
        return np.clip(raw.value, *_known_bounds(raw.plan))
    low, high = _bound("lower", lower, -math.inf, d), _bound("upper", upper, math.inf, d)
    if (low > high).any():
        raise UsageError("lower must be <= upper in every column.")
    return np.clip(raw.value, low, high)


def _known_bounds(plan: VectorNumbers) -> tuple[Floats, Floats]:
    rows: Rows | None = plan.rows
    if rows is None:
        raise UsageError("method='clamp' needs bounds, and nothing bounds these rows. Pass lower= and upper=.")
    low, high = rows.bounds()
    if plan.statistic == "mean":
        return low, high
    if plan.neighbors != "replace" or plan.n is None:
        raise UsageError("A sum of a private number of rows has no known bounds. Pass lower= and upper=.")
    return low * plan.n, high * plan.n


def _bound(name: str, value: ArrayLike | None, default: float, d: int) -> Floats:
    if value is None:
        return np.full(d, default)
    bounds = floats(name, value)
    if bounds.ndim:
        return vector(name, bounds, d)
    if np.isnan(bounds):
        raise UsageError(f"{name} must be a number, or one per column.")
    return np.full(d, float(bounds))


def wiener(raw: RawEstimate) -> Floats:
    """[O4] The linear filter with the smallest expected error for Normal rows."""
    plan = raw.plan
    if not isinstance(plan.rows, Normal):
        raise UsageError("method='wiener' needs bounds=Normal(...): it uses the distribution of the rows.")
    from ..regions.normal_shape import wiener_gains

    count = plan.n if raw.row_count is None else raw.row_count
    gains = wiener_gains(plan.rows, plan.ellipsoid, plan.scaled_std, count)
    target, axes = raw.target, plan.ellipsoid.axes
    offset = raw.raw_value - target
    if axes is None:
        return target + gains * offset
    return target + axes @ (gains * (axes.T @ offset))


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
    """[G7] Shrink group means towards their weighted mean, column by column.

    The variance between groups is the part of their spread that noise does not explain. Each mean keeps the ratio of
    this variance to the sum of it and the noise variance.
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
    """The variance between groups for which the sum of weighted squared distances is the number of groups minus 1."""

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
