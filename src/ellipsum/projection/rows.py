"""The integer rows of a block one by one: the same kernel and the same bits as in a sum of rows.

Imported only when rows are projected, since it compiles.
"""

from __future__ import annotations

import numpy as np

from ..errors import Floats
from ..kernels.blocks import Block, location, readable
from ..kernels.ellipsoid import ClipCounts, ClipKernel, ClipLines, EllipsoidKernel, add_rows
from ..kernels.matrix import MatrixKernel, MatrixLines, MatrixScratch, add_products
from ..numerics.wide_integers import Ints
from ..row_maps.maps import EllipsoidMap
from ..util.compile import compiled


def integer_rows(row_map: EllipsoidMap, block: Block) -> Floats:
    """The integer row of every row of a float32 or float64 block, as doubles; each a function of its row alone [S1].

    The kernel of sums adds each row to a total of its own that starts at zero, so its bounds [S2] and its treatment of
    missing values [S3] are those of every other release.
    """
    kernel: ClipKernel = EllipsoidKernel(row_map) if row_map.matrix is None else MatrixKernel(row_map)
    totals = np.zeros((len(block), kernel.padded), np.int64)
    counts, diagonal, done = kernel.new_counts(), row_map.matrix is None, 0
    for part in readable(block, kernel.padded if diagonal else row_map.columns, singles=diagonal):
        x, stride, rows = location(part)
        out = totals[done : done + rows]
        if isinstance(kernel, MatrixKernel):
            _multiply_each(x, stride, kernel.matrix_lines, out, kernel.scratch(), counts)
        else:
            _add_each(x, stride, part.dtype.type(0), kernel.lines, out, np.empty((2, kernel.padded)), counts)
        done += rows
    return totals[:, : row_map.width].astype(np.float64)


@compiled
def _add_each(
    x: int, stride: int, like: float, lines: ClipLines, totals: Ints, scratch: Floats, counts: ClipCounts
) -> None:
    for i in range(totals.shape[0]):
        add_rows(x + i * stride, stride, 1, like, lines, totals[i], scratch, counts)


@compiled
def _multiply_each(
    x: int, stride: int, maps: MatrixLines, totals: Ints, scratch: MatrixScratch, counts: ClipCounts
) -> None:
    for i in range(totals.shape[0]):
        add_products(x + i * stride, stride, 1, maps, totals[i], scratch, counts)
