"""The public numbers of a plan that its release is decoded with. `plans/` adds the forecasts.

docs/proofs/plans.md: [U1] sensitivity, [U7] clamping, [U8] rows of people.
docs/proofs/groups.md: [G3] groups that are not listed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from operator import attrgetter
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from ..display.result import Printed
from ..errors import Floats, UsageError
from ..noise import box_shifts, shift_for
from ..noise.block_law import BlockLaw, box_isf_upper
from ..noise.law import GaussianLaw, NoiseLaw
from ..numerics.rounding import round_down
from ..numerics.wide_integers import Ints
from ..privacy.gaussian_curve import normal_isf_upper
from ..privacy.guarantee import Privacy
from ..privacy.spherical_curve import Guarantee
from ..regions.ellipsoid import Ellipsoid
from ..request.groups import Groups
from ..request.people import People
from ..request.request import SUMS, HoldsRequest, Request
from ..row_maps.auxiliary_counts import PLAIN, AuxiliaryCounts
from ..row_maps.maps import ClampedMap, Prepared, RowMap, all_moves, clamped_map, clamped_moves, ellipsoid_map
from ..rows import LearnedRows

_FALSE_ALARM = 1e-4  # Probability of a warning if no value is clamped.
_MISSED = 0.05  # Probability of no warning if as many rows are clamped as the printed limit.


def of_part(part: str, name: str) -> Any:
    """Define a property whose value is that of a part under the given name."""
    return property(attrgetter(f"{part}.{name}"))


class PublicNumbers(HoldsRequest, Printed):
    """The public numbers and texts that every plan has."""

    request: Request
    """The request, with defaults written out for this n and these columns."""
    privacy: Guarantee
    considered: Mapping[str, float] = MappingProxyType({})
    """Expected error (root mean square) of each mechanism that was compared; empty if there was one."""

    @property
    def columns(self) -> tuple[str, ...] | None:
        return cast("tuple[str, ...] | None", self.request.columns)  # A sized request has names.

    @property
    def people(self) -> People | None:
        return self.request.people

    @property
    def rows_each(self) -> int | None:
        """The largest number of rows of a person in a statistic of rows; None if each person is one row."""
        return None if self.people is None else self.people.rows_each

    @property
    def grouping(self) -> Groups | None:
        return self.request.groups

    @property
    def groups(self) -> int | None:
        """The number of listed groups, or the expected number."""
        return None if self.grouping is None else self.grouping.size

    @property
    def stated(self) -> dict[str, float]:
        """The requested budget: epsilon and delta, mu, or rho."""
        return self.request.stated

    @property
    def neighbors(self) -> str:
        return str(self.privacy.neighbors)

    @cached_property
    def public_rows(self) -> bool:
        """Whether the number of rows is public: under "replace", unless a person may have several rows [U8]."""
        return self.neighbors == "replace" and self.rows_each is None

    @property
    def mechanism(self) -> str:
        """The noise distribution."""
        raise NotImplementedError

    @property
    def noise_cov(self) -> Floats | None:
        """(d, d) covariance of the noise; None if the estimates are no vector."""
        return None

    @property
    def budget_error(self) -> tuple[float | None, str]:
        """The expected error that `plot` draws against the budget (None where it is not known), and its unit."""
        raise NotImplementedError

    @property
    def warning(self) -> str | None:
        """Why the result may carry no information, known before any budget is spent; None if there is no reason."""
        raise NotImplementedError

    def forecast_svg(self, prefix: str) -> str | None:
        """The figure of `plot` as SVG for a page, if there is one. prefix: start of its identifiers."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        raise NotImplementedError


@dataclass(frozen=True)
class ClampingTest:
    """Thresholds for noisy numbers of rows and values."""

    most_rows: float
    """A larger noisy count of rows with a clamped value raises a warning. Noise alone exceeds it once in 10,000."""
    most_values: Floats
    """The warning names a column if its noisy count is larger. Empty if values are not counted by column."""
    undetected_rows: int
    """Clamping in fewer rows remains undetected in more than one of 20 releases."""


