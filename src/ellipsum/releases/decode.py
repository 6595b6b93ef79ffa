"""From noisy sums to the published statistic: counts, values and the noise of both. Post-processing only.

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


@dataclass(frozen=True)
class Absent(Alike):
    """Missing entries that were counted before the release, which fills them in [L10]; one number per column."""

    rows: Floats
    """How many rows lack the column, noisy."""
    stds: Floats
    fill: Floats

    def to_dict(self) -> dict[str, Any]:
        return {"rows": self.rows.tolist(), "stds": self.stds.tolist(), "fill": self.fill.tolist()}


def tally(plan: Any, scaled: Floats, absent: Absent | None = None) -> Tally:
    """The rows of every column, from the noisy counts behind the values [U6], or from those before [L10]."""
    count = None if plan.count_std is None else float(scaled[-1]) / plan.count_weight
    start = float(plan.n or 0) if count is None else count
    rows = np.empty(plan.d)
    rows.fill(start)
    if plan.riders.absences.size:
        units = plan.riders.absences
        behind = np.ldexp(scaled[plan.ellipsoid.width :][: units.size], plan.grid_bits)
        rows = rows - behind / np.where(units > 0, units, np.inf)
    elif absent is not None:
        rows = rows - absent.rows
    return tally_of(plan, rows, count, absent)


def tally_of(plan: Any, rows: Floats, count: float | None, absent: Absent | None = None) -> Tally:
    """Counts that are known, with the noise that the plan gives them."""
    shared, own = plan.count_std or 0.0, np.zeros(plan.d) if absent is None else absent.stds.copy()
    if plan.riders.missing == "row":
        shared = float(np.hypot(shared, plan.absence_stds[0]))
    elif plan.absence_stds.size:
        own = plan.absence_stds.copy()
    return Tally(rows, shared, own, count)


def answer(plan: Any, scaled: Floats, absent: Absent | None = None) -> tuple[Floats, Noise, Tally]:
    """The statistic, its noise, and the counts it was made with."""
    counts = tally(plan, scaled, absent)
    ellipsoid, center = plan.ellipsoid, plan.ellipsoid.center
    offset = ellipsoid.restore(scaled[: ellipsoid.width])
    if absent is not None:  # what was filled in is taken out again
        offset = offset - (absent.fill - center) * absent.rows
    if plan.statistic == "sum":
        return _total(plan, counts, center, offset, absent)
    divisor = np.maximum(counts.rows, 1.0)
    offset = offset / divisor
    offset = held(plan, offset, counts)
    return center + offset, mean_noise(plan, counts, offset, absent), counts


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


def mean_noise(plan: Any, counts: Tally, offset: Floats, absent: Absent | None = None) -> Noise:
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


def sum_noise(plan: Any, counts: Tally, absent: Absent | None = None) -> Noise:
    """[U2][U6] Of c N_j + T_j."""
    center = plan.ellipsoid.center
    shared = center * counts.shared if counts.shared else None
    own = np.abs(center if absent is None else absent.fill) * counts.own if counts.own.any() else None
    ellipsoid, std = plan.noise_base
    return Noise(ellipsoid, std, shared, None, own)


def _total(
    plan: Any, counts: Tally, center: Floats, offset: Floats, absent: Absent | None
) -> tuple[Floats, Noise, Tally]:
    if plan.needs_no_count and absent is None:
        return offset, Noise(*plan.noise_base), counts
    return center * counts.rows + offset, sum_noise(plan, counts, absent), counts
