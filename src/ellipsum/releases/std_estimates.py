"""Standard deviations from noisy means and mean squares, with their intervals: of one vector, or of many groups.

docs/proofs/squares.md [D1]. Arrays end in the columns; what stands before them, groups, is taken along.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import Floats
from ..noise.block_law import BoxLaw
from .noise_covariance import in_doubt


@dataclass(frozen=True)
class Spreads:
    """Means and mean squares that were published, and how many rows have each column.

    squares: of distances from the middle of the bounds, in units of half a width.
    """

    plan: Any
    means: Floats
    squares: Floats
    rows: Floats
    row_stds: Floats

    @cached_property
    def half(self) -> Floats:
        return halves(self.plan)

    @cached_property
    def unit(self) -> Floats:
        """Half of each column's width; 1 for one without width."""
        return np.where(self.half > 0, self.half, 1.0)

    @cached_property
    def offsets(self) -> Floats:
        """Means in units of half a width from the middle."""
        return np.where(self.half > 0, (self.means - self.plan.ellipsoid.center) / self.unit, 0.0)

    @cached_property
    def variances(self) -> Floats:
        """In units of the squared half-width; below 0 where noise has it so."""
        return np.minimum(self.squares - self.offsets**2, 1.0)

    @property
    def roots(self) -> Floats:
        """Population standard deviations in units of half a width; 0 where noise leaves nothing."""
        return np.sqrt(np.clip(self.variances, 0.0, 1.0))

    @property
    def std(self) -> Floats:
        return self.roots * self.half

    @property
    def std_error(self) -> Floats:
        """Root mean square error of each std, to first order; near 0, that of the root of what noise leaves."""
        spread, shift = self.variance_stds
        variance = np.clip(self.variances, 0.0, 1.0)
        return (np.sqrt(variance + np.hypot(spread, shift**2)) - np.sqrt(variance)) * self.half

    @cached_property
    def variance_stds(self) -> tuple[Floats, Floats]:
        """[D1] The std of a variance's noise to first order, and that of the offset, whose square comes second."""
        values, doubt = self.value_stds
        shared, offset = self.row_stds, self.offsets
        lever = 1 - self.squares + 2 * offset**2
        spread = np.sqrt(self.plan.square_stds**2 + (2 * offset * values) ** 2 + (lever * shared) ** 2)
        return spread * doubt, np.hypot(values, offset * shared) * doubt

    @cached_property
    def value_stds(self) -> tuple[Floats, Floats]:
        """Stds of the noise of sums in units of half a width, and 1 / rows, widened where rows are in doubt."""
        rows = np.maximum(self.rows, 1.0)
        ellipsoid, std = self.plan.noise_base
        doubt = np.sqrt(1 + 3 * np.minimum(self.row_stds / rows, 1.0) ** 2) / rows
        return ellipsoid.reach * std / self.unit, doubt

    def bounds(self, level: float) -> Floats:
        """Ends of intervals of the stds, each covering its own at a level."""
        return self.bounds_at(multiples(self.plan, level)) * self.half[:, None]

    def bounds_at(self, many: Floats) -> Floats:
        """[D1] Of variances first: noise lowers them by the square of what it does to the mean, and never raises.

        In units of half a width; many: half-widths of intervals in stds, one per column.
        """
        spread, shift = self.variance_stds
        reach = many * spread + (many * shift) ** 2
        low, high = self.variances - reach, np.maximum(self.variances, 0.0) + reach
        few = in_doubt(self.rows, self.row_stds)
        ends = np.stack([np.where(few, 0.0, low), np.where(few, 1.0, high)], axis=-1)
        spans: Floats = np.sqrt(np.clip(ends, 0.0, 1.0))
        return spans

    def count_bounds(self, level: float, most: float) -> Floats:
        """Ends of intervals of the numbers of rows, which are at least 0 and at most this."""
        reach = multiples(self.plan, level) * self.row_stds
        return np.clip(np.stack([self.rows - reach, self.rows + reach], axis=-1), 0.0, most)


def mean_squares(plan: Any, rows: Floats, scaled: Floats) -> Floats:
    """1 - T / N of each column, from noisy sums of 1 - y^2 behind the counts [D1]; rows: those that have the column."""
    units = plan.riders.squares.astype(float)
    start = plan.ellipsoid.width + plan.riders.counted
    sums = np.ldexp(scaled[..., start : start + units.size], plan.grid_bits)
    live = units > 0
    return np.where(live, 1 - sums / np.where(live, units, 1.0) / np.maximum(rows, 1.0), 0.0)


def halves(plan: Any) -> Floats:
    """Half of each column's width, as the grid has it."""
    widths: Floats = np.ldexp(plan.row_map.limits.astype(float), -plan.grid_bits) * plan.ellipsoid.unscale
    return widths


def multiples(plan: Any, level: float) -> Floats:
    """Half-widths in stds, one per column: the largest of all coordinates that a column's answers are made of."""
    many: Floats = plan.multiples(level)
    if not isinstance(plan.law, BoxLaw):
        return many
    start = plan.ellipsoid.width + plan.riders.counted
    squares = plan.noise_law.multiples(plan.stds.size, level)[start : start + plan.d]
    largest: Floats = np.maximum(np.maximum(many, squares), plan.law.sum_multiple(level))
    return largest
