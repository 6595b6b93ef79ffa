"""The kernel of prepared rows: fill and clamp a copy, and pass it to the kernel of the inner map."""

from __future__ import annotations

from ..numerics.wide_integers import Ints
from ..row_maps.maps import Prepared
from .blocks import floats
from .memory import Rows
from .table import kernel_for

_COPY_ENTRIES = 1 << 15


class PreparedKernel:
    """Fills missing values, clamps the others, and passes the rows to the kernel of the inner map."""

    takes_columns = False

    def __init__(self, row_map: Prepared) -> None:
        self._map = row_map
        self._inner = kernel_for(row_map.inner)

    def __call__(self, block: Rows, total: Ints) -> None:
        step = max(16, _COPY_ENTRIES // block.shape[1])
        for first in range(0, len(block), step):
            part = floats(block[first : first + step], copy=True)
            self._inner(self._map.rows(part), total)
