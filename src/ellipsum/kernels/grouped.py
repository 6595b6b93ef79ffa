"""The integer rows of maps, each added to the sums of its own group.

A row's integers are those that the map's own kernel computes [S1]; only the sums they are added to differ. Sums are
pairs of limbs: the low limb is carried into the high one as often as the number of a group's rows requires [S4].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..errors import Floats
from ..numerics.wide_integers import LOW_BITS, Ints
from ..row_maps.histograms import ColumnHistograms, SideBySide
from ..row_maps.maps import ClampedMap, EllipsoidMap, Prepared, RowMap
from ..util.compile import compiled, inner
from .accumulate import GroupKernel, kernel_of_complete_rows
from .blocks import LINE, Addresses, Block, columns_of, has_complete_rows, location
from .clamp import ClampedKernel, clamped_entry
from .codegen import address, element, fetch_ahead
from .ellipsoid import ClipCounts, ClipKernel, ClipLines, add_finite, fill_row_of_columns
from .histograms import GroupedBinsKernel, places_of
from .matrix import MatrixKernel, MatrixLines, MatrixScratch, add_products
from .squares import SquaresKernel, square_entry

_MASK = (1 << LOW_BITS) - 1
_AHEAD = 12  # rows that are read in about the time that memory takes to answer


class GroupTotals(NamedTuple):
    """The sums of all groups. codes: the group of each row. often: a group's sums are carried after often + 1 rows."""

    codes: Ints
    often: int
    low: Ints
    high: Ints
    counts: Ints


class OneRow(NamedTuple):
    """Where the integers of one row are added first. values: how many they are. units: of a missing value's count."""

    values: int
    units: Ints
    sums: Ints
    counts: ClipCounts


@inner
def _count_row(g: int, groups: GroupTotals) -> None:
    """Count one more row of a group; its sums are carried before they could overflow [S4]."""
    groups.counts[g] += 1
    if groups.counts[g] & groups.often == 0:
        for k in range(groups.low.shape[1]):
            groups.high[g, k] += groups.low[g, k] >> LOW_BITS
            groups.low[g, k] &= _MASK


@inner
def _fetch_sums(g: int, groups: GroupTotals) -> None:
    """Request the sums of a group that a later row belongs to: there may be many groups, anywhere in memory."""
    place, size = address(groups.low) + g * groups.low.strides[0], 8 * groups.low.shape[1]
    for part in range(0, size, LINE):
        fetch_ahead(place + part)
    fetch_ahead(place + size - 1)
    fetch_ahead(address(groups.counts) + 8 * g)


@compiled
def _add_clamped(
    places: Addresses,
    step: int,
    like: float,
    lines: Floats,
    units: Ints,
    squares: Floats,
    groups: GroupTotals,
) -> None:
    """Add rows whose columns begin at `places`, values `step` bytes apart; units: weights of missing counts.

    squares: positions of the sums of squares; empty if there are none.
    """
    columns, rows, low = places.size, groups.codes.size, groups.low
    behind = low.shape[1] - columns
    for i in range(rows):
        _fetch_sums(groups.codes[min(i + _AHEAD, rows - 1)], groups)
        g, at = groups.codes[i], i * step
        if g < 0:
            continue
        for j in range(columns):
            entry = element(places[j] + at, 0, like)
            if abs(entry) < np.inf:
                low[g, j] += clamped_entry(entry, j, lines)
            else:
                low[g, j] += clamped_entry(lines[3, j], j, lines)
                if units.size == columns:
                    low[g, columns + j] += units[j]
            if squares.shape[1] > 0:
                low[g, behind + j] += square_entry(entry, squares, j)
        _count_row(g, groups)


@inner
def _move_row(g: int, one: OneRow, groups: GroupTotals) -> None:
    """Move what one row added to the sums of its group, unless the row was left out."""
    missing = one.counts.missing
    if missing[-1] == 0:
        for k in range(one.values):
            groups.low[g, k] += one.sums[k]
        for k in range(one.units.size):
            groups.low[g, one.values + k] += missing[k] * one.units[k]
        _count_row(g, groups)
    one.sums[:] = 0
    missing[:] = 0


@compiled
def _add_diagonal(
    places: Addresses, step: int, like: float, lines: ClipLines, row: Floats, one: OneRow, groups: GroupTotals
) -> None:
    """As `_add_clamped`, for rows clipped by their norm; `row`: memory for one row."""
    moved = np.empty_like(places)
    for i in range(groups.codes.size):
        if groups.codes[i] >= 0:
            for j in range(places.size):
                moved[j] = places[j] + i * step
            missing_share = fill_row_of_columns(moved, 0, like, lines.frame, row, one.counts)
            add_finite(row, missing_share, lines, one.sums, one.counts)
            _move_row(groups.codes[i], one, groups)


