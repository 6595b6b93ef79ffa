"""Ellipsoid and radius for rows that are roughly normal: by closed form, by quantile, by least total error.

Everything works along the axes: row offsets have independent coordinates of standard deviation stds_j > 0. A
scale b is normalized so that E‖b x‖^2 = 1; the clip region is ‖b x‖ <= radius.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats, UsageError, choice, open_unit, positive
from ..numerics.clipped_normal import Offsets, error_and_slope, removal
from ..numerics.roots import root
from ..numerics.weighted_chisquare import WeightedChiSquare
from .ellipsoid import THIN, Clip, Ellipsoid, balanced_scale, length

GROUPED = 256  # above this many coordinates, those of nearly equal spread are optimized together
GROUPS_PER_OCTAVE = 48
_FARTHEST = 20.0  # in log weight, from the closed form
_SETTLED = 1e-9  # of the error, in the last step of a search
_MOST_STEPS, _KEPT = 200, 20  # of the search, and how many the second derivative is estimated from
_WIDEST_RADIUS = 1e30
_FARTHEST_FACTOR = 200.0  # in log weight
ASSUMED_ROWS = 10_000  # where the caller has no guess of n


class NormalLaw(Protocol):
    """The given parameters of normal rows, one number for every coordinate."""

    @property
    def center(self) -> Any: ...
    @property
    def center_error(self) -> Any: ...
    @property
    def along_axes(self) -> tuple[Floats, Floats | None]:
        """Stds along the axes, and the axes; None where they are the coordinates themselves."""


@dataclass(frozen=True)
class NormalShape:
    """A clip region for normal rows and the squared error of a sum that it is expected to give."""

    scale: Floats
    """b with E‖b x‖^2 = 1."""
    radius: float
    noise_error: float
    clipping_error: float
    clip_probability: float

    @property
    def error(self) -> float:
        return self.noise_error + self.clipping_error


def closed_form_scale(stds: Floats, importance: Floats | None = None) -> Floats:
    """[E10] Least sum w_j / b_j^2 with E‖b x‖^2 = 1: b_j^2 = sqrt(w_j) / (s_j sum_i s_i sqrt(w_i))."""
    largest = float(stds.max())
    return balanced_scale(stds / largest, importance) / largest


def ball_scale(stds: Floats) -> Floats:
    """The same scale for every coordinate, with E‖b x‖^2 = 1."""
    largest = float(stds.max())
    return np.full(stds.shape, 1.0 / (largest * float(np.linalg.norm(stds / largest))))


def quantile_radius(stds: Floats, scale: Floats, p: float) -> float:
    """[E11] The radius that clips a row with probability p."""
    return math.sqrt(WeightedChiSquare((scale * stds) ** 2).isf(open_unit("clip_probability", p)))


def quantile_optimal_scale(stds: Floats, p: float, importance: Floats | None = None) -> Floats:
    """[E12] Least noise sum w_j / b_j^2 among the regions that clip with probability p."""
    share = open_unit("clip_probability", p)
    relative = stds / float(stds.max())
    start = (closed_form_scale(relative, importance) * relative) ** 2
    square = relative**2 if importance is None else importance * relative**2
    square = square / float(np.sum(square / start))

    def slope(weights: Floats) -> tuple[float, Floats, Floats]:
        law = WeightedChiSquare(weights)
        quantile = law.isf(share)
        noise = square / weights
        total = float(noise.sum())
        gradient = weights * law.conditional_moments(quantile) / quantile - noise / total
        return math.log(quantile) + math.log(total), gradient, noise / total

    weights = _descend(start, slope)
    return np.sqrt(weights / float(weights.sum())) / stds


def normal_shape(
    stds: Floats,
    scale: Floats,
    radius: float,
    n: int,
    noise_multiplier: float,
    center_error: float | Floats = 0.1,
    pull: float = 1.0,
) -> NormalShape:
    """[E13] A given region with its forecast for the sum of n rows.

    noise_multiplier is the noise std in the scaled space over the radius: 2/mu under "replace".
    pull: clipped rows are brought to this share of the radius [E16].
    """
    offsets = Offsets.about(stds, np.broadcast_to(np.asarray(center_error, float), stds.shape))
    weights = (scale / radius * offsets.stds) ** 2
    noise = (noise_multiplier * radius) ** 2 * float(np.sum(scale**-2.0))
    clipping = removal(offsets, weights).pulled(offsets, pull).error(offsets, float(n))
    return NormalShape(scale, radius, noise, clipping, WeightedChiSquare(weights).sf(1.0))


def optimal_radius(
    stds: Floats, scale: Floats, n: int, noise_multiplier: float, center_error: float | Floats = 0.1
) -> float:
    """[E13] The radius of least total error for a given scale."""
    offsets = Offsets.about(stds, np.broadcast_to(np.asarray(center_error, float), stds.shape))
    start = (scale * offsets.stds) ** 2
    groups, member = _grouped(offsets)
    weights = _group_means(start, member, groups.counts)
    best = _settle_scale(groups, weights, float(n), noise_multiplier, 1e-8)
    return math.sqrt(1.0 / best)


def optimal_shape(
    stds: Floats,
    n: int,
    noise_multiplier: float,
    center_error: float | Floats = 0.1,
    importance: Floats | None = None,
    pull: float = 1.0,
) -> NormalShape:
    """[E15] Scale and radius of least total error of the sum of n rows, noise and clipping together.

    For a mean divide both errors by n^2; the region is the same. The search may take coordinates together; the errors
    that are stated are those of every one in the region that was found.
    """
    errors = np.broadcast_to(np.asarray(center_error, float), stds.shape)
    offsets = Offsets.about(stds, errors, importance)
    groups, member = _grouped(offsets)
    start = groups.stds * np.sqrt(groups.importance)
    start = start / float(groups.counts @ start)
    start = start * _settle_scale(groups, start, float(n), noise_multiplier, 0.1)

    def slope(weights: Floats) -> tuple[float, Floats, Floats]:
        total, gradient, noise = error_and_slope(groups, weights, float(n), noise_multiplier)
        return math.log(total), gradient / total, noise / total

    weights = _descend(start, slope)
    # within a group a_j is proportional to the spread, as it is to first order at the optimum
    each = weights[member] * (offsets.stds / groups.stds[member])
    folded = np.sqrt(each) / offsets.stds
    radius = 1.0 / float(np.linalg.norm(folded * stds))
    return normal_shape(stds, folded * radius, radius, n, noise_multiplier, errors, pull)


def _descend(start: Floats, slope: Callable[[Floats], tuple[float, Floats, Floats]]) -> Floats:
    """Least value over positive weights: quasi-Newton in log weights, scaled by each coordinate's noise.

    slope(weights) gives a log error, its derivative in each log weight, and the shares of the noise, which
    are half the diagonal of its second derivative where the rest is flat [E15].
    """
    from scipy.optimize import minimize

    shares = slope(start)[2]
    stretch = np.sqrt(2.0 * np.maximum(shares, 1e-12 * shares.max()))
    origin = np.log(start)

    def value(x: Floats) -> tuple[float, Floats]:
        height, gradient, _ = slope(np.exp(origin + x / stretch))
        return height, gradient / stretch

    # No weight moves by more than e^20: a trial step along a coordinate that hardly matters must not overflow.
    reach = _FARTHEST * stretch
    options = {"ftol": _SETTLED, "gtol": 0.0, "maxiter": _MOST_STEPS, "maxcor": _KEPT}
    bounds = np.stack([-reach, reach], axis=1)
    result = minimize(value, np.zeros(start.size), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(np.exp(origin + result.x / stretch))


def _settle_scale(offsets: Offsets, weights: Floats, n: float, noise_multiplier: float, tolerance: float) -> float:
    """The common factor on all weights of least total error: the zero of the slope along that ray."""

    @cache
    def slope(log_factor: float) -> float:
        total, gradient, _ = error_and_slope(offsets, weights * math.exp(log_factor), n, noise_multiplier)
        return float(gradient.sum()) / total

    here, step = 0.0, 1.0
    direction = -1.0 if slope(0.0) > 0 else 1.0
    while direction * slope(here + direction * step) < 0:
        here, step = here + direction * step, 1.5 * step
        if abs(here) + step > _FARTHEST_FACTOR:  # noise beyond all rows: the radius no longer matters
            return math.exp(here)
    low, high = sorted((here, here + direction * step))
    return math.exp(root(slope, low, high, tolerance))


def _grouped(offsets: Offsets) -> tuple[Offsets, NDArray[np.intp]]:
    """Coordinates of nearly equal spread, share and importance as one entry, and each coordinate's entry."""
    size = offsets.stds.size
    if size <= GROUPED:
        return offsets, np.arange(size)
    logs = np.log2(np.stack([offsets.stds, offsets.importance, 1.0 + offsets.shared]))
    span = float(np.ptp(logs, axis=1).sum())
    resolution = min(float(GROUPS_PER_OCTAVE), 4.0 * GROUPED / max(span, 1.0))
    keys = np.round(logs * resolution).astype(np.int64)
    keys -= keys.min(axis=1, keepdims=True)
    flat = (keys[0] * (keys[1].max() + 1) + keys[1]) * (keys[2].max() + 1) + keys[2]
    _, member, sizes = np.unique(flat, return_inverse=True, return_counts=True)
    counts = sizes.astype(np.float64)
    stds, importance = (np.exp2(_group_means(log, member, counts)) for log in logs[:2])
    return Offsets(stds, _group_means(offsets.shared, member, counts), importance, counts), member


