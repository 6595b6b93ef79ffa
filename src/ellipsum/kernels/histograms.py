"""Compiled loops of histogram maps and other maps that learning uses, one row after the other in a fixed order.

Imported only when rows are added. Floats are never reordered or fused: every number is a function of its row
alone [L1], and each norm is computed from the same numbers that are scaled and rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats
from ..numerics.wide_integers import Ints
from ..row_maps.histograms import ColumnHistograms, SecondMoments, SideBySide
from ..row_maps.maps import UNUSED, Prepared, RowMap
from ..util.compile import compiled, inner
from .accumulate import kernel_for
from .blocks import FAR_EXPONENT, LARGE, Block, Numbers, floats

_COPY_ENTRIES = 1 << 15
Frame = tuple[Floats, Floats, Floats, Ints, Floats, Floats]  # see `row_maps.histograms.Framed.arguments`
Bins = tuple[
    Ints, Floats, Ints, Floats, NDArray[np.bool_]
]  # columns, edges, where each column's begin, scales, counted
_EXACT_ROWS = 1 << 12  # Products of this number of rows of 20 bits add up exactly in doubles [L5].


class MapKernel:
    """Passes a block as contiguous doubles to the loop for the kind of a map."""

    def __init__(self, row_map: RowMap) -> None:
        self._map = row_map
        self._add, self._arguments = LOOPS[row_map.kind]

    def __call__(self, block: Block, total: Ints) -> None:
        for part in _doubles(block):
            self._add(part, total, *self._arguments(self._map))


class PreparedKernel:
    """Fills missing values, clamps the others, and passes the rows to the kernel of the inner map."""

    def __init__(self, row_map: Prepared) -> None:
        self._map = row_map
        self._inner = kernel_for(row_map.inner)

    def __call__(self, block: Block, total: Ints) -> None:
        for part in _copies(block):
            self._inner(self._map.rows(part), total)


class GroupedBinsKernel:
    """Counts the bins of columns in each group. These sums are too small to overflow, so none is carried [G5]."""

    def __init__(self, row_map: Prepared | ColumnHistograms) -> None:
        self._prepared = row_map if isinstance(row_map, Prepared) else None
        inner = row_map.inner if isinstance(row_map, Prepared) else row_map
        assert isinstance(inner, ColumnHistograms)
        self._map = inner

    def __call__(self, block: Block, codes: Ints, low: Ints, high: Ints, counts: Ints) -> None:
        rows = floats(block, copy=True)
        if self._prepared is not None:
            rows = self._prepared.rows(rows)
        add_grouped_bins(rows, codes, *_bins_of(self._map), low, counts)


class SideBySideKernel:
    """Hands rows to the kernel of each map, with its part of the total."""

    def __init__(self, row_map: SideBySide) -> None:
        self._places = places_of(row_map)
        self._kernels = [kernel_for(part) for part in row_map.parts]

    def __call__(self, block: Numbers, total: Ints) -> None:
        for kernel, place in zip(self._kernels, self._places, strict=True):
            kernel(block, total[place])


def places_of(row_map: SideBySide) -> list[slice]:
    """The slice of each map's sums among the sums of maps side by side."""
    ends = np.cumsum([0, *(part.width for part in row_map.parts)]).tolist()
    return [slice(*pair) for pair in pairwise(ends)]


def _doubles(block: Block) -> Iterator[Numbers]:
    """The block as writable contiguous doubles, in copies of a few rows where it is not."""
    is_read_in_place = (
        isinstance(block, np.ndarray)
        and block.dtype.char == "d"
        and block.flags.c_contiguous
        and block.flags.writeable
        and block.flags.aligned
    )
    if is_read_in_place:
        yield np.asarray(block)
    else:
        yield from _copies(block)


