"""The map y = B (x - c) of an ellipsoid, as the learning rounds' kernels take it."""

from __future__ import annotations

import numpy as np

from ..errors import Floats, UsageError
from ..kernels.memory import UNUSED
from ..numerics.wide_integers import Ints
from ..regions.ellipsoid import Ellipsoid


class Frame:
    """Center, scales or matrix, and a power of two that bounds each column."""

    def __init__(self, ellipsoid: Ellipsoid) -> None:
        self.ellipsoid = ellipsoid
        self.columns, self.width = int(ellipsoid.center.size), ellipsoid.width
        matrix = ellipsoid.matrix
        self._scale = np.ascontiguousarray(ellipsoid.scale, np.float64)
        self._packed = np.zeros((0, 0)) if matrix is None else np.ascontiguousarray(matrix.T)
        largest = self._scale if matrix is None else np.abs(matrix).max(axis=0)
        if not (np.isfinite(largest).all() and np.isfinite(ellipsoid.center).all()):
            raise UsageError("the ellipsoid must be finite: it holds a NaN or an infinity.")
        self._exponents = np.where(largest == 0, UNUSED, np.frexp(largest)[1].astype(np.int64))
        self._center = np.ascontiguousarray(ellipsoid.center, np.float64)

    def arguments(self) -> tuple[Floats, Floats, Floats, Ints]:
        return self._center, self._scale, self._packed, self._exponents

    def scratch(self) -> tuple[Floats, Floats]:
        return np.empty(self.columns), np.empty(self.width)