def _group_means(values: Floats, member: NDArray[np.intp], counts: Floats) -> Floats:
    return np.asarray(np.bincount(member, weights=values, minlength=counts.size) / counts)


def lay_normal(
    rows: NormalLaw,
    shape: str,
    clip: str | float,
    clip_probability: float | None,
    importance: Floats | None,
    n: int | None,
    noise_multiplier: float,
    pull: float = 1.0,
) -> Clip:
    """The clip region for resolved Normal rows, along the principal axes; none where there is no spread."""
    choice("shape", shape, ("optimal", "closed_form", "ball"))
    stds, axes = rows.along_axes
    largest = float(stds.max())
    live = stds > THIN * largest
    relative, errors = stds[live] / largest, np.asarray(rows.center_error, float)[live]
    weights = None if importance is None else _importance(importance, axes)[live]
    count = ASSUMED_ROWS if n is None else n
    region_shape = _choose(relative, shape, clip, clip_probability, weights, count, noise_multiplier, errors, pull)
    scale = np.zeros_like(stds)
    scale[live] = region_shape.scale / region_shape.radius / largest
    return Clip(
        Ellipsoid(np.asarray(rows.center, float), scale, axes),
        region_shape.radius,
        region_shape.clipping_error * largest * largest,
        length(normal_distances(rows, n)),
        pull,
    )


