"""The diagonal map of rows that lie column by column: the same operations, the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..util.compile import compiled, inner
from .ellipsoid_diagonal import absent_cell, add_mended, count_group, factors_for
from .generators import (
    GROUP,
    SINGLE,
    across_lanes,
    add_column,
    address,
    all_below,
    element,
    entry_size,
    keep_vector,
    map_column,
)
from .layout import LANES


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
