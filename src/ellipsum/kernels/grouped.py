"""The integer rows of maps, each added to the sums of its own group.

A row's integers are those that the map's own kernel gives it [S1]; only the sums they go to differ.
Sums are pairs of limbs: the low one is carried into the high one as often as the group's rows ask for it [S4].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..numerics.wide_integers import LOW_BITS, Ints
from ..row_maps.maps import ClampedMap, EllipsoidMap
from ..util.compile import compiled, inner
from .blocks import Columns
from .clamp import ClampedKernel, clamped_entry
from .codegen import address, element, fetch_ahead
from .ellipsoid import ClipKernel, add_mended, mend_columns
from .matrix import MatrixKernel, add_products
from .memory import LEFT_OUT, LINE, Rows, columns_of
from .squares import SquaresKernel, square_entry
from .table import kernel_for

_MASK = (1 << LOW_BITS) - 1
_AHEAD = 12  # rows: about as long as memory takes to answer


@inner
def _count_row(g: int, counts: Any, often: int, low: Any, high: Any) -> None:
    """One row more in a group; its sums are carried before they could overflow [S4]."""
    counts[g] += 1
    if counts[g] & often == 0:
        for k in range(low.shape[1]):
            high[g, k] += low[g, k] >> LOW_BITS
            low[g, k] &= _MASK


@inner
def _fetch_sums(g: int, low: Any, counts: Any) -> None:
    """Ask for the sums of a group that a later row belongs to: groups are many, and lie anywhere."""
    place, size = address(low) + 8 * g * low.shape[1], 8 * low.shape[1]
    for part in range(0, size, LINE):
        fetch_ahead(place + part)
    fetch_ahead(place + size - 1)
    fetch_ahead(address(counts) + 8 * g)


@inner
def _lacks_some(places: Any, at: int, like: Any) -> bool:
    for j in range(places.size):  # noqa: SIM110
        if not abs(element(places[j] + at, 0, like)) < np.inf:
            return True
    return False


@compiled
def _add_clamped(
    places: Any,
    step: int,
    like: Any,
    lines: Any,
    absences: Any,
    squares: Any,
    drops: bool,
    codes: Any,
    often: int,
    low: Any,
    high: Any,
    counts: Any,
) -> None:
    """Rows whose columns begin at `places`, entries `step` bytes apart; absences: units of an absent cell.

    squares: what squares are made of, of no column where there are none.
    """
    columns, rows = places.size, codes.size
    behind = low.shape[1] - columns
    for i in range(rows):
        _fetch_sums(codes[min(i + _AHEAD, rows - 1)], low, counts)
        g, at = codes[i], i * step
        if g < 0 or (drops and _lacks_some(places, at, like)):
            continue
        for j in range(columns):
            entry = element(places[j] + at, 0, like)
            if abs(entry) < np.inf:
                low[g, j] += clamped_entry(entry, j, lines)
            else:
                low[g, j] += clamped_entry(lines[3, j], j, lines)
                if absences.size == columns:
                    low[g, columns + j] += absences[j]
            if squares.shape[1] > 0:
                low[g, behind + j] += square_entry(entry, squares, j)
        _count_row(g, counts, often, low, high)


@inner
def _add_own(g: int, values: int, units: Any, sums: Any, riders: Any, low: Any) -> None:
    """What one row brought to the scratch sums goes to its group; the scratch is cleared."""
    absent = riders[6]
    for k in range(values):
        low[g, k] += sums[k]
    sums[:] = 0
    for k in range(units.size):
        low[g, values + k] += absent[k] * units[k]
    absent[:] = 0


@compiled
def _add_diagonal(
    places: Any,
    step: int,
    like: Any,
    frame: Any,
    identity: Any,
    grid: float,
    units: Any,
    row: Any,
    sums: Any,
    riders: Any,
    codes: Any,
    often: int,
    low: Any,
    high: Any,
    counts: Any,
) -> None:
    """As `_add_clamped`, for rows clipped by their norm; `row` and `sums` are scratch of the frame's width."""
    moved = np.empty_like(places)
    for i in range(codes.size):
        g = codes[i]
        if g < 0:
            continue
        for j in range(places.size):
            moved[j] = places[j] + i * step
        taken = mend_columns(moved, 0, like, frame, row, riders)
        if taken == np.inf:
            riders[6][:] = 0
            continue
        add_mended(row, taken, frame, identity, grid, sums, riders)
        _add_own(g, places.size, units, sums, riders, low)
        _count_row(g, counts, often, low, high)


