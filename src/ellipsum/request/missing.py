"""The arguments `missing` and `count_clipped`, and the auxiliary counts beside the values of a region."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats, UsageError, floats, vector
from ..numerics.wide_integers import squares_of, sum_of
from ..regions.ellipsoid import Clip, Ellipsoid
from ..row_maps.auxiliary_counts import OCTAVES, AuxiliaryCounts, free_units, whole_shares
from ..row_maps.maps import clamp_limits
from ..rows import Rows
from ..suggestions import suggest_value

Missing: TypeAlias = str | float | Sequence[float] | None
"""The `missing` argument of a call."""
WORDS = ("skip", "drop_row", "none")
COMPLETE = WORDS[2]
"""The caller states that no value is missing; one that is counts as the center."""
_RULES = {"skip": "column", "drop_row": "row", "none": "center"}
_NONE = np.empty(0, np.int64)
_FEWEST_OCTAVES = 2
_FIRM_WEIGHT = 0.2  # Weight of a row outside a given ball: one percent more noise.
_COLUMNS_AT_ONCE = 1 << 14  # The squares of this number of columns fit the cache.
_CLAMPED_WEIGHT = 0.5
"""Weight of a row with a clamped value, relative to half the sensitivity of the values. At epsilon = 1 and
delta = 1e-6, 95 such rows go unnoticed; Gaussian noise is 3.1% larger, or 6.1% with counts of several columns [S9]."""


@dataclass(frozen=True)
class MissingValues:
    """The arguments `missing` and `count_clipped` of a call, and which columns can have missing values."""

    missing: Missing = None
    """None means the default of the rows."""
    check: bool | None = True
    """Whether clipped rows are counted; None counts them where that costs no noise."""
    gaps: tuple[bool, ...] | None = None
    """For each column, whether a value can be missing; None where every value can be."""
    counts_left_out: bool = True
    """Whether rows that are left out are counted. In groups they are not, as they belong to no group."""

    def __post_init__(self) -> None:
        parse_missing(self.missing)

    def rule(self, rows: Rows, d: int) -> tuple[str, Floats | None]:
        """The rule, and the values that are filled in."""
        missing = rows.usual_missing if self.missing is None else self.missing
        if not isinstance(missing, str):
            numbers = _numbers(missing)
            return "fill", np.broadcast_to(float(numbers), d) if numbers.ndim == 0 else vector("missing", numbers, d)
        if not self.can_miss(d).any():
            return "center", None
        if missing == "drop_row" and d == 1 and rows.clamps and self.counts_left_out:
            missing = "skip"  # the same, and cheaper under noise in blocks [K5]
        return _RULES[missing], None

    def counts(self, rows: Rows) -> bool:
        """Whether clipped rows are counted; with hard bounds that costs some noise."""
        return not rows.is_hard_bound if self.check is None else bool(self.check)

    def can_miss(self, d: int) -> NDArray[np.bool_]:
        """For each column, whether its type allows missing values."""
        if self.gaps is None or False not in self.gaps:
            return np.ones(d, bool)
        return np.array(self.gaps, bool)


def parse_missing(missing: Missing) -> str | float | tuple[float, ...] | None:
    """Check the `missing` argument of a call: a rule, a number, a number per column, or None for the default."""
    if isinstance(missing, str) and missing not in WORDS:
        choices = ", ".join(map(repr, WORDS))
        advice = suggest_value("missing", missing, WORDS)
        raise UsageError(f"missing must be one of {choices}, a number, or one per column, got {missing!r}.{advice}")
    if missing is None or isinstance(missing, str):
        return missing
    numbers = _numbers(missing).tolist()
    return tuple(numbers) if isinstance(numbers, list) else numbers


def _numbers(value: float | Sequence[float]) -> Floats:
    numbers = floats("missing", value)
    if numbers.ndim > 1 or not numbers.size or not np.isfinite(numbers).all():
        raise UsageError("missing must be 'skip', 'drop_row', 'none', a finite number, or one per column.")
    return numbers


def lay_auxiliary_counts(
    rows: Rows,
    region: Clip,
    statistic: str,
    neighbors: str,
    missing_values: MissingValues,
    bits: int,
    few: bool = False,
) -> AuxiliaryCounts:
    """Choose the counts beside the values, and their units, which cost as little noise as possible [S9][S10].

    few: use few coordinates for rows outside the region, because each coordinate increases the noise of all others.
    """
    layout = _Layout(rows, region, statistic, neighbors, missing_values, bits)
    if not rows.clamps:
        return layout.count_clipped_rows(few)
    counts = layout.count_missing()
    return replace(counts, **layout.clamped_units(few)) if missing_values.counts(rows) else counts


def few_octaves(d: int) -> int:
    """The number of distance bins outside the region where every coordinate costs noise: few for few columns."""
    return min(OCTAVES, max(_FEWEST_OCTAVES, d // 4))


@dataclass(frozen=True)
class _Layout:
    """Everything that the counts beside the values of a region depend on."""

    rows: Rows
    region: Clip
    statistic: str
    neighbors: str
    missing_values: MissingValues
    bits: int

    @property
    def d(self) -> int:
        return self.region.ellipsoid.center.size

    def clamped_units(self, few: bool) -> dict[str, Any]:
        """[S9] Units of a row with clamped values, and of these values: together they weigh as much as the row."""
        limits = clamp_limits(self.rows, self.region.ellipsoid, self.bits)
        parts = (limits[first : first + _COLUMNS_AT_ONCE] for first in range(0, limits.size, _COLUMNS_AT_ONCE))
        units = (
            _CLAMPED_WEIGHT
            * math.sqrt(sum(sum_of(squares_of([part])) for part in parts))
            * (1.0 if self.neighbors == "replace" else 0.5)
        )
        is_counted = limits > 0
        columns = int(np.count_nonzero(is_counted))
        values = (
            _NONE if few or columns < 2 else np.where(is_counted, round(units / math.sqrt(columns)), 0).astype(np.int64)
        )
        return {"outside": values, "outside_rows": round(units)}

    def count_clipped_rows(self, few: bool) -> AuxiliaryCounts:
        """[S10] Lay the counts for rows that are clipped by norm."""
        rule, fill = self.missing_values.rule(self.rows, self.d)
        weights = column_weights(self.rows, self.region.ellipsoid)
        factor, pull = 2 if self.neighbors == "replace" else 1, self.region.pull
        outside = _NONE
        if self.missing_values.counts(self.rows):
            outside = free_units(_FIRM_WEIGHT**2 if pull == 1 else factor * (1 - pull**2), self.bits)
        weight = float(outside[0] / 2.0**self.bits) ** 2 if outside.size else 0.0
        absences, shares = _NONE, None
        if rule == "row":
            free = 4 - max(1.0, pull**2 + weight) if self.neighbors == "replace" else 1.0
            absences = free_units(free, self.bits) if self.missing_values.counts_left_out else np.zeros(1, np.int64)
        elif rule == "column":
            # A missing value in a column centered at 0 does not change a sum, so it is not counted.
            counted = self.missing_values.can_miss(self.d)
            counted = counted & (self.region.ellipsoid.center != 0 if self.statistic == "sum" else True)
            if counted.any():
                shares = whole_shares(weights, counted)
                absences = free_units(factor * pull**2 * shares, self.bits)
            else:
                rule = "center"
        octaves = few_octaves(self.d) if few else OCTAVES
        if not outside.size:
            octaves, pull = 0, 1.0
        return AuxiliaryCounts(rule, fill, absences, shares, outside, octaves, pull)

    def count_missing(self) -> AuxiliaryCounts:
        """[S9] Lay the counts for values that are clamped to their own bounds."""
        rule, fill = self.missing_values.rule(self.rows, self.d)
        limits = clamp_limits(self.rows, self.region.ellipsoid, self.bits)
        free = 3.0 if self.neighbors == "replace" else 1.0
        if rule == "row":
            unit = np.maximum(1, free_units(free * sum_of(squares_of([limits])), 0))
            return AuxiliaryCounts(rule, None, unit if self.missing_values.counts_left_out else 0 * unit)
        lower, upper = self.rows.bounds()
        if fill is not None and ((fill < lower) | (fill > upper)).any():
            raise UsageError(
                "missing must be a number within the bounds of its column. Pass another number, or wider bounds."
            )
        if rule != "column":
            return AuxiliaryCounts(rule, fill)
        center, half = self.region.ellipsoid.center, (upper - lower) / 2
        can_miss = self.missing_values.can_miss(self.d)
        if self.statistic != "sum":
            units = np.where(can_miss, free_units(free * limits.astype(float) ** 2, 0), 0)
            return AuxiliaryCounts(rule, None, units)
        # A missing value adds nothing to a sum: where 0 is within the bounds, it is filled in and needs no count.
        zero = (lower <= 0) & (upper >= 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            lever = np.where(half > 0, np.abs(center) / half, 1.0)
        square = np.maximum(free, lever) * limits.astype(float) ** 2
        square = np.where(half > 0, square, (0.25 * 2.0**self.bits) ** 2 / self.d)
        counted = can_miss & ~zero
        if not counted.any():
            return AuxiliaryCounts("fill", np.broadcast_to(0.0, self.d))
        return AuxiliaryCounts(rule, np.where(counted, center, 0.0), np.where(counted, free_units(square, 0), 0))


def column_weights(rows: Rows, ellipsoid: Ellipsoid) -> Floats:
    """Approximate part of each column in a row's squared norm; equal if only a ball is known."""
    if rows.is_isotropic:
        return np.ones(ellipsoid.center.size)
    matrix, spread = ellipsoid.matrix, rows.spread()
    with np.errstate(over="ignore", under="ignore"):  # products first: squares may leave the range of doubles
        weights = (ellipsoid.scale * spread) ** 2 if matrix is None else ((matrix * spread) ** 2).sum(axis=0)
    return weights if np.isfinite(weights).all() and weights.any() else np.ones(ellipsoid.center.size)
