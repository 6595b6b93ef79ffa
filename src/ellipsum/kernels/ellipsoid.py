"""The diagonal ellipsoid map: scale, take the norm, clip, round and add, four rows at a time.

Rows may lie side by side or column by column: the same operations, the same bits. Nothing here may be compiled with
fastmath: the norm must be that of the very numbers that are rounded.
Beside the sums, `riders` (see `ClipKernel.fresh_riders`) takes counts: absent cells, and rows outside by octave.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import Floats
from ..numerics.wide_integers import Ints
from ..row_maps.auxiliary_counts import Riders
from ..row_maps.maps import EllipsoidMap
from ..util.compile import compiled, inner, say_that_it_compiles
from .blocks import Columns
from .codegen import (
    FOUR,
    GROUP,
    SINGLE,
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
    keep_vector,
    lane_sums,
    leads,
    leads_at,
    map_column,
    plus_squares,
    zero_lanes,
)
from .memory import (
    COUNTED,
    FAR_EXPONENT,
    FILLED,
    LANES,
    LEFT_OUT,
    ROWS,
    SURELY_OUTSIDE,
    Rows,
    aligned,
    columns_of,
    readable,
    unset,
)

_RULES = {"center": FILLED, "fill": FILLED, "column": COUNTED, "row": LEFT_OUT}


@inner
def factors_for(squares: Any, grid: float, riders: Any) -> Any:
    """grid / max(1, norm), pulled in where the norm is above 1; without a root where no row is outside."""
    if all_below(squares, 1.0):
        return everywhere(grid)
    return clipping_factors(squares, grid, riders[0])


@inner
def count_outside(square: float, outside: Any) -> None:
    """One more row in the octave of its norm, unless single precision put it outside; the last has no end."""
    if square > SURELY_OUTSIDE and outside.size > 0:
        octave = (math.frexp(square)[1] - 1) // 2
        outside[min(octave, outside.size - 1)] += 1


@inner
def count_group(squares: Any, riders: Any) -> None:
    """`count_outside` for up to eight rows of finite norm; lanes without a row are zero."""
    _, outside, spare = riders[:3]
    if outside.size > 0 and not all_below(squares, 1.0):
        keep_vector(squares, address(spare))
        for i in range(LANES):
            count_outside(spare[i], outside)


@inner
def squared_norm(x: int, frame: Any) -> Any:
    """The squared norm of a mapped row of doubles, in the first lane; frame: centers, scales and the tail's scales."""
    width = frame.shape[1]
    center = address(frame)
    scale, tail = center + 8 * width, center + 16 * width
    whole = width // LANES * LANES
    lanes = zero_lanes(SINGLE)
    for j in range(0, whole, LANES):
        lanes = plus_squares(lanes, x, (j, center, scale, j), 0.0)
    if whole < width:  # the last eight columns, those already counted at scale zero
        lanes = plus_squares(lanes, x, (width - LANES, center, tail, 0), 0.0)
    return lane_sums(lanes)


@inner
def _add_clipped(factor: float, x: int, frame: Any, total: Any) -> None:
    """Adds one rounded row of doubles to the total."""
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
def _add_and_square(factors: Any, groups: Any, like: Any, frame: Any, ahead: Any, total: int) -> Any:
    """Adds the rounded rows of one group to the total, and gives the squared norms of the next.

    groups: as `add_and_square` takes them; ahead: see `leads`; total: an address.
    """
    width = frame.shape[1]
    center = address(frame)
    scale, tail = center + 8 * width, center + 16 * width
    whole = width // LANES * LANES
    lanes = zero_lanes(FOUR)
    for j in range(0, whole, LANES):
        place = (j, center, scale, j)
        lanes = add_and_square(lanes, factors, groups, place, like, total, leads_at(j, ahead))
    if whole < width:
        place = (width - LANES, center, tail, 0)
        lanes = add_and_square(lanes, factors, groups, place, like, total, (ahead[0][2], ahead[0][2]))
    return lane_sums(lanes)