@compiled
def _add_matrix(
    x: int,
    stride: int,
    maps: Any,
    grid: float,
    values: int,
    units: Any,
    scratch: Any,
    sums: Any,
    riders: Any,
    codes: Any,
    often: int,
    low: Any,
    high: Any,
    counts: Any,
) -> None:
    """As `_add_diagonal`, for rows of doubles side by side that are mapped by a matrix."""
    center, packed, exponents, identity = maps
    offsets, products, row = scratch
    for i in range(codes.size):
        g = codes[i]
        if g < 0:
            continue
        at = x + i * stride
        add_products(at, stride, 1, center, packed, exponents, identity, grid, sums, offsets, products, row, riders)
        if riders[3] == LEFT_OUT and riders[6][0] != 0:
            riders[6][:] = 0
            continue
        _add_own(g, values, units, sums, riders, low)
        _count_row(g, counts, often, low, high)


class GroupedKernel:
    """Adds the integer rows of a block to the sums of the rows' groups: low and high limbs, and counts of rows."""

    def __init__(self, row_map: ClampedMap | EllipsoidMap) -> None:
        self._map = row_map
        self._often = row_map.rows_per_flush - 1  # a power of two, less one
        self._units = row_map.riders.absences
        self._own = kernel_for(row_map)
        if isinstance(self._own, SquaresKernel):
            self._own, self._squares = self._own.clamped, self._own.lines
        else:
            self._squares = np.empty((1, 0))

    def __call__(self, block: Rows | Columns, codes: Ints, low: Ints, high: Ints, counts: Ints) -> None:
        own = self._own
        groups: tuple[Any, ...] = codes, self._often, low, high, counts
        if isinstance(own, ClampedKernel):
            places, step, like = _layout(block)
            _add_clamped(places, step, like, own.lines, self._units, self._squares, own.drops, *groups)
            return
        assert isinstance(own, ClipKernel)
        units = self._units if self._map.riders.missing == "column" else self._units[:0]  # none where rows are left out
        sums, riders = np.zeros(own.padded, np.int64), own.fresh_riders()
        if isinstance(own, MatrixKernel):
            rows = np.ascontiguousarray(block, np.float64)
            place = rows.__array_interface__["data"][0], rows.strides[0]
            _add_matrix(*place, own.maps, own.grid, self._map.values, units, own.scratch(), sums, riders, *groups)
        else:
            maps, row = (own.frame, own.identity, own.grid, units), np.empty(own.padded)
            arguments: tuple[Any, ...] = *_layout(block), *maps, row, sums, riders, *groups
            _add_diagonal(*arguments)


def _layout(block: Rows | Columns) -> tuple[Any, int, Any]:
    """(where each column begins, bytes between its entries, a number of their type)."""
    places = columns_of(block)
    if places is not None:
        return places, block.dtype.itemsize, block.dtype.type(0)
    rows = np.asarray(block)
    if rows.dtype.char not in "df" or not rows.flags.aligned or not rows.dtype.isnative:
        raise TypeError("blocks are doubles or singles in memory of their own")
    starts = np.arange(rows.shape[1], dtype=np.int64) * rows.strides[1]
    return starts + rows.__array_interface__["data"][0], rows.strides[0], rows.dtype.type(0)