def _copies(block: Block) -> Iterator[Numbers]:
    """Copies of a few rows at a time, as contiguous doubles."""
    step = max(16, _COPY_ENTRIES // block.shape[1])
    for first in range(0, len(block), step):
        yield floats(block[first : first + step], copy=True)


@inner
def _bin(edges: Floats, first: int, last: int, value: float) -> int:
    """How many of edges[first:last] are at most the value."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if edges[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low - first


@inner
def _even_bin(edges: Floats, first: int, last: int, value: float, scale: float) -> int:
    """As `_bin`, for edges that are evenly spaced up to rounding: a guess, corrected by comparisons."""
    guess = (value - edges[first]) * scale
    place = first if guess < 0.0 else last if guess > last - first else first + int(guess)
    while place < last and edges[place] <= value:
        place += 1
    while place > first and edges[place - 1] > value:
        place -= 1
    return place - first


@inner
def _find_slots(row: Floats, bins: Bins, slots: Ints) -> int:
    """Write where the values of a row are counted, and return how many are."""
    places, edges, starts, scales, counted = bins
    hits = 0
    for k in range(places.size):
        first, last = starts[k], starts[k + 1]
        value = row[places[k]]
        if not abs(value) < np.inf:
            bin_ = last - first + 1
        elif scales[k] > 0.0:
            bin_ = _even_bin(edges, first, last, value, scales[k])
        else:
            bin_ = _bin(edges, first, last, value)
        slot = first + 2 * k + bin_
        if counted[slot]:
            slots[hits] = slot
            hits += 1
    return hits


@compiled
def add_column_bins(block: Floats, total: Ints, bins: Bins, weights: Ints, slots: Ints) -> None:
    """Count each value in the bin of its column, with the weight of a row of that many values."""
    for r in range(block.shape[0]):
        hits = _find_slots(block[r], bins, slots)
        for i in range(hits):
            total[slots[i]] += weights[hits]


@compiled
def add_grouped_bins(
    block: Floats, codes: Ints, bins: Bins, weights: Ints, slots: Ints, low: Ints, counts: Ints
) -> None:
    """As `add_column_bins`, each row added to the sums of its own group. A row without a group has a negative code."""
    for r in range(block.shape[0]):
        g = codes[r]
        if g >= 0:
            hits = _find_slots(block[r], bins, slots)
            for i in range(hits):
                low[g, slots[i]] += weights[hits]
            counts[g] += 1


@inner
def _product(packed: Floats, offsets: Floats, y: Floats) -> None:
    """y = B o, columns in ascending order."""
    y[:] = 0.0
    for j in range(offsets.size):
        o = offsets[j]
        if o != 0.0:
            for i in range(y.size):
                y[i] += packed[j, i] * o


@inner
def _square(y: Floats) -> float:
    total = 0.0
    for i in range(y.size):
        total += y[i] * y[i]
    return total


@inner
def _bring_near(row: Floats, frame: Frame) -> None:
    """Write y along its direction, with its largest value near 2^200, for a row whose norm overflows ([L1])."""
    center, scale, packed, exponents, offsets, y = frame
    top = -10000
    for j in range(row.size):
        offset, exponent = math.frexp(0.5 * row[j] - 0.5 * center[j] if abs(row[j]) < np.inf else 0.0)
        if offset != 0.0 and exponents[j] != UNUSED:
            top = max(top, exponent + exponents[j])
    for j in range(row.size):
        offset, exponent = math.frexp(0.5 * row[j] - 0.5 * center[j] if abs(row[j]) < np.inf else 0.0)
        used = exponents[j] != UNUSED
        offsets[j] = math.ldexp(offset, exponent + exponents[j] - top) if used else 0.0
    if packed.size:
        y[:] = 0.0
        for j in range(row.size):
            if offsets[j] != 0.0:
                for i in range(y.size):
                    y[i] += math.ldexp(packed[j, i], -exponents[j]) * offsets[j]
    else:
        for j in range(row.size):
            y[j] = math.ldexp(scale[j], -exponents[j]) * offsets[j] if exponents[j] != UNUSED else 0.0
    top = -10000
    for i in range(y.size):
        if y[i] != 0.0:
            top = max(top, math.frexp(y[i])[1])
    for i in range(y.size):
        y[i] = math.ldexp(y[i], FAR_EXPONENT - top) if y[i] != 0.0 else 0.0


@inner
def _map(row: Floats, frame: Frame) -> float:
    """Write y = B (x - c) and return its squared norm; missing values and overflow as in [S3]."""
    center, scale, packed, exponents, offsets, y = frame
    for j in range(row.size):
        offsets[j] = row[j] - center[j] if abs(row[j]) < np.inf and exponents[j] != UNUSED else 0.0
    if packed.size:
        _product(packed, offsets, y)
    else:
        for j in range(row.size):
            y[j] = offsets[j] * scale[j]
    square = _square(y)
    if not square < LARGE:
        _bring_near(row, frame)
        square = _square(y)
    return square


@compiled
def add_norm_bins(block: Floats, total: Ints, frame: Frame, edges: Floats) -> None:
    """Count each row in the bin of its norm."""
    for r in range(block.shape[0]):
        square = _map(block[r], frame)
        total[_bin(edges, 0, edges.size, math.sqrt(square))] += 1


@compiled
def add_sides(block: Floats, total: Ints, frame: Frame, middle: Floats, measure: int, below: int, above: int) -> None:
    """`below` where a value of y (0), its size (1) or the norm (2) is at most its middle, `above` elsewhere."""
    y = frame[-1]
    for r in range(block.shape[0]):
        length = math.sqrt(_map(block[r], frame))
        for i in range(middle.size):
            value = length if measure == 2 else abs(y[i]) if measure == 1 else y[i]
            total[i] += below if value <= middle[i] else above


@compiled
def add_signed(block: Floats, total: Ints, frame: Frame, grid: float) -> None:
    """rint(grid y / max(1, norm)): positive values in the first half, the sizes of negative values in the second."""
    y = frame[5]
    for r in range(block.shape[0]):
        square = _map(block[r], frame)
        factor = grid / math.sqrt(square) if square > 1.0 else grid
        for i in range(y.size):
            entry = int(np.rint(y[i] * factor))
            if entry > 0:
                total[i] += entry
            else:
                total[y.size + i] -= entry


@compiled
def add_directions(block: Floats, total: Ints, frame: Frame, edges: Floats, grid: float) -> None:
    """Add rint(grid y / norm) at the place of the row's shell."""
    y = frame[5]
    for r in range(block.shape[0]):
        length = math.sqrt(_map(block[r], frame))
        shell = _bin(edges, 0, edges.size, length) - 1
        if shell >= 0:
            factor = grid / length
            for i in range(y.size):
                total[shell * y.size + i] += int(np.rint(y[i] * factor))


@compiled
def add_outer_products(
    block: Floats, total: Ints, frame: Frame, grid: float, on: int, off: int, few: Floats, products: Floats
) -> None:
    """The upper triangle of q q^T, row by row, q = rint(grid y / max(1, ‖y‖)), products times `on` (diagonal) or `off`.

    few: four rows. products: a square of zeros, left so; sums of up to _EXACT_ROWS products are exact in it [L5].
    """
    y = frame[5]
    rows = block.shape[0]
    for start in range(0, rows, _EXACT_ROWS):
        stop = min(start + _EXACT_ROWS, rows)
        for first in range(start, stop, 4):
            for r in range(4):
                if first + r < stop:
                    square = _map(block[first + r], frame)
                    factor = grid / math.sqrt(square) if square > 1.0 else grid
                    for i in range(y.size):
                        few[r, i] = np.rint(y[i] * factor)
                else:
                    few[r] = 0.0
            _add_four(few, products)
        _add_triangle(products, on, off, total)


@inner
def _add_four(few: Floats, products: Floats) -> None:
    """Add the products of four rows: the square is read and written a quarter as often as with single rows."""
    a, b, c, d = few[0], few[1], few[2], few[3]
    for i in range(few.shape[1]):
        ai, bi, ci, di = a[i], b[i], c[i], d[i]
        row = products[i]
        for j in range(i, few.shape[1]):
            row[j] += (ai * a[j] + bi * b[j]) + (ci * c[j] + di * d[j])


@inner
def _add_triangle(products: Floats, on: int, off: int, total: Ints) -> None:
    place = 0
    for i in range(products.shape[0]):
        total[place] += on * int(products[i, i])
        products[i, i] = 0.0
        for j in range(i + 1, products.shape[0]):
            total[place + j - i] += off * int(products[i, j])
            products[i, j] = 0.0
        place += products.shape[0] - i


def _count_rows(block: Numbers, total: Ints) -> None:
    total[0] += len(block)


def _bins_of(row_map: ColumnHistograms) -> tuple[Bins, Ints, Ints]:
    """Arguments of the loops over columns' bins."""
    bins = row_map.places, row_map.edges, row_map.starts, row_map.scales, row_map.counted
    return bins, row_map.weights, np.empty(row_map.places.size, np.int64)


def _products_of(row_map: SecondMoments) -> tuple[Frame, float, int, int, Floats, Floats]:
    """Arguments of the loop over products."""
    few, products = np.empty((4, row_map.values)), np.zeros((row_map.values, row_map.values))
    return row_map.arguments, row_map.grid, *row_map.factors, few, products


# For each kind of map: the loop over the rows of a block, and its arguments behind the block and the total.
LOOPS: dict[str, tuple[Callable[..., None], Callable[[Any], tuple[Any, ...]]]] = {
    "count": (_count_rows, lambda row_map: ()),
    "column_histograms": (add_column_bins, _bins_of),
    "norm_histogram": (add_norm_bins, attrgetter("arguments", "edges")),
    "signed_parts": (add_signed, attrgetter("arguments", "grid")),
    "directions": (add_directions, attrgetter("arguments", "edges", "grid")),
    "second_moments": (add_outer_products, _products_of),
    "sides": (add_sides, attrgetter("arguments", "middle", "measure", "below", "above")),
}