@inner
def _bring_near(row: Any, frame: Any) -> None:
    """Replaces a finite row by its mapped offsets times the power of two that brings the largest near 2^200."""
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
def absent_cell(j: int, riders: Any) -> float:
    """Counts an absent cell, and gives its share of the squared radius; infinity where its row is left out."""
    _, _, _, rule, _, shares, absent = riders
    if rule == LEFT_OUT:
        absent[0] += 1
        return np.inf
    if rule == COUNTED:
        absent[j] += 1
        return float(shares[j])
    return 0.0


@inner
def _mend(x: int, like: Any, frame: Any, row: Any, riders: Any) -> float:
    """Copies a row, with the fill in place of entries that are missing, the center's in columns of scale zero ([S3]).

    Returns the share of the squared radius that went with absent cells; infinity for a row that is left out.
    """
    taken = 0.0
    for j in range(row.size):
        entry = element(x, j, like)
        if not abs(entry) < np.inf:
            taken += absent_cell(j, riders)
            if taken == np.inf:
                return taken
            entry = riders[4][j]
        row[j] = entry if frame[1, j] != 0.0 else frame[0, j]
    return taken


@inner
def add_mended(row: Any, taken: float, frame: Any, identity: Any, grid: float, total: Any, riders: Any) -> None:
    """Adds the integer row of one finite row, which is overwritten if its norm overflows ([S3], [S10])."""
    if taken == np.inf:
        return
    pulled, outside, spare = riders[:3]
    squares = squared_norm(address(row), frame)
    mapped = frame
    if not all_below(squares, np.inf):
        _bring_near(row, frame)
        squares = squared_norm(address(row), identity)
        mapped = identity
    keep_vector(squares, address(spare))
    square = spare[0] * (1.0 / (1.0 - taken))
    factor = pulled / math.sqrt(square) if square > 1.0 else grid
    count_outside(square, outside)
    _add_clipped(factor, address(row), mapped, total)


