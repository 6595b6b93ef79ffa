"""The diagonal map of rows that lie side by side: scale, take the norm, clip, round and add, eight rows at a time.

Nothing here may be compiled with fastmath: the norm must be that of the very numbers that are rounded.
Beside the sums, `riders` (see `ellipsoid.riders_for`) takes what is counted: absent cells, and rows outside by octave.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..compiled import compiled, inner, say_that_it_compiles
from .generators import (
    GROUP,
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
from .layout import COUNTED, FAR_EXPONENT, LANES, LEFT_OUT, SURELY_OUTSIDE

PREFETCH_BYTES = 49152  # longer rows push each other out of the cache if fetched a group ahead


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
    """`count_outside` for eight rows of finite norm."""
    _, outside, spare = riders[:3]
    if outside.size > 0 and not all_below(squares, 1.0):
        keep_vector(squares, address(spare))
        for i in range(LANES):
            count_outside(spare[i], outside)


@inner
def squared_norms(group: Any, x: int, stride: int, like: Any, frame: Any) -> Any:
    """Squared norms of a group's mapped rows; frame holds the centres, the scales and the tail's scales."""
    width = frame.shape[1]
    center = address(frame)
    scale, tail = center + 8 * width, center + 16 * width
    whole = width // LANES * LANES
    lanes = zero_lanes(group)
    for j in range(0, whole, LANES):
        lanes = plus_squares(lanes, (x, stride, j, center, scale, j), like)
    if whole < width:  # the last eight columns, those already counted at scale zero
        lanes = plus_squares(lanes, (x, stride, width - LANES, center, tail, 0), like)
    return lane_sums(lanes)


@inner
def _add_clipped(group: Any, factors: Any, x: int, stride: int, like: Any, frame: Any, step: int, total: Any) -> None:
    """Adds the group's rounded rows to the total; step is the entry's size, or 0 for no fetching ahead."""
    width = frame.shape[1]
    center = address(frame)
    scale, tail = center + 8 * width, center + 16 * width
    sums = address(total)
    whole = width // LANES * LANES
    for j in range(0, whole, LANES):
        add_rounded(group, factors, (x, stride, j, center, scale, j), like, sums, j * step)
    if whole < width:
        add_rounded(group, factors, (x, stride, width - LANES, center, tail, 0), like, sums, 0)


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
    squares = squared_norms(SINGLE, address(row), 0, 0.0, frame)
    mapped = frame
    if not all_below(squares, np.inf):
        _bring_near(row, frame)
        squares = squared_norms(SINGLE, address(row), 0, 0.0, identity)
        mapped = identity
    keep_vector(squares, address(spare))
    square = spare[0] * (1.0 / (1.0 - taken))
    factor = pulled / math.sqrt(square) if square > 1.0 else grid
    count_outside(square, outside)
    _add_clipped(SINGLE, everywhere(factor), address(row), 0, 0.0, mapped, 0, total)


@compiled
def add_rows(
    x: int, stride: int, rows: int, like: Any, frame: Any, identity: Any, grid: float, total: Any, row: Any, riders: Any
) -> None:
    """Adds to the total the integer rows of rows of doubles (or singles, as `like` is) at an address.

    A row's entries lie side by side, rows `stride` bytes apart. `row` is scratch of the frame's width (>= 8).
    """
    size = entry_size(like)
    step = size if frame.shape[1] * size <= PREFETCH_BYTES else 0
    for _ in range(rows // LANES):
        squares = squared_norms(GROUP, x, stride, like, frame)
        if all_below(squares, np.inf):
            count_group(squares, riders)
            _add_clipped(GROUP, factors_for(squares, grid, riders), x, stride, like, frame, step, total)
        else:
            for i in range(LANES):
                taken = _mend(x + i * stride, like, frame, row, riders)
                add_mended(row, taken, frame, identity, grid, total, riders)
        x += LANES * stride
    for i in range(rows % LANES):
        taken = _mend(x + i * stride, like, frame, row, riders)
        add_mended(row, taken, frame, identity, grid, total, riders)


say_that_it_compiles(add_rows)
