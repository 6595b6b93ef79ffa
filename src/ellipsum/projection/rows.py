"""The integer rows of a block one by one, where a sum would add them: the same kernel, the same bits.

Imported only when rows are projected: it compiles.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..accumulate import EllipsoidMap, _readable
from ..compiled import compiled
from ..errors import Floats
from ..kernels.diagonal import add_rows
from ..kernels.layout import BLOCK, TILE
from ..kernels.matrix import add_products


def integer_rows(row_map: EllipsoidMap, block: Any) -> Floats:
    """The integer row of every row of a float32 or float64 block, as doubles; each a function of its row alone [S1].

    Each row is added to a total of its own that starts at zero, by the kernel that adds up all rows of a sum, so
    that its bounds [S2] and its treatment of odd entries [S3] are those of every other release.
    """
    padded, grid = row_map._frame.shape[1], math.ldexp(1.0, row_map.grid_bits)
    totals = np.zeros((len(block), padded), np.int64)
    spare, done = np.empty(padded), 0
    diagonal = row_map._packed is None
    for part in _readable(block, padded if diagonal else row_map.columns, singles=diagonal):
        place = part.__array_interface__["data"][0], part.strides[0]
        out = totals[done : done + len(part)]
        if diagonal:
            _add_each(*place, part.dtype.type(0), row_map._frame, row_map._identity, grid, out, spare)
        else:
            maps = row_map.center, row_map._packed, row_map._exponents, row_map._identity
            _multiply_each(*place, *maps, grid, out, np.empty((BLOCK, TILE)), np.empty((BLOCK, padded)), spare)
        done += len(part)
    return totals[:, : row_map.width].astype(np.float64)


@compiled
def _add_each(x: int, stride: int, like: Any, frame: Any, identity: Any, grid: float, totals: Any, row: Any) -> None:
    for i in range(totals.shape[0]):
        add_rows(x + i * stride, stride, 1, like, frame, identity, grid, totals[i], row)


@compiled
def _multiply_each(
    x: int,
    stride: int,
    center: Any,
    packed: Any,
    exponents: Any,
    identity: Any,
    grid: float,
    totals: Any,
    offsets: Any,
    products: Any,
    row: Any,
) -> None:
    for i in range(totals.shape[0]):
        start = x + i * stride
        add_products(start, stride, 1, center, packed, exponents, identity, grid, totals[i], offsets, products, row)
