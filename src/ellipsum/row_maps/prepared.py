"""Rows whose missing entries are filled and whose other entries are clamped before another map reads them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .maps import RowMap


class Prepared:
    """The map `inner` of rows whose missing entries became `fill` and whose other entries were clamped to bounds.

    A row stays a function of itself, and the integer rows are those of `inner` [L6].
    """

    kind = "prepared"

    def __init__(self, inner: RowMap, fill: Any, lower: Any = -math.inf, upper: Any = math.inf) -> None:
        self.inner = inner
        self.fill, self.lower, self.upper = (
            np.broadcast_to(np.asarray(part, float), (inner.columns,)) for part in (fill, lower, upper)
        )
        self.columns, self.width, self.body = inner.columns, inner.width, inner.body
        self.rows_per_flush, self.grid_bits = inner.rows_per_flush, inner.grid_bits
