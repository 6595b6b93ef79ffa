"""Counts beside the values of a row: missing values, rows or values outside the region, and squares.

[S10] A missing value gives up a share of the squared radius, and a clipped row is pulled inwards a little. The norm
that this frees pays for the counts: up to the units that are computed here, they cost no noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats, UsageError
from ..numerics.wide_integers import Ints, squares_of, sum_of
from ..util import json_codec
from ..util.structural_equality import ValueEquality

RULES = ("column", "row", "center", "fill")
WRONG = "Invalid plan file: the auxiliary counts are not valid. Create a new plan."
OCTAVES = 12
"""Rows outside are counted by distance: up to 2, 4, 8, ... radii; the last distance class has no end."""
MOST_OCTAVES = 64
SHARE_BITS = 40
"""Shares of the squared radius are multiples of 2^-40: sums of them are exact in doubles."""
_LARGEST_UNIT = 1 << 62
WIDEST = Fraction(83, 50)
"""Squares are free beside two rows up to this many limits: below sqrt((11 + 5 sqrt 5) / 8) [S11]."""
MOST_SQUARE = 1 << 46
"""Units of a square stay below this: rounding then changes them by less than 5/8 [S11]."""


def _no_units() -> Ints:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class AuxiliaryCounts(ValueEquality):
    """The rule for missing values, and the whole numbers that a row adds to counts beside its values.

    missing: "column", every missing value is counted; "row", a row with one is left out and counted; "center", it
        counts as the center; "fill", it counts as `fill` (a clamped column may be filled beside counted ones).
    absences: units of a missing value, one per column (0: not counted); for "row" one number.
    shares: the part of the squared radius that a missing value gives up, one per column (ellipsoids only).
    outside: units of a clipped row (one number, with `octaves`), or of a clamped value (one per column).
    octaves: distance classes of clipped rows.
    pull: a clipped row is brought to this share of the radius.
    squares: of clamped values, one per column: units of 1 - y^2, y the value in units of its limit [S11] (0: none).
    products: units of y_i y_j, for every pair of columns i < j [S12] (0: none).
    outside_rows: units of a row that has any clamped value (0: not counted).
    """

    missing: str = "center"
    fill: Floats | None = None
    absences: Ints = field(default_factory=_no_units)
    shares: Floats | None = None
    outside: Ints = field(default_factory=_no_units)
    octaves: int = 0
    pull: float = 1.0
    squares: Ints = field(default_factory=_no_units)
    products: int = 0
    outside_rows: int = 0

    def __post_init__(self) -> None:
        for name in ("absences", "outside", "squares"):
            units = np.asarray(getattr(self, name))
            if units.size and units.dtype.kind not in "iu":
                raise UsageError(WRONG)
            object.__setattr__(self, name, units.astype(np.int64, copy=False))

    def check(self, columns: int, clamped: bool) -> None:
        """An error unless the counts fit rows of this number of columns; a plan may come from a file."""
        sizes = {"column": columns, "row": 1}.get(self.missing, 0), (columns if clamped else 1)
        valid = self.missing in RULES and self.absences.size == sizes[0] and self.outside.size in (0, sizes[1])
        alone = np.array([self.outside_rows, self.products])
        for units in (self.absences, self.outside, self.squares, alone):
            valid &= bool(((units >= 0) & (units < _LARGEST_UNIT)).all())
        valid &= 0.5 <= self.pull <= 1 and (self.pull == 1 or not clamped)
        valid &= 0 <= self.octaves <= MOST_OCTAVES and (self.octaves > 0) == (self.outside.size > 0 and not clamped)
        valid &= self.squares.size in ((0, columns) if clamped else (0,))
        valid &= clamped or not self.outside_rows
        valid &= int(self.squares.max(initial=0)) < MOST_SQUARE
        valid &= self.products < MOST_SQUARE and (not self.products or self._has_whole_rows())
        valid &= self._has_fill(columns) and self._has_shares(columns, clamped)
        valid &= clamped or self.missing != "column" or self.fill is None
        if not valid:
            raise UsageError(WRONG)

    def _has_whole_rows(self) -> bool:
        """Products need both values: missing ones are filled in, or their rows left out."""
        return self.squares.size > 0 and (self.missing != "column" or not self.absences.any())

    def _has_fill(self, columns: int) -> bool:
        if self.missing not in ("fill", "column") or (self.missing == "column" and self.fill is None):
            return self.fill is None
        return self.fill is not None and self.fill.shape == (columns,) and bool(np.isfinite(self.fill).all())

    def _has_shares(self, columns: int, clamped: bool) -> bool:
        """Multiples of 2^-40 of at most half the squared radius, for the columns that are counted."""
        if self.missing != "column" or clamped:
            return self.shares is None
        shares = self.shares
        if shares is None or shares.shape != (columns,) or not (np.isfinite(shares).all() and (shares >= 0).all()):
            return False
        whole = np.ldexp(shares, SHARE_BITS)
        return bool((whole == np.rint(whole)).all()) and float(shares.sum()) <= 0.5

    @property
    def width(self) -> int:
        """Numbers of a row beside its values."""
        return self.counted + self.squares.size + self.pairs

    @property
    def pairs(self) -> int:
        """Pairs of columns whose products are added."""
        return math.comb(self.squares.size, 2) if self.products else 0

    @property
    def counted(self) -> int:
        """Numbers that count: missing values, values or rows outside, rows with a clamped value; squares follow."""
        return self.absences.size + (self.octaves or self.outside.size) + (self.outside_rows > 0)

    @property
    def counts_clipped(self) -> bool:
        """Whether anything outside the region is counted."""
        return self.outside.size > 0 or self.outside_rows > 0

    @property
    def units(self) -> Ints:
        """The weight of each count in grid units."""
        outside = np.tile(self.outside, self.octaves or 1)
        rows = np.full(int(self.outside_rows > 0), self.outside_rows)
        return np.concatenate([self.absences, outside, rows, self.squares, np.full(self.pairs, self.products)])

    def excess(self, grid_bits: int, factor: int) -> Fraction:
        """[S10] By how much the counts exceed what is free, in squared units; factor: 2 for two rows, 1 for one."""
        pull = Fraction(self.pull) ** 2
        over, scale = 0, pull.denominator << SHARE_BITS
        if self.missing == "column" and self.shares is not None:
            free = factor * pull.numerator << 2 * grid_bits
            shares = np.ldexp(self.shares, SHARE_BITS).astype(int)
            for unit, share in zip(self.absences.tolist(), shares.tolist(), strict=True):
                over += max(0, unit * unit * scale - share * free)
        beside = Fraction(0)
        if self.outside.size:
            beside = max(beside, int(self.outside[0]) ** 2 - factor * (1 - pull) * (1 << 2 * grid_bits))
        return Fraction(over, scale) + beside

    def to_dict(self) -> dict[str, Any]:
        return {
            "missing": self.missing,
            "fill": None if self.fill is None else self.fill.tolist(),
            "absences": self.absences.tolist(),
            "shares": None if self.shares is None else self.shares.tolist(),
            "outside": self.outside.tolist(),
            **({"outside_rows": self.outside_rows} if self.outside_rows else {}),
            "octaves": self.octaves,
            "pull": self.pull,
            **({"squares": self.squares.tolist()} if self.squares.size else {}),
            **({"products": self.products} if self.products else {}),
        }


PLAIN = AuxiliaryCounts()
_UNIT = json_codec.integer(0, _LARGEST_UNIT)


def _units(numbers: tuple[int, ...]) -> Ints:
    return np.array(numbers, np.int64)


def auxiliary_counts_from_dict(value: Mapping[str, Any]) -> AuxiliaryCounts:
    """Inverse of `AuxiliaryCounts.to_dict`; `check` needs the number of columns."""
    with json_codec.Fields(value, WRONG) as fields:
        return AuxiliaryCounts(
            fields.take("missing", json_codec.word(*RULES)),
            fields.maybe("fill", json_codec.numbers),
            _units(fields.take("absences", json_codec.list_of(_UNIT))),
            fields.maybe("shares", json_codec.numbers),
            _units(fields.take("outside", json_codec.list_of(_UNIT))),
            fields.take("octaves", json_codec.integer(0, MOST_OCTAVES)),
            fields.take("pull", json_codec.number),
            _units(fields.take("squares", json_codec.list_of(_UNIT), ())),
            fields.take("products", _UNIT, 0),
            fields.take("outside_rows", _UNIT, 0),
        )


def whole_shares(weights: Floats, counted: NDArray[np.bool_]) -> Floats:
    """Shares of half the squared radius, in proportion to weights, for the columns that are counted."""
    relative = np.where(counted, np.maximum(weights, 0.0), 0.0)
    total = float(weights.sum()) or 1.0
    least = 0.25 / len(weights)  # missing values of every column can be counted, whatever its weight
    spread = np.where(counted, np.maximum(relative / total, least), 0.0)
    spread *= min(1.0, 1.0 / float(spread.sum())) if spread.any() else 1.0
    return np.ldexp(np.floor(np.ldexp(spread / 2, SHARE_BITS)), -SHARE_BITS)


def free_units(square: Floats | float, grid_bits: int) -> Ints:
    """The largest units (less a millionth) whose squares are at most these parts of the squared radius."""
    units = np.floor(np.ldexp(np.sqrt(np.maximum(square, 0.0)) * (1 - 2.0**-20), grid_bits))
    return np.atleast_1d(units).astype(np.int64)


def free_squares(limits: Ints, auxiliary: AuxiliaryCounts, alone: bool) -> Ints:
    """[S11] The largest units of squares that cost no noise.

    alone: only the distance of two rows matters, not the length of one, except where missing values are counted.
    """
    counted = np.full(limits.size, auxiliary.missing == "row")
    if auxiliary.missing == "column" and auxiliary.absences.size:
        counted = auxiliary.absences > 0
    return np.where(counted | (not alone), np.maximum(limits - 2, np.minimum(limits, 1)), widest_squares(limits))


def widest_squares(limits: Ints) -> Ints:
    """[S11] The largest units of squares that are free beside two rows."""
    times, parts = WIDEST.numerator, WIDEST.denominator
    return limits // parts * times + limits % parts * times // parts  # no product beyond 64 bits


def product_units(limits: Ints) -> int:
    """[S12] Units of products whose squares, over all pairs of columns, add up to those of the limits."""
    pairs = math.comb(limits.size, 2)
    return math.isqrt(sum_of(squares_of([limits])) // pairs) if pairs else 0
