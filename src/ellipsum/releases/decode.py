"""From noisy sums to the published statistic: counts, values and the noise of both. Post-processing only.

Noisy sums end in the numbers of one vector; an axis of groups may stand before them, and every result then has it too.
docs/proofs/plans.md: [U2] unknown n, [U3] few rows, [U6] columns with counts of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import Floats
from ..util.structural_equality import Alike
from .noise_covariance import Noise, in_doubt


@dataclass(frozen=True)
class Counts(Alike):
    """Noisy numbers of rows that were published beside a value.

    rows: how many rows have each column, one per column, and stds: their noise. clipped: rows outside the region, by
    octave (up to 2, 4, 8, ... radii away, the last without end). outside: cells outside their bounds, one per column.
    The last two are None where nothing was counted.
    """

    rows: Floats
    stds: Floats
    clipped: Floats | None = None
    outside: Floats | None = None

    def to_dict(self) -> dict[str, Any]:
        parts = {"rows": self.rows, "stds": self.stds, "clipped": self.clipped, "outside": self.outside}
        return {name: None if part is None else part.tolist() for name, part in parts.items()}


@dataclass(frozen=True)
class Absent(Alike):
    """Missing entries that were counted before the release, which fills them in [L10]; one number per column."""

    rows: Floats
    """How many rows lack the column, noisy."""
    stds: Floats
    fill: Floats

    def to_dict(self) -> dict[str, Any]:
        return {"rows": self.rows.tolist(), "stds": self.stds.tolist(), "fill": self.fill.tolist()}


@dataclass(frozen=True)
class RowCounts:
    """How many rows each column has, as far as it is known, and the noise of that.

    rows: one per column. shared: std of what all columns' counts have in common; own: of the rest, one per column.
    count: the published number of rows where n is private.
    """

    rows: Floats
    shared: float
    own: Floats
    count: Any

    @property
    def stds(self) -> Floats:
        stds = np.hypot(self.own, self.shared) if self.shared else self.own
        return stds if self.rows.ndim == 1 else np.broadcast_to(stds, self.rows.shape)


@dataclass(frozen=True)
class Decoded:
    """What noisy sums say: the statistic, how far it lies from where cells count, and the rows behind it."""

    value: Floats
    offset: Floats
    rows: RowCounts


def decode(plan: Any, noisy: Floats, absent: Absent | None = None) -> Decoded:
    """The statistic and its counts; absent: missing entries that were counted before, where the plan fills them in."""
    counts = count_rows(plan, noisy, absent)
    ellipsoid, center = plan.ellipsoid, plan.ellipsoid.center
    offset = ellipsoid.restore(noisy[..., : ellipsoid.width])
    if absent is not None:  # what was filled in is taken out again
        offset = offset - (absent.fill - center) * absent.rows
    if plan.statistic == "sum":
        without = plan.needs_no_count and absent is None
        return Decoded(offset if without else center * counts.rows + offset, offset, counts)
    offset = hold(plan, offset / np.maximum(counts.rows, 1.0), counts)
    return Decoded(center + offset, offset, counts)


def count_rows(plan: Any, noisy: Floats, absent: Absent | None = None) -> RowCounts:
    """The rows of every column, from the noisy counts behind the values [U6], or from those before [L10]."""
    count: Any = None if plan.count_std is None else noisy[..., -1] / plan.count_weight
    if noisy.ndim == 1:
        count = None if count is None else float(count)
        rows = np.full(plan.d, float(plan.n or 0) if count is None else count)
    else:
        rows = np.repeat(count[:, None], plan.d, axis=1)
    if plan.riders.absences.size:
        units = plan.riders.absences.astype(float)
        behind = np.ldexp(noisy[..., plan.ellipsoid.width :][..., : units.size], plan.grid_bits)
        rows = rows - behind / np.where(units > 0, units, np.inf)
    elif absent is not None:
        rows = rows - absent.rows
    shared, own = plan.count_std or 0.0, np.zeros(plan.d) if absent is None else absent.stds.copy()
    if plan.riders.missing == "row":
        shared = float(np.hypot(shared, plan.absence_stds[0]))
    elif plan.absence_stds.size:
        own = plan.absence_stds.copy()
    return RowCounts(rows, shared, own, count)


def count_clipped(plan: Any, counts: RowCounts, noisy: Floats) -> Counts:
    """The counts of a vector, with those of what was clipped."""
    riders = plan.riders
    if not riders.outside.size:
        return Counts(counts.rows, counts.stds)
    start = plan.ellipsoid.width + riders.absences.size
    behind = noisy[start : plan.ellipsoid.width + riders.counted] * 2.0**plan.grid_bits
    if riders.octaves:
        return Counts(counts.rows, counts.stds, behind / max(riders.outside[0], 1))
    return Counts(counts.rows, counts.stds, None, behind / riders.cell_units)


def hold(plan: Any, offset: Floats, counts: RowCounts) -> Floats:
    """[U3] Offsets of columns that hardly any row has, brought back to the region that every row lies in."""
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


def noise_of(plan: Any, decoded: Decoded, absent: Absent | None = None) -> Noise:
    """The noise of a vector."""
    if plan.statistic != "sum":
        return _mean_noise(plan, decoded.rows, decoded.offset, absent)
    if plan.needs_no_count and absent is None:
        return Noise(*plan.noise_base)
    return _sum_noise(plan, decoded.rows, absent)


def group_stds(plan: Any, decoded: Decoded) -> Floats:
    """Stds of the noise of groups; one axis, and no covariance, for each."""
    base, std = plan.noise_base
    sums, stds = base.reach * std, decoded.rows.stds
    if plan.statistic == "sum":
        return np.asarray(np.hypot(sums, np.abs(plan.ellipsoid.center) * stds))
    divisor = np.maximum(decoded.rows.rows, 1.0)
    return np.asarray(np.hypot(sums / divisor, np.abs(decoded.offset) * stds / divisor))


def _mean_noise(plan: Any, counts: RowCounts, offset: Floats, absent: Absent | None) -> Noise:
    """[U3][U6] Of c + T_j / N_j: the sums' own, the shared count's and each column's own."""
    divisor = np.maximum(counts.rows, 1.0)
    least = float(divisor.min())
    stretch = None if (divisor == least).all() else least / divisor
    shared = offset * (counts.shared / divisor) if counts.shared else None
    own = None
    if counts.own.any():  # an absent cell moves a mean by how far that is from where the cell counts
        filled = 0.0 if absent is None else absent.fill - plan.ellipsoid.center
        own = np.abs(offset - filled) * (counts.own / divisor)
    ellipsoid, std = plan.noise_base
    return Noise(ellipsoid, std / least, shared, stretch, own)


def _sum_noise(plan: Any, counts: RowCounts, absent: Absent | None) -> Noise:
    """[U2][U6] Of c N_j + T_j."""
    center = plan.ellipsoid.center
    shared = center * counts.shared if counts.shared else None
    own = np.abs(center if absent is None else absent.fill) * counts.own if counts.own.any() else None
    ellipsoid, std = plan.noise_base
    return Noise(ellipsoid, std, shared, None, own)
