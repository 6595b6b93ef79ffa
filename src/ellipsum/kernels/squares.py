"""Squares beside clamped values: Q_j (1 - (q_j/L_j)^2) of every value, rounded and added ([S11]).

q_j is the whole number that the clamp adds, by the clamp's own operations, so that a value at its limit adds exactly 0.
A value that is counted as missing adds 0; one that is filled in adds the square of its fill.
"""

from __future__ import annotations

import math

import numpy as np

from ..errors import Floats
from ..numerics.wide_integers import Ints
from ..row_maps.maps import ClampedMap
from ..util.compile import compiled, inner
from .blocks import LANES, Addresses, Block, aligned, columns_of, location, readable
from .clamp import ClampedKernel, rounded_clamp, split_rows
from .codegen import address, element, square_column, square_row

_WIDEST = 64  # narrower rows are read several at once, as one row that fills whole vectors


def _square_lines(row_map: ClampedMap, times: int = 1) -> Floats:
    """What the loops read: centers, scales, limits, units, and the square and the fill of a missing value."""
    auxiliary, limits = row_map.auxiliary, row_map.limits.astype(np.float64)
    units = auxiliary.squares.astype(np.float64)
    fill = _fill_in_limits(row_map, limits)
    counted = auxiliary.absences > 0 if auxiliary.missing == "column" else np.zeros(row_map.columns, bool)
    missing = np.where(counted, 0.0, np.rint(units * (1.0 - fill * fill)))
    values = row_map.center, row_map.scale, limits, units, missing, fill
    columns = row_map.columns * times
    lines = aligned(len(values), -(-columns // LANES) * LANES)
    for line, value in zip(lines, values, strict=True):
        line[:columns] = np.tile(value, times)
    return lines


def _fill_in_limits(row_map: ClampedMap, limits: Floats) -> Floats:
    """What replaces a missing value, in units of its limit."""
    fill = row_map.center if row_map.auxiliary.fill is None else row_map.auxiliary.fill
    q = np.rint(np.clip((fill - row_map.center) * row_map.scale, -limits, limits))
    share: Floats = q / np.maximum(limits, 1.0)
    return share


class SquaresKernel:
    """Adds the integer rows of a clamped map, and behind them their squares. Blocks are only read."""

    def __init__(self, row_map: ClampedMap) -> None:
        self._map = row_map
        self.clamped = ClampedKernel(row_map)
        self._times = LANES // math.gcd(row_map.columns, LANES) if row_map.columns < _WIDEST else 1
        self.lines = _square_lines(row_map)
        self._several = _square_lines(row_map, self._times)
        """For as many rows as fill whole vectors."""

    def __call__(self, block: Block, total: Ints) -> None:
        auxiliary, columns = self._map.auxiliary, self._map.columns
        first = columns + auxiliary.counted
        self.clamped(block, total[:first])
        sums = total[first : first + columns]
        places = columns_of(block)
        if places is not None:
            add_column_squares(places, len(block), block.dtype.type(0), self.lines, sums)
        else:
            several, rest = split_rows(block, self._times)
            self._add(several, self._several, sums)
            self._add(rest, self.lines, sums)
        if auxiliary.pairs:
            self._add_products(block, total[first + columns :])

    def _add_products(self, block: Block, total: Ints) -> None:
        row, units = np.zeros(self._map.columns), float(self._map.auxiliary.products)
        for part in readable(block, self._map.columns, singles=True):
            add_products_of_pairs(*location(part), part.dtype.type(0), self.lines, units, row, total)

    def _add(self, block: Block, lines: Floats, total: Ints) -> None:
        columns, sums = block.shape[1], np.zeros(lines.shape[1], np.int64)
        for part in readable(block, columns, singles=True):
            add_row_squares(*location(part), part.dtype.type(0), columns, lines, sums)
        total += sums[:columns].reshape(-1, total.size).sum(0)


@inner
def _share(entry: float, lines: Floats, k: int) -> float:
    """A finite value of column k, clamped and rounded, in units of its limit."""
    return float(rounded_clamp(entry, k, lines) / max(lines[2, k], 1.0))


@inner
def square_entry(entry: float, lines: Floats, k: int) -> np.int64:
    """The square of a value of column k: the operations of the vectors."""
    if not abs(entry) < np.inf:
        return np.int64(lines[4, k])
    share = _share(entry, lines, k)
    return np.int64(np.rint(lines[3, k] * (1.0 - share * share)))


@compiled
def add_row_squares(x: int, stride: int, rows: int, like: float, columns: int, lines: Floats, sums: Ints) -> None:
    """Add the squares of rows of doubles (or singles) at an address, contiguous values, rows `stride` bytes apart."""
    place, row, out = address(lines), 8 * lines.shape[1], address(sums)
    whole = columns // LANES * LANES
    for _ in range(rows):
        for j in range(0, whole, LANES):
            at = place + 8 * j
            frame = (at, at + row, at + 2 * row, at + 3 * row, at + 4 * row)
            square_row(x, j, like, frame, out + 8 * j)
        for j in range(whole, columns):
            sums[j] += square_entry(element(x, j, like), lines, j)
        x += stride


@compiled
def add_column_squares(places: Addresses, rows: int, like: float, lines: Floats, sums: Ints) -> None:
    """As `add_row_squares`, for rows whose columns begin at `places`, with the values of a column contiguous."""
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
def add_products_of_pairs(
    x: int, stride: int, rows: int, like: float, lines: Floats, units: float, row: Floats, sums: Ints
) -> None:
    """Add units y_i y_j, rounded, of every pair i < j of columns, for rows as in `add_row_squares` [S12]."""
    columns = row.size
    for _ in range(rows):
        for j in range(columns):
            entry = element(x, j, like)
            row[j] = _share(entry, lines, j) if abs(entry) < np.inf else lines[5, j]
        k = 0
        for i in range(columns):
            for j in range(i + 1, columns):
                sums[k] += np.int64(np.rint(units * (row[i] * row[j])))
                k += 1
        x += stride
