"""The ellipsoid of least error that holds what is known: docs/proofs/shapes.md.

An ellipsoid {c + e : ‖B e‖ <= 1} is the clip region; the noise of a release is a multiple of B^-1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import Floats, UsageError, choice, vector
from .rows import Ball, Box, Normal, Rows

# The largest scale a coordinate may get, relative to the others: directions thinner than this hold no
# noise budget, since their rounding on the grid would already exceed their spread.
THIN = 1e-150


@dataclass(frozen=True)
class Ellipsoid:
    """Centre and axes: y = scale * (axes^T (x - center)), axes None meaning the coordinates themselves.

    scale is 0 along directions without spread: rows are taken to lie at the centre there.
    """

    center: Floats
    scale: Floats
    axes: Floats | None = None

    def check(self) -> None:
        """An error unless centre, scale and axes fit together and are numbers that rows can be measured with."""
        center, scale, axes = self.center, self.scale, self.axes
        shaped = center.ndim == scale.ndim == 1 and 0 < scale.size <= center.size
        shaped &= scale.shape == center.shape if axes is None else axes.shape == (center.size, scale.size)
        finite = all(part is None or np.isfinite(part).all() for part in (center, scale, axes))
        if not (shaped and finite and (scale >= 0).all()):
            raise UsageError("the centre and scale are not a valid ellipsoid. Rescale the columns, or make it anew.")

    @property
    def width(self) -> int:
        return int(self.scale.size)

    @property
    def matrix(self) -> Floats | None:
        """B as a (k, d) matrix, or None when it is diagonal."""
        return None if self.axes is None else np.ascontiguousarray((self.axes * self.scale).T)

    @property
    def unscale(self) -> Floats:
        """1 / scale, and 0 where there is no spread."""
        with np.errstate(divide="ignore", over="ignore"):
            return np.where(self.scale > 0, 1 / self.scale, 0.0)

    @property
    def trace(self) -> float:
        """tr((B^T B)^-1): total squared noise per unit of noise in the scaled space."""
        with np.errstate(over="ignore", under="ignore"):
            return float(np.sum(self.unscale**2))

    def along(self, offset: Floats) -> Floats:
        """An offset's coordinates along the axes."""
        return offset if self.axes is None else self.axes.T @ offset

    def scaled(self, offset: Floats) -> Floats:
        """B e: from an offset to the scaled space."""
        return self.scale * self.along(offset)

    def restore(self, offsets: Floats) -> Floats:
        """B^-1 y: from the scaled space to an offset from the centre."""
        stretched = offsets * self.unscale
        return stretched if self.axes is None else self.axes @ stretched


@dataclass(frozen=True)
class Clip:
    """An ellipsoid with what clipping to it is expected to cost."""

    ellipsoid: Ellipsoid
    radius: float | None
    """Clip radius in the scaled space where E‖y‖^2 = 1 (Normal rows), else None."""
    clipping_error: float
    """E‖sum of clipped rows - sum of rows‖^2."""
    center_spread: float
    """What the mean's distance from the centre is taken to be: it weighs the count of an unknown n."""


def lay(
    rows: Rows,
    d: int,
    *,
    shape: str,
    clip: str | float,
    clip_probability: float | None,
    weights: Any,
    n: int | None,
    noise_multiplier: float,
) -> Clip:
    """The clip region for resolved rows; noise_multiplier is std / radius in the scaled space."""
    weights = _importances(rows, d, weights)
    if isinstance(rows, Normal):
        from .shape_normal import lay_normal

        return lay_normal(rows, shape, clip, clip_probability, weights, n, noise_multiplier)
    if not isinstance(clip, str) or clip != "optimal" or clip_probability is not None:
        raise UsageError("clip and clip_probability are for Normal rows. Leave them out.")
    if isinstance(rows, Ball):
        return _ball(rows, d, shape, weights)
    if isinstance(rows, Box):
        return _box(rows, shape, weights)
    raise UsageError(f"rows must be one of Ball, Box, Normal, Unknown, got {type(rows).__name__}.")


def _importances(rows: Rows, d: int, weights: Any) -> Floats | None:
    """Importance of each coordinate's squared error; "relative" counts errors in units of the stated spread."""
    if weights is None:
        return None
    if isinstance(weights, str):
        choice("weights", weights, ("relative",))
        return _relative(rows)
    given = vector("weights", weights, d)
    if (given <= 0).any():
        raise UsageError("weights must be > 0. Leave a column out to ignore it.")
    return given


def _relative(rows: Rows) -> Floats:
    if isinstance(rows, Box):
        spread = np.asarray(rows.upper, float) - np.asarray(rows.lower, float)
    elif isinstance(rows, Normal):
        spread = np.sqrt(np.diag(rows.cov)) if rows.cov is not None else np.asarray(rows.std, float)
    else:
        raise UsageError("weights='relative' needs a spread for each column. Use Box or Normal rows.")
    relative = spread / (float(spread.max()) or 1.0)
    return 1 / np.where(relative > THIN, relative, 1.0) ** 2


def _ball(rows: Ball, d: int, shape: str, weights: Floats | None) -> Clip:
    choice("shape", shape, ("optimal", "ball"))
    if weights is not None:
        raise UsageError("weights need per-coordinate knowledge. Use Box or Normal rows.")
    center = np.asarray(rows.center, float)
    return Clip(Ellipsoid(center, np.full(d, 1 / rows.radius)), None, 0.0, ball_distance(rows, d))


def ball_distance(rows: Ball, d: int) -> float:
    """A mean uniform in the ball is sqrt(d / (d + 2)) of the radius away, root mean square."""
    return rows.radius * float(np.sqrt(d / (d + 2)))


def box_distance(rows: Box) -> float:
    """How far a mean uniform in the box is from its middle, root mean square."""
    half = (np.asarray(rows.upper, float) - np.asarray(rows.lower, float)) / 2
    largest = float(half.max()) or 1.0
    return largest * float(np.sqrt(np.sum((half / largest) ** 2) / 3))


def _box(rows: Box, shape: str, weights: Floats | None) -> Clip:
    """[E2] Half-widths h_j: b_j^-2 proportional to h_j / sqrt(w_j), through the corners of the box."""
    choice("shape", shape, ("optimal", "ball"))
    lower, upper = np.asarray(rows.lower, float), np.asarray(rows.upper, float)
    half = (upper - lower) / 2
    center, spread = lower + half, box_distance(rows)
    if not half.any():
        return Clip(Ellipsoid(center, np.zeros_like(half)), None, 0.0, spread)
    largest = float(half.max())
    relative = half / largest
    if shape == "ball":
        if weights is not None:
            raise UsageError("weights do nothing with shape='ball'. Use shape='optimal'.")
        scale = np.where(relative > 0, 1 / float(np.sqrt(np.sum(relative**2))), 0.0)
    else:
        scale = balanced_scale(relative, weights)
    return Clip(Ellipsoid(center, scale / largest), None, 0.0, spread)


def balanced_scale(half: Floats, weights: Floats | None = None) -> Floats:
    """[E2] The diagonal b of least sum_j w_j / b_j^2 with sum_j (b_j h_j)^2 = 1; 0 where h_j is 0."""
    importance = np.ones_like(half) if weights is None else np.sqrt(weights / weights.max())
    total = float(np.sum(half * importance))
    with np.errstate(divide="ignore"):
        return np.where(half > THIN, np.sqrt(importance / (half * total)), 0.0)
