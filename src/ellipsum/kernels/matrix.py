"""The matrix map: products in a fixed order, then the diagonal map's clip."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import Floats
from ..numerics.wide_integers import Ints
from ..row_maps.maps import UNUSED, EllipsoidMap
from ..util.compile import compiled, inner
from .blocks import Columns
from .codegen import address, all_below, element, load_quad, plus_products, store_quad
from .ellipsoid import ClipKernel, absent_cell, add_mended, add_rows, squared_norm
from .memory import BLOCK, FAR_EXPONENT, LARGE, PANEL, TILE, Rows, readable


class MatrixKernel(ClipKernel):
    """Adds the integer rows of an `EllipsoidMap` with a `matrix`."""

    def __init__(self, row_map: EllipsoidMap) -> None:
        assert row_map.matrix is not None
        padded = len(row_map.matrix) + -len(row_map.matrix) % PANEL
        super().__init__(row_map, np.zeros(padded), np.ones(padded))
        packed, exponents = _pack(row_map.matrix)
        self.maps = row_map.center, packed, exponents, self.identity

    def scratch(self) -> tuple[Floats, Floats, Floats]:
        """What `add_products` works in."""
        return np.empty((BLOCK, TILE)), np.empty((BLOCK, self.padded)), np.empty((2, self.padded))

    def _add(self, block: Rows | Columns, sums: Ints, riders: tuple[Any, ...]) -> None:
        scratch = self.scratch()
        for part in readable(block, self._map.columns, singles=False):
            place = part.__array_interface__["data"][0], part.strides[0], len(part)
            add_products(*place, *self.maps, self.grid, sums, *scratch, riders)


def _pack(matrix: Floats) -> tuple[Floats, Ints]:
    """The matrix in panels of 16 rows, column after column, and a power of two that bounds each column."""
    height, columns = matrix.shape
    panels = -(-height // PANEL)
    packed = np.zeros((panels, columns, PANEL))
    for p in range(panels):
        part = matrix[p * PANEL : (p + 1) * PANEL]
        packed[p, :, : len(part)] = part.T
    largest = np.maximum(matrix.max(axis=0), -matrix.min(axis=0))
    exponents = np.maximum(np.frexp(largest)[1], -1000).astype(np.int64)
    return packed, np.where(largest == 0, UNUSED, exponents)


@inner
def _offset(x: int, j: int, half: float, center: Any, exponents: Any, fill: Any) -> float:
    """half (x_j - center_j) without overflow for half = 1/2; the fill's if missing, zero in unused columns ([S3])."""
    entry = element(x, j, 0.0)
    entry = entry if abs(entry) < np.inf else fill[j]
    return float(half * entry - half * center[j] if exponents[j] != UNUSED else 0.0)


@inner
def _taken(x: int, columns: int, riders: Any) -> float:
    """The share of the squared radius that went with a row's absent cells; infinity where the row is left out."""
    taken = 0.0
    for j in range(columns):
        if not abs(element(x, j, 0.0)) < np.inf:
            taken += absent_cell(j, riders)
            if taken == np.inf:
                return taken
    return taken


@inner
def _multiply(
    x: int, stride: int, rows: int, center: Any, packed: Any, exponents: Any, fill: Any, offsets: Any, products: Any
) -> None:
    """products[:rows] = (x - center) times the packed matrix, each entry summed over columns 0, 1, 2, ..."""
    panels, columns = packed.shape[0], packed.shape[1]
    products[:rows] = 0.0
    offsets[rows : rows + -rows % 4] = 0.0
    for first in range(0, columns, TILE):
        count = min(TILE, columns - first)
        for i in range(rows):
            for j in range(count):
                offsets[i, j] = _offset(x + i * stride, first + j, 1.0, center, exponents, fill)
        for p in range(panels):
            panel = address(packed) + 8 * PANEL * (p * columns + first)
            for i in range(0, rows, 4):
                place = address(products) + 8 * (i * products.shape[1] + PANEL * p)
                quad = load_quad(place, 8 * products.shape[1])
                for j in range(count):
                    quad = plus_products(quad, panel, address(offsets) + 8 * TILE * i, 8 * TILE, j)
                store_quad(quad, place, 8 * products.shape[1])


@inner
def _multiply_far(x: int, center: Any, packed: Any, exponents: Any, fill: Any, products: Any) -> None:
    """The product of one row that overflows, times the power of two that brings it near 2^200 ([S3])."""
    panels, columns = packed.shape[0], packed.shape[1]
    top = -10000
    for j in range(columns):
        offset, exponent = math.frexp(_offset(x, j, 0.5, center, exponents, fill))
        if offset != 0.0:
            top = max(top, exponent + exponents[j])
    products[:] = 0.0
    for j in range(columns):
        offset, exponent = math.frexp(_offset(x, j, 0.5, center, exponents, fill))
        if offset == 0.0:
            continue
        offset = math.ldexp(offset, exponent + exponents[j] - top)
        shrink = math.ldexp(1.0, -exponents[j])
        for p in range(panels):
            for i in range(PANEL):
                products[p * PANEL + i] += packed[p, j, i] * shrink * offset
    largest = 0.0
    for i in range(products.size):
        largest = max(largest, abs(products[i]))
    top = math.frexp(largest)[1]
    for i in range(products.size):
        products[i] = math.ldexp(products[i], FAR_EXPONENT - top)


@compiled
def add_products(
    x: int,
    stride: int,
    rows: int,
    center: Any,
    packed: Any,
    exponents: Any,
    identity: Any,
    grid: float,
    total: Any,
    offsets: Any,
    products: Any,
    row: Any,
    riders: Any,
) -> None:
    """Adds to the total the integer rows of matrix times (row - center), rows of doubles at an address.

    `packed[p, j, i]` is the matrix at row 16 p + i, column j; `exponents` bounds its columns by 2^exponent.
    `offsets` (32, 256), `products` (32, width) and `row` (2, width) are scratch.
    """
    fill = riders[4]
    taken = np.empty(BLOCK)
    for first in range(0, rows, BLOCK):
        count = min(BLOCK, rows - first)
        start = x + first * stride
        _multiply(start, stride, count, center, packed, exponents, fill, offsets, products)
        complete = True
        for i in range(count):
            taken[i] = _taken(start + i * stride, center.size, riders)
            complete &= taken[i] == 0.0
            squares = squared_norm(address(products[i]), identity)
            if not all_below(squares, LARGE):
                _multiply_far(start + i * stride, center, packed, exponents, fill, products[i])
        if complete:
            place = address(products)
            add_rows(place, 8 * products.shape[1], count, 0.0, identity, identity, grid, total, row, riders)
        else:
            for i in range(count):
                row[0] = products[i]
                add_mended(row[0], taken[i], identity, identity, grid, total, riders)
