"""The diagonal ellipsoid map: scale, take the norm, clip, round and add, four rows at a time.

Blocks may be stored row by row or column by column: the same operations give the same bits. Nothing here may be
compiled with fastmath: the norm must be computed from the same numbers that are rounded.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..errors import Floats
from ..numerics.wide_integers import Ints
from ..row_maps.maps import EllipsoidMap
from ..util.compile import compiled, inner, say_that_it_compiles
from .blocks import (
    FAR_EXPONENT,
    LANES,
    ROWS,
    SURELY_OUTSIDE,
    Addresses,
    Block,
    aligned,
    columns_of,
    location,
    readable,
    unset,
)
from .codegen import (
    FOUR,
    GROUP,
    SINGLE,
    Eight,
    Lead,
    across_lanes,
    add_and_square,
    add_column,
    add_rounded,
    address,
    all_below,
    clipping_factors,
    element,
    entry_size,
    everywhere,
    lane_sums,
    lead,
    lead_at,
    map_column,
    plus_squares,
    store_vector,
    zero_lanes,
)


class ClipLines(NamedTuple):
    """How rows are mapped and rounded. frame: centers, scales, and the scales of the last eight columns.

    identity: the frame that maps nothing. grid: the integer that a norm of 1 becomes.
    """

    frame: Floats
    identity: Floats
    grid: float


class ClipCounts(NamedTuple):
    """How missing values are treated, and what is counted beside a sum of clipped rows.

    pulled: the grid of a row outside. outside: rows outside by octave. spare: space for 8 numbers. fills: what replaces
    a missing value. shares: what one takes of the squared radius, by column; infinity if its row is left out. missing:
    missing values by column, and the rows that are left out.
    """

    pulled: float
    outside: Ints
    spare: Floats
    fills: Floats
    shares: Floats
    missing: Ints


@inner
def factors_for(squares: Eight, grid: float, counts: ClipCounts) -> Eight:
    """grid / max(1, norm), times the pull if the norm is above 1. No root is taken if no row is outside."""
    if all_below(squares, 1.0):
        return everywhere(grid)
    return clipping_factors(squares, grid, counts.pulled)


@inner
def count_outside(square: float, outside: Ints) -> None:
    """Count a row in the octave of its norm, unless only single precision put it outside. The last octave is open."""
    if square > SURELY_OUTSIDE and outside.size > 0:
        octave = (math.frexp(square)[1] - 1) // 2
        outside[min(octave, outside.size - 1)] += 1


@inner
def count_group(squares: Eight, counts: ClipCounts) -> None:
    """`count_outside` for up to eight rows of finite norm; lanes without a row are zero."""
    if counts.outside.size > 0 and not all_below(squares, 1.0):
        store_vector(squares, address(counts.spare))
        for i in range(LANES):
            count_outside(counts.spare[i], counts.outside)


@inner
def squared_norm(x: int, frame: Floats) -> Eight:
    """The squared norm of a mapped row of doubles, in the first lane; frame: see `ClipLines`."""
    width = frame.shape[1]
    center = address(frame)
    scale, tail = center + 8 * width, center + 16 * width
    whole = width // LANES * LANES
    lanes = zero_lanes(SINGLE)
    for j in range(0, whole, LANES):
        lanes = plus_squares(lanes, x, (j, center, scale, j), 0.0)
    if whole < width:  # the last eight columns, where those that were counted have scale zero
        lanes = plus_squares(lanes, x, (width - LANES, center, tail, 0), 0.0)
    return lane_sums(lanes)


@inner
def _add_clipped(factor: float, x: int, frame: Floats, total: Ints) -> None:
    """Add one rounded row of doubles to the total."""
    width = frame.shape[1]
    center = address(frame)
    scale, tail = center + 8 * width, center + 16 * width
    whole = width // LANES * LANES
    factors = everywhere(factor)
    for j in range(0, whole, LANES):
        add_rounded(factors, x, (j, center, scale, j), 0.0, address(total))
    if whole < width:
        add_rounded(factors, x, (width - LANES, center, tail, 0), 0.0, address(total))


@inner
def _add_and_square(
    factors: Eight, groups: tuple[int, int, int], like: float, frame: Floats, ahead: Lead, total: int
) -> Eight:
    """Add the rounded rows of one group to the total; the squared norms of the next.

    groups: as for `add_and_square`; ahead: see `lead`; total: an address.
    """
    width = frame.shape[1]
    center = address(frame)
    scale, tail = center + 8 * width, center + 16 * width
    whole = width // LANES * LANES
    lanes = zero_lanes(FOUR)
    for j in range(0, whole, LANES):
        place = (j, center, scale, j)
        lanes = add_and_square(lanes, factors, groups, place, like, total, lead_at(j, ahead))
    if whole < width:
        place = (width - LANES, center, tail, 0)
        lanes = add_and_square(lanes, factors, groups, place, like, total, ahead[2])
    return lane_sums(lanes)


@inner
def _bring_near(row: Floats, frame: Floats) -> None:
    """Replace a finite row by its mapped offsets times the power of two that brings the largest near 2^200."""
    top = -10000
    for j in range(row.size):
        offset, offset_exponent = math.frexp(0.5 * row[j] - 0.5 * frame[0, j])
        scale, scale_exponent = math.frexp(frame[1, j])
        if offset * scale != 0.0:
            top = max(top, offset_exponent + scale_exponent)
    for j in range(row.size):
        offset, offset_exponent = math.frexp(0.5 * row[j] - 0.5 * frame[0, j])
        scale, scale_exponent = math.frexp(frame[1, j])
        row[j] = math.ldexp(offset * scale, offset_exponent + scale_exponent - top + FAR_EXPONENT)


@inner
def _enter(entry: float, j: int, frame: Floats, row: Floats, counts: ClipCounts) -> float:
    """Enter a value in a row, or the fill if it is missing, or the center in a column of scale zero ([S3]).

    Returns the value's share of the squared radius if it is missing, which is counted; else 0.
    """
    share = 0.0
    if not abs(entry) < np.inf:
        counts.missing[j] += 1
        share, entry = counts.shares[j], counts.fills[j]
    row[j] = entry if frame[1, j] != 0.0 else frame[0, j]
    return share


@inner
def _fill_row(x: int, like: float, frame: Floats, row: Floats, counts: ClipCounts) -> float:
    """Copy a row by `_enter`. Returns the share of the squared radius of its missing values."""
    missing_share = 0.0
    for j in range(row.size):
        missing_share += _enter(element(x, j, like), j, frame, row, counts)
    return missing_share


@inner
def add_finite(row: Floats, missing_share: float, lines: ClipLines, total: Ints, counts: ClipCounts) -> None:
    """Add the integer row of one finite row, which is overwritten if its norm overflows ([S3], [S10]).

    missing_share: what its missing values take of the squared radius; infinity if the row is left out, and counted.
    """
    if missing_share == np.inf:
        counts.missing[-1] += 1
        return
    squares = squared_norm(address(row), lines.frame)
    frame = lines.frame
    if not all_below(squares, np.inf):
        _bring_near(row, lines.frame)
        squares = squared_norm(address(row), lines.identity)
        frame = lines.identity
    store_vector(squares, address(counts.spare))
    square = counts.spare[0] * (1.0 / (1.0 - missing_share))
    factor = counts.pulled / math.sqrt(square) if square > 1.0 else lines.grid
    count_outside(square, counts.outside)
    _add_clipped(factor, address(row), frame, total)


@compiled
def add_rows(
    x: int, stride: int, rows: int, like: float, lines: ClipLines, total: Ints, scratch: Floats, counts: ClipCounts
) -> None:
    """Add to the total the integer rows of rows of doubles (or singles, as `like` is) at an address.

    The values of a row are contiguous, rows are `stride` bytes apart. `scratch`: two rows of the frame's width (>= 8).
    A group is added while the norms of the next one are computed, so that reading never waits for arithmetic. What is
    added before the first group goes to the scratch.
    """
    frame = lines.frame
    row, nowhere = scratch[0], address(scratch) + 8 * scratch.shape[1]
    ahead = lead(stride, ROWS, like, frame.shape[1])
    old, factors, sums = x, everywhere(0.0), nowhere
    for _ in range(rows // ROWS):
        squares = _add_and_square(factors, (old, x, stride), like, frame, ahead, sums)
        old, sums = x, nowhere
        if all_below(squares, np.inf):
            count_group(squares, counts)
            factors, sums = factors_for(squares, lines.grid, counts), address(total)
        else:
            for i in range(ROWS):
                missing_share = _fill_row(x + i * stride, like, frame, row, counts)
                add_finite(row, missing_share, lines, total, counts)
        x += ROWS * stride
    if sums != nowhere:
        _add_and_square(factors, (old, old, stride), like, frame, ahead, sums)
    for i in range(rows % ROWS):
        missing_share = _fill_row(x + i * stride, like, frame, row, counts)
        add_finite(row, missing_share, lines, total, counts)


class ColumnScratch(NamedTuple):
    """Where `add_columns` works: mapped values (columns, 64), lanes (8, 64) of zeros, factors, sums (columns, 8)."""

    mapped: Floats
    lanes: Floats
    factors: Floats
    sums: Ints
    row: Floats

    @staticmethod
    def new(columns: int, padded: int) -> ColumnScratch:
        group = LANES * LANES
        whole = aligned(columns + LANES + 1, group)
        sums = aligned(columns, LANES).view(np.int64)
        return ColumnScratch(whole[:columns], whole[columns:-1], whole[-1], sums, np.empty(padded))


@inner
def _map_columns(
    groups: tuple[float, ...], places: Addresses, shift: int, like: float, frame: Floats, scratch: ColumnScratch
) -> None:
    """The mapped values and the lanes' squares of some groups of rows, `shift` bytes behind the columns' places."""
    width, columns = frame.shape[1], places.size
    whole = width // LANES * LANES
    mapped, lanes, size = address(scratch.mapped), address(scratch.lanes), 8 * LANES * LANES
    for j in range(min(columns, LANES)):
        line = frame[0, j], frame[1, j]
        map_column(groups, SINGLE, places[j] + shift, like, line, mapped + size * j, lanes + size * j)
    for j in range(LANES, columns):
        lane = j % LANES if j < whole else LANES - width + j  # as in `squared_norm`
        line = frame[0, j], frame[1, j]
        map_column(groups, GROUP, places[j] + shift, like, line, mapped + size * j, lanes + size * lane)


@inner
def fill_row_of_columns(
    places: Addresses, index: int, like: float, frame: Floats, row: Floats, counts: ClipCounts
) -> float:
    """Like `_fill_row`, for a row of a block whose columns are separate arrays."""
    row[:] = 0.0
    missing_share = 0.0
    for j in range(places.size):
        missing_share += _enter(element(places[j], index, like), j, frame, row, counts)
    return missing_share


@inner
def _add_columns_of(groups: tuple[float, ...], places: Addresses, start: int, scratch: ColumnScratch) -> None:
    """Add the mapped values of some groups of rows, `start` rows behind the first, to the sums of the scratch."""
    mapped, factors, sums = address(scratch.mapped), address(scratch.factors), address(scratch.sums)
    row = 8 * scratch.mapped.shape[1]
    for j in range(places.size):
        add_column(groups, mapped + row * j + 8 * start, factors + 8 * start, sums + 8 * LANES * j)


@inner
def _add_groups(
    groups: tuple[float, ...],
    places: Addresses,
    first: int,
    like: float,
    lines: ClipLines,
    total: Ints,
    counts: ClipCounts,
    scratch: ColumnScratch,
) -> None:
    """Add the groups of eight rows that begin at row `first`."""
    lanes, factors, row = address(scratch.lanes), address(scratch.factors), scratch.row
    _map_columns(groups, places, first * entry_size(like), like, lines.frame, scratch)
    finite = 0
    for g in range(len(groups)):
        squares = across_lanes(lanes, g)
        store_vector(factors_for(squares, lines.grid, counts), factors + 8 * LANES * g)
        if all_below(squares, np.inf):
            finite += 1
            count_group(squares, counts)
    if finite == len(groups):
        _add_columns_of(groups, places, 0, scratch)
        return
    for g in range(len(groups)):
        if all_below(across_lanes(lanes, g), np.inf):
            _add_columns_of(SINGLE, places, LANES * g, scratch)
        else:
            for i in range(first + LANES * g, first + LANES * (g + 1)):
                missing_share = fill_row_of_columns(places, i, like, lines.frame, row, counts)
                add_finite(row, missing_share, lines, total, counts)


@compiled
def add_columns(
    places: Addresses,
    rows: int,
    like: float,
    lines: ClipLines,
    total: Ints,
    counts: ClipCounts,
    scratch: ColumnScratch,
) -> None:
    """As `add_rows`, for rows whose columns begin at `places`, with the values of a column contiguous."""
    sums = scratch.sums
    sums[:] = 0
    chunk = LANES * LANES
    for first in range(0, rows - chunk + 1, chunk):
        _add_groups(GROUP, places, first, like, lines, total, counts, scratch)
    for first in range(rows - rows % chunk, rows - LANES + 1, LANES):
        _add_groups(SINGLE, places, first, like, lines, total, counts, scratch)
    for i in range(rows - rows % LANES, rows):
        missing_share = fill_row_of_columns(places, i, like, lines.frame, scratch.row, counts)
        add_finite(scratch.row, missing_share, lines, total, counts)
    for j in range(places.size):
        for k in range(LANES):
            total[j] += sums[j, k]


class ClipKernel:
    """What kernels of rows clipped by their norm share. float32 and float64 blocks are only read."""

    def __init__(self, row_map: EllipsoidMap, center: Floats, scale: Floats) -> None:
        self._map = row_map
        fill = row_map.auxiliary.fill
        self._fills = _pad(row_map.center if fill is None else fill, row_map.columns)
        self._leaves_out = row_map.auxiliary.missing == "row"
        shares = np.full(row_map.columns, np.inf) if self._leaves_out else row_map.auxiliary.shares
        self._shares = _pad(shares, row_map.columns)
        frame = _frame(center, scale)
        self.padded = int(frame.shape[1])
        identity = _frame(np.zeros(self.padded), np.ones(self.padded))
        self.lines = ClipLines(frame, identity, math.ldexp(1.0, row_map.grid_bits))

    def __call__(self, block: Block, total: Ints) -> None:
        """Add the integer rows of a block to a total (int64, contiguous)."""
        values, auxiliary = self._map.values, self._map.auxiliary
        sums = total if self.padded == total.size else aligned(self.padded).view(np.int64)
        counts = self.new_counts()
        self._add(block, sums, counts)
        if sums is not total:
            total[:values] += sums[:values]
        if auxiliary.width:
            missing = counts.missing[-1:] if self._leaves_out else counts.missing[: auxiliary.absences.size]
            side_counts = np.concatenate([missing, counts.outside])
            total[values:] += side_counts * auxiliary.units

    def _add(self, block: Block, sums: Ints, counts: ClipCounts) -> None:
        raise NotImplementedError

    def new_counts(self) -> ClipCounts:
        """Counts before the first row."""
        auxiliary = self._map.auxiliary
        missing, outside = np.zeros(self._fills.size + 1, np.int64), np.zeros(auxiliary.octaves, np.int64)
        pulled = self.lines.grid * auxiliary.pull
        return ClipCounts(pulled, outside, np.empty(LANES), self._fills, self._shares, missing)


class EllipsoidKernel(ClipKernel):
    """Adds the integer rows of an `EllipsoidMap` with a diagonal `scale`."""

    def __init__(self, row_map: EllipsoidMap) -> None:
        assert row_map.scale is not None
        super().__init__(row_map, row_map.center, row_map.scale)

    def _add(self, block: Block, sums: Ints, counts: ClipCounts) -> None:
        places = columns_of(block)
        if places is not None:
            scratch = ColumnScratch.new(self._map.columns, self.padded)
            add_columns(places, len(block), block.dtype.type(0), self.lines, sums, counts, scratch)
            return
        for part in readable(block, self.padded, singles=True):
            add_rows(*location(part), part.dtype.type(0), self.lines, sums, unset(2, self.padded), counts)


def _pad(values: Floats | None, columns: int) -> Floats:
    """The values, zeros behind them where there are fewer than eight columns."""
    padded = np.zeros(max(columns, LANES))
    if values is not None:
        padded[:columns] = values
    return padded


def _frame(center: Floats, scale: Floats) -> Floats:
    """Centers, scales, and the scales of the last eight columns, zero for those that a whole vector has counted."""
    columns = center.size
    width = max(columns, LANES)
    frame = unset(3, width)
    frame[0, :columns], frame[1, :columns] = center, scale
    frame[:2, columns:], frame[2, :LANES] = 0.0, 0.0
    rest = width % LANES
    frame[2, LANES - rest : LANES] = frame[1, width - rest :]
    return frame


say_that_it_compiles(add_rows)
