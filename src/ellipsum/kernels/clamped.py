"""The clamp: each entry to its own bounds, rounded and added. No norm, so an odd entry stays in its column.

For a row x: q_j = rint(clip((x_j - center_j) * scale_j, -limit_j, limit_j)), limit_j a whole number, so that
|q_j| <= limit_j exactly, whatever rounding does before the clip ([S9]). An entry that is missing, NaN or infinite
gives 0 and is counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import compiled, inner
from .generators import (
    GROUP,
    SINGLE,
    add_clamped_column,
    add_kept,
    address,
    all_below,
    column_odd,
    element,
    entry_size,
    keep_clamped,
    zero_lanes,
)
from .layout import LANES

ROWS = 4  # rows kept in a small buffer, read one after another, then added together


_GROUP_OF_ROWS = (0.0,) * ROWS


@inner
def _add_entry(entry: float, center: float, scale: float, limit: float, total: Any, absent: Any, j: int) -> None:
    """One entry: the operations of the vectors, or one more absence."""
    if not abs(entry) < np.inf:
        absent[j] += 1
        return
    value = (entry - center) * scale
    value = value if value < limit else limit
    value = value if value > -limit else -limit
    total[j] += np.int64(np.rint(value))


@inner
def _add_row(x: int, like: Any, frame: Any, total: Any, absent: Any) -> None:
    for j in range(absent.size):
        _add_entry(element(x, j, like), frame[0, j], frame[1, j], frame[2, j], total, absent, j)


@inner
def _keep_row(x: int, like: Any, frame: Any, tail: Any, kept: int) -> Any:
    """Maps a row into the buffer; the result holds a NaN where an entry is not finite."""
    width = frame.shape[1]
    center = address(frame)
    scale = center + 8 * width
    limit = scale + 8 * width
    whole = width // LANES * LANES
    odd = zero_lanes(SINGLE)
    for j in range(0, whole, LANES):
        odd = keep_clamped(odd, (x, j, center, scale, limit, j, kept), like)
    if whole < width:  # the last eight columns, those kept already at scale zero
        last = address(tail)
        odd = keep_clamped(odd, (x, width - LANES, center, last, last + 8 * LANES, 0, kept + 8 * whole), like)
    return odd[0]


@inner
def _add_buffer(width: int, kept: Any, total: Any) -> None:
    whole = width // LANES * LANES
    sums, place, stride = address(total), address(kept), 8 * kept.shape[1]
    for j in range(0, whole, LANES):
        add_kept(_GROUP_OF_ROWS, place + 8 * j, stride, sums + 8 * j)
    if whole < width:
        add_kept(_GROUP_OF_ROWS, place + 8 * whole, stride, sums + 8 * (width - LANES))


@compiled
def add_clamped_rows(
    x: int, stride: int, rows: int, like: Any, frame: Any, tail: Any, total: Any, absent: Any, kept: Any
) -> None:
    """Adds the clamped rows of doubles (or singles) at an address, entries side by side, rows `stride` bytes apart.

    frame holds centres, scales and limits, at least eight wide; tail the scales and limits of the last eight columns,
    zero for those that a whole vector has served. kept is a buffer of `ROWS` rows, eight entries wider than the frame.
    """
    width = frame.shape[1]
    place, step = address(kept), 8 * kept.shape[1]
    for _ in range(rows // ROWS):
        sound = 0
        for i in range(ROWS):
            odd = _keep_row(x + i * stride, like, frame, tail, place + i * step)
            sound += 1 if all_below(odd, 1.0) else 0
        if sound == ROWS:
            _add_buffer(width, kept, total)
        else:
            for i in range(ROWS):
                _add_row(x + i * stride, like, frame, total, absent)
        x += ROWS * stride
    for i in range(rows % ROWS):
        _add_row(x + i * stride, like, frame, total, absent)


@compiled
def add_clamped_columns(places: Any, rows: int, like: Any, frame: Any, total: Any, absent: Any) -> None:
    """As `add_clamped_rows`, for rows whose columns begin at `places`, entries side by side within a column."""
    chunk, size = LANES * LANES, entry_size(like)
    done = rows // chunk * chunk
    sums = np.empty(LANES, np.int64)
    for j in range(places.size):
        center, scale, limit = frame[0, j], frame[1, j], frame[2, j]
        sums[:] = 0
        for first in range(0, done, chunk):
            x = places[j] + first * size
            if all_below(column_odd(GROUP, x, like), 1.0):
                add_clamped_column(GROUP, x, like, center, scale, limit, address(sums))
            else:
                for i in range(chunk):
                    _add_entry(element(x, i, like), center, scale, limit, total, absent, j)
        for i in range(done, rows):
            _add_entry(element(places[j], i, like), center, scale, limit, total, absent, j)
        for k in range(LANES):
            total[j] += sums[k]
