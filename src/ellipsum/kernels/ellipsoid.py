"""The kernel of `EllipsoidMap`: what a block of rows adds to a sum, with the arrays prepared once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import Floats
from ..numerics.wide_integers import Ints
from ..row_maps.auxiliary_counts import Riders
from ..row_maps.maps import EllipsoidMap
from .blocks import Columns
from .ellipsoid_columns import add_columns
from .ellipsoid_diagonal import add_rows
from .layout import (
    BLOCK,
    COUNTED,
    FILLED,
    LANES,
    LEFT_OUT,
    PANEL,
    TILE,
    UNUSED,
)
from .matrix import add_products
from .memory import Rows, aligned, columns_of, readable, unset

_RULES = {"center": FILLED, "fill": FILLED, "column": COUNTED, "row": LEFT_OUT}


class EllipsoidKernel:
    """Adds the integer rows of float32 or float64 blocks to a total (int64, contiguous); blocks are only read."""

    takes_columns = True

    def __init__(self, row_map: EllipsoidMap) -> None:
        self._map = row_map
        self.grid = math.ldexp(1.0, row_map.grid_bits)
        self._fills = _wide(row_map.center if row_map.riders.fill is None else row_map.riders.fill, row_map.columns)
        self._shares = _wide(row_map.riders.shares, row_map.columns)
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
        values = self._map.values
        sums = total if self.padded == total.size else np.zeros(self.padded, np.int64)
        riders = self.fresh_riders()
        if self.packed is not None:
            self._multiply(block, sums, riders)
        elif (places := columns_of(block)) is not None:
            like, scratch, spare = block.dtype.type(0), _column_scratch(self._map.columns), np.empty(self.padded)
            add_columns(places, len(block), like, self.frame, self.identity, self.grid, sums, spare, riders, scratch)
        else:
            for part in readable(block, self.padded, singles=True):
                place = part.__array_interface__["data"][0], part.strides[0], len(part)
                like, spare = part.dtype.type(0), unset(2, self.padded)
                add_rows(*place, like, self.frame, self.identity, self.grid, sums, spare, riders)
        if sums is not total:
            total[:values] += sums[:values]
        _add_counts(self._map.riders, riders[6], riders[1], total[values:])

    def fresh_riders(self) -> tuple[Any, ...]:
        """What kernels mend rows with and count into, all zero.

        (grid of a row outside, rows outside by octave, eight spare numbers, the rule, fills, shares, absent cells)
        """
        riders = self._map.riders
        absent = np.zeros(self._fills.size if riders.missing == "column" else 1, np.int64)
        outside = np.zeros(riders.octaves, np.int64)
        rule = _RULES[riders.missing]
        return self.grid * riders.pull, outside, np.empty(LANES), rule, self._fills, self._shares, absent

    def _multiply(self, block: Rows | Columns, sums: Ints, riders: Any) -> None:
        scratch = np.empty((BLOCK, TILE)), np.empty((BLOCK, self.padded)), np.empty((2, self.padded))
        maps = self._map.center, self.packed, self.exponents, self.identity
        for part in readable(block, self._map.columns, singles=False):
            place = part.__array_interface__["data"][0], part.strides[0], len(part)
            add_products(*place, *maps, self.grid, sums, *scratch, riders)


def _wide(values: Floats | None, columns: int) -> Floats:
    wide = np.zeros(max(columns, LANES))
    if values is not None:
        wide[:columns] = values
    return wide


def _add_counts(riders: Riders, absent: Ints, outside: Ints, total: Ints) -> None:
    """Counts, in their units, behind the values."""
    if riders.width == 0:
        return
    absences = len(riders.absences)
    counts = np.concatenate([absent[:absences], outside])
    total += counts * riders.units


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
    """Centers, scales and the scales of the last vector, whose columns counted before are at scale zero."""
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
