"""The clamp: each value to its own bounds, rounded and added. There is no norm, so a value affects only its column.

For a row x: q_j = rint(clip((x_j - center_j) * scale_j, -limit_j, limit_j)), limit_j a whole number, so that
|q_j| <= limit_j exactly, whatever rounding does before the clip ([S9]). A value that is missing, NaN or infinite is
treated by the map's rule; one outside its bounds is clamped and counted. If eight columns of eight rows have neither,
the clamp changes nothing and is omitted.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats
from ..numerics.wide_integers import Ints
from ..row_maps.maps import ClampedMap
from ..util.compile import compiled, inner, say_that_it_compiles
from .blocks import LANES, Addresses, Block, Numbers, aligned, columns_of, location, readable, unset
from .codegen import (
    GROUP,
    Lead,
    add_unusual,
    address,
    clamp_column,
    clamp_rows,
    element,
    entry_size,
    lead,
    lead_at,
    lowest_bit,
)

_WIDEST = 256  # narrower rows are read several at once, as one row that fills whole vectors
_SLAB = 1 << 16  # columns that are added at once: the lines of more columns would not stay in the cache
_ALLOWANCE = 2.0**-20  # of half a width

Marks = NDArray[np.bool_]
Bits = NDArray[np.uint64]


class ClampFrame(NamedTuple):
    """What the loops read, for `times` rows that are read as one.

    lines: centers, scales, limits, fills, edges, and limits and a quarter, at least eight wide. tail: scales, and
    limits and a quarter, of the last eight columns, zero for those that a whole vector has added. owners: which of the
    rows that are read as one a value belongs to.
    """

    lines: Floats
    tail: Floats
    owners: Ints
    times: int


def _clamp_frame(row_map: ClampedMap, part: slice, times: int = 1) -> ClampFrame:
    """The frame of some columns."""
    limits, center, scale = row_map.limits[part].astype(np.float64), row_map.center[part], row_map.scale[part]
    fill = center if row_map.auxiliary.fill is None else row_map.auxiliary.fill[part]
    columns = limits.size * times
    width = max(columns, LANES)
    lines = unset(6, width)
    lines[:, columns:] = 0.0
    counts_outside = row_map.auxiliary.outside.size or row_map.auxiliary.outside_rows
    edges = _edges(row_map, part) if counts_outside else np.inf
    for line, value in zip(lines, (center, scale, limits, fill, edges, limits + 0.25), strict=True):
        line[:columns].reshape(times, -1)[:] = value
    owners = np.repeat(np.arange(times), width // times)
    rest, tail = width % LANES, aligned(2, LANES)
    if rest:
        tail[:, LANES - rest :] = lines[[1, 5], width - rest :]
    return ClampFrame(lines, tail, owners, times)


def _edges(row_map: ClampedMap, part: slice) -> Floats:
    """A value is outside if it maps beyond its edge. No value within its bounds does, whatever rounding does.

    Finite, so that an infinite value is beyond it. The allowance is for bounds that single precision rounds [S9].
    """
    bound = np.maximum(np.abs(row_map.lower[part]), np.abs(row_map.upper[part]))
    with np.errstate(over="ignore"):
        bound *= row_map.scale[part]
        bound *= 2.0**-50
        bound += row_map.limits[part] * (1 + _ALLOWANCE) + 2
    return np.minimum(bound, np.finfo(np.float64).max, out=bound)


def _shift(part: slice, columns: int) -> slice:
    return slice(part.start + columns, part.stop + columns)


class ClampedKernel:
    """Adds the integer rows of float32 or float64 blocks to a total (int64, contiguous); blocks are only read."""

    def __init__(self, row_map: ClampedMap) -> None:
        self._map = row_map
        columns = row_map.columns
        self._times = LANES // math.gcd(columns, LANES) if columns < _WIDEST else 1
        self._parts = [slice(first, min(first + _SLAB, columns)) for first in range(0, columns, _SLAB)]

    @cached_property
    def _one(self) -> ClampFrame:
        """For one row."""
        return _clamp_frame(self._map, slice(0, self._map.columns))

    @cached_property
    def _several(self) -> ClampFrame:
        """For as many rows as fill whole vectors."""
        return _clamp_frame(self._map, slice(0, self._map.columns), self._times)

    @property
    def lines(self) -> Floats:
        """One row each: centers, scales, limits, fills, edges, and limits plus a quarter."""
        return self._one.lines

    def __call__(self, block: Block, total: Ints) -> None:
        columns, auxiliary = self._map.columns, self._map.auxiliary
        places = columns_of(block)
        if places is not None:
            counts, bits = np.zeros((3, columns), np.int64), np.zeros(-(-len(block) // 64), np.uint64)
            add_clamped_columns(places, len(block), block.dtype.type(0), self.lines, counts, bits)
            self._add_counts(counts, slice(0, columns), total)
            marked = int(np.bitwise_count(bits).sum())
        else:
            marks = np.zeros(len(block) if auxiliary.outside_rows else 0, np.bool_)  # rows with a value outside
            for part in self._parts:
                self._add_counts(self._add_part(block, part, marks), part, total)
            marked = int(np.count_nonzero(marks))
        if auxiliary.outside_rows:
            total[columns + auxiliary.absences.size + auxiliary.outside.size] += marked * auxiliary.outside_rows

    def _add_counts(self, counts: Ints, part: slice, total: Ints) -> None:
        """Add the sums, missing values and values outside of some columns to the total."""
        columns, absences, outside = self._map.columns, self._map.auxiliary.absences, self._map.auxiliary.outside
        total[part] += counts[0]
        if absences.size == columns:
            total[_shift(part, columns)] += counts[1] * absences[part]
        if outside.size:
            total[_shift(part, columns + absences.size)] += counts[2] * outside[part]

    def _add_part(self, block: Block, part: slice, marks: Marks) -> Ints:
        """The sums, missing values and values outside of some columns; rows with a value outside are marked."""
        counts = aligned(3, part.stop - part.start).view(np.int64)
        if len(self._parts) > 1:
            self._add(np.asarray(block)[:, part], _clamp_frame(self._map, part), counts, marks)
            return counts
        several, rest = split_rows(block, self._times)
        self._add(several, self._several, counts, marks)
        self._add(rest, self._one, counts, marks[len(block) - len(rest) :])
        return counts

    def _add(self, block: Block, frame: ClampFrame, counts: Ints, marks: Marks) -> None:
        width = frame.lines.shape[1]
        sums = counts if counts.shape[1] == width else aligned(3, width).view(np.int64)
        for part in readable(block, width, singles=True):
            add_clamped_rows(*location(part), part.dtype.type(0), frame, sums, marks)
            marks = marks[len(part) * frame.times :]
        if sums is not counts:
            counts += sums[:, : counts.shape[1] * frame.times].reshape(3, -1, counts.shape[1]).sum(1)


def split_rows(block: Block, times: int) -> tuple[Numbers, Block]:
    """(as many rows as possible, `times` of them as one; the rows that remain)."""
    is_contiguous = isinstance(block, np.ndarray) and block.flags.c_contiguous and block.flags.aligned
    if times == 1 or len(block) < times or not is_contiguous or block.dtype.char not in "df":
        return np.empty((0, times * block.shape[1])), block
    groups = len(block) // times
    return np.asarray(block[: groups * times]).reshape(groups, -1), block[groups * times :]


@inner
def rounded_clamp(entry: float, k: int, lines: Floats) -> float:
    """Clamp and round a finite value of column k, by the operations that vectors use [S9]."""
    value = (entry - lines[0, k]) * lines[1, k]
    limit = lines[2, k]
    value = value if value < limit else limit
    value = value if value > -limit else -limit
    return float(np.rint(value))


@inner
def clamped_entry(entry: float, k: int, lines: Floats) -> np.int64:
    """Map a finite value of column k to its integer."""
    return np.int64(rounded_clamp(entry, k, lines))


@inner
def _add_entry(x: int, j: int, like: float, lines: Floats, k: int, sums: Ints) -> bool:
    """Add the value j at an address, as column k; whether it is outside."""
    entry = element(x, j, like)
    outside = False
    if not abs(entry) < np.inf:
        sums[1, k] += 1
        entry = lines[3, k]
    elif not abs((entry - lines[0, k]) * lines[1, k]) <= lines[4, k]:
        sums[2, k] += 1
        outside = True
    sums[0, k] += clamped_entry(entry, k, lines)
    return outside


@inner
def _add_group(
    x: int, stride: int, rows: int, like: float, frame: ClampFrame, ahead: Lead, sums: Ints, first: int, marks: Marks
) -> None:
    """Add up to eight rows, the first of which has the mark `first`; ahead: see `lead`."""
    lines, tail, owners, times = frame
    width = lines.shape[1]
    row, start, last, total = 8 * width, address(lines), address(tail), address(sums)
    whole, outside = width // LANES * LANES, np.uint64(0)
    for j in range(0, whole, LANES):
        at, out = start + 8 * j, total + 8 * j
        place = (j, start, start + row, j)
        if rows == LANES and clamp_rows(GROUP, x, stride, place, like, at + 5 * row, total, lead_at(j, ahead)):
            continue
        lists = (at, at + row, at + 2 * row, at + 3 * row, at + 4 * row)
        here = add_unusual(rows, x, stride, j, like, lists, (out, out + row, out + 2 * row))
        if times == 1:
            outside |= here
        else:
            while here != 0 and marks.size > 0:
                bit = lowest_bit(here)
                marks[first + (bit >> 3) * times + owners[j + (bit & 7)]] = True
                here &= here - np.uint64(1)
    if whole < width:  # the last eight columns, where those that were added have scale zero
        place = (width - LANES, start, last, 0)
        if not (rows == LANES and clamp_rows(GROUP, x, stride, place, like, last + 8 * LANES, total, ahead[2])):
            for i in range(rows):
                for j in range(whole, width):
                    if _add_entry(x + i * stride, j, like, lines, j, sums):
                        outside |= np.uint64(1) << np.uint64(LANES * i)
    if outside != 0 and marks.size > 0:
        for i in range(rows):
            marks[first + i] |= (outside >> np.uint64(LANES * i)) & np.uint64(255) != 0


@compiled
def add_clamped_rows(x: int, stride: int, rows: int, like: float, frame: ClampFrame, sums: Ints, marks: Marks) -> None:
    """Add the clamped rows of doubles (or singles) at an address, contiguous values, rows `stride` bytes apart.

    sums (3, width): clamped values, missing values and values outside, by column. marks: rows with a value outside;
    empty if they are not needed.
    """
    ahead = lead(stride, LANES, like, frame.lines.shape[1])
    for i in range(0, rows, LANES):
        _add_group(x + i * stride, stride, min(LANES, rows - i), like, frame, ahead, sums, i * frame.times, marks)


@compiled
def add_clamped_columns(places: Addresses, rows: int, like: float, lines: Floats, sums: Ints, marks: Bits) -> None:
    """As `add_clamped_rows`, for rows whose columns begin at `places`, with the values of a column contiguous.

    marks: a bit for each row.
    """
    chunk, size = LANES * LANES, entry_size(like)
    done = rows // chunk * chunk
    frame = np.empty((5, LANES))
    eights = np.empty((3, LANES), np.int64)
    start, out = address(frame), address(eights)
    row = 8 * LANES
    lists = (start, start + row, start + 2 * row, start + 3 * row, start + 4 * row)
    for j in range(places.size):
        line = lines[0, j], lines[1, j], lines[5, j]
        for i in range(5):
            frame[i, :] = lines[i, j]
        eights[:, :] = 0
        for first in range(0, done, chunk):
            x = places[j] + first * size
            if not clamp_column(GROUP, x, like, line, out):
                outside = add_unusual(LANES, x, LANES * size, 0, like, lists, (out, out + row, out + 2 * row))
                if marks.size > 0:
                    marks[first >> 6] |= outside
        for i in range(done, rows):
            if _add_entry(places[j], i, like, lines, j, sums) and marks.size > 0:
                marks[i >> 6] |= np.uint64(1) << np.uint64(i & 63)
        for k in range(LANES):
            for i in range(3):
                sums[i, j] += eights[i, k]


say_that_it_compiles(add_clamped_rows)
