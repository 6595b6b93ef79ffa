"""From noisy sums to the published statistic: counts, values and the noise of both. Post-processing only.

docs/proofs/plans.md: [U2] unknown n, [U3] few rows, [U6] columns with counts of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import Floats
from .noise_covariance import Noise, in_doubt


@dataclass(frozen=True)
class Tally:
    """How many rows each column has, as far as it is known, and the noise of that.

    rows: one per column. shared: std of what all columns' counts have in common; own: of the rest, one per column.
    count: the published number of rows where n is private.
    """

    rows: Floats
    shared: float
    own: Floats
    count: float | None

    @property
    def stds(self) -> Floats:
        return np.hypot(self.own, self.shared) if self.shared else self.own


def tally(plan: Any, scaled: Floats) -> Tally:
    """The rows of every column, from the noisy counts behind the values [U6]."""
    count = None if plan.count_std is None else float(scaled[-1]) / plan.count_weight
    start = float(plan.n or 0) if count is None else count
    rows = np.empty(plan.d)
    rows.fill(start)
    if plan.riders.absences.size:
        units = plan.riders.absences
        behind = np.ldexp(scaled[plan.ellipsoid.width :][: units.size], plan.grid_bits)
        rows = rows - behind / np.where(units > 0, units, np.inf)
    elif plan.rows.known_absences is not None:
        rows = rows - plan.rows.known_absences[0]
    return tally_of(plan, rows, count)


def tally_of(plan: Any, rows: Floats, count: float | None) -> Tally:
    """Counts that are known, with the noise that the plan gives them."""
    shared, own = plan.count_std or 0.0, np.zeros(plan.d)
    if plan.riders.missing == "row":
        shared = float(np.hypot(shared, plan.absence_stds[0]))
    elif plan.absence_stds.size:
        own = plan.absence_stds.copy()
    return Tally(rows, shared, own, count)


def joined(counts: Tally, std: float, earlier: float) -> Tally:
    """Counts whose shared noise was of this std, joined with an earlier measurement by their variances."""
    joint = 1 / (std**-2.0 + earlier**-2.0)
    return replace(counts, shared=float(np.sqrt(max(counts.shared**2 - std**2, 0.0) + joint)))


def answer(plan: Any, scaled: Floats) -> tuple[Floats, Noise, Tally]:
    """The statistic, its noise, and the counts it was made with."""
    counts = tally(plan, scaled)
    ellipsoid, center = plan.ellipsoid, plan.ellipsoid.center
    offset = ellipsoid.restore(scaled[: ellipsoid.width])
    if plan.statistic == "sum":
        return _total(plan, counts, center, offset)
    divisor = np.maximum(counts.rows, 1.0)
    offset = offset / divisor
    offset = held(plan, offset, counts)
    return center + offset, mean_noise(plan, counts, offset), counts


def held(plan: Any, offset: Floats, counts: Tally) -> Floats:
    """[U3] Offsets of columns that hardly any row has, brought back to the region that every row lies in."""
    few = in_doubt(counts.rows, counts.stds)
    if not few.any():
        return offset
    most = plan.ellipsoid.reach
    if plan.clamped:
        lower, upper = plan.rows.bounds()
        most = (upper - lower) / 2
    offset = np.where(few, np.clip(offset, -most, most), offset)
    if few.all() and not plan.clamped:
        offset = offset / max(1.0, float(np.linalg.norm(plan.ellipsoid.scaled(offset))))
    return offset


def mean_noise(plan: Any, counts: Tally, offset: Floats) -> Noise:
    """[U3][U6] Of c + T_j / N_j: the sums' own, the shared count's and each column's own."""
    divisor = np.maximum(counts.rows, 1.0)
    least = float(divisor.min())
    stretch = None if (divisor == least).all() else least / divisor
    shared = offset * (counts.shared / divisor) if counts.shared else None
    own = None
    if counts.own.any():  # an absent cell moves a mean by how far that is from where the cell counts
        own = np.abs(offset - absent_offset(plan)) * (counts.own / divisor)
    ellipsoid, std = plan.noise_base
    return Noise(ellipsoid, std / least, shared, stretch, own)


def absent_offset(plan: Any) -> Floats:
    """How far from the center an absent cell counts."""
    offset: Floats = plan.absent_at - plan.ellipsoid.center
    return offset


def sum_noise(plan: Any, counts: Tally) -> Noise:
    """[U2][U6] Of c N_j + T_j."""
    center = plan.ellipsoid.center
    shared = center * counts.shared if counts.shared else None
    own = np.abs(plan.absent_at) * counts.own if plan.absence_stds.size and counts.own.any() else None
    ellipsoid, std = plan.noise_base
    return Noise(ellipsoid, std, shared, None, own)


def _total(plan: Any, counts: Tally, center: Floats, offset: Floats) -> tuple[Floats, Noise, Tally]:
    if plan.needs_no_count:
        return offset, Noise(*plan.noise_base), counts
    return center * counts.rows + offset, sum_noise(plan, counts), counts