@compiled
def _add_matrix(
    x: int, stride: int, maps: MatrixLines, scratch: MatrixScratch, one: OneRow, groups: GroupTotals
) -> None:
    """As `_add_diagonal`, for contiguous rows of doubles that are mapped by a matrix."""
    for i in range(groups.codes.size):
        if groups.codes[i] >= 0:
            add_products(x + i * stride, stride, 1, maps, one.sums, scratch, one.counts)
            _move_row(groups.codes[i], one, groups)


@compiled
def carry(low: Ints, high: Ints) -> None:
    """Afterwards low limbs are at least 0 and below 2^48.

    Limbs in this range are not written, since they may fill many pages.
    """
    for g in range(low.shape[0]):
        for k in range(low.shape[1]):
            carried = low[g, k] >> LOW_BITS
            if carried != 0:
                high[g, k] += carried
                low[g, k] &= _MASK


@compiled
def add_totals(part: GroupTotals, groups: GroupTotals) -> None:
    """Add the sums of a part, whose group k is group codes[k]; afterwards low limbs are at least 0 and below 2^48."""
    for k in range(groups.codes.size):
        g = groups.codes[k]
        groups.counts[g] += part.counts[k]
        for j in range(groups.low.shape[1]):
            low = (groups.low[g, j] & _MASK) + (part.low[k, j] & _MASK)
            carried = (groups.low[g, j] >> LOW_BITS) + (part.low[k, j] >> LOW_BITS)
            groups.high[g, j] += part.high[k, j] + carried + (low >> LOW_BITS)
            groups.low[g, j] = low & _MASK


class GroupedKernel:
    """Adds the integer rows of a block to the sums of the rows' groups: low and high limbs, and counts of rows."""

    def __init__(self, row_map: ClampedMap | EllipsoidMap) -> None:
        self._map = row_map
        self._often = row_map.rows_per_flush - 1  # a power of two, less one
        self._leaves_out = row_map.auxiliary.missing == "row"
        self._units = row_map.auxiliary.absences[:0] if self._leaves_out else row_map.auxiliary.absences
        self._own = kernel_of_complete_rows(row_map)
        self._squares = np.empty((1, 0))
        if isinstance(self._own, SquaresKernel):
            self._own, self._squares = self._own.clamped, self._own.lines

    def __call__(self, block: Block, codes: Ints, low: Ints, high: Ints, counts: Ints) -> None:
        own = self._own
        if self._leaves_out and isinstance(own, ClampedKernel):
            codes = np.where(has_complete_rows(block), codes, -1)
        groups = GroupTotals(codes, self._often, low, high, counts)
        if isinstance(own, ClampedKernel):
            _add_clamped(*_layout(block), own.lines, self._units, self._squares, groups)
            return
        assert isinstance(own, ClipKernel)
        one = OneRow(self._map.values, self._units, np.zeros(own.padded, np.int64), own.new_counts())
        if isinstance(own, MatrixKernel):
            rows = np.ascontiguousarray(block, np.float64)
            _add_matrix(*location(rows)[:2], own.matrix_lines, own.scratch(), one, groups)
        else:
            _add_diagonal(*_layout(block), own.lines, np.empty(own.padded), one, groups)


class GroupedSideBySideKernel:
    """Passes rows to the grouped kernel of each map, with its part of the sums. The first one counts the rows."""

    def __init__(self, row_map: SideBySide) -> None:
        self._places = places_of(row_map)
        self._kernels = [grouped_kernel(part) for part in row_map.parts]

    def __call__(self, block: Block, codes: Ints, low: Ints, high: Ints, counts: Ints) -> None:
        for kernel, place in zip(self._kernels, self._places, strict=True):
            kernel(block, codes, low[:, place], high[:, place], counts)
            counts = np.zeros_like(counts)


def grouped_kernel(row_map: RowMap) -> GroupKernel:
    """The kernel that adds a map's integer rows to the sums of groups."""
    if isinstance(row_map, SideBySide):
        return GroupedSideBySideKernel(row_map)
    if isinstance(row_map, (ColumnHistograms, Prepared)):
        return GroupedBinsKernel(row_map)
    assert isinstance(row_map, (ClampedMap, EllipsoidMap))
    return GroupedKernel(row_map)


def _layout(block: Block) -> tuple[Addresses, int, float]:
    """(where each column begins, bytes between its values, a number of their type)."""
    places = columns_of(block)
    if places is not None:
        return places, block.dtype.itemsize, block.dtype.type(0)
    rows = np.asarray(block)
    if rows.dtype.char not in "df" or not rows.flags.aligned or not rows.dtype.isnative:
        raise TypeError("blocks are doubles or singles in memory of their own")
    starts = np.arange(rows.shape[1], dtype=np.int64) * rows.strides[1]
    return starts + rows.__array_interface__["data"][0], rows.strides[0], rows.dtype.type(0)
