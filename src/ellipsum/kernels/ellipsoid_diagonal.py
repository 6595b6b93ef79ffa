"""The diagonal map of rows that lie side by side: scale, take the norm, clip, round and add, four rows at a time.

Nothing here may be compiled with fastmath: the norm must be that of the very numbers that are rounded.
Beside the sums, `riders` (see `ellipsoid.riders_for`) takes what is counted: absent cells, and rows outside by octave.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..util.compile import compiled, inner, say_that_it_compiles
from .generators import (
    FOUR,
    SINGLE,
    add_and_square,
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
from .layout import (
    COUNTED,
    FAR_EXPONENT,
    LANES,
    LEFT_OUT,
    ROWS,
    SURELY_OUTSIDE,
)
from .memory import first_cache

_AHEAD = first_cache() // 4  # bytes asked for before they are read: what else is read on the way pushes more out again
_WIDE = 24  # columns: narrower rows lie so close that it does to ask once


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
def _lead(ahead: int, group: int, length: int, size: int) -> tuple[int, int, int]:
    """How many bytes ahead a row asks for what follows it, and from which column on how many.

    Behind a row's end follows the row of the next group that is in its place: each is a stream of its own.
    """
    groups, rest = ahead // length, ahead % length
    near = groups * group + rest
    return near, (length - rest) // size, near + group - length


@inner
def leads(stride: int, rows: int, like: Any, width: int) -> Any:
    """How far ahead the rows of a group ask for what follows them: at first, and once more halfway; see `_lead`."""
    size, ahead = entry_size(like), _AHEAD // rows
    again = ahead // 2 if width >= _WIDE else ahead
    return _lead(ahead, rows * stride, size * width, size), _lead(again, rows * stride, size * width, size)


@inner
def leads_at(j: int, ahead: Any) -> tuple[int, int]:
    """How many bytes ahead is asked at a column: at first, and halfway; ahead: see `leads`."""
    (near, turn, far), (nearer, later, last) = ahead
    return near if j < turn else far, nearer if j < later else last


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


say_that_it_compiles(add_rows)
