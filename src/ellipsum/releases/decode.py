"""Decode noisy sums to the published statistic: counts, values and the noise of both. Post-processing only.

The last axis of noisy sums has the numbers of one vector. A leading axis has groups, and every result then has it too.
docs/proofs/plans.md: [U2] unknown n, [U3] few rows, [U6] columns with counts of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import Floats
from ..request.request import SUMS
from ..util.structural_equality import ValueEquality
from .noise_covariance import Noise, in_doubt
from .numbers import VectorNumbers


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
    count: Any = None

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
    rows: RowCounts


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
    count: Any = None if plan.count_std is None else noisy[..., -1] / plan.count_weight
    if noisy.ndim == 1:
        count = None if count is None else float(count)
        rows = np.broadcast_to(float(plan.n or 0) if count is None else count, plan.d)
    else:
        rows = np.repeat(count[:, None], plan.d, axis=1)
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
    counts, offset = decoded.rows, decoded.offset
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
    (ellipsoid, std), counts = plan.noise_base, decoded.rows
    center = plan.ellipsoid.center
    shared = center * counts.shared if counts.shared else None
    own = np.abs(center if missing is None else missing.fill) * counts.own if counts.own.any() else None
    return Noise(ellipsoid, std, shared, None, own)


def group_stds(plan: VectorNumbers, decoded: Decoded) -> Floats:
    """Noise stds of the statistics of groups."""
    base, std = plan.noise_base
    sums, stds = base.reach * std, decoded.rows.stds
    if plan.statistic in SUMS:
        return np.asarray(np.hypot(sums, np.abs(plan.ellipsoid.center) * stds))
    divisor = np.maximum(decoded.rows.rows, 1.0)
    return np.asarray(np.hypot(sums / divisor, np.abs(decoded.offset) * stds / divisor))


def widen(plan: VectorNumbers, stds: Floats, counts: RowCounts) -> Floats:
    """Noise stds. Those of a mean are larger if the count that it is divided by is uncertain [U2]."""
    if plan.statistic in SUMS:
        return stds
    relative = counts.stds / np.maximum(counts.rows, 1.0)
    wide: Floats = stds * np.sqrt(1 + 3 * np.minimum(relative, 1.0) ** 2)
    return wide
