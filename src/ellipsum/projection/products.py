"""From a block of rows to the exact integers of its projection: what an engine's workers do of a release."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import DataError
from ..numerics.wide_integers import LOW_BITS, Ints, Wide
from ..row_maps.maps import EllipsoidMap
from .matrix import ExactProduct

_INT64 = np.dtype("<i8")


@dataclass(frozen=True)
class Products:
    """Block -> integer rows @ matrix, each a function of its row alone [J2]. No noise is in it: it is pickled."""

    row_map: EllipsoidMap
    matrix: Ints

    @property
    def k(self) -> int:
        return int(self.matrix.shape[1])

    @cached_property
    def _product(self) -> ExactProduct:
        return ExactProduct(self.matrix, self.row_map.body.norm)

    def __getstate__(self) -> dict[str, Any]:
        return {"row_map": self.row_map, "matrix": self.matrix}  # the rest is made again where it is needed

    def __call__(self, block: Any) -> Wide:
        from .rows import integer_rows

        return self._product(integer_rows(self.row_map, block))

    def packed(self, block: Any) -> bytes:
        """The same for a journey: 8 bytes a number, or two limbs where a number may be longer."""
        sums = self(block)
        if self._product.fast:
            return ((sums.high << LOW_BITS) + sums.low).astype(_INT64).tobytes()
        return np.stack([sums.high, sums.low]).astype(_INT64).tobytes()

    def unpack(self, numbers: bytes) -> Wide:
        """Inverse of `packed`."""
        limbs = 1 if self._product.fast else 2
        if len(numbers) % (8 * limbs * self.k):
            raise DataError("a worker returned rows of another width.")
        integers = np.frombuffer(numbers, _INT64).astype(np.int64).reshape(limbs, -1, self.k)
        return Wide.from_int64(integers[0]) if limbs == 1 else Wide(integers[0], integers[1])
