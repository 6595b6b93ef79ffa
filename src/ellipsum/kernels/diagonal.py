"""The diagonal map of rows that lie side by side: scale, take the norm, clip, round and add, four rows at a time.

Nothing here may be compiled with fastmath: the norm must be that of the very numbers that are rounded.
Beside the sums, `riders` (see `ellipsoid.riders_for`) takes what is counted: absent cells, and rows outside by octave.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..compiled import compiled, inner, say_that_it_compiles
from .generators import (
    FOUR,
    SINGLE,
    add_rounded,
    address,
    all_below,
    clipping_factors,
    element,
    entry_size,
    everywhere,
    keep_vector,
    lane_sums,
    plus_squares,
    zero_lanes,
)
from .layout import COUNTED, FAR_EXPONENT, LANES, LEFT_OUT, ROWS, SURELY_OUTSIDE

_MOST_FETCHED = 3 << 16  # bytes: longer groups push each other out of the cache if fetched ahead


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
def squared_norms(group: Any, x: int, stride: int, like: Any, frame: Any, kept: Any, step: int) -> Any:
    """Squared norms of a group's mapped rows; frame holds the centres, the scales and the tail's scales.

    kept: where mapped singles are kept, and bytes from row to row; step: see `fetching`.
    """
    width = frame.shape[1]
    center = address(frame)
    scale, tail = center + 8 * width, center + 16 * width
    whole = width // LANES * LANES
    lanes = zero_lanes(group)
    for j in range(0, whole, LANES):
        lanes = plus_squares(lanes, (x, stride, j, center, scale, j), like, kept, j * step)
    if whole < width:  # the last eight columns, those already counted at scale zero
        place, behind = (x, stride, width - LANES, center, tail, 0), (kept[0] + 8 * LANES, kept[1])
        lanes = plus_squares(lanes, place, like, behind, whole * step)
    return lane_sums(lanes)


@inner
def fetching(stride: int, rows: int, like: Any, width: int) -> int:
    """Bytes of the next group that are asked for with each column of this one, or 0: rows are too long, or apart."""
    column = rows * entry_size(like)
    return column if column * width <= _MOST_FETCHED and stride == entry_size(like) * width else 0


@inner
def _add_clipped(
    group: Any, factors: Any, x: int, stride: int, like: Any, frame: Any, kept: Any, step: int, total: Any
) -> None:
    """Adds the group's rounded rows to the total; arguments as those of `squared_norms`."""
    width = frame.shape[1]
    center = address(frame)
    scale, tail = center + 8 * width, center + 16 * width
    sums = address(total)
    whole = width // LANES * LANES
    half = width * step
    for j in range(0, whole, LANES):
        add_rounded(group, factors, (x, stride, j, center, scale, j), like, kept, sums, half + j * step)
    if whole < width:
        place, behind = (x, stride, width - LANES, center, tail, 0), (kept[0] + 8 * LANES, kept[1])
        add_rounded(group, factors, place, like, behind, sums, half + whole * step)


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
    """Copies a row, with the fill in place of entries that are missing, the centre's in columns of scale zero ([S3]).

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
    squares = squared_norms(SINGLE, address(row), 0, 0.0, frame, (0, 0), 0)
    mapped = frame
    if not all_below(squares, np.inf):
        _bring_near(row, frame)
        squares = squared_norms(SINGLE, address(row), 0, 0.0, identity, (0, 0), 0)
        mapped = identity
    keep_vector(squares, address(spare))
    square = spare[0] * (1.0 / (1.0 - taken))
    factor = pulled / math.sqrt(square) if square > 1.0 else grid
    count_outside(square, outside)
    _add_clipped(SINGLE, everywhere(factor), address(row), 0, 0.0, mapped, (0, 0), 0, total)


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

    A row's entries lie side by side, rows `stride` bytes apart. `scratch`: a row of the frame's width (>= 8), for
    singles five rows, eight entries wider.
    """
    row = scratch[0, : frame.shape[1]]
    kept = (address(scratch) + 8 * scratch.shape[1], 8 * scratch.shape[1])
    step = fetching(stride, ROWS, like, frame.shape[1]) // 2
    for _ in range(rows // ROWS):
        squares = squared_norms(FOUR, x, stride, like, frame, kept, step)
        if all_below(squares, np.inf):
            count_group(squares, riders)
            _add_clipped(FOUR, factors_for(squares, grid, riders), x, stride, like, frame, kept, step, total)
        else:
            for i in range(ROWS):
                taken = _mend(x + i * stride, like, frame, row, riders)
                add_mended(row, taken, frame, identity, grid, total, riders)
        x += ROWS * stride
    for i in range(rows % ROWS):
        taken = _mend(x + i * stride, like, frame, row, riders)
        add_mended(row, taken, frame, identity, grid, total, riders)


say_that_it_compiles(add_rows)
