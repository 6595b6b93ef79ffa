"""The diagonal map of rows that lie side by side: scale, take the norm, clip, round and add, eight rows at a time.

Nothing here may be compiled with fastmath: the norm must be that of the very numbers that are rounded.
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
    lane_sums,
    plus_squares,
    zero_lanes,
)
from .layout import FAR_EXPONENT, LANES

PREFETCH_BYTES = 49152  # longer rows push each other out of the cache if fetched a group ahead


@inner
def factors_for(squares: Any, grid: float) -> Any:
    """grid / max(1, norm), without a root where no row is outside."""
    if all_below(squares, 1.0):
        return everywhere(grid)
    return clipping_factors(squares, grid)


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
def _mend(x: int, like: Any, frame: Any, row: Any) -> None:
    """Copies a row, with the centre in place of entries that are not finite or have scale zero ([S3])."""
    for j in range(row.size):
        entry = element(x, j, like)
        row[j] = entry if abs(entry) < np.inf and frame[1, j] != 0.0 else frame[0, j]


@inner
def add_mended(row: Any, frame: Any, identity: Any, grid: float, total: Any) -> None:
    """Adds the integer row of one finite row, which is overwritten if its norm overflows ([S3])."""
    squares = squared_norms(SINGLE, address(row), 0, 0.0, frame)
    if all_below(squares, np.inf):
        _add_clipped(SINGLE, factors_for(squares, grid), address(row), 0, 0.0, frame, 0, total)
    else:
        _bring_near(row, frame)
        squares = squared_norms(SINGLE, address(row), 0, 0.0, identity)
        _add_clipped(SINGLE, factors_for(squares, grid), address(row), 0, 0.0, identity, 0, total)


@compiled
def add_rows(
    x: int, stride: int, rows: int, like: Any, frame: Any, identity: Any, grid: float, total: Any, row: Any
) -> None:
    """Adds to the total the integer rows of rows of doubles (or singles, as `like` is) at an address.

    A row's entries lie side by side, rows `stride` bytes apart. `row` is scratch of the frame's width (>= 8).
    """
    size = entry_size(like)
    step = size if frame.shape[1] * size <= PREFETCH_BYTES else 0
    for _ in range(rows // LANES):
        squares = squared_norms(GROUP, x, stride, like, frame)
        if all_below(squares, np.inf):
            _add_clipped(GROUP, factors_for(squares, grid), x, stride, like, frame, step, total)
        else:
            for i in range(LANES):
                _mend(x + i * stride, like, frame, row)
                add_mended(row, frame, identity, grid, total)
        x += LANES * stride
    for i in range(rows % LANES):
        _mend(x + i * stride, like, frame, row)
        add_mended(row, frame, identity, grid, total)


say_that_it_compiles(add_rows)
