"""Squares beside clamped values: Q_j (1 - (q_j/L_j)^2) of every cell, rounded and added ([S11]).

q_j is the whole number that the clamp adds, by the clamp's own operations, so that a cell at its limit has a square of
nothing exactly. A cell that is counted as absent adds nothing; one that is filled in adds its fill's square.
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
from .clamp import ClampedKernel, side_by_side
from .codegen import address, element, square_column, square_row
from .memory import LANES, Rows, aligned, columns_of, readable

_WIDEST = 64  # rows narrower than this are read several at once, as one row that fills whole vectors


class _SquaresFrame:
    """What the loops read: centers, scales, limits, units, and of an absent cell its square and itself."""

    def __init__(self, row_map: ClampedMap, times: int = 1) -> None:
        riders, limits = row_map.riders, row_map.limits.astype(np.float64)
        units = riders.squares.astype(np.float64)
        filled = _filled(row_map, limits)
        counted = riders.absences > 0 if riders.missing == "column" else np.zeros(row_map.columns, bool)
        absent = np.where(counted, 0.0, np.rint(units * (1.0 - filled * filled)))
        lines = row_map.center, row_map.scale, limits, units, absent, filled
        self.columns = row_map.columns * times
        width = -(-self.columns // LANES) * LANES
        self.lines = aligned(len(lines), width)
        for i, line in enumerate(lines):
            self.lines[i, : self.columns] = np.tile(line, times)


def _filled(row_map: ClampedMap, limits: Floats) -> Floats:
    """What is filled in for an absent cell, in units of its limit."""
    fill = row_map.center if row_map.riders.fill is None else row_map.riders.fill
    q = np.rint(np.clip((fill - row_map.center) * row_map.scale, -limits, limits))
    filled: Floats = q / np.maximum(limits, 1.0)
    return filled


class SquaresKernel:
    """Adds the integer rows of a clamped map, and behind them their squares; blocks are only read."""

    takes_columns = True

    def __init__(self, row_map: ClampedMap) -> None:
        self._map = row_map
        self.clamped = ClampedKernel(row_map)
        self._drops = row_map.riders.missing == "row"
        together = row_map.columns < _WIDEST and not self._drops
        self._times = LANES // math.gcd(row_map.columns, LANES) if together else 1
        self._one = _SquaresFrame(row_map)
        self._several = _SquaresFrame(row_map, self._times) if together else self._one
        """For so many rows at once that they fill whole vectors."""

    @property
    def lines(self) -> Floats:
        """Centers, scales, limits, units, and of an absent cell its square and itself."""
        return self._one.lines

    def __call__(self, block: Rows | Columns, total: Ints) -> None:
        riders = self._map.riders
        first = self._map.columns + riders.counted
        self.clamped(block, total[:first])
        sums = np.zeros(self._map.columns, np.int64)
        places = None if self._drops else columns_of(block)
        if places is not None:
            add_column_squares(places, len(block), block.dtype.type(0), self._one.lines, sums)
        else:
            self._add_rows(block, sums)
        total[first : first + sums.size] += sums
        if riders.pairs:
            self._add_products(block, total[first + sums.size :])

    def _add_products(self, block: Rows | Columns, total: Ints) -> None:
        found, row = np.zeros(total.size, np.int64), np.zeros(self._map.columns)
        units = float(self._map.riders.products)
        for part in readable(block, self._map.columns, singles=True):
            place = part.__array_interface__["data"][0], part.strides[0], len(part)
            add_products(*place, part.dtype.type(0), self._one.lines, units, row, found, self._drops)
        total += found

    def _add_rows(self, block: Rows | Columns, sums: Ints) -> None:
        done = 0
        if len(block) >= self._times > 1 and isinstance(block, np.ndarray) and side_by_side(block):
            groups = len(block) // self._times
            done = groups * self._times
            self._add(block[:done].reshape(groups, self._several.columns), self._several, sums)
        if done < len(block):
            self._add(block[done:], self._one, sums)

    def _add(self, block: Rows | Columns, frame: _SquaresFrame, sums: Ints) -> None:
        found = np.zeros(frame.lines.shape[1], np.int64)
        for part in readable(block, frame.columns, singles=True):
            place = part.__array_interface__["data"][0], part.strides[0], len(part)
            add_row_squares(*place, part.dtype.type(0), frame.columns, frame.lines, found, self._drops)
        sums += found[: frame.columns].reshape(-1, sums.size).sum(0)


@inner
def _left_out(x: int, like: Any, columns: int) -> bool:
    """Whether a row has an absence."""
    absent = False
    for j in range(columns):
        absent |= not abs(element(x, j, like)) < np.inf
    return absent


@inner
def _share(entry: float, lines: Any, k: int) -> float:
    """An entry that is there, as column k, clamped and rounded, in units of its limit."""
    value = (entry - lines[0, k]) * lines[1, k]
    limit = lines[2, k]
    value = value if value < limit else limit
    value = value if value > -limit else -limit
    return float(np.rint(value) / max(limit, 1.0))


@inner
def square_entry(entry: float, lines: Any, k: int) -> Any:
    """The square of an entry, as column k: the operations of the vectors."""
    if not abs(entry) < np.inf:
        return np.int64(lines[4, k])
    share = _share(entry, lines, k)
    return np.int64(np.rint(lines[3, k] * (1.0 - share * share)))


@compiled
def add_row_squares(
    x: int, stride: int, rows: int, like: Any, columns: int, lines: Any, sums: Any, drops: bool
) -> None:
    """Adds the squares of rows of doubles (or singles) at an address, entries side by side, rows `stride` bytes apart.

    drops: a row with an absence is left out.
    """
    place, row, out = address(lines), 8 * lines.shape[1], address(sums)
    whole = columns // LANES * LANES
    for _ in range(rows):
        if not (drops and _left_out(x, like, columns)):
            for j in range(0, whole, LANES):
                at = place + 8 * j
                frame = (at, at + row, at + 2 * row, at + 3 * row, at + 4 * row)
                square_row(x, j, like, frame, out + 8 * j)
            for j in range(whole, columns):
                sums[j] += square_entry(element(x, j, like), lines, j)
        x += stride


@compiled
def add_column_squares(places: Any, rows: int, like: Any, lines: Any, sums: Any) -> None:
    """As `add_row_squares`, for rows whose columns begin at `places`, entries side by side within a column."""
    whole = rows // LANES * LANES
    eight = np.empty(LANES, np.int64)
    for j in range(places.size):
        eight[:] = 0
        numbers = (lines[0, j], lines[1, j], lines[2, j], lines[3, j], lines[4, j])
        square_column(places[j], whole // LANES, like, numbers, address(eight))
        for i in range(whole, rows):
            sums[j] += square_entry(element(places[j], i, like), lines, j)
        for k in range(LANES):
            sums[j] += eight[k]


@compiled
def add_products(
    x: int, stride: int, rows: int, like: Any, lines: Any, units: float, row: Any, sums: Any, drops: bool
) -> None:
    """Adds units y_i y_j, rounded, of every pair i < j of columns of rows as `add_row_squares` reads them [S12]."""
    columns = row.size
    for _ in range(rows):
        if not (drops and _left_out(x, like, columns)):
            for j in range(columns):
                entry = element(x, j, like)
                row[j] = _share(entry, lines, j) if abs(entry) < np.inf else lines[5, j]
            k = 0
            for i in range(columns):
                for j in range(i + 1, columns):
                    sums[k] += np.int64(np.rint(units * (row[i] * row[j])))
                    k += 1
        x += stride
