"""What is done about missing entries and about rows outside: the words `missing` and `check`, as riders of a region."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats, UsageError, floats, vector
from ..numerics.wide_integers import squares_of, sum_of
from ..regions.ellipsoid import Clip, Ellipsoid
from ..row_maps.auxiliary_counts import OCTAVES, Riders, free_units, whole_shares
from ..row_maps.grid import clamp_limits
from ..rows import Rows

WORDS = ("column", "row", "center")
_NONE = np.empty(0, np.int64)
_FIRM_WEIGHT = 0.2  # of a row outside a stated ball: one percent more noise
_CELL_WEIGHT = 0.2  # of a cell outside its stated bounds, in units of its half-width: half a percent more noise


@dataclass(frozen=True)
class Handling:
    """The words of a call: `missing` (None: what is usual for the rows), `check`, and which columns can have gaps.

    check: None counts what is clipped where that costs no noise.
    gaps: None where no source was asked, and every column may have missing entries.
    """

    missing: Any = None
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
            return "fill", np.full(d, float(numbers)) if numbers.ndim == 0 else vector("missing", numbers, d)
        if missing != "center" and not self.can_miss(d).any():
            return "center", None
        return missing, None

    def counts(self, rows: Rows) -> bool:
        """Whether what is clipped of such rows is counted; beside a stated bound that costs some noise."""
        return not rows.firm if self.check is None else bool(self.check)

    def can_miss(self, d: int) -> NDArray[np.bool_]:
        """For each column, whether an entry can be missing by its type."""
        if self.gaps is None or False not in self.gaps:
            return np.ones(d, bool)
        return np.array(self.gaps, bool)


def parse_missing(missing: Any) -> Any:
    """The `missing` argument of a call: a word, a number, a number per column, or None for what is usual."""
    if isinstance(missing, str) and missing not in WORDS:
        words = ", ".join(map(repr, WORDS))
        raise UsageError(f"missing must be one of {words}, a number, or one per column, got {missing!r}.")
    if missing is None or isinstance(missing, str):
        return missing
    numbers = _numbers(missing).tolist()
    return tuple(numbers) if isinstance(numbers, list) else numbers


def _numbers(value: Any) -> Floats:
    numbers = floats("missing", value)
    if numbers.ndim > 1 or not np.isfinite(numbers).all():
        raise UsageError("missing must be 'column', 'row', 'center', a finite number, or one per column.")
    return numbers


def lay_riders(
    rows: Rows, region: Clip, statistic: str, neighbors: str, handling: Handling, bits: int, octaves: int = OCTAVES
) -> Riders:
    """What rows of this kind carry beside their values, at units that cost as little as can be [S9][S10]."""
    rule, fill = handling.rule(rows, region.ellipsoid.center.size)
    handling = replace(handling, check=handling.counts(rows))
    if rows.clamps:
        return _clamped(rows, region, rule, fill, statistic, neighbors, handling, bits)
    weights = column_weights(rows, region.ellipsoid)
    return clipped_riders(weights, region, rule, fill, statistic, neighbors, handling, bits, octaves)


def clipped_riders(
    weights: Floats,
    region: Clip,
    rule: str,
    fill: Floats | None,
    statistic: str,
    neighbors: str,
    handling: Handling,
    bits: int,
    octaves: int = OCTAVES,
) -> Riders:
    """[S10] Beside rows that are clipped by their norm; weights: what each column brings of it."""
    factor = 2 if neighbors == "replace" else 1
    pull = region.pull
    outside = _NONE
    if handling.check:
        outside = free_units(_FIRM_WEIGHT**2 if pull == 1 else factor * (1 - pull**2), bits)
    weight = float(outside[0] / 2.0**bits) ** 2 if outside.size else 0.0
    center = region.ellipsoid.center
    absences = _NONE
    shares = None
    if rule == "row":
        free = 4 - max(1.0, pull**2 + weight) if neighbors == "replace" else 1.0
        absences = free_units(free, bits) if handling.counts_left_out else np.zeros(1, np.int64)
    elif rule == "column":
        counted = handling.can_miss(center.size) & (center != 0 if statistic == "sum" else True)  # 0 moves no sum
        if counted.any():
            shares = whole_shares(weights, counted)
            absences = free_units(factor * pull**2 * shares, bits)
        else:
            rule = "center"  # a sum about zero: an absent cell adds nothing, and need not be counted
    return Riders(rule, fill, absences, shares, outside, octaves if outside.size else 0, pull if outside.size else 1.0)


def column_weights(rows: Rows, ellipsoid: Ellipsoid) -> Floats:
    """About how much of a row's squared norm each column brings; equal where only a ball is known."""
    if rows.even:
        return np.ones(ellipsoid.center.size)
    matrix, spread = ellipsoid.matrix, rows.spread()
    with np.errstate(over="ignore", under="ignore"):  # products first: squares may leave the range of doubles
        weights = (ellipsoid.scale * spread) ** 2 if matrix is None else ((matrix * spread) ** 2).sum(axis=0)
    return weights if np.isfinite(weights).all() and weights.any() else np.ones(ellipsoid.center.size)


def _clamped(
    rows: Rows,
    region: Clip,
    rule: str,
    fill: Floats | None,
    statistic: str,
    neighbors: str,
    handling: Handling,
    bits: int,
) -> Riders:
    """[S9] Beside entries that are clamped to their own bounds."""
    limits = clamp_limits(rows, region.ellipsoid, bits)
    outside = np.rint(_CELL_WEIGHT * limits).astype(np.int64) if handling.check else _NONE
    free = 3.0 if neighbors == "replace" else 1.0
    if rule == "row":
        unit = np.maximum(1, free_units(free * sum_of(squares_of([limits])), 0))
        return Riders(rule, None, unit if handling.counts_left_out else 0 * unit, None, outside)
    lower, upper = rows.bounds()
    if fill is not None and ((fill < lower) | (fill > upper)).any():
        raise UsageError("missing fills in a number outside its column's bounds. State one within, or wider bounds.")
    if rule != "column":
        return Riders(rule, fill, _NONE, None, outside)
    center, half = region.ellipsoid.center, (upper - lower) / 2
    can_miss = handling.can_miss(center.size)
    if statistic != "sum":
        units = np.where(can_miss, free_units(free * limits.astype(float) ** 2, 0), 0)
        return Riders(rule, None, units, None, outside)
    # An absent cell adds nothing to a sum: where 0 is within the bounds it can be filled in, and needs no count.
    zero = (lower <= 0) & (upper >= 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        lever = np.where(half > 0, np.abs(center) / half, 1.0)
    square = np.maximum(free, lever) * limits.astype(float) ** 2
    square = np.where(half > 0, square, (0.25 * 2.0**bits) ** 2 / center.size)
    counted = can_miss & ~zero
    units = np.where(counted, free_units(square, 0), 0)
    if not counted.any():
        return Riders("fill", np.zeros(center.size), _NONE, None, outside)
    return Riders(rule, np.where(counted, center, 0.0), units, None, outside)
