"""Joint confidence regions of a release, from the law of its noise: ellipsoids, or boxes where noise comes in blocks.

docs/proofs/norms.md: [B5], [K4]. They cover the privacy noise, that of counts to first order [U6]; what clipping may
hide is not in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import Floats, open_unit, vector
from ..noise.block_law import BoxLaw
from ..util.structural_equality import Alike
from .noise_covariance import Noise

_ROUNDING = 1e-9  # relative, where there is no noise


@dataclass(frozen=True)
class ConfidenceEllipsoid(Alike):
    """All points that the published value's noise could explain at a level: {x : (x-v)^T V^-1 (x-v) <= q}."""

    value: Floats
    noise: Noise
    squared_radius: float
    level: float

    def contains(self, point: Any) -> bool:
        """Whether a point lies in the region; a direction without noise must match the value."""
        offset = vector("point", point, self.value.size) - self.value
        ellipsoid = self.noise.ellipsoid
        rest = self.noise.without_shared(offset)[1]
        bare = self.noise.straight_stds == 0 if ellipsoid.axes is None else ellipsoid.scale == 0
        if (np.abs(ellipsoid.along(rest)[bare]) > _ROUNDING * (1 + np.abs(self.value).max())).any():
            return False
        return self.noise.squared_length(offset) <= self.squared_radius


@dataclass(frozen=True)
class ConfidenceBox(Alike):
    """All points within `half` of the published value in every column at once, at a level."""

    value: Floats
    half: Floats
    level: float

    def contains(self, point: Any) -> bool:
        """Whether a point lies in the region; a column without noise must match the value."""
        offset = vector("point", point, self.value.size) - self.value
        return bool((np.abs(offset) <= self.half + _ROUNDING * (1 + np.abs(self.value)) * (self.half == 0)).all())


def confidence_ellipsoid(value: Floats, noise: Noise, plan: Any, level: float) -> ConfidenceEllipsoid:
    """[B5] The ellipsoid of Gaussian or spherical noise."""
    quantile = plan.noise_law.squared_radius(noise.rank or 1, open_unit("level", level))
    return ConfidenceEllipsoid(value, noise, quantile, level)


def confidence_region(value: Floats, noise: Noise, plan: Any, level: float) -> ConfidenceEllipsoid | ConfidenceBox:
    """The region that the law of the noise calls for."""
    if not isinstance(plan.noise_law, BoxLaw):
        return confidence_ellipsoid(value, noise, plan, level)
    return ConfidenceBox(value, _half_widths(noise, plan, open_unit("level", level)), level)


def _half_widths(noise: Noise, plan: Any, level: float) -> Floats:
    """[K4] Every noisy coordinate that the value is made of within its own bounds at once, hence their sums."""
    width, counted = plan.ellipsoid.width, plan.riders.absences.size
    absences, count = slice(width, width + counted), plan.stds.size - 1
    rows_left_out = plan.riders.missing == "row" and noise.count_direction is not None
    wanted = np.zeros(plan.stds.size, bool)
    wanted[:width] = True
    wanted[absences] = noise.own is not None or rows_left_out
    wanted[count] |= noise.count_direction is not None and plan.count_units > 0
    joint = plan.noise_law.joint_multiples(wanted, level)
    half: Floats = noise.sums_stds * joint[:width]
    if noise.own is not None:
        half = half + noise.own * joint[absences]
    if noise.count_direction is not None:  # of the number of rows, of those left out, or of both: Cauchy-Schwarz
        behind = np.concatenate([joint[absences] if rows_left_out else [], joint[count:] if plan.count_units else []])
        half = half + np.abs(noise.count_direction) * float(np.linalg.norm(behind))
    return half