@compiled
def add_rows(
    x: int,
    stride: int,
    rows: int,
    like: Any,
    frame: Any,
    identity: Any,
    grid: float,
    total: Any,
    scratch: Any,
    riders: Any,
) -> None:
    """Adds to the total the integer rows of rows of doubles (or singles, as `like` is) at an address.

    A row's entries lie side by side, rows `stride` bytes apart. `scratch`: two rows of the frame's width (>= 8).
    A group is added while the next one is read for its norms, so that memory never waits for arithmetic; what is
    added before there is a group goes to the scratch.
    """
    row, nowhere = scratch[0], address(scratch) + 8 * scratch.shape[1]
    ahead = leads(stride, ROWS, like, frame.shape[1])
    old, factors, sums = x, everywhere(0.0), nowhere
    for _ in range(rows // ROWS):
        squares = _add_and_square(factors, (old, x, stride), like, frame, ahead, sums)
        old, sums = x, nowhere
        if all_below(squares, np.inf):
            count_group(squares, riders)
            factors, sums = factors_for(squares, grid, riders), address(total)
        else:
            for i in range(ROWS):
                taken = _mend(x + i * stride, like, frame, row, riders)
                add_mended(row, taken, frame, identity, grid, total, riders)
        x += ROWS * stride
    if sums != nowhere:
        _add_and_square(factors, (old, old, stride), like, frame, ahead, sums)
    for i in range(rows % ROWS):
        taken = _mend(x + i * stride, like, frame, row, riders)
        add_mended(row, taken, frame, identity, grid, total, riders)


@inner
def _map_columns(groups: Any, places: Any, shift: int, like: Any, frame: Any, mapped: Any, lanes: Any) -> None:
    """The mapped entries and the lanes' squares of some groups of rows, `shift` bytes behind the columns' places."""
    width, columns = frame.shape[1], places.size
    whole = width // LANES * LANES
    out, squares, size = address(mapped), address(lanes), 8 * LANES * LANES
    for j in range(min(columns, LANES)):
        map_column(
            groups, SINGLE, places[j] + shift, like, frame[0, j], frame[1, j], out + size * j, squares + size * j
        )
    for j in range(LANES, columns):
        lane = j % LANES if j < whole else LANES - width + j  # as in `squared_norm`
        map_column(
            groups, GROUP, places[j] + shift, like, frame[0, j], frame[1, j], out + size * j, squares + size * lane
        )


@inner
def mend_columns(places: Any, index: int, like: Any, frame: Any, row: Any, riders: Any) -> float:
    """`_mend` of a row that lies across columns."""
    row[:] = 0.0
    taken = 0.0
    for j in range(places.size):
        entry = element(places[j], index, like)
        if not abs(entry) < np.inf:
            taken += absent_cell(j, riders)
            if taken == np.inf:
                return taken
            entry = riders[4][j]
        row[j] = entry if frame[1, j] != 0.0 else frame[0, j]
    return taken


@inner
def _add_groups(
    groups: Any,
    places: Any,
    first: int,
    like: Any,
    frame: Any,
    identity: Any,
    grid: float,
    total: Any,
    row: Any,
    scratch: Any,
    riders: Any,
) -> None:
    """Adds the groups of eight rows that begin at row `first`."""
    mapped, lanes, factors, sums = scratch
    _map_columns(groups, places, first * entry_size(like), like, frame, mapped, lanes)
    sound = 0
    for g in range(len(groups)):
        squares = across_lanes(address(lanes), g)
        keep_vector(factors_for(squares, grid, riders), address(factors) + 8 * LANES * g)
        if all_below(squares, np.inf):
            sound += 1
            count_group(squares, riders)
    if sound == len(groups):
        for j in range(places.size):
            add_column(
                groups, address(mapped) + 8 * mapped.shape[1] * j, address(factors), address(sums) + 8 * LANES * j
            )
        return
    for g in range(len(groups)):
        if all_below(across_lanes(address(lanes), g), np.inf):
            for j in range(places.size):
                add_column(
                    SINGLE,
                    address(mapped) + 8 * (mapped.shape[1] * j + LANES * g),
                    address(factors) + 8 * LANES * g,
                    address(sums) + 8 * LANES * j,
                )
        else:
            for i in range(first + LANES * g, first + LANES * (g + 1)):
                taken = mend_columns(places, i, like, frame, row, riders)
                add_mended(row, taken, frame, identity, grid, total, riders)


@compiled
def add_columns(
    places: Any,
    rows: int,
    like: Any,
    frame: Any,
    identity: Any,
    grid: float,
    total: Any,
    row: Any,
    riders: Any,
    scratch: Any,
) -> None:
    """As `add_rows`, for rows whose columns begin at `places`, entries side by side within a column.

    `scratch`: mapped entries (columns, 64), lanes (8, 64) of zeros, factors (64,), sums (columns, 8).
    """
    sums = scratch[3]
    sums[:] = 0
    chunk = LANES * LANES
    for first in range(0, rows - chunk + 1, chunk):
        _add_groups(GROUP, places, first, like, frame, identity, grid, total, row, scratch, riders)
    for first in range(rows - rows % chunk, rows - LANES + 1, LANES):
        _add_groups(SINGLE, places, first, like, frame, identity, grid, total, row, scratch, riders)
    for i in range(rows - rows % LANES, rows):
        taken = mend_columns(places, i, like, frame, row, riders)
        add_mended(row, taken, frame, identity, grid, total, riders)
    for j in range(places.size):
        for k in range(LANES):
            total[j] += sums[j, k]


class ClipKernel:
    """What kernels of rows clipped by their norm share: float32 or float64 blocks are only read."""

    takes_columns = True

    def __init__(self, row_map: EllipsoidMap, center: Floats, scale: Floats) -> None:
        self._map = row_map
        self.grid = math.ldexp(1.0, row_map.grid_bits)
        self._fills = _wide(row_map.center if row_map.riders.fill is None else row_map.riders.fill, row_map.columns)
        self._shares = _wide(row_map.riders.shares, row_map.columns)
        self.frame = _frame(center, scale)
        self.padded = int(self.frame.shape[1])
        self.identity = _frame(np.zeros(self.padded), np.ones(self.padded))

    def __call__(self, block: Rows | Columns, total: Ints) -> None:
        """Adds the integer rows of a block to a total (int64, contiguous)."""
        values = self._map.values
        sums = total if self.padded == total.size else np.zeros(self.padded, np.int64)
        riders = self.fresh_riders()
        self._add(block, sums, riders)
        if sums is not total:
            total[:values] += sums[:values]
        _add_counts(self._map.riders, riders[6], riders[1], total[values:])

    def _add(self, block: Rows | Columns, sums: Ints, riders: tuple[Any, ...]) -> None:
        raise NotImplementedError

    def fresh_riders(self) -> tuple[Any, ...]:
        """What kernels mend rows with and count into, all zero.

        (grid of a row outside, rows outside by octave, eight spare numbers, the rule, fills, shares, absent cells)
        """
        riders = self._map.riders
        absent = np.zeros(self._fills.size if riders.missing == "column" else 1, np.int64)
        outside = np.zeros(riders.octaves, np.int64)
        rule = _RULES[riders.missing]
        return self.grid * riders.pull, outside, np.empty(LANES), rule, self._fills, self._shares, absent


class EllipsoidKernel(ClipKernel):
    """Adds the integer rows of an `EllipsoidMap` with a diagonal `scale`."""

    def __init__(self, row_map: EllipsoidMap) -> None:
        assert row_map.scale is not None
        super().__init__(row_map, row_map.center, row_map.scale)

    def _add(self, block: Rows | Columns, sums: Ints, riders: tuple[Any, ...]) -> None:
        places = columns_of(block)
        if places is not None:
            like, scratch, spare = block.dtype.type(0), _column_scratch(self._map.columns), np.empty(self.padded)
            add_columns(places, len(block), like, self.frame, self.identity, self.grid, sums, spare, riders, scratch)
            return
        for part in readable(block, self.padded, singles=True):
            place = part.__array_interface__["data"][0], part.strides[0], len(part)
            like, spare = part.dtype.type(0), unset(2, self.padded)
            add_rows(*place, like, self.frame, self.identity, self.grid, sums, spare, riders)


def _wide(values: Floats | None, columns: int) -> Floats:
    wide = np.zeros(max(columns, LANES))
    if values is not None:
        wide[:columns] = values
    return wide


def _add_counts(riders: Riders, absent: Ints, outside: Ints, total: Ints) -> None:
    """Counts, in their units, behind the values."""
    if riders.width == 0:
        return
    absences = riders.absences.size
    counts = np.concatenate([absent[:absences], outside])
    total += counts * riders.units


def _frame(center: Floats, scale: Floats) -> Floats:
    """Centers, scales and the scales of the last vector, whose columns counted before are at scale zero."""
    columns = center.size
    width = max(columns, LANES)
    frame = aligned(3, width)
    frame[0, :columns], frame[1, :columns] = center, scale
    rest = width % LANES
    frame[2, LANES - rest : LANES] = frame[1, width - rest :]
    return frame


def _column_scratch(columns: int) -> tuple[Any, ...]:
    """As `add_columns` wants it."""
    group = LANES * LANES
    whole = aligned(columns + LANES + 1, group)
    sums = aligned(columns, LANES).view(np.int64)
    return whole[:columns], whole[columns:-1], whole[-1], sums


say_that_it_compiles(add_rows)
