"""The noise of a published vector: its covariance, and joint confidence regions.

Regions cover the privacy noise, with that of counts to first order [U6], but no clipping bias. Proofs: [B5], [K4].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import Floats, open_unit, vector
from ..noise.block_law import BlockLaw
from ..regions.ellipsoid import Ellipsoid
from ..util.structural_equality import ValueEquality
from .numbers import VectorNumbers

_FEW = 3.0  # In standard deviations of the count. A column with a smaller count is clamped to its region.


@dataclass(frozen=True)
class Noise(ValueEquality):
    """Noise of a vector: covariance std^2 S L L^T S + u u^T + diag(own^2), where L is the ellipsoid's inverse map.

    stretch: S, one number per column if columns are divided by different counts. count_direction: u, the effect of
    the noise of a count that all columns share. own: stds due to the columns' own counts.
    """

    ellipsoid: Ellipsoid
    std: float
    count_direction: Floats | None = None
    stretch: Floats | None = None
    own: Floats | None = None

    @property
    def sums_stds(self) -> Floats:
        """Stds of the noise of the sums, without that of counts."""
        stds = self.ellipsoid.reach * self.std
        return stds if self.stretch is None else stds * self.stretch

    @property
    def stds(self) -> Floats:
        stds = self.sums_stds
        for part in (self.count_direction, self.own):
            stds = stds if part is None else np.hypot(stds, part)
        return stds

    @property
    def covariance(self) -> Floats:
        """The full d x d matrix."""
        axes, lengths = self.ellipsoid.axes, (self.ellipsoid.unscale * self.std) ** 2
        matrix = np.diag(lengths) if axes is None else (axes * lengths) @ axes.T
        if self.stretch is not None:
            matrix = matrix * np.outer(self.stretch, self.stretch)
        if self.count_direction is not None:
            matrix = matrix + np.outer(self.count_direction, self.count_direction)
        return matrix if self.own is None else matrix + np.diag(self.own**2)

    def squared_length(self, offset: Floats) -> float:
        """offset^T V^-1 offset in the directions that have noise."""
        ellipsoid = self.ellipsoid
        stretch = 1.0 if self.stretch is None else self.stretch
        if ellipsoid.axes is None:
            stds, live = self.straight_stds, self.straight_stds > 0
            shared, rest = self.without_shared(offset)
            if shared is not None:
                return shared**2 + float(np.sum((rest[live] / stds[live]) ** 2))
            return self._white_length(offset, lambda part: part[live] / stds[live])
        if self.own is None:
            return self._white_length(offset, lambda part: ellipsoid.scaled(part / stretch) / self.std)
        live = self.stds > 0
        matrix = self.covariance[np.ix_(live, live)]
        return float(offset[live] @ np.linalg.solve(matrix, offset[live]))

    @property
    def straight_stds(self) -> Floats:
        """Stds of each column's own noise, if the axes are the columns."""
        return self.sums_stds if self.own is None else np.hypot(self.sums_stds, self.own)

    def without_shared(self, offset: Floats) -> tuple[float | None, Floats]:
        """The shared count's noise in stds, if some column has no other noise, and the rest of the offset."""
        if self.count_direction is None or self.ellipsoid.axes is not None:
            return None, offset
        bare = np.where(self.straight_stds > 0, 0.0, self.count_direction)
        clearest = int(np.argmax(np.abs(bare)))
        if bare[clearest] == 0:
            return None, offset
        shared = float(offset[clearest] / bare[clearest])
        return shared, offset - shared * self.count_direction

    @property
    def rank(self) -> int:
        """The number of directions that have noise."""
        if self.ellipsoid.axes is not None:
            return int(np.count_nonzero(self.ellipsoid.scale if self.own is None else self.stds))
        shown = self.without_shared(np.zeros(self.stds.size))[0] is not None
        return int(np.count_nonzero(self.straight_stds)) + shown

    def _white_length(self, offset: Floats, whiten: Callable[[Floats], Floats]) -> float:
        """The squared length if `whiten` makes all noise white except that of the shared count."""
        white = whiten(offset)
        square = float(white @ white)
        if self.count_direction is not None:  # Sherman-Morrison
            shared = whiten(self.count_direction)
            square -= float(white @ shared) ** 2 / (1 + float(shared @ shared))
        return square

    @property
    def total(self) -> float:
        """Expected squared norm: the trace of the covariance."""
        with np.errstate(over="ignore", under="ignore"):
            if self.stretch is None:
                total = self.std * self.std * self.ellipsoid.trace
            else:
                total = float(np.sum(self.sums_stds**2))
            for part in (self.count_direction, self.own):
                total += 0.0 if part is None else float(part @ part)
        return total


