"""The integer rows of a block one by one, where a sum would add them: the same kernel, the same bits.

Imported only when rows are projected: it compiles.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import Floats
from ..kernels.ellipsoid import ClipKernel, EllipsoidKernel, add_rows
from ..kernels.matrix import MatrixKernel, add_products
from ..kernels.memory import readable
from ..row_maps.maps import EllipsoidMap
from ..util.compile import compiled


def integer_rows(row_map: EllipsoidMap, block: Any) -> Floats:
    """The integer row of every row of a float32 or float64 block, as doubles; each a function of its row alone [S1].

    Each row is added to a total of its own that starts at zero, by the kernel that adds up all rows of a sum, so
    that its bounds [S2] and its treatment of odd entries [S3] are those of every other release.
    """
    kernel: ClipKernel = EllipsoidKernel(row_map) if row_map.matrix is None else MatrixKernel(row_map)
    totals = np.zeros((len(block), kernel.padded), np.int64)
    riders, diagonal, done = kernel.fresh_riders(), row_map.matrix is None, 0
    for part in readable(block, kernel.padded if diagonal else row_map.columns, singles=diagonal):
        place = part.__array_interface__["data"][0], part.strides[0]
        out = totals[done : done + len(part)]
        if isinstance(kernel, MatrixKernel):
            _multiply_each(*place, *kernel.maps, kernel.grid, out, *kernel.scratch(), riders)
        else:
            spare = np.empty((1, kernel.padded))
            _add_each(*place, part.dtype.type(0), kernel.frame, kernel.identity, kernel.grid, out, spare, riders)
        done += len(part)
    return totals[:, : row_map.width].astype(np.float64)


@compiled
def _add_each(
    x: int, stride: int, like: Any, frame: Any, identity: Any, grid: float, totals: Any, row: Any, riders: Any
) -> None:
    for i in range(totals.shape[0]):
        add_rows(x + i * stride, stride, 1, like, frame, identity, grid, totals[i], row, riders)


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
    riders: Any,
) -> None:
    for i in range(totals.shape[0]):
        start = x + i * stride
        add_products(
            start, stride, 1, center, packed, exponents, identity, grid, totals[i], offsets, products, row, riders
        )
