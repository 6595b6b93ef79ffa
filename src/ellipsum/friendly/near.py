"""The compiled kernel of the friendly core: which pairs of grid rows lie within the radius."""

from __future__ import annotations

import numpy as np

from ..errors import Floats
from ..numerics.wide_integers import Ints
from ..util.compile import compiled

_STRIPE = 16  # columns between two looks at whether any pair of the tile is still in play


@compiled
def count_near(rows: Floats, tiles: Floats, first: int, limit: float) -> Ints:
    """Near pairs (i, j), i in tile `first` and j in that tile or a later one, counted at both ends.

    Exact although in doubles [F1]: differences and squares are integers; they are exact while the sum is at
    most the limit, and a sum that once exceeds it stays above it under rounding.
    """
    n = rows.shape[0]
    tile = tiles.shape[2]
    counts = np.zeros(n, np.int64)
    total = np.empty(tile)
    for other in range(first, tiles.shape[0]):
        begin = other * tile
        width = min(tile, n - begin)
        for i in range(first * tile, min((first + 1) * tile, n)):
            _squared_distances(rows[i], tiles[other], limit, total)
            near = 0
            for j in range(width):
                if total[j] <= limit:
                    near += 1
                    if other != first:
                        counts[begin + j] += 1
            counts[i] += near
    return counts


@compiled
def _squared_distances(row: Floats, tile: Floats, limit: float, total: Floats) -> None:
    """total[j] = |row - tile[:, j]|^2, given up on (above the limit) once no pair is within the limit."""
    d, width = tile.shape
    for j in range(width):
        total[j] = 0.0
    for stripe in range(0, d, _STRIPE):
        for k in range(stripe, min(stripe + _STRIPE, d), 4):
            a, b = row[k], row[k + 1]
            c, e = row[k + 2], row[k + 3]
            for j in range(width):
                p, q = a - tile[k, j], b - tile[k + 1, j]
                r, s = c - tile[k + 2, j], e - tile[k + 3, j]
                total[j] += (p * p + q * q) + (r * r + s * s)
        in_play = False
        for j in range(width):
            in_play |= total[j] <= limit
        if not in_play:
            return