def forecast_of(rows: NormalLaw, scale: Floats, n: int | None, pull: float = 1.0) -> Clip | None:
    """What clipping these rows with a given scale along their axes costs; None where it does not fit them."""
    stds, axes = rows.along_axes
    largest = float(stds.max())
    live = stds > THIN * largest
    if not np.array_equal(scale > 0, live):
        return None
    relative, folded = stds[live] / largest, scale[live] * largest
    radius = 1.0 / float(np.linalg.norm(folded * relative))
    errors = np.asarray(rows.center_error, float)[live]
    region_shape = normal_shape(relative, folded * radius, radius, ASSUMED_ROWS if n is None else n, 0.0, errors, pull)
    region = Ellipsoid(np.asarray(rows.center, float), scale, axes)
    return Clip(
        region, radius, region_shape.clipping_error * largest * largest, length(normal_distances(rows, n)), pull
    )


def normal_distances(rows: NormalLaw, n: int | None) -> Floats:
    """How far the mean of n rows is from the stated center in each column: the center's error, and sampling [U2]."""
    stds, axes = rows.along_axes
    largest = float(stds.max())
    count = ASSUMED_ROWS if n is None else n
    along = stds / largest * np.sqrt(np.asarray(rows.center_error, float) ** 2 + 1.0 / count)
    return largest * (along if axes is None else np.sqrt(axes**2 @ along**2))


