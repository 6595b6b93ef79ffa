"""The FriendlyCore of rows in exact arithmetic: rows on a grid, integer counts and weights, a rational mean.

Nothing here is private by itself: `release.py` runs the stability test and adds the noise.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ..errors import Floats
from ..numerics.wide_integers import Ints
from ..sources.protocol import Progress, report_steps
from ..util.compile import compiled

_STRIPE = 16  # After this many columns the loop checks whether any pair of the tile can still be near.


@compiled
def count_near(rows: Floats, tiles: Floats, first: int, limit: float) -> Ints:
    """Near pairs (i, j), i in tile `first` and j in that tile or a later one, counted at both ends.

    Exact although in doubles [F1]: differences and squares are integers, which are exact while the sum is at most the
    limit. A sum that exceeds the limit stays above it under rounding.
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
    """total[j] = |row - tile[:, j]|^2, or any number above the limit once no pair is within the limit."""
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
        any_near = False
        for j in range(width):
            any_near |= total[j] <= limit
        if not any_near:
            return


RADIUS_BITS = 22
RADIUS = 1 << RADIUS_BITS
"""The radius in grid units: the width of a cell is radius / 2^22."""
REACH = 2.0 ** (RADIUS_BITS + 53)
"""Largest coordinate of the grid: at 2^53 radii from the origin doubles no longer resolve the radius."""
TILE = 64
MOST_ROWS = 1 << 20


@dataclass(frozen=True)
class Core:
    """The sum of weights and the weighted sums of one data set, as exact integers."""

    n: int
    weight: int
    """U = sum of u_i, u_i = clip(2 c_i - n - 1, 0, n - 1)."""
    sums: list[int]
    """The sum of u_i q_i in each coordinate; not used where the weight is 0."""

    def mean(self) -> list[Fraction]:
        """The weighted mean of the rows in grid units (the weight must not be 0)."""
        return [Fraction(total, self.weight) for total in self.sums]


def find_core(rows: Floats, radius: float, threads: int | None = None, progress: Progress | None = None) -> Core:
    """Weights and weighted sums of the rows [F1], [F2].

    A row with a value that is not finite, or beyond 2^53 radii from the origin, is near no row, not even itself. Its
    weight is 0 and it still counts in n.
    """
    n = len(rows)
    grid = quantize(rows, radius)
    with report_steps(progress, public=True) as report:
        counts = near_counts(grid, threads, report)
    weights = row_weights(counts, n)
    return Core(n, int(weights.sum()), _weighted_sums(grid, weights))


def quantize(rows: Floats, radius: float) -> Floats:
    """The rows that lie on the grid, as integer-valued doubles: a fixed map of each row [F1]."""
    cell = math.ldexp(radius, -RADIUS_BITS)
    with np.errstate(all="ignore"):
        grid = np.rint(rows / cell)
        on_grid: Floats = grid[(np.abs(grid) <= REACH).all(axis=1)]
    return on_grid


def row_weights(counts: Ints, n: int) -> Ints:
    """u_i = clip(2 c_i - n - 1, 0, n - 1), the integer form of w_i = u_i / (n - 1) [F2]."""
    return np.clip(2 * counts - n - 1, 0, n - 1)


def near_counts(grid: Floats, threads: int | None = None, progress: Progress | None = None) -> Ints:
    """c_i = number of rows within the radius of row i, itself included: exact for any integer rows [F1]."""
    padded, tiles = _tiles(grid)
    total = np.zeros(len(grid), np.int64)
    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
        parts = pool.map(lambda tile: count_near(padded, tiles, tile, float(RADIUS) ** 2), range(len(tiles)))
        for done, counts in enumerate(parts, 1):
            total += counts
            if progress is not None:
                progress(done / len(tiles))
    return total


def _tiles(grid: Floats) -> tuple[Floats, Floats]:
    """Rows padded with zero columns to a multiple of 4, and the same rows as tiles (tile, column, row)."""
    n, d = grid.shape
    padded = np.pad(grid, ((0, 0), (0, -d % 4)))
    rows = np.pad(padded, ((0, -n % TILE), (0, 0))).reshape(-1, TILE, padded.shape[1])
    return padded, np.ascontiguousarray(rows.transpose(0, 2, 1))


def _weighted_sums(grid: Floats, weights: Ints) -> list[int]:
    """sum_i u_i q_i. Rows of positive weight lie within two radii of each other [F3], so their offsets are small."""
    used = np.flatnonzero(weights)
    if used.size == 0:
        return [0] * grid.shape[1]
    origin = grid[used[0]]
    # |offset| <= 2^23 and u_i < 2^20, so the sum of up to 2^20 rows is below 2^63.
    offsets = (grid[used] - origin).astype(np.int64)
    total = int(weights.sum())
    return [total * int(o) + int(s) for o, s in zip(origin, weights[used] @ offsets, strict=True)]
