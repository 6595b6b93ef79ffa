"""Decode noisy sums to the published statistic: counts, values and the noise of both. Post-processing only.

The last axis of noisy sums has the numbers of one vector. A leading axis has groups, and every result then has it too.
docs/proofs/plans.md: [U2] unknown n, [U3] few rows, [U6] columns with counts of their own.
Confidence regions cover the privacy noise, with that of counts to first order, but no clipping bias: [B5], [K4].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import Floats, open_unit, vector
from ..noise.block_law import BlockLaw
from ..regions.ellipsoid import Ellipsoid
from ..request.request import SUMS
from ..util.structural_equality import ValueEquality
from .numbers import VectorNumbers

_FEW = 3.0  # In standard deviations of the count. A column with a smaller count is clamped to its region.
_ROUNDING = 1e-9  # Relative tolerance in directions without noise.


@dataclass(frozen=True)
class Counts(ValueEquality):
    """Noisy numbers of rows that were published beside a value.

    rows: the number of non-missing values of each column. stds: standard deviations of their noise. clipped: rows
    outside the region, by distance (up to 2, 4, 8, ... radii away; the last class has no limit). outside: values
    outside their bounds, one number per column. outside_rows: rows with any value outside its bounds. The last three
    are None if they were not counted.
    """

    rows: Floats
    stds: Floats
    clipped: Floats | None = None
    outside: Floats | None = None
    outside_rows: float | None = None

    def to_dict(self) -> dict[str, Any]:
        parts = {"rows": self.rows, "stds": self.stds, "clipped": self.clipped, "outside": self.outside}
        lists = {name: None if part is None else part.tolist() for name, part in parts.items()}
        return {**lists, "outside_rows": self.outside_rows}


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


@dataclass(frozen=True)
class MissingCounts(ValueEquality):
    """Counts of missing values made before the release, which fills them in [L10]; one number per column."""

    rows: Floats
    """The noisy number of missing values of each column."""
    stds: Floats
    fill: Floats

    def to_dict(self) -> dict[str, Any]:
        return {"rows": self.rows.tolist(), "stds": self.stds.tolist(), "fill": self.fill.tolist()}


@dataclass(frozen=True)
class RowCounts:
    """The number of rows of each column, and its noise.

    rows: one per column. shared: std of the noise that the counts of all columns have in common. own: stds of the
    columns' own noise. count: the published number of rows if n is private.
    """

    rows: Floats
    shared: float
    own: Floats
    count: float | Floats | None = None

    @property
    def stds(self) -> Floats:
        shared = np.broadcast_to(self.shared, self.own.shape)
        stds = np.hypot(self.own, shared) if self.own.any() else shared
        return stds if self.rows.ndim == 1 else np.broadcast_to(stds, self.rows.shape)


@dataclass(frozen=True)
class Decoded:
    """The statistic, its offset from the value that missing values count as, and the number of rows."""

    value: Floats
    offset: Floats
    counts: RowCounts


def decode(plan: VectorNumbers, noisy: Floats, missing: MissingCounts | None = None) -> Decoded:
    """Decode the statistic and its counts. missing: counts made before, if the plan fills missing values in."""
    counts = count_rows(plan, noisy, missing)
    ellipsoid, center = plan.ellipsoid, plan.ellipsoid.center
    offset = ellipsoid.restore(noisy[..., : ellipsoid.width])
    if missing is not None:  # Subtract what was filled in.
        offset = offset - (missing.fill - center) * missing.rows
    if plan.statistic in SUMS:
        without = plan.needs_no_count and missing is None
        return Decoded(offset if without else center * counts.rows + offset, offset, counts)
    offset /= np.maximum(counts.rows, 1.0)
    offset = hold_few(plan, offset, counts)
    return Decoded(center + offset, offset, counts)


def expect(plan: VectorNumbers) -> Decoded | None:
    """The decoded numbers to expect for data as described by the bounds; None for a mean without n.

    Every mean lies at its described distance from the center, in an unknown direction.
    """
    center, (shared, own) = plan.ellipsoid.center, count_stds(plan)
    if plan.statistic in SUMS:
        return Decoded(center, np.broadcast_to(0.0, plan.d), RowCounts(np.broadcast_to(1.0, plan.d), shared, own))
    if plan.n is None:
        return None
    counts = RowCounts(np.broadcast_to(float(plan.n), plan.d), 0.0, np.hypot(own, shared))
    return Decoded(center, plan.rows.distances(plan.d, plan.n), counts)


def count_stds(plan: VectorNumbers, missing: MissingCounts | None = None) -> tuple[float, Floats]:
    """Stds of the noise of the columns' counts: the noise that all have in common, and each column's own."""
    shared = plan.count_std or 0.0
    if plan.auxiliary.missing == "row":
        return float(np.hypot(shared, plan.absence_stds[0])), np.broadcast_to(0.0, plan.d)
    if plan.absence_stds.size:
        return shared, plan.absence_stds.copy()
    return shared, np.broadcast_to(0.0, plan.d) if missing is None else missing.stds.copy()


def count_rows(plan: VectorNumbers, noisy: Floats, missing: MissingCounts | None = None) -> RowCounts:
    """The number of rows of every column, from counts behind the values [U6] or made before [L10]."""
    counts: Floats | None = None if plan.count_std is None else noisy[..., -1] / plan.count_weight
    count = float(counts) if counts is not None and noisy.ndim == 1 else counts
    if noisy.ndim == 1:
        rows = np.broadcast_to(float(plan.n or 0) if count is None else count, plan.d)
    else:
        assert counts is not None  # Groups have noisy numbers of rows.
        rows = np.repeat(counts[:, None], plan.d, axis=1)
    if plan.auxiliary.absences.size:
        units = plan.auxiliary.absences.astype(float)
        behind = np.ldexp(noisy[..., plan.ellipsoid.width :][..., : units.size], plan.grid_bits)
        rows = rows - behind / np.where(units > 0, units, np.inf)
    elif missing is not None:
        rows = rows - missing.rows
    return RowCounts(rows, *count_stds(plan, missing), count)


def count_clipped(plan: VectorNumbers, counts: RowCounts, noisy: Floats) -> Counts:
    """The counts of a vector, with those of clipped rows and values."""
    auxiliary = plan.auxiliary
    if not auxiliary.counts_clipped:
        return Counts(counts.rows, counts.stds)
    start = plan.ellipsoid.width + auxiliary.absences.size
    behind = noisy[start : plan.ellipsoid.width + auxiliary.counted] * 2.0**plan.grid_bits
    if auxiliary.octaves:
        return Counts(counts.rows, counts.stds, behind / max(auxiliary.outside[0], 1))
    rows = float(behind[-1] / auxiliary.outside_rows) if auxiliary.outside_rows else None
    values = behind[: auxiliary.outside.size] / np.where(auxiliary.outside > 0, auxiliary.outside, np.inf)
    return Counts(counts.rows, counts.stds, None, values if values.size else None, rows)


def hold_few(plan: VectorNumbers, offset: Floats, counts: RowCounts) -> Floats:
    """[U3] Move the offsets of columns with few values back into the region of all rows."""
    few = in_doubt(counts.rows, counts.stds)
    if not few.any():
        return offset
    most = plan.ellipsoid.reach
    if plan.clamped:
        lower, upper = plan.rows.bounds()
        most = (upper - lower) / 2
    offset = np.where(few, np.clip(offset, -most, most), offset)
    if not plan.clamped:
        for place in np.ndindex(offset.shape[:-1]):
            if few[place].all():
                offset[place] /= max(1.0, float(np.linalg.norm(plan.ellipsoid.scaled(offset[place]))))
    return offset


# Noise --------------------------------------------------------------------------------------------------


def noise_of(plan: VectorNumbers, decoded: Decoded, missing: MissingCounts | None = None) -> Noise:
    """[U3][U6] The noise of c + T_j / N_j: that of the sums, of the shared count, and of each column's count."""
    ellipsoid, std = plan.noise_base
    if plan.statistic in SUMS:
        return Noise(ellipsoid, std) if plan.needs_no_count and missing is None else _sum_noise(plan, decoded, missing)
    counts, offset = decoded.counts, decoded.offset
    divisor = np.maximum(counts.rows, 1.0)
    least = float(divisor.min())
    stretch = None if (divisor == least).all() else least / divisor
    shared = offset * (counts.shared / divisor) if counts.shared else None
    own = None
    if counts.own.any():  # A missing value changes a mean by the distance from the value that it counts as.
        filled = 0.0 if missing is None else missing.fill - ellipsoid.center
        own = np.abs(offset - filled) * (counts.own / divisor)
    return Noise(ellipsoid, std / least, shared, stretch, own)