def _importance(importance: Floats, axes: Floats | None) -> Floats:
    """Weights of the axes: sum_i w_i v_ij^2, exact for the noise since it is independent along the axes."""
    relative = importance / float(importance.max())
    return relative if axes is None else np.asarray((axes**2).T @ relative)


def _choose(
    stds: Floats,
    shape: str,
    clip: str | float,
    clip_probability: float | None,
    importance: Floats | None,
    n: int,
    noise_multiplier: float,
    center_error: Floats,
    pull: float,
) -> NormalShape:
    chosen = None if isinstance(clip, str) else _clip_radius(clip)
    rule = "radius" if chosen is not None else choice("clip", clip, ("optimal", "quantile"))
    if clip_probability is not None and rule != "quantile":
        raise UsageError("clip_probability requires clip='quantile'. Leave it out, or pass clip='quantile'.")
    if rule == "optimal" and shape == "optimal":
        return optimal_shape(stds, n, noise_multiplier, center_error, importance, pull)
    share = min(0.5, 1.0 / n) if clip_probability is None else open_unit("clip_probability", clip_probability)
    if shape == "optimal":
        scale = quantile_optimal_scale(stds, share, importance)
    else:
        scale = closed_form_scale(stds, importance) if shape == "closed_form" else ball_scale(stds)
    if chosen is not None:
        radius = chosen
    elif rule == "optimal":
        radius = optimal_radius(stds, scale, n, noise_multiplier, center_error)
    else:
        radius = quantile_radius(stds, scale, share)
    return normal_shape(stds, scale, radius, n, noise_multiplier, center_error, pull)


def _clip_radius(clip: Any) -> float:
    radius = positive("clip", clip)
    if not 1 / _WIDEST_RADIUS <= radius <= _WIDEST_RADIUS:
        raise UsageError(
            f"clip must be a radius between 1e-30 and 1e30, got {radius}: scaled rows have a norm of about 1."
        )
    return radius


def wiener_gains(rows: NormalLaw, ellipsoid: Ellipsoid, scaled_std: float, count: float | None) -> Floats:
    """[O4] Per axis, the gain of the linear filter of least expected error for a planned release.

    E[X T]/E[T^2] for the sum X of true offsets and the released T; all moments exact except [E14]. count is the
    number of rows as far as it is known.
    """
    stds, _ = rows.along_axes
    live = ellipsoid.scale > 0
    offsets = Offsets.about(stds[live], np.asarray(rows.center_error, float)[live])
    scale = ellipsoid.scale[live]
    removed = removal(offsets, (scale * offsets.stds) ** 2)
    n = float(ASSUMED_ROWS) if count is None else max(1.0, float(count))
    pairs = (n - 1.0) * offsets.shared
    joint = (1.0 + pairs) * (1.0 - removed.first)
    square = (
        1.0 - 2.0 * removed.first + removed.second + pairs * (1.0 - 2.0 * removed.first) + (n - 1.0) * removed.common
    )
    noise = (scaled_std / (scale * offsets.stds)) ** 2 / n
    gains = np.zeros(ellipsoid.width)
    gains[live] = joint / (square + noise)
    return gains