@dataclass(frozen=True, repr=False)
class VectorNumbers(PublicNumbers):
    """Clip region, grid, noise and guarantee of a release of one vector, and numbers that follow from them."""

    request: Request
    """The request, with defaults written out for this n and these columns."""
    privacy: Guarantee
    ellipsoid: Ellipsoid
    grid_bits: int
    count_units: int
    """The number of grid units that one row adds to the count, if n is private; else 0."""
    noise_units: float
    """Noise std in grid units: noise_units * mu >= sensitivity in exact arithmetic."""
    clip_radius: float | None = None
    sum_clipping_error: float = 0.0
    center_spread: float = 0.0
    auxiliary: AuxiliaryCounts = PLAIN
    """The treatment of missing values, and the counts beside the values."""
    law: NoiseLaw | None = None
    """The noise distribution if it is not Gaussian."""

    @property
    def one(self) -> VectorNumbers:
        """The plan of a single vector: this one."""
        return self

    @property
    def size(self) -> int | None:
        """The expected number of rows, or people, behind a statistic."""
        return self.n

    @property
    def clamped(self) -> bool:
        """Whether each value is clamped to its own bounds (Box). Other rows are clipped by their norm."""
        return self.rows.clamps

    @property
    def needs_no_count(self) -> bool:
        """Whether the statistic is a sum with center zero, so that missing values add nothing."""
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
        """[U1] L2 sensitivity of the integer sum. If n is private, the count is one more coordinate."""
        return self.row_map.body.sensitivity(self.neighbors, self.count_units, self.rows_each)

    @property
    def column_sensitivities(self) -> Ints:
        """The sensitivity of each coordinate in grid units. For rows clipped by norm it is that of the whole row."""
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
        """Noise stds of all coordinates in grid units: values, counts beside them, the number of rows."""
        return self.noise_law.stds(self.row_map.width + (1 if self.count_units else 0))

    @cached_property
    def scaled_std(self) -> float:
        """Noise std in the scaled space, in which rows have norm at most 1; the largest if columns differ."""
        return math.ldexp(float(self.stds[: self.ellipsoid.width].max()), -self.grid_bits)

    @property
    def count_weight(self) -> float:
        """kappa: the count's coordinate in the scaled space if n is private, or 0."""
        return math.ldexp(self.count_units, -self.grid_bits)

    @property
    def count_std(self) -> float | None:
        """Standard deviation of the noise of the published number of rows, or None if n is public."""
        return float(self.stds[-1]) / self.count_units if self.count_units else None

    @cached_property
    def absence_stds(self) -> Floats:
        """Noise stds of the counts of missing values, in rows; 0 for columns that are not counted."""
        return self._beside(self.ellipsoid.width, self.auxiliary.absences)

    @cached_property
    def outside_stds(self) -> Floats:
        """Noise stds of the counts of rows or values outside the bounds; 0 for those that are not counted."""
        last = self.auxiliary.counted - (self.auxiliary.outside_rows > 0)
        units = self.auxiliary.units[self.auxiliary.absences.size : last]
        return self._beside(self.ellipsoid.width + self.auxiliary.absences.size, units)

    @property
    def square_stds(self) -> Floats:
        """Noise stds of the sums of squares, in units of the squared half-width; 0 if there are none."""
        return self._beside(self.ellipsoid.width + self.auxiliary.counted, self.auxiliary.squares)

    @property
    def product_std(self) -> float:
        """Noise std of a sum of products of two columns, in units of their half-widths; 0 if there are none."""
        units = np.full(self.auxiliary.pairs, self.auxiliary.products)
        return float(self._beside(self.ellipsoid.width + self.auxiliary.width - units.size, units).max(initial=0.0))

    def _beside(self, start: int, units: Ints) -> Floats:
        stds = self.stds[start : start + units.size]
        return np.where(units > 0, stds / np.where(units > 0, units, 1.0), 0.0)

    @cached_property
    def noise_base(self) -> tuple[Ellipsoid, float]:
        """The noise of the sums as an ellipsoid and a std."""
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
        """The thresholds for warnings of clamped values [U7]; None if they are not counted."""
        auxiliary, law = self.auxiliary, self.noise_law
        if not auxiliary.outside_rows:
            return None
        place = self.ellipsoid.width + auxiliary.counted - 1

        def exceeded(odds: float) -> float:
            return law.exceeded(self.stds.size, place, odds)

        std, stds = float(self.stds[place]) / auxiliary.outside_rows, self.outside_stds
        most_values = stds
        if stds.size:
            most_values = np.where(stds > 0, stds * exceeded(_FALSE_ALARM / stds.size), np.inf)
        most_rows = std * exceeded(_FALSE_ALARM)
        return ClampingTest(most_rows, most_values, math.ceil(most_rows + std * exceeded(_MISSED)))

    @cached_property
    def clipped_shares(self) -> Floats:
        """The expected shares of rows outside the region, by distance class."""
        return self.rows.clipped_shares(self.ellipsoid, max(self.auxiliary.octaves, 1))

    @cached_property
    def sum_clipping_errors(self) -> Floats:
        """Root mean square error of sums due to clipping, distributed over the columns in proportion to their noise."""
        base, std = self.noise_base
        if not self.sum_clipping_error:
            return np.broadcast_to(0.0, self.d)
        stds = base.reach * std
        return stds * math.sqrt(self.sum_clipping_error) / (float(np.linalg.norm(stds)) or 1.0)


class GroupNumbers(PublicNumbers):
    """The public numbers of a plan for groups."""

    one: VectorNumbers
    """The plan of a single group under add_remove. Its n is the expected size of a group."""
    privacy: Privacy

    @property
    def grouping(self) -> Groups:
        assert self.request.groups is not None
        return self.request.groups

    @property
    def width(self) -> int:
        """The number of noisy sums of a group: values, counts of missing values, and the number of rows."""
        return self.one.row_map.width + 1

    @property
    def failure(self) -> float:
        """The probability that a group of one person is published. All groups of a person share the slack [G3]."""
        return round_down(Fraction(self.privacy.slack) / self.grouping.max_per_person)

    @cached_property
    def threshold(self) -> float:
        """A group that is not listed is published if its noisy number of rows is at least this [G3]."""
        units, shift = self._threshold_units()
        return math.ldexp(units, shift) / self.one.count_units

    def _threshold_units(self) -> tuple[int, int]:
        """(K, shift): the least rounded noisy count that is published, in units of 2^shift grid units."""
        law = self.one.noise_law
        if isinstance(law, BlockLaw):
            place = next(i for i, block in enumerate(law.blocks.blocks) if self.width - 1 in block.columns)
            size, scale = law.blocks.blocks[place].size, law.scales[place]
            shift = int(box_shifts([scale], [size])[0])
            farthest = Fraction(scale) * Fraction(box_isf_upper(self.failure, size))
        else:
            shift = shift_for(self.one.noise_units)
            farthest = Fraction(self.one.noise_units) * Fraction(normal_isf_upper(self.failure))
        # rint((S + noise) / 2^shift) >= K only where S + noise >= (K - 1/2) 2^shift
        needed = (self.one.count_units + farthest) / Fraction(2) ** shift + Fraction(1, 2)
        return math.ceil(needed), shift
