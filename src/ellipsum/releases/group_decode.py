"""From the noisy sums of groups to their statistics: what `answers` does for one vector, for many at once.

Post-processing only; docs/proofs/plans.md [U2][U3][U6]. A test holds each group to `answers`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import Floats
from ..numerics.roots import root
from .noise_covariance import in_doubt

_LEAST_GROUPS = 4  # James-Stein shrinkage towards a mean that is estimated helps from here on


@dataclass(frozen=True)
class Answers:
    """For each group and column: the statistic, the std of its noise, and how many rows have the column."""

    value: Floats
    stds: Floats
    rows: Floats
    row_stds: Floats
    count: Floats


def answers(plan: Any, noisy: Floats) -> Answers:
    """The statistics of groups by the plan of one group; noisy: (groups, width) sums in the scaled space."""
    rows, row_stds, count = _tallies(plan, noisy)
    ellipsoid = plan.ellipsoid
    center = ellipsoid.center
    offset = _restored(ellipsoid, noisy[:, : ellipsoid.width])
    base, std = plan.noise_base
    sums = base.reach * std
    if plan.statistic == "sum":
        value = center * rows + offset
        return Answers(value, np.hypot(sums, np.abs(center) * row_stds), rows, row_stds, count)
    divisor = np.maximum(rows, 1.0)
    offset = _held(plan, offset / divisor, rows, row_stds)
    stds = np.hypot(sums / divisor, np.abs(offset) * row_stds / divisor)
    return Answers(center + offset, stds, rows, row_stds, count)


def _tallies(plan: Any, noisy: Floats) -> tuple[Floats, Floats, Floats]:
    """(rows that have each column, the noise of that, rows of each group)."""
    count = noisy[:, -1] / plan.count_weight
    rows = np.repeat(count[:, None], plan.d, axis=1)
    stds = np.full(plan.d, float(plan.count_std))
    if plan.riders.missing == "column":
        units = plan.riders.absences.astype(float)
        behind = np.ldexp(noisy[:, plan.ellipsoid.width :][:, : units.size], plan.grid_bits)
        rows = rows - behind / np.where(units > 0, units, np.inf)
        stds = np.hypot(stds, plan.absence_stds)
    return rows, np.broadcast_to(stds, rows.shape), count


def _restored(ellipsoid: Any, scaled: Floats) -> Floats:
    lengths: Floats = scaled * ellipsoid.unscale
    return lengths if ellipsoid.axes is None else lengths @ ellipsoid.axes.T


def _held(plan: Any, offset: Floats, rows: Floats, stds: Floats) -> Floats:
    """[U3] Offsets of columns that hardly any row of a group has, brought back to where every row lies."""
    few = in_doubt(rows, stds)
    most = plan.ellipsoid.reach
    if plan.clamped:
        lower, upper = plan.rows.bounds()
        most = (upper - lower) / 2
    offset = np.where(few, np.clip(offset, -most, most), offset)
    if plan.clamped:
        return offset
    whole = few.all(axis=1)
    for g in np.flatnonzero(whole).tolist():
        offset[g] /= max(1.0, float(np.linalg.norm(plan.ellipsoid.scaled(offset[g]))))
    return offset


def shrunk(value: Floats, stds: Floats) -> Floats:
    """[G7] Group means pulled towards their weighted mean, column by column, by what noise alone explains.

    The spread between groups is what their distances exceed their noise by; each mean keeps the share of its own
    distance that this spread has in spread and noise together.
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
    """The variance between groups for which their weighted squared distances are as many as groups less one."""

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