def _sum_noise(plan: VectorNumbers, decoded: Decoded, missing: MissingCounts | None) -> Noise:
    """[U2][U6] The noise of c N_j + T_j."""
    (ellipsoid, std), counts = plan.noise_base, decoded.counts
    center = plan.ellipsoid.center
    shared = center * counts.shared if counts.shared else None
    own = np.abs(center if missing is None else missing.fill) * counts.own if counts.own.any() else None
    return Noise(ellipsoid, std, shared, None, own)


def group_stds(plan: VectorNumbers, decoded: Decoded) -> Floats:
    """Noise stds of the statistics of groups."""
    base, std = plan.noise_base
    sums, stds = base.reach * std, decoded.counts.stds
    if plan.statistic in SUMS:
        return np.asarray(np.hypot(sums, np.abs(plan.ellipsoid.center) * stds))
    divisor = np.maximum(decoded.counts.rows, 1.0)
    return np.asarray(np.hypot(sums / divisor, np.abs(decoded.offset) * stds / divisor))


def widen(plan: VectorNumbers, stds: Floats, counts: RowCounts) -> Floats:
    """Noise stds. Those of a mean are larger if the count that it is divided by is uncertain [U2]."""
    if plan.statistic in SUMS:
        return stds
    relative = counts.stds / np.maximum(counts.rows, 1.0)
    wide: Floats = stds * np.sqrt(1 + 3 * np.minimum(relative, 1.0) ** 2)
    return wide


# Joint confidence regions -------------------------------------------------------------------------------


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
