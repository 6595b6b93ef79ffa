"""Every public number of one release, made without data, and the forecast of its error.

docs/proofs/plans.md: [U1] one release, [U2] unknown n.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..display.document import Document
from ..errors import Floats, UsageError, names
from ..kernels.accumulate import Partial
from ..noise import Stream
from ..noise.block_law import BoxLaw
from ..noise.law import GaussianLaw, Law
from ..numerics.wide_integers import Ints
from ..privacy.spherical_curve import Guarantee
from ..regions.ellipsoid import Ellipsoid
from ..releases.clipping_bias import cell_limits
from ..releases.description import (
    check_squares,
    correlation_error,
    read_release,
    release_class,
    std_errors,
)
from ..releases.noise_covariance import Noise
from ..releases.release import Release
from ..request.people import People
from ..request.request import Request
from ..row_maps.auxiliary_counts import PLAIN, Riders
from ..row_maps.grid import GRID_BITS, WIDE_GRID_BITS, clamped_map, ellipsoid_map
from ..row_maps.maps import ClampedMap, RowMap, all_moves, clamped_moves
from ..rows import LearnedRows, Rows
from ..session import Session
from ..util import json_codec
from .base import Requested, check_gaps, check_width, unserved_gaps
from .json import checked_spread, plan_fields, plan_to_dict

_DROWNED = (
    "the noise would be as large as what the bounds leave open. More rows, tighter bounds or a larger budget help."
)
WIDEST_COUNT_WEIGHT = 2.0**30
_MOST_ROWS = 2.0**64  # beyond any data, where n is private
_FARTHEST_NOISE = 64.0  # stds: exceeded with probability below 1e-890


class OutOfRange(UsageError):
    """Numbers that doubles cannot hold; another law of noise may have smaller ones."""

    def __init__(self) -> None:
        super().__init__("the noise of this plan or its forecast leaves the range of doubles. Rescale the columns.")


@dataclass(frozen=True, repr=False)
class Plan(Requested):
    """One release, before the data: clip region, grid, noise, guarantee, forecast.

    Guarantee: `release` on any data is `privacy` for its neighboring relation [U1].
    """

    request: Request
    """What was asked for, sized for the data."""
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
    riders: Riders = PLAIN
    """What is done about missing values, and what is counted beside the values."""
    law: Law | None = None
    """The law of the noise where it is not Gaussian."""
    considered: Mapping[str, float] = field(default_factory=dict, compare=False)
    """Forecast errors under the laws that were weighed against each other, root mean square."""

    def __post_init__(self) -> None:
        # A plan may come from a file: its noise is checked against its claim every time it is made.
        self.privacy.check_unit(self.people is not None)
        self.privacy.check_stated(self.stated)
        names("columns", self.columns, self.d)
        self.ellipsoid.check()
        if self.request.d != self.ellipsoid.center.size or self.neighbors != self.request.neighbors:
            raise UsageError("this plan is not that of its request. Create a new plan.")
        if not (math.isfinite(self.noise_units) and self.grid_bits in (GRID_BITS, WIDE_GRID_BITS)):
            raise UsageError("this plan's grid or noise is not a valid number. Make the plan anew.")
        self._check_count()
        check_squares(self)
        if self.law is not None and self.noise_units != 0:
            raise UsageError("this plan has two laws of noise. Make the plan anew.")
        self.noise_law.prove(self.privacy, self._sensitivity(), self._moves())
        if self.stated:  # that of a group has the guarantee of all groups
            self.check_range()

    def _check_count(self) -> None:
        """The number of rows is a public n, or one more coordinate, or not needed at all [U2][U8]."""
        if self.public_rows:
            valid = self.count_units == 0 and self.n is not None
        elif self.neighbors == "replace" and self.n is None:
            valid = False
        else:
            most = math.ldexp(WIDEST_COUNT_WEIGHT, self.grid_bits)
            valid = (0 if self.statistic == "sum" else 1) <= self.count_units <= most
        if not valid or self.privacy.slack:
            raise UsageError("this plan does not count its rows as its guarantee has it. Make the plan anew.")

    def check_range(self) -> None:
        """An error where the noise, a result or the forecast could leave the range of doubles: public numbers alone."""
        center, unscale = float(np.abs(self.ellipsoid.center).max()), float(self.ellipsoid.unscale.max())
        rows = float(self.n) if self.public_rows and self.n is not None else _MOST_ROWS
        noise = unscale * self.scaled_std + center * (self.count_std or 0.0)
        farthest = (center + unscale) * rows + _FARTHEST_NOISE * noise
        square = noise * noise * self.ellipsoid.width + self.sum_clipping_error
        if not (math.isfinite(farthest) and math.isfinite(square) and math.isfinite(self.center_spread)):
            raise OutOfRange

    @property
    def noise_law(self) -> Law:
        return self.law or GaussianLaw(self.noise_units)

    def _moves(self) -> Ints:
        """How far each coordinate moves at most, in units of the grid; of rows clipped by norm, as far as they do."""
        row_map = self.row_map
        each = rows_each(self.people) or 1
        if isinstance(row_map, ClampedMap):
            return all_moves(clamped_moves(row_map.limits, self.riders, self.neighbors), self.count_units, each)
        far = np.full(row_map.width, math.ceil(row_map.body.sensitivity(self.neighbors, 0)))
        return all_moves(far, self.count_units, each)

    @cached_property
    def stds(self) -> Floats:
        """Noise stds of all coordinates in units of the grid: values, counts beside them, the count of rows."""
        return self.noise_law.stds(self.row_map.width + (1 if self.count_units else 0))

    @cached_property
    def absence_stds(self) -> Floats:
        """Noise stds of the counts of absences, in rows; 0 where none is counted."""
        return self._beside(self.ellipsoid.width, self.riders.absences)

    @cached_property
    def outside_stds(self) -> Floats:
        """Noise stds of the counts of what lay outside, in rows or cells; 0 where none is counted."""
        units = self.riders.units[self.riders.absences.size : self.riders.counted]
        return self._beside(self.ellipsoid.width + self.riders.absences.size, units)

    @cached_property
    def outside_limits(self) -> Floats:
        """Counts of cells outside that a release warns of."""
        return cell_limits(self.outside_stds)

    @cached_property
    def outside_share(self) -> float:
        """The share of rows that is expected to lie outside the region."""
        return self.rows.outside_share(self.ellipsoid)

    @property
    def square_stds(self) -> Floats:
        """Noise stds of the sums of squares, in units of the squared half-width; 0 where there are none."""
        return self._beside(self.ellipsoid.width + self.riders.counted, self.riders.squares)

    @property
    def product_std(self) -> float:
        """Noise std of a sum of products of two columns, in units of their half-widths; 0 where there are none."""
        units = np.full(self.riders.pairs, self.riders.products)
        return float(self._beside(self.ellipsoid.width + self.riders.width - units.size, units).max(initial=0.0))

    @property
    def correlation_error(self) -> float | None:
        """Of a description with covariances: the forecast error of a correlation, for columns spread evenly."""
        return correlation_error(self)

    @property
    def std_errors(self) -> Floats | None:
        """Of a description: forecast errors of its stds, for columns that are spread evenly over their bounds."""
        return std_errors(self) if self.statistic == "describe" and self.n is not None else None

    def _beside(self, start: int, units: Ints) -> Floats:
        stds = self.stds[start : start + units.size]
        return np.where(units > 0, stds / np.where(units > 0, units, 1.0), 0.0)

    @property
    def noise_base(self) -> tuple[Ellipsoid, float]:
        """The noise of the sums, as an ellipsoid and a std."""
        if not isinstance(self.law, BoxLaw):
            return self.ellipsoid, self.scaled_std
        return Ellipsoid(self.ellipsoid.center, self._block_scale.copy(), self.ellipsoid.axes), 1.0

    @cached_property
    def _block_scale(self) -> Floats:
        """The scale of the ellipsoid that noise in blocks has."""
        stds = np.ldexp(self.stds[: self.ellipsoid.width], -self.grid_bits)
        return np.where(stds > 0, self.ellipsoid.scale / np.where(stds > 0, stds, 1.0), 0.0)

    @cached_property
    def unserved(self) -> NDArray[np.bool_]:
        """For each column, whether data that can lack an entry there asks for another plan."""
        return unserved_gaps(self)

    @property
    def mechanism(self) -> str:
        return self.noise_law.kind

    def multiples(self, level: float) -> Floats:
        """For each column, the half-width of an interval at a level, in units of the std of its error."""
        many = self.noise_law.multiples(self.stds.size, level)
        width = self.ellipsoid.width
        law = self.law
        if not isinstance(law, BoxLaw):
            return np.full(self.d, many[0])
        columns = many[:width].copy()
        counts = [many[width : width + self.riders.absences.size]] + ([many[-1:]] if self.count_units else [])
        for part in counts:
            if part.size:
                columns = np.maximum(np.maximum(columns, part), law.sum_multiple(level))
        return columns

    def _sensitivity(self) -> Fraction:
        """[U1] l2-sensitivity of the integer sum, with the count as one more coordinate where n is private."""
        return self.row_map.body.sensitivity(self.neighbors, self.count_units, rows_each(self.people))

    @property
    def one(self) -> Plan:
        """The plan of a single vector: this one."""
        return self

    @property
    def size(self) -> int | None:
        """The rows, or people, that a statistic is expected to be of."""
        return self.n

    @property
    def clamped(self) -> bool:
        """Whether each value is clamped to its own bounds (Box), rather than rows clipped by their norm."""
        return self.rows.clamps

    @cached_property
    def public_rows(self) -> bool:
        """Whether the number of rows is public: under "replace", but not where people have many [U8]."""
        return self.neighbors == "replace" and rows_each(self.people) is None

    @cached_property
    def row_map(self) -> RowMap:
        return plan_map(self.rows, self.ellipsoid, self.grid_bits, self.riders, self.clamped)

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
        """Noise std of the published count (unknown n), or None."""
        return float(self.stds[-1]) / self.count_units if self.count_units else None

    @property
    def needs_no_count(self) -> bool:
        """Whether it is a sum about zero: rows at the center, and cells that are absent, add nothing to it."""
        return self.statistic == "sum" and self.count_std is None and not self.public_rows

    def noise(self) -> Noise | None:
        """Noise of the planned statistic; None for a mean whose n nobody has guessed."""
        ellipsoid, std = self.noise_base
        if self.statistic == "sum":
            if self.count_std is None:
                return Noise(ellipsoid, std)
            return Noise(ellipsoid, std, self.ellipsoid.center * self.count_std)
        if self.n is None:
            return None
        return Noise(ellipsoid, std / self.n)

    @cached_property
    def noise_std(self) -> Floats | None:
        noise = self.noise()
        return None if noise is None else noise.stds

    @property
    def noise_cov(self) -> Floats | None:
        noise = self.noise()
        return None if noise is None else noise.covariance

    @cached_property
    def noise_error(self) -> float | None:
        """Expected squared norm of the noise; that of a mean's counts enters through the mean's distance [U2][U6]."""
        noise = self.noise()
        if noise is None:
            return None
        if self.statistic == "sum":
            return noise.total + self._absences_error(self.ellipsoid.center, 1.0)
        assert self.n is not None
        total = noise.total + self._absences_error(self.rows.distances(self.d, self.n), float(self.n))
        if self.count_std is None:
            return total
        shared = self.center_spread * self.count_std / self.n
        doubt = self.count_std / self.n
        return (total + shared * shared) * (1 + 3 * doubt * doubt)  # [U2]

    def _absences_error(self, levers: Floats, rows: float) -> float:
        """What the noise of the absences' counts adds, as levers of the statistic [U6]."""
        with np.errstate(over="ignore"):
            return float(np.sum((levers * self.absence_stds / rows) ** 2)) if self.absence_stds.size else 0.0

    def column_errors(self) -> Floats:
        """Forecast root mean square error of each column; what clipping costs is shared out by the columns' noise."""
        noise = self.noise()
        if noise is None or self.noise_error is None or self.expected_squared_error is None:
            raise UsageError("n is missing: the error of a mean depends on it. State n= as well.")
        total = noise.total or 1.0
        errors: Floats = noise.stds * math.sqrt(self.expected_squared_error / total)
        return errors

    @property
    def clipping_error(self) -> float | None:
        """Expected squared norm of what clipping removes (0 where the stated region holds every row)."""
        if self.statistic == "sum":
            return self.sum_clipping_error
        return None if self.n is None else self.sum_clipping_error / self.n**2

    @property
    def expected_squared_error(self) -> float | None:
        """E‖release - true statistic‖^2 = noise_error + clipping_error."""
        noise, clipping = self.noise_error, self.clipping_error
        return None if noise is None or clipping is None else noise + clipping

    @cached_property
    def doubt(self) -> str | None:
        """Why a budget spent on this plan may be wasted, in words; None where there is no reason."""
        if self.noise_error is None or self.center_spread == 0:
            return None
        scale = self.n if self.statistic == "sum" else 1.0
        if scale is None or np.sqrt(self.noise_error) < self.center_spread * scale / 2:
            return None
        return _DROWNED

    def run(self, session: Session) -> Release:
        """[U1] Exact sums -> correctly rounded noisy integers -> the release, whatever source summed the rows."""
        check_width(self.d, session.source)
        check_gaps(self, session.source)
        if self.neighbors == "replace" and (session.counts_first or not self.public_rows):
            self._check_rows(session.source.count())
        session.propose(self)
        account = session.reserve(self.privacy, self.statistic, self)
        account.charge(account.cap, self.statistic)
        partial = session.total(self.row_map, public=self.public_rows)
        return self.publish(self.noisy_sums(partial, account.stream()), session.secure)

    def noisy_sums(self, partial: Partial, stream: Stream) -> Floats:
        """[U1] The noisy sums in the scaled space; under add_remove the weighted count comes last."""
        if self.public_rows:
            self._check_rows(partial.rows)
        last = [partial.rows * self.count_units] if self.count_units else []
        return self.noise_law.add(partial.sums, last, stream) * 2.0**-self.grid_bits  # exact: a power of two

    def _check_rows(self, count: int) -> None:
        """Under "replace" n is public, and a plan is for this many rows, or people."""
        if count != self.n:
            what = "rows" if self.people is None else "people"
            raise UsageError(f"this plan is for n = {self.n} {what}, the data has {count}. Plan anew for this n.")

    def publish(self, scaled: Floats, secure: bool) -> Release:
        """From noisy sums in the scaled space to original units: post-processing only [U3][U6]."""
        return release_class(self)(self, scaled, secure)

    def to_dict(self) -> dict[str, Any]:
        return plan_to_dict(self)

    def to_json(self) -> str:
        return json_codec.dump(self.to_dict())

    @staticmethod
    def from_json(text: str) -> Plan:
        return plan_from_dict(json_codec.parse(text))

    @staticmethod
    def read_release(text: str) -> Release:
        return read_release(json_codec.parse(text), plan_from_dict)

    def document(self, most: int | None = None) -> Document:
        from .documents import plan_document

        return plan_document(self, most)


def plan_from_dict(found: Any) -> Plan:
    """Inverse of `Plan.to_dict`: whatever the file claims is checked."""
    plan = Plan(**plan_fields(found))
    return replace(plan, center_spread=checked_spread(plan))


def plan_map(rows: Rows, ellipsoid: Ellipsoid, bits: int, riders: Riders, clamped: bool) -> RowMap:
    """The row map of a plan."""
    if clamped:
        return clamped_map(rows, ellipsoid, bits, riders)
    clipped = ellipsoid_map(ellipsoid, bits, riders)
    if not isinstance(rows, LearnedRows) or rows.lower is None:
        return clipped
    from ..row_maps.prepared import Prepared

    return Prepared(clipped, np.nan, rows.lower, rows.upper)  # missing entries stay missing [L6]


def rows_each(people: People | None) -> int | None:
    """So many rows of a person enter a statistic of rows; None where everybody is one row."""
    return None if people is None else people.rows_each
