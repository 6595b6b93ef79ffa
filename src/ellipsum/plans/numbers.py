"""Every public number of one release, and the forecast of its error, made without data.

docs/proofs/plans.md: [U2] unknown n, [U7] clamping, [U8] rows of people.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats, UsageError
from ..noise.block_law import BlockLaw
from ..noise.law import GaussianLaw, NoiseLaw
from ..numerics.wide_integers import Ints
from ..privacy.spherical_curve import Guarantee
from ..regions.ellipsoid import Ellipsoid
from ..releases.clamping_test import ClampingTest, clamping_test
from ..releases.clipping_bias import list_columns
from ..releases.decode import expect, noise_of, widen
from ..releases.description import correlation_error, std_errors
from ..releases.noise_covariance import Noise
from ..releases.release import Release
from ..request.request import SUMS, Request
from ..row_maps.auxiliary_counts import PLAIN, AuxiliaryCounts
from ..row_maps.maps import ClampedMap, Prepared, RowMap, all_moves, clamped_map, clamped_moves, ellipsoid_map
from ..rows import LearnedRows
from .base import StatisticPlan


@dataclass(frozen=True, repr=False)
class PlanNumbers(StatisticPlan[Release]):
    """Clip region, grid, noise and guarantee of a release, and the numbers that follow from them."""

    request: Request
    """The request, with defaults written out for this n and these columns."""
    privacy: Guarantee
    ellipsoid: Ellipsoid
    grid_bits: int
    count_units: int
    """The count's own coordinate on the grid (unknown n), or 0."""
    noise_units: float
    """Noise std in grid units: noise_units * mu >= sensitivity in exact arithmetic."""
    clip_radius: float | None = None
    sum_clipping_error: float = 0.0
    center_spread: float = 0.0
    auxiliary: AuxiliaryCounts = PLAIN
    """What is done about missing values, and what is counted beside the values."""
    law: NoiseLaw | None = None
    """The noise distribution where it is not Gaussian."""
    considered: Mapping[str, float] = field(default_factory=dict, compare=False)
    """Expected errors under the mechanisms that were compared, root mean square."""
    planner: Callable[[Request], PlanNumbers] | None = field(default=None, compare=False)
    """The function that made this plan, to plan other requests for comparison; None for a plan from a file."""

    @property
    def one(self) -> PlanNumbers:
        """The plan of a single vector: this one."""
        return self

    @property
    def size(self) -> int | None:
        """The expected number of rows, or people, behind a statistic."""
        return self.n

    @property
    def clamped(self) -> bool:
        """Whether each value is clamped to its own bounds (Box), rather than rows clipped by their norm."""
        return self.rows.clamps

    @cached_property
    def public_rows(self) -> bool:
        """Whether the number of rows is public: under "replace", unless a person may have several rows [U8]."""
        return self.neighbors == "replace" and self.rows_each is None

    @property
    def needs_no_count(self) -> bool:
        """Whether the statistic is a sum about zero, to which missing values add nothing."""
        return self.statistic in SUMS and self.count_std is None and not self.public_rows

    @cached_property
    def row_map(self) -> RowMap:
        rows, auxiliary = self.rows, self.auxiliary
        if self.clamped:
            return clamped_map(rows, self.ellipsoid, self.grid_bits, auxiliary)
        clipped = ellipsoid_map(self.ellipsoid, self.grid_bits, auxiliary)
        if not isinstance(rows, LearnedRows) or rows.lower is None or rows.upper is None:
            return clipped
        return Prepared(clipped, np.nan, rows.lower, rows.upper)  # Missing values stay missing [L6].

    # Noise ----------------------------------------------------------------------------------------------

    @property
    def noise_law(self) -> NoiseLaw:
        return self.law or GaussianLaw(self.noise_units)

    @property
    def mechanism(self) -> str:
        """The noise distribution: "gaussian", "knorm_l2" or "knorm_linf"."""
        return self.noise_law.kind

    @property
    def sensitivity(self) -> Fraction:
        """[U1] l2-sensitivity of the integer sum, with the count as one more coordinate where n is private."""
        return self.row_map.body.sensitivity(self.neighbors, self.count_units, self.rows_each)

    @property
    def column_sensitivities(self) -> Ints:
        """The sensitivity of each coordinate in grid units; for rows clipped by norm, that of the whole row."""
        row_map, each = self.row_map, self.rows_each or 1
        pairs = self.law.pairs if isinstance(self.law, BlockLaw) else ()
        if isinstance(row_map, ClampedMap):
            moves = clamped_moves(row_map.limits, self.auxiliary, self.neighbors, pairs)
            return all_moves(moves, self.count_units, each)
        if pairs:
            raise UsageError("Invalid plan file: only clamped values share noise with counts. Create a new plan.")
        far = np.broadcast_to(math.ceil(row_map.body.sensitivity(self.neighbors, 0)), row_map.width)
        return all_moves(far, self.count_units, each)

    @cached_property
    def stds(self) -> Floats:
        """Noise stds of all coordinates in units of the grid: values, counts beside them, the count of rows."""
        return self.noise_law.stds(self.row_map.width + (1 if self.count_units else 0))

    @cached_property
    def scaled_std(self) -> float:
        """Noise std in the scaled space, where rows have norm at most 1; the largest, where they differ."""
        return math.ldexp(float(self.stds[: self.ellipsoid.width].max()), -self.grid_bits)

    @property
    def count_weight(self) -> float:
        """kappa: the count's coordinate in the scaled space (unknown n), or 0."""
        return math.ldexp(self.count_units, -self.grid_bits)

    @property
    def count_std(self) -> float | None:
        """Standard deviation of the noise of the published count (private n), or None."""
        return float(self.stds[-1]) / self.count_units if self.count_units else None

    @cached_property
    def absence_stds(self) -> Floats:
        """Standard deviations of the noise of the counts of missing values, in rows; 0 if none is counted."""
        return self._beside(self.ellipsoid.width, self.auxiliary.absences)

    @cached_property
    def outside_stds(self) -> Floats:
        """Standard deviations of the noise of counts of outside rows or values; 0 if none is counted."""
        last = self.auxiliary.counted - (self.auxiliary.outside_rows > 0)
        units = self.auxiliary.units[self.auxiliary.absences.size : last]
        return self._beside(self.ellipsoid.width + self.auxiliary.absences.size, units)

    @property
    def square_stds(self) -> Floats:
        """Noise stds of the sums of squares, in units of the squared half-width; 0 where there are none."""
        return self._beside(self.ellipsoid.width + self.auxiliary.counted, self.auxiliary.squares)

    @property
    def product_std(self) -> float:
        """Noise std of a sum of products of two columns, in units of their half-widths; 0 where there are none."""
        units = np.full(self.auxiliary.pairs, self.auxiliary.products)
        return float(self._beside(self.ellipsoid.width + self.auxiliary.width - units.size, units).max(initial=0.0))

    def _beside(self, start: int, units: Ints) -> Floats:
        stds = self.stds[start : start + units.size]
        return np.where(units > 0, stds / np.where(units > 0, units, 1.0), 0.0)

    @cached_property
    def noise_base(self) -> tuple[Ellipsoid, float]:
        """The noise of the sums, as an ellipsoid and a std."""
        if not isinstance(self.law, BlockLaw):
            return self.ellipsoid, self.scaled_std
        stds = np.ldexp(self.stds[: self.ellipsoid.width], -self.grid_bits)
        scale = np.where(stds > 0, self.ellipsoid.scale / np.where(stds > 0, stds, 1.0), 0.0)
        return Ellipsoid(self.ellipsoid.center, scale, self.ellipsoid.axes), 1.0

    def multiples(self, level: float) -> Floats:
        """For each column, the half-width of an interval at a level, in units of the std of its error."""
        many, width, law = self.noise_law.multiples(self.stds.size, level), self.ellipsoid.width, self.law
        if not isinstance(law, BlockLaw):
            return many[: self.d]
        columns = many[:width].copy()
        counts = [many[width : width + self.auxiliary.absences.size]] + ([many[-1:]] if self.count_units else [])
        for part in counts:
            if part.size:
                columns = np.maximum(np.maximum(columns, part), law.sum_multiple(level))
        return columns

    # Clipping and missing values ------------------------------------------------------------------------

    @cached_property
    def clamping_test(self) -> ClampingTest | None:
        """When a release warns of clamped values [U7]; None where they are not counted."""
        auxiliary, law = self.auxiliary, self.noise_law
        if not auxiliary.outside_rows:
            return None
        place = self.ellipsoid.width + auxiliary.counted - 1
        std = float(self.stds[place]) / auxiliary.outside_rows
        return clamping_test(std, self.outside_stds, lambda odds: law.exceeded(self.stds.size, place, odds))

    @cached_property
    def clipped_shares(self) -> Floats:
        """The shares of rows that are expected beyond the region, by distance class."""
        return self.rows.clipped_shares(self.ellipsoid, max(self.auxiliary.octaves, 1))

    @cached_property
    def sum_clipping_errors(self) -> Floats:
        """Root mean square of what clipping removes from a sum, shared out by the columns' noise."""
        base, std = self.noise_base
        if not self.sum_clipping_error:
            return np.broadcast_to(0.0, self.d)
        stds = base.reach * std
        return stds * math.sqrt(self.sum_clipping_error) / (float(np.linalg.norm(stds)) or 1.0)

    @cached_property
    def unserved(self) -> NDArray[np.bool_]:
        auxiliary, ellipsoid = self.auxiliary, self.ellipsoid
        if auxiliary.missing in ("row", "fill") or self.request.missing == "none":
            return np.zeros(self.d, bool)
        counted = auxiliary.absences > 0 if auxiliary.absences.size else np.zeros(1, bool)
        if self.statistic in SUMS:  # A missing value adds nothing if it counts as 0.
            lower, upper = self.rows.bounds() if self.clamped else (ellipsoid.center, ellipsoid.center)
            return np.broadcast_to(~(counted | ((lower <= 0) & (upper >= 0))), self.d)
        if ellipsoid.axes is None:  # A column with equal bounds is always at its center.
            counted = counted | (ellipsoid.scale == 0)
        return np.broadcast_to(~(counted | (ellipsoid.reach == 0)), self.d)

    # Forecast -------------------------------------------------------------------------------------------

    @property
    def noise(self) -> Noise | None:
        """Noise of the sums, over the number of rows for means; None for a mean without n."""
        ellipsoid, std = self.noise_base
        if self.statistic in SUMS:
            return Noise(ellipsoid, std, None if self.count_std is None else self.ellipsoid.center * self.count_std)
        return None if self.n is None else Noise(ellipsoid, std / self.n)

    @cached_property
    def noise_std(self) -> Floats | None:
        """Standard deviation of the noise of each column's sum, over n for means; `expected_error` adds the counts'."""
        return None if self.noise is None else self.noise.stds

    @property
    def noise_cov(self) -> Floats | None:
        """(d, d) covariance of the noise of the sums, over n^2 for means."""
        return None if self.noise is None else self.noise.covariance

    @property
    def _noise_errors(self) -> Floats | None:
        """Root mean square error of each column, clipping left aside [U2][U6]."""
        expected = expect(self)
        return None if expected is None else widen(self, noise_of(self, expected).stds, expected.rows)

    @property
    def _clipping_errors(self) -> Floats | None:
        """Root mean square of what clipping removes from each column."""
        if self.statistic in SUMS:
            return self.sum_clipping_errors
        return None if self.n is None else self.sum_clipping_errors / self.n

    @cached_property
    def expected_error(self) -> Floats | None:
        """Root mean square error of each column: the standard error of the release, for data as described."""
        if self._noise_errors is None or self._clipping_errors is None:
            return None
        return np.hypot(self._noise_errors, self._clipping_errors)

    @cached_property
    def noise_error(self) -> float | None:
        """Expected squared norm of the noise."""
        return _squared_norm(self._noise_errors)

    @property
    def clipping_error(self) -> float | None:
        """Expected squared norm of what clipping removes (0 where the given bounds hold every row)."""
        return _squared_norm(self._clipping_errors)

    @property
    def expected_squared_error(self) -> float | None:
        """E‖release - true statistic‖^2 = noise_error + clipping_error."""
        noise, clipping = self.noise_error, self.clipping_error
        return None if noise is None or clipping is None else noise + clipping

    @property
    def budget_error(self) -> tuple[float | None, str]:
        errors, squared, is_sum = self.expected_error, self.expected_squared_error, self.statistic in SUMS
        if errors is None or squared is None:
            return None, ""
        if self.statistic == "count":
            return float(errors[0]), "error of a count"
        if self.request.error_weights != "relative" or (is_sum and self.n is None):
            return math.sqrt(squared), "error, all columns together"
        spread = np.asarray(self.rows.spread(), float)
        live = spread > 0
        shares = errors[live] / spread[live] / (self.n if is_sum and self.n else 1)
        unit = "range" if self.rows.kind == "box" else "std"
        return float(np.sqrt(np.mean(shares**2))), f"RMS error / (n × {unit})" if is_sum else f"RMS error / {unit}"

    @property
    def std_errors(self) -> Floats | None:
        """Expected errors of the standard deviations of a description, for uniform columns."""
        return std_errors(self, self.n) if self.statistic == "describe" and self.n is not None else None

    @property
    def correlation_error(self) -> float | None:
        """Expected error of a correlation in a description with covariances, for uniform columns."""
        return correlation_error(self)

    @cached_property
    def warning(self) -> str | None:
        errors, scale = self.expected_error, self.n if self.statistic in SUMS else 1
        if errors is None or scale is None or self.center_spread == 0:
            return None
        open_range = self.rows.distances(self.d, self.n) * scale
        if not self.clamped:  # of all columns together, since nothing is known of columns by themselves
            errors, open_range = (np.full(1, float(np.linalg.norm(part))) for part in (errors, open_range))
        useless = (open_range > 0) & (errors >= open_range / 2)
        if not useless.any():
            return None
        columns = "" if useless[open_range > 0].all() else f" of {list_columns(self, useless)}"
        return (
            f"The expected error{columns} is as large as {self.rows.open_range}, so the result would carry no "
            "information. Use more rows, tighter bounds or a larger budget."
        )


def _squared_norm(errors: Floats | None) -> float | None:
    if errors is None:
        return None
    with np.errstate(over="ignore", under="ignore"):
        return float(errors @ errors)
