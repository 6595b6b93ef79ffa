"""The arguments `missing` and `count_clipped`: which auxiliary counts stand beside the values of a region."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats, UsageError, floats, vector
from ..numerics.wide_integers import Ints, squares_of, sum_of
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
_COLUMNS_AT_ONCE = 1 << 14  # whose squares stay in the cache
_CLAMPED_WEIGHT = 0.5
"""Of a row with a clamped cell, in units of half of how far values move: at epsilon = 1, delta = 1e-6 Gaussian noise
hides 95 such rows, and is 3.1% larger; where cells of several columns are counted too, 6.1% [S9]."""


@dataclass(frozen=True)
class MissingValues:
    """The arguments of a call: `missing` (None: what is usual for the rows), `check`, and which columns can have gaps.

    check: None counts what is clipped where that costs no noise.
    gaps: None where no source was asked, and every column may have missing entries.
    """

    missing: Missing = None
    check: bool | None = True
    gaps: tuple[bool, ...] | None = None
    counts_left_out: bool = True
    """Whether rows that are left out are counted; in groups they belong to none."""

    def __post_init__(self) -> None:
        parse_missing(self.missing)

    def rule(self, rows: Rows, d: int) -> tuple[str, Floats | None]:
        """The rule, and what is filled in."""
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
        """For each column, whether an entry can be missing by its type."""
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
    if numbers.ndim > 1 or not np.isfinite(numbers).all():
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
    """What rows of this kind carry beside their values, at units that cost as little as can be [S9][S10].

    few: every coordinate makes the noise of all larger, so few tell apart what lies outside.
    """
    rule, fill = missing_values.rule(rows, region.ellipsoid.center.size)
    missing_values = replace(missing_values, check=missing_values.counts(rows))
    if rows.clamps:
        counts = (
            _clamped_counts(clamp_limits(rows, region.ellipsoid, bits), neighbors, few) if missing_values.check else ()
        )
        return replace(
            _lay_clamped_counts(rows, region, rule, fill, statistic, neighbors, missing_values, bits), **dict(counts)
        )
    weights = column_weights(rows, region.ellipsoid)
    octaves = few_octaves(len(weights)) if few else OCTAVES
    return clipped_auxiliary_counts(weights, region, rule, fill, statistic, neighbors, missing_values, bits, octaves)


def few_octaves(d: int) -> int:
    """Octaves of rows outside that are told apart where every coordinate costs: few beside few columns."""
    return min(OCTAVES, max(_FEWEST_OCTAVES, d // 4))


def _clamped_counts(limits: Ints, neighbors: str, few: bool) -> dict[str, Any]:
    """[S9] Units of rows with a clamped cell, and of such cells: all of a row's together weigh as much as the row."""
    parts = (limits[first : first + _COLUMNS_AT_ONCE] for first in range(0, limits.size, _COLUMNS_AT_ONCE))
    units = (
        _CLAMPED_WEIGHT
        * math.sqrt(sum(sum_of(squares_of([part])) for part in parts))
        * (1.0 if neighbors == "replace" else 0.5)
    )
    live = limits > 0
    columns = int(np.count_nonzero(live))
    cells = _NONE if few or columns < 2 else np.where(live, round(units / math.sqrt(columns)), 0).astype(np.int64)
    return {"outside": cells, "outside_rows": round(units)}


def clipped_auxiliary_counts(
    weights: Floats,
    region: Clip,
    rule: str,
    fill: Floats | None,
    statistic: str,
    neighbors: str,
    missing_values: MissingValues,
    bits: int,
    octaves: int = OCTAVES,
) -> AuxiliaryCounts:
    """[S10] Lay the counts for rows that are clipped by norm; weights: each column's part of the norm."""
    factor = 2 if neighbors == "replace" else 1
    pull = region.pull
    outside = _NONE
    if missing_values.check:
        outside = free_units(_FIRM_WEIGHT**2 if pull == 1 else factor * (1 - pull**2), bits)
    weight = float(outside[0] / 2.0**bits) ** 2 if outside.size else 0.0
    center = region.ellipsoid.center
    absences = _NONE
    shares = None
    if rule == "row":
        free = 4 - max(1.0, pull**2 + weight) if neighbors == "replace" else 1.0
        absences = free_units(free, bits) if missing_values.counts_left_out else np.zeros(1, np.int64)
    elif rule == "column":
        counted = missing_values.can_miss(center.size) & (center != 0 if statistic == "sum" else True)  # 0 moves no sum
        if counted.any():
            shares = whole_shares(weights, counted)
            absences = free_units(factor * pull**2 * shares, bits)
        else:
            rule = "center"  # a sum about zero: an absent cell adds nothing, and need not be counted
    return AuxiliaryCounts(
        rule, fill, absences, shares, outside, octaves if outside.size else 0, pull if outside.size else 1.0
    )


def column_weights(rows: Rows, ellipsoid: Ellipsoid) -> Floats:
    """Approximate part of each column in a row's squared norm; equal if only a ball is known."""
    if rows.is_isotropic:
        return np.ones(ellipsoid.center.size)
    matrix, spread = ellipsoid.matrix, rows.spread()
    with np.errstate(over="ignore", under="ignore"):  # products first: squares may leave the range of doubles
        weights = (ellipsoid.scale * spread) ** 2 if matrix is None else ((matrix * spread) ** 2).sum(axis=0)
    return weights if np.isfinite(weights).all() and weights.any() else np.ones(ellipsoid.center.size)


def _lay_clamped_counts(
    rows: Rows,
    region: Clip,
    rule: str,
    fill: Floats | None,
    statistic: str,
    neighbors: str,
    missing_values: MissingValues,
    bits: int,
) -> AuxiliaryCounts:
    """[S9] Lay the counts for values that are clamped to their own bounds."""
    limits = clamp_limits(rows, region.ellipsoid, bits)
    free = 3.0 if neighbors == "replace" else 1.0
    if rule == "row":
        unit = np.maximum(1, free_units(free * sum_of(squares_of([limits])), 0))
        return AuxiliaryCounts(rule, None, unit if missing_values.counts_left_out else 0 * unit)
    lower, upper = rows.bounds()
    if fill is not None and ((fill < lower) | (fill > upper)).any():
        raise UsageError(
            "missing must be a number within the bounds of its column. Pass another number, or wider bounds."
        )
    if rule != "column":
        return AuxiliaryCounts(rule, fill)
    center, half = region.ellipsoid.center, (upper - lower) / 2
    can_miss = missing_values.can_miss(center.size)
    if statistic != "sum":
        units = np.where(can_miss, free_units(free * limits.astype(float) ** 2, 0), 0)
        return AuxiliaryCounts(rule, None, units)
    # An absent cell adds nothing to a sum: where 0 is within the bounds it can be filled in, and needs no count.
    zero = (lower <= 0) & (upper >= 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        lever = np.where(half > 0, np.abs(center) / half, 1.0)
    square = np.maximum(free, lever) * limits.astype(float) ** 2
    square = np.where(half > 0, square, (0.25 * 2.0**bits) ** 2 / center.size)
    counted = can_miss & ~zero
    units = np.where(counted, free_units(square, 0), 0)
    if not counted.any():
        return AuxiliaryCounts("fill", np.broadcast_to(0.0, center.size))
    return AuxiliaryCounts(rule, np.where(counted, center, 0.0), units)
