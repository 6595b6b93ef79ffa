"""Compiled loops of the learning row maps, one row after the other in a fixed order.

Imported only when rows are added. Floats are never reordered or fused: every number is a function of its row
alone ([L1]), and each norm is that of the very numbers that are scaled and rounded.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..kernels.memory import FAR_EXPONENT, LARGE, UNUSED
from ..util.compile import compiled, inner

EXACT_ROWS = 1 << 12


@inner
def _bin(edges: Any, value: float) -> int:
    """How many edges lie below the value."""
    low, high = 0, edges.size
    while low < high:
        middle = (low + high) // 2
        if edges[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def _product(packed: Any, offsets: Any, y: Any) -> None:
    """y = B o, columns in ascending order."""
    y[:] = 0.0
    for j in range(offsets.size):
        o = offsets[j]
        if o != 0.0:
            for i in range(y.size):
                y[i] += packed[j, i] * o


@inner
def _square(y: Any) -> float:
    total = 0.0
    for i in range(y.size):
        total += y[i] * y[i]
    return total


@inner
def _bring_near(row: Any, center: Any, scale: Any, packed: Any, exponents: Any, offsets: Any, y: Any) -> None:
    """y along its direction, largest entry near 2^200, for a row whose norm overflows ([L1])."""
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
def _map(row: Any, center: Any, scale: Any, packed: Any, exponents: Any, offsets: Any, y: Any) -> float:
    """Writes y = B (x - c) and returns its squared norm; odd entries as in [S3]."""
    for j in range(row.size):
        offsets[j] = row[j] - center[j] if abs(row[j]) < np.inf and exponents[j] != UNUSED else 0.0
    if packed.size:
        _product(packed, offsets, y)
    else:
        for j in range(row.size):
            y[j] = offsets[j] * scale[j]
    square = _square(y)
    if not square < LARGE:
        _bring_near(row, center, scale, packed, exponents, offsets, y)
        square = _square(y)
    return square


@compiled
def add_norm_bins(
    block: Any, center: Any, scale: Any, packed: Any, exponents: Any, edges: Any, total: Any, offsets: Any, y: Any
) -> None:
    """One-hot of ‖y‖ among the edges."""
    for r in range(block.shape[0]):
        square = _map(block[r], center, scale, packed, exponents, offsets, y)
        total[_bin(edges, math.sqrt(square))] += 1


@compiled
def add_coordinate_bins(block: Any, edges: Any, folded: bool, absences: bool, total: Any) -> None:
    """One-hot of every entry, or of its size, among its column's edges.

    absences: NaN and infinite entries have a bin of their own; else they are left out.
    """
    bins = edges.shape[1] + (2 if absences else 1)
    for r in range(block.shape[0]):
        for j in range(block.shape[1]):
            size = abs(block[r, j])
            if size < np.inf:
                total[j * bins + _bin(edges[j], size if folded else block[r, j])] += 1
            elif absences:
                total[(j + 1) * bins - 1] += 1


@compiled
def add_far(block: Any, center: Any, reach: Any, total: Any) -> None:
    """Rows with an entry farther than `reach` from its center; NaN and infinite entries are not."""
    for r in range(block.shape[0]):
        for j in range(block.shape[1]):
            if abs(block[r, j]) < np.inf and not abs(block[r, j] - center[j]) <= reach[j]:
                total[0] += 1
                break


@compiled
def add_absolutes(
    block: Any, center: Any, scale: Any, packed: Any, exponents: Any, grid: float, total: Any, offsets: Any, y: Any
) -> None:
    """rint(grid |y| / max(1, ‖y‖))."""
    for r in range(block.shape[0]):
        square = _map(block[r], center, scale, packed, exponents, offsets, y)
        factor = grid / math.sqrt(square) if square > 1.0 else grid
        for i in range(y.size):
            total[i] += int(np.rint(abs(y[i]) * factor))


@compiled
def add_shells(
    block: Any,
    center: Any,
    scale: Any,
    packed: Any,
    exponents: Any,
    inner: float,
    outer: float,
    grid: float,
    total: Any,
    offsets: Any,
    y: Any,
) -> None:
    """rint(grid (clip(‖y‖, inner, outer) - inner) / (outer - inner) y / ‖y‖)."""
    per_length = grid / (outer - inner)
    for r in range(block.shape[0]):
        length = math.sqrt(_map(block[r], center, scale, packed, exponents, offsets, y))
        if length > inner:
            factor = (min(length, outer) - inner) * per_length / length
            for i in range(y.size):
                total[i] += int(np.rint(y[i] * factor))


@compiled
def add_outer_products(
    block: Any,
    center: Any,
    scale: Any,
    packed: Any,
    exponents: Any,
    grid: float,
    on: int,
    off: int,
    total: Any,
    offsets: Any,
    y: Any,
    few: Any,
    products: Any,
) -> None:
    """The upper triangle of q q^T, row by row, q = rint(grid y / max(1, ‖y‖)), entries times `on` or `off`.

    few: four rows. products: a square of zeros, left so; sums of up to EXACT_ROWS products are exact in it [L5].
    """
    rows = block.shape[0]
    for start in range(0, rows, EXACT_ROWS):
        stop = min(start + EXACT_ROWS, rows)
        for first in range(start, stop, 4):
            for r in range(4):
                if first + r < stop:
                    square = _map(block[first + r], center, scale, packed, exponents, offsets, y)
                    factor = grid / math.sqrt(square) if square > 1.0 else grid
                    for i in range(y.size):
                        few[r, i] = np.rint(y[i] * factor)
                else:
                    few[r] = 0.0
            _add_four(few, products)
        _add_triangle(products, on, off, total)


@inner
def _add_four(few: Any, products: Any) -> None:
    """Four rows at a time: a square of many columns is read and written a quarter as often."""
    a, b, c, d = few[0], few[1], few[2], few[3]
    for i in range(few.shape[1]):
        ai, bi, ci, di = a[i], b[i], c[i], d[i]
        row = products[i]
        for j in range(i, few.shape[1]):
            row[j] += (ai * a[j] + bi * b[j]) + (ci * c[j] + di * d[j])


@inner
def _add_triangle(products: Any, on: int, off: int, total: Any) -> None:
    place = 0
    for i in range(products.shape[0]):
        total[place] += on * int(products[i, i])
        products[i, i] = 0.0
        for j in range(i + 1, products.shape[0]):
            total[place + j - i] += off * int(products[i, j])
            products[i, j] = 0.0
        place += products.shape[0] - i
