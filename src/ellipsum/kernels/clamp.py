"""The clamp: each entry to its own bounds, rounded and added. No norm, so an odd entry stays in its column.

For a row x: q_j = rint(clip((x_j - center_j) * scale_j, -limit_j, limit_j)), limit_j a whole number, so that
|q_j| <= limit_j exactly, whatever rounding does before the clip ([S9]). An entry that is missing, NaN or infinite is
treated by the riders' rule; one outside its bounds is clamped and counted. Where eight columns of eight rows hold
neither, the clamp changes nothing, and is left out.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import Floats
from ..numerics.wide_integers import Ints
from ..row_maps.maps import ClampedMap
from ..util.compile import compiled, inner
from .blocks import Columns
from .codegen import (
    GROUP,
    SINGLE,
    add_unusual,
    address,
    clamp_column,
    clamp_rows,
    element,
    entry_size,
    leads,
    leads_at,
    some_absent,
)
from .memory import LANES, Rows, aligned, columns_of, readable

_WIDEST = 64  # rows narrower than this are read several at once, as one row that fills whole vectors
_ALLOWANCE = 2.0**-20  # of half a width


class _Frame:
    """What the loops read: centers, scales, limits, fills, edges and limits and a quarter, at least eight wide.

    tail: scales and limits and a quarter of the last eight columns, zero for those that a whole vector has served.
    """

    def __init__(self, row_map: ClampedMap, times: int = 1) -> None:
        limits = row_map.limits.astype(np.float64)
        fill = row_map.center if row_map.riders.fill is None else row_map.riders.fill
        lines = row_map.center, row_map.scale, limits, fill, _edges(row_map), limits + 0.25
        columns = row_map.columns * times
        self.columns = columns
        self.width = max(columns, LANES)
        self.lines = aligned(len(lines), self.width)
        for i, line in enumerate(lines):
            self.lines[i, :columns].reshape(times, -1)[:] = line
        rest = self.width % LANES
        self.tail = aligned(2, LANES)
        if rest:
            self.tail[:, LANES - rest :] = self.lines[[1, 5], self.width - rest :]


def _edges(row_map: ClampedMap) -> Floats:
    """An entry is outside where it maps beyond its edge, which none within its bounds does, whatever rounding does.

    Finite, so that an infinite entry is beyond it; the allowance is for bounds that single precision rounds [S9].
    """
    limits = row_map.limits.astype(np.float64)
    bound = np.maximum(np.abs(row_map.lower), np.abs(row_map.upper))
    with np.errstate(over="ignore"):
        edges = limits * (1 + _ALLOWANCE) + 2 + row_map.scale * bound * 2.0**-50
    return np.minimum(edges, np.finfo(np.float64).max)


class ClampedKernel:
    """Adds the integer rows of float32 or float64 blocks to a total (int64, contiguous); blocks are only read."""

    takes_columns = True

    def __init__(self, row_map: ClampedMap) -> None:
        self._map = row_map
        self.drops = row_map.riders.missing == "row"
        self._absences = row_map.riders.absences
        self._outside = row_map.riders.outside
        together = row_map.columns < _WIDEST and not self.drops
        self._times = LANES // math.gcd(row_map.columns, LANES) if together else 1
        self._one = _Frame(row_map)
        self._several = _Frame(row_map, self._times) if together else self._one
        """For so many rows at once that they fill whole vectors."""

    @property
    def lines(self) -> Floats:
        """Centers, scales, limits, fills, edges, and limits and a quarter."""
        return self._one.lines

    def __call__(self, block: Rows | Columns, total: Ints) -> None:
        columns = self._map.columns
        counts = np.zeros((3, columns), np.int64)  # sums, absences, cells outside
        places = None if self.drops else columns_of(block)
        if places is not None:
            add_clamped_columns(places, len(block), block.dtype.type(0), self._one.lines, counts)
        else:
            self._add_rows(block, counts)
        behind = columns + self._absences.size
        total[:columns] += counts[0]
        if self._absences.size:  # one per column, or one alone where rows are left out
            total[columns:behind] += counts[1, : self._absences.size] * self._absences
        if self._outside.size:
            total[behind:] += counts[2] * self._outside

    def _add_rows(self, block: Rows | Columns, counts: Ints) -> None:
        done = 0
        if len(block) >= self._times > 1 and isinstance(block, np.ndarray) and side_by_side(block):
            groups = len(block) // self._times
            done = groups * self._times
            self._add(block[:done].reshape(groups, self._several.columns), self._several, counts)
        if done < len(block):
            self._add(block[done:], self._one, counts)

    def _add(self, block: Rows | Columns, frame: _Frame, counts: Ints) -> None:
        sums = counts if counts.shape[1] == frame.width else np.zeros((3, frame.width), np.int64)
        for part in readable(block, frame.width, singles=True):
            place = part.__array_interface__["data"][0], part.strides[0], len(part)
            add_clamped_rows(*place, part.dtype.type(0), frame.lines, frame.tail, sums, self.drops)
        if sums is not counts:
            counts += sums[:, : frame.columns].reshape(3, -1, counts.shape[1]).sum(1)


def side_by_side(block: Rows) -> bool:
    """Whether rows lie one behind the other, in numbers that the loops read."""
    return bool(block.flags.c_contiguous and block.flags.aligned and block.dtype.char in "df")


@inner
def clamped_entry(entry: float, k: int, lines: Any) -> Any:
    """The integer of a finite entry of column k: the operations of the vectors [S9]."""
    value = (entry - lines[0, k]) * lines[1, k]
    limit = lines[2, k]
    value = value if value < limit else limit
    value = value if value > -limit else -limit
    return np.int64(np.rint(value))


@inner
def _add_entry(x: int, j: int, like: Any, lines: Any, k: int, sums: Any) -> None:
    """The entry j at an address, as column k."""
    entry = element(x, j, like)
    if not abs(entry) < np.inf:
        sums[1, k] += 1
        entry = lines[3, k]
    elif not abs((entry - lines[0, k]) * lines[1, k]) <= lines[4, k]:
        sums[2, k] += 1
    sums[0, k] += clamped_entry(entry, k, lines)


@inner
def _some_left_out(group: Any, x: int, stride: int, like: Any, columns: int) -> bool:
    """Whether a row of a group has an absence, in eight columns or more."""
    absent = some_absent(group, x, stride, columns - LANES, like)
    for j in range(0, columns - LANES, LANES):
        absent |= some_absent(group, x, stride, j, like)
    return bool(absent)


@inner
def _add_eight(x: int, j: int, like: Any, lines: Any, sums: Any) -> None:
    """Eight entries of a row from column j on, each by the riders' rule."""
    row = 8 * lines.shape[1]
    at, out = address(lines) + 8 * j, address(sums) + 8 * j
    frame = (at, at + row, at + 2 * row, at + 3 * row, at + 4 * row)
    add_unusual(x, j, like, frame, (out, out + row, out + 2 * row))


