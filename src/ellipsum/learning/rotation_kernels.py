"""Compiled Hadamard transforms, a few rows at a time side by side.

Every entry is formed by the same additions in the same order wherever its row lies: a pure function of the row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..util.compile import compiled

_SIDE_BY_SIDE = 8


@compiled
def _transform(flat: Any, rows: int) -> None:
    """The unnormalized Hadamard matrix times `rows` rows, in place; entry j of row i is flat[j * rows + i]."""
    run = rows
    while run < flat.size:
        for start in range(0, flat.size, 2 * run):
            low, high = flat[start : start + run], flat[start + run : start + 2 * run]
            for i in range(run):
                first, second = low[i], high[i]
                low[i] = first + second
                high[i] = first - second
        run *= 2


@compiled
def spin(block: Any, signs: Any, factor: float, magnitude: float, rows: Any) -> None:
    """rows = factor (H D_p) ... (H D_1) row for each row of the block, its entries held to the magnitude, padded."""
    count, size = rows.shape
    given = block.shape[1]
    flat = np.empty(size * _SIDE_BY_SIDE)
    columns = flat.reshape(size, _SIDE_BY_SIDE)
    for first in range(0, count, _SIDE_BY_SIDE):
        here = min(_SIDE_BY_SIDE, count - first)
        flat[:] = 0.0
        for i in range(here):
            row = block[first + i]
            for j in range(given):
                columns[j, i] = min(max(row[j], -magnitude), magnitude) if abs(row[j]) < np.inf else 0.0
        for p in range(signs.shape[0]):
            for j in range(size):
                columns[j] *= signs[p, j]
            _transform(flat, _SIDE_BY_SIDE)
        for i in range(here):
            row = rows[first + i]
            for j in range(size):
                row[j] = columns[j, i] * factor


@compiled
def unspin(row: Any, signs: Any, factor: float) -> None:
    """factor (D_1 H) ... (D_p H) row: the transpose, which is the inverse."""
    for p in range(signs.shape[0] - 1, -1, -1):
        _transform(row, 1)
        row *= signs[p]
    row *= factor
