"""The matrix map: products in a fixed order, then the clip of the diagonal map."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..errors import Floats
from ..numerics.wide_integers import Ints
from ..row_maps.maps import UNUSED, EllipsoidMap
from ..util.compile import compiled, inner
from .blocks import BLOCK, FAR_EXPONENT, LARGE, PANEL, TILE, Block, location, readable
from .codegen import address, all_below, element, load_quad, plus_products, store_quad
from .ellipsoid import ClipCounts, ClipKernel, ClipLines, add_finite, add_rows, squared_norm


class MatrixLines(NamedTuple):
    """packed[p, j, i] is the matrix at row 16 p + i, column j; 2^exponents bounds its columns; lines: for products."""

    center: Floats
    packed: Floats
    exponents: Ints
    lines: ClipLines


class MatrixScratch(NamedTuple):
    """Where `add_products` works: offsets (32, 256), products (32, width), row (2, width)."""

    offsets: Floats
    products: Floats
    row: Floats


class MatrixKernel(ClipKernel):
    """Adds the integer rows of an `EllipsoidMap` with a `matrix`."""

    def __init__(self, row_map: EllipsoidMap) -> None:
        assert row_map.matrix is not None
        padded = len(row_map.matrix) + -len(row_map.matrix) % PANEL
        super().__init__(row_map, np.zeros(padded), np.ones(padded))
        lines = self.lines._replace(frame=self.lines.identity)
        self.matrix_lines = MatrixLines(row_map.center, *_pack(row_map.matrix), lines)

    def scratch(self) -> MatrixScratch:
        return MatrixScratch(np.empty((BLOCK, TILE)), np.empty((BLOCK, self.padded)), np.empty((2, self.padded)))

    def _add(self, block: Block, sums: Ints, counts: ClipCounts) -> None:
        scratch = self.scratch()
        for part in readable(block, self._map.columns, singles=False):
            add_products(*location(part), self.matrix_lines, sums, scratch, counts)


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
def _offset(x: int, j: int, half: float, maps: MatrixLines, fills: Floats) -> float:
    """half (x_j - center_j) without overflow for half = 1/2; the fill's if missing, zero in unused columns ([S3])."""
    entry = element(x, j, 0.0)
    entry = entry if abs(entry) < np.inf else fills[j]
    return float(half * entry - half * maps.center[j] if maps.exponents[j] != UNUSED else 0.0)


@inner
def _missing_share(x: int, columns: int, counts: ClipCounts) -> float:
    """The share of the squared radius of a row's missing values, which are counted."""
    share = 0.0
    for j in range(columns):
        if not abs(element(x, j, 0.0)) < np.inf:
            counts.missing[j] += 1
            share += counts.shares[j]
    return share


@inner
def _multiply(x: int, stride: int, rows: int, maps: MatrixLines, fills: Floats, scratch: MatrixScratch) -> None:
    """products[:rows] = (x - center) times the packed matrix, each value summed over columns 0, 1, 2, ..."""
    packed, offsets, products = maps.packed, scratch.offsets, scratch.products
    panels, columns = packed.shape[0], packed.shape[1]
    products[:rows] = 0.0
    offsets[rows : rows + -rows % 4] = 0.0
    for first in range(0, columns, TILE):
        count = min(TILE, columns - first)
        for i in range(rows):
            for j in range(count):
                offsets[i, j] = _offset(x + i * stride, first + j, 1.0, maps, fills)
        for p in range(panels):
            panel = address(packed) + 8 * PANEL * (p * columns + first)
            for i in range(0, rows, 4):
                place = address(products) + 8 * (i * products.shape[1] + PANEL * p)
                quad = load_quad(place, 8 * products.shape[1])
                for j in range(count):
                    quad = plus_products(quad, panel, address(offsets) + 8 * TILE * i, 8 * TILE, j)
                store_quad(quad, place, 8 * products.shape[1])


@inner
def _multiply_far(x: int, maps: MatrixLines, fills: Floats, products: Floats) -> None:
    """The product of one row that overflows, times the power of two that brings it near 2^200 ([S3])."""
    packed, exponents = maps.packed, maps.exponents
    panels, columns = packed.shape[0], packed.shape[1]
    top = -10000
    for j in range(columns):
        offset, exponent = math.frexp(_offset(x, j, 0.5, maps, fills))
        if offset != 0.0:
            top = max(top, exponent + exponents[j])
    products[:] = 0.0
    for j in range(columns):
        offset, exponent = math.frexp(_offset(x, j, 0.5, maps, fills))
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
    x: int, stride: int, rows: int, maps: MatrixLines, total: Ints, scratch: MatrixScratch, counts: ClipCounts
) -> None:
    """Add to the total the integer rows of matrix times (row - center), for rows of doubles at an address."""
    products, row, lines = scratch.products, scratch.row, maps.lines
    shares = np.empty(BLOCK)
    for first in range(0, rows, BLOCK):
        count = min(BLOCK, rows - first)
        start = x + first * stride
        _multiply(start, stride, count, maps, counts.fills, scratch)
        complete = True
        for i in range(count):
            shares[i] = _missing_share(start + i * stride, maps.center.size, counts)
            complete &= shares[i] == 0.0
            squares = squared_norm(address(products[i]), lines.identity)
            if not all_below(squares, LARGE):
                _multiply_far(start + i * stride, maps, counts.fills, products[i])
        if complete:
            add_rows(address(products), 8 * products.shape[1], count, 0.0, lines, total, row, counts)
        else:
            for i in range(count):
                row[0] = products[i]
                add_finite(row[0], shares[i], lines, total, counts)