def in_doubt(rows: Floats, stds: Floats) -> NDArray[np.bool_]:
    """The columns whose noisy counts are not clearly larger than their noise [U3]."""
    few: NDArray[np.bool_] = stds > 0
    return few & (rows < np.maximum(1.0, _FEW * stds)) if few.any() else few


_ROUNDING = 1e-9  # Relative tolerance in directions without noise.


@dataclass(frozen=True)
class ConfidenceEllipsoid(ValueEquality):
    """Joint confidence region for the published value v at a level: {x : (x-v)^T V^-1 (x-v) <= q}."""

    value: Floats
    noise: Noise
    squared_radius: float
    level: float

    def contains(self, point: ArrayLike) -> bool:
        """Whether a point lies in the region; a direction without noise must match the value."""
        offset = vector("point", point, self.value.size) - self.value
        ellipsoid = self.noise.ellipsoid
        rest = self.noise.without_shared(offset)[1]
        bare = self.noise.straight_stds == 0 if ellipsoid.axes is None else ellipsoid.scale == 0
        if (np.abs(ellipsoid.along(rest)[bare]) > _ROUNDING * (1 + np.abs(self.value).max())).any():
            return False
        return self.noise.squared_length(offset) <= self.squared_radius


@dataclass(frozen=True)
class ConfidenceBox(ValueEquality):
    """All points within `half` of the published value in every column at once, at a level."""

    value: Floats
    half: Floats
    level: float

    def contains(self, point: ArrayLike) -> bool:
        """Whether a point lies in the region; a column without noise must match the value."""
        offset = vector("point", point, self.value.size) - self.value
        return bool((np.abs(offset) <= self.half + _ROUNDING * (1 + np.abs(self.value)) * (self.half == 0)).all())


def confidence_region(
    value: Floats, noise: Noise, plan: VectorNumbers, level: float
) -> ConfidenceEllipsoid | ConfidenceBox:
    """The confidence region: an ellipsoid [B5], or a box for K-norm noise in blocks [K4]."""
    level, law = open_unit("level", level), plan.noise_law
    if isinstance(law, BlockLaw):
        return ConfidenceBox(value, _half_widths(noise, plan, law, level), level)
    return ConfidenceEllipsoid(value, noise, law.squared_radius(noise.rank or 1, level), level)


def _half_widths(noise: Noise, plan: VectorNumbers, law: BlockLaw, level: float) -> Floats:
    """[K4] All noisy coordinates behind the value lie within their bounds at once, and so do sums of them."""
    width, counted = plan.ellipsoid.width, plan.auxiliary.absences.size
    absences, count = slice(width, width + counted), plan.stds.size - 1
    rows_left_out = plan.auxiliary.missing == "row" and noise.count_direction is not None
    used = np.zeros(plan.stds.size, bool)
    used[:width] = True
    used[absences] = noise.own is not None or rows_left_out
    used[count] |= noise.count_direction is not None and plan.count_units > 0
    joint = law.joint_multiples(used, level)
    half: Floats = noise.sums_stds * joint[:width]
    if noise.own is not None:
        half = half + noise.own * joint[absences]
    if noise.count_direction is not None:  # Counts of all rows and of those left out: Cauchy-Schwarz.
        behind = np.concatenate([joint[absences] if rows_left_out else [], joint[count:] if plan.count_units else []])
        half = half + np.abs(noise.count_direction) * float(np.linalg.norm(behind))
    return half
