"""Exact products of clipped rows and the public matrix: the same kernel and the same bits as in a sum of rows.

Imported only when rows are projected, since it compiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import DataError, Floats
from ..kernels.blocks import Block, location, readable
from ..kernels.ellipsoid import ClipCounts, ClipKernel, ClipLines, EllipsoidKernel, add_rows
from ..kernels.matrix import MatrixKernel, MatrixLines, MatrixScratch, add_products
from ..numerics.wide_integers import LOW_BITS, Ints, Wide
from ..row_maps.maps import EllipsoidMap
from ..util.compile import compiled
from .matrix import EXACT_BITS

_INT64 = np.dtype("<i8")


class ExactProduct:
    """q -> q @ matrix for integer rows with ‖q‖ <= norm_bound, without any rounding [J2].

    Where every sum of absolute products is below 2^53, double precision has no rounding error in any order, so the fast
    matrix product is exact. Otherwise (probability below e^-150 for a drawn matrix, or a caller's own matrix) Python
    integers are used. The choice depends on the public matrix alone.
    """

    def __init__(self, matrix: Ints, norm_bound: Fraction) -> None:
        self._integers = matrix
        self._doubles = np.ascontiguousarray(matrix, np.float64)
        longest = float(np.sqrt(np.sum(self._doubles**2, axis=0)).max()) * (1 + 1e-9)
        self.fast = Fraction(longest) * norm_bound <= 2**EXACT_BITS

    def __call__(self, rows: Floats) -> Wide:
        if self.fast:
            return Wide.from_int64((rows @ self._doubles).astype(np.int64))
        exact = rows.astype(np.int64).astype(object) @ self._integers.astype(object)
        wide = Wide.from_ints(exact.ravel())
        return Wide(wide.high.reshape(exact.shape), wide.low.reshape(exact.shape))


@dataclass(frozen=True)
class Products:
    """Block -> integer rows @ matrix, each a function of its row alone [J2]. It has no noise, and can be pickled."""

    row_map: EllipsoidMap
    matrix: Ints

    @property
    def k(self) -> int:
        return int(self.matrix.shape[1])

    @cached_property
    def _product(self) -> ExactProduct:
        return ExactProduct(self.matrix, self.row_map.body.norm)

    def __getstate__(self) -> dict[str, Any]:
        return {"row_map": self.row_map, "matrix": self.matrix}  # The product is computed again when needed.

    def __call__(self, block: Block) -> Wide:
        return self._product(integer_rows(self.row_map, block))

    def packed(self, block: Block) -> bytes:
        """The result as bytes to send: 8 bytes a number, or two limbs where a number may be longer."""
        sums = self(block)
        if self._product.fast:
            return ((sums.high << LOW_BITS) + sums.low).astype(_INT64).tobytes()
        return np.stack([sums.high, sums.low]).astype(_INT64).tobytes()

    def unpack(self, numbers: bytes) -> Wide:
        """Inverse of `packed`."""
        limbs = 1 if self._product.fast else 2
        if len(numbers) % (8 * limbs * self.k):
            raise DataError("A worker returned rows of a different width.")
        integers = np.frombuffer(numbers, _INT64).astype(np.int64).reshape(limbs, -1, self.k)
        return Wide.from_int64(integers[0]) if limbs == 1 else Wide(integers[0], integers[1])


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