@inner
def _add_row(x: int, like: Any, lines: Any, sums: Any, drops: bool) -> None:
    width = lines.shape[1]
    if drops and _some_left_out(SINGLE, x, 0, like, width):
        sums[1, 0] += 1
        return
    whole = width // LANES * LANES
    for j in range(0, whole, LANES):
        _add_eight(x, j, like, lines, sums)
    for j in range(whole, width):
        _add_entry(x, j, like, lines, j, sums)


@inner
def _add_group(x: int, stride: int, like: Any, lines: Any, tail: Any, ahead: Any, sums: Any) -> None:
    """Adds eight rows, none of which is left out; ahead: see `leads`."""
    width = lines.shape[1]
    center = address(lines)
    scale, near = center + 8 * width, center + 40 * width
    total, last = address(sums), address(tail)
    whole = width // LANES * LANES
    for j in range(0, whole, LANES):
        place = (j, center, scale, j)
        if not clamp_rows(GROUP, x, stride, place, like, near + 8 * j, total, leads_at(j, ahead)):
            for i in range(LANES):
                _add_eight(x + i * stride, j, like, lines, sums)
    if whole < width:  # the last eight columns, those already added at scale zero
        place = (width - LANES, center, last, 0)
        if not clamp_rows(GROUP, x, stride, place, like, last + 8 * LANES, total, (ahead[0][2], ahead[0][2])):
            for i in range(LANES):
                for j in range(whole, width):
                    _add_entry(x + i * stride, j, like, lines, j, sums)


@compiled
def add_clamped_rows(x: int, stride: int, rows: int, like: Any, lines: Any, tail: Any, sums: Any, drops: bool) -> None:
    """Adds the clamped rows of doubles (or singles) at an address, entries side by side, rows `stride` bytes apart.

    sums (3, width): clamped entries, absences and entries outside, by column.
    drops: a row with an absence is left out, and counted in the first column.
    """
    width = lines.shape[1]
    ahead = leads(stride, LANES, like, width)
    for _ in range(rows // LANES):
        if drops and _some_left_out(GROUP, x, stride, like, width):
            for i in range(LANES):
                _add_row(x + i * stride, like, lines, sums, drops)
        else:
            _add_group(x, stride, like, lines, tail, ahead, sums)
        x += LANES * stride
    for i in range(rows % LANES):
        _add_row(x + i * stride, like, lines, sums, drops)


@compiled
def add_clamped_columns(places: Any, rows: int, like: Any, lines: Any, sums: Any) -> None:
    """As `add_clamped_rows`, for rows whose columns begin at `places`, entries side by side within a column."""
    chunk, size = LANES * LANES, entry_size(like)
    done = rows // chunk * chunk
    frame = np.empty((5, LANES))
    eights = np.empty((3, LANES), np.int64)
    start, out = address(frame), address(eights)
    row = 8 * LANES
    lists = (start, start + row, start + 2 * row, start + 3 * row, start + 4 * row)
    for j in range(places.size):
        center, scale, near = lines[0, j], lines[1, j], lines[5, j]
        for i in range(5):
            frame[i, :] = lines[i, j]
        eights[:, :] = 0
        for first in range(0, done, chunk):
            x = places[j] + first * size
            if not clamp_column(GROUP, x, like, center, scale, near, out):
                for i in range(0, chunk, LANES):
                    add_unusual(x, i, like, lists, (out, out + row, out + 2 * row))
        for i in range(done, rows):
            _add_entry(places[j], i, like, lines, j, sums)
        for k in range(LANES):
            for i in range(3):
                sums[i, j] += eights[i, k]
