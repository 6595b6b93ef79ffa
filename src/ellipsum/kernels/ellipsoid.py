"""The kernel of `EllipsoidMap`: what a block of rows adds to a sum, with the arrays prepared once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..blocks import Columns
from ..errors import Floats
from ..integers import Ints
from ..row_maps import EllipsoidMap
from .columns import add_columns
from .diagonal import add_rows
from .layout import BLOCK, LANES, PANEL, TILE, UNUSED
from .matrix import add_products
from .memory import Rows, aligned, columns_of, readable


class EllipsoidKernel:
    """Adds the integer rows of float32 or float64 blocks to a total (int64, contiguous); blocks are only read."""

    takes_columns = True

    def __init__(self, row_map: EllipsoidMap) -> None:
        self._map = row_map
        self.grid = math.ldexp(1.0, row_map.grid_bits)
        self.packed: Floats | None = None
        if row_map.matrix is None:
            assert row_map.scale is not None
            self.frame = _frame(row_map.center, row_map.scale)
        else:
            self.packed, self.exponents = _pack(row_map.matrix)
            padded = row_map.width + -row_map.width % PANEL
            self.frame = _frame(np.zeros(padded), np.ones(padded))
        self.padded = int(self.frame.shape[1])
        self.identity = _frame(np.zeros(self.padded), np.ones(self.padded))

    def __call__(self, block: Rows | Columns, total: Ints) -> None:
        sums = total if self.padded == self._map.width else np.zeros(self.padded, np.int64)
        spare = np.empty(self.padded)
        if self.packed is not None:
            self._multiply(block, sums, spare)
        elif (places := columns_of(block)) is not None:
            like, scratch = block.dtype.type(0), _column_scratch(self._map.columns)
            add_columns(places, len(block), like, self.frame, self.identity, self.grid, sums, spare, scratch)
        else:
            for part in readable(block, self.padded, singles=True):
                place = part.__array_interface__["data"][0], part.strides[0], len(part)
                add_rows(*place, part.dtype.type(0), self.frame, self.identity, self.grid, sums, spare)
        if sums is not total:
            total += sums[: self._map.width]

    def _multiply(self, block: Rows | Columns, sums: Ints, spare: Floats) -> None:
        scratch = np.empty((BLOCK, TILE)), np.empty((BLOCK, self.padded)), spare
        maps = self._map.center, self.packed, self.exponents, self.identity
        for part in readable(block, self._map.columns, singles=False):
            place = part.__array_interface__["data"][0], part.strides[0], len(part)
            add_products(*place, *maps, self.grid, sums, *scratch)


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


def _frame(center: Floats, scale: Floats) -> Floats:
    """Centres, scales and the scales of the last vector, whose columns counted before are at scale zero."""
    columns = center.size
    width = max(columns, LANES)
    frame = aligned(3, width)
    frame[0, :columns], frame[1, :columns] = center, scale
    rest = width % LANES
    frame[2, LANES - rest : LANES] = frame[1, width - rest :]
    return frame


def _column_scratch(columns: int) -> tuple[Any, ...]:
    """As `kernels.columns.add_columns` wants it."""
    group = LANES * LANES
    whole = aligned(columns + LANES + 1, group)
    sums = aligned(columns, LANES).view(np.int64)
    return whole[:columns], whole[columns:-1], whole[-1], sums
