"""Noisy histograms of columns: their grids, and what they say of where the rows are.

Everything is in units of the column's magnitude, so that all numbers are within [-1, 1]. A histogram decides where to
look next; it never decides how much noise is added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats
from .constants import (
    BULK_BINS,
    BULK_STDS,
    HALF_WIDTH_ROWS,
    LEVEL,
    MOST_ROWS_IN_ONE,
    OCTAVES,
    PLAIN,
)

TINY = 2.0**-OCTAVES
"""Lengths below this part of the magnitude are not told apart."""
WINDOWS = 1, 2, 4, 8  # bins that are looked at together: rows of a flat stretch show only so


@dataclass(frozen=True)
class Histogram:
    """Noisy counts of one column: edges from -1 to 1, counts and their variances, and the rows that lack the column."""

    edges: Floats
    counts: Floats
    variances: Floats
    absent: float

    @property
    def middles(self) -> Floats:
        found: Floats = (self.edges[1:] + self.edges[:-1]) / 2
        return found


class Hull(NamedTuple):
    """The bins [first, last) that hold the rows; the rows left over, in stds; whether any bin is beyond doubt."""

    first: int
    last: int
    left_over: float
    sure: bool


class Bulk(NamedTuple):
    """Where most rows of a column are."""

    median: float
    half_width: float
    """Half the shortest run of bins with 70% of the rows."""
    in_one: bool
    """Whether one bin, from low to high, holds 60% of them."""
    low: float
    high: float
    sure: bool


def grid(center: float, scale: float, bins: int, ratio: float, around_zero: bool = False) -> Floats:
    """Edges about a center: so many equal bins up to `scale` on either side, then bins that grow by a ratio, out to ±1.

    around_zero: the two bins beside the center are one.
    """
    growing = max(math.ceil(math.log(max((1 + abs(center)) / scale, 1.0)) / math.log(ratio)), 0)
    sides = np.concatenate([scale * np.arange(1, bins + 1) / bins, scale * ratio ** np.arange(1, growing + 1)])
    middle = [] if around_zero else [0.0]
    inner = np.concatenate([-sides[::-1], middle, sides]) + center
    return np.unique(np.concatenate([[-1.0], inner[(inner > -1) & (inner < 1)], [1.0]]))


def bulk_bins(n: float, std: float) -> int:
    """Bins on each side of the bulk: as many as stand out of the noise."""
    return int(np.clip(n / (BULK_STDS * std), 1, BULK_BINS))


def thresholds(bins: int, laplace: bool = False, level: float = LEVEL) -> Floats:
    """Stds that no window of 1, 2, 4 or 8 empty bins exceeds by noise alone, but for a probability."""
    from scipy.special import ndtri

    odds = level / (len(WINDOWS) * bins)
    if not laplace:
        return np.full(len(WINDOWS), -float(ndtri(odds)))
    tilt = np.linspace(0.01, 0.999, 200)  # Chernoff's bound for a sum of Laplace variables
    sums = [((-math.log(odds) - w * np.log1p(-(tilt**2))) / tilt).min() / math.sqrt(2 * w) for w in WINDOWS[1:]]
    return np.array([-math.log(2 * odds) / math.sqrt(2), *sums])


def on_simplex(counts: Floats, n: float) -> Floats:
    """The nearest counts that are not negative and add up to n."""
    falling = np.sort(counts)[::-1]
    level = (np.cumsum(falling) - n) / np.arange(1, counts.size + 1)
    projected: Floats = np.maximum(counts - level[np.flatnonzero(falling > level)[-1]], 0)
    return projected


def hull(histogram: Histogram, limits: Floats, n: float) -> Hull:
    """The bins that hold the rows: windows above the limits, grown into neighbors above PLAIN stds.

    While more of the n rows than noise explains are unaccounted for, the next best window is taken in: a neighbor, or
    one that stands nearly as far out as the limit.
    """
    counts, variances = histogram.counts, histogram.variances
    marked = _marked(counts, variances, limits)
    sure = bool(marked.any())
    if sure:
        filled = np.flatnonzero(marked)
        first, last = int(filled[0]), int(filled[-1]) + 1
    else:
        first, last = _clearest(counts, variances)
    while True:
        first, last = _grown(counts, variances, first, last)
        missing = float(n - counts[first:last].sum())
        left_over = missing / math.sqrt(variances[first:last].sum())
        few = left_over < PLAIN
        window = None if few else _next_window(counts, variances, (first, last), missing, float(limits[0]))
        if window is None:
            return Hull(first, last, left_over, sure)
        first, last = min(first, window[0]), max(last, window[1])


def bulk(histogram: Histogram, limits: Floats, n: float) -> Bulk:
    """Median and scale of the rows inside the hull."""
    first, last, _, sure = hull(histogram, limits, n)
    edges = histogram.edges[first : last + 1]
    cumulative = np.concatenate([[0.0], np.cumsum(on_simplex(histogram.counts[first:last], max(n, 1.0)))])

    def shortest(share: float) -> tuple[int, float, float]:
        """The shortest run of bins with this share of the rows: bins, low, high."""
        ends = np.searchsorted(cumulative, cumulative + share * cumulative[-1] - 1e-9)
        starts = np.flatnonzero(ends < cumulative.size)
        best = starts[np.argmin(edges[ends[starts]] - edges[starts])]
        return int(ends[best] - best), float(edges[best]), float(edges[ends[best]])

    _, left, right = shortest(HALF_WIDTH_ROWS)
    bins, low, high = shortest(MOST_ROWS_IN_ONE)
    median = float(np.interp(cumulative[-1] / 2, cumulative, edges))
    return Bulk(median, (right - left) / 2, bins == 1, low, high, sure)


def scores_of(counts: Floats, variances: Floats, width: int) -> Floats:
    """Sums of so many bins in a row, over their stds."""
    if counts.size < width:
        return np.zeros(0)
    sums, squares = (np.concatenate([[0.0], np.cumsum(part)]) for part in (counts, variances))
    found: Floats = (sums[width:] - sums[:-width]) / np.sqrt(squares[width:] - squares[:-width])
    return found


def _marked(counts: Floats, variances: Floats, limits: Floats) -> NDArray[np.bool_]:
    """Bins that hold rows beyond doubt: windows above their limit, short ones first."""
    marked = np.zeros(counts.size, np.bool_)
    for width, limit in zip(WINDOWS, limits, strict=True):
        before = np.concatenate([[0], np.cumsum(marked)])
        scores = scores_of(counts, variances, width)
        if scores.size:
            for start in np.flatnonzero((scores > limit) & (before[width:] == before[:-width])):
                marked[start : start + width] = True
    return marked


def _clearest(counts: Floats, variances: Floats) -> tuple[int, int]:
    """The window that stands out most."""
    best = (-math.inf, 0, 1)
    for width in (1, 2, 3, 4, 6, 8, 12, 16, 24):
        scores = scores_of(counts, variances, width)
        if scores.size and scores.max() > best[0]:
            best = (float(scores.max()), int(np.argmax(scores)), width)
    return best[1], best[1] + best[2]


def _grown(counts: Floats, variances: Floats, first: int, last: int) -> tuple[int, int]:
    """A run of bins with the neighboring windows that stand PLAIN stds out."""

    def filled(start: int, stop: int) -> bool:
        inside = 0 <= start and stop <= counts.size
        return inside and counts[start:stop].sum() > PLAIN * math.sqrt(variances[start:stop].sum())

    while True:
        above = next((w for w in WINDOWS[:2] if filled(last, last + w)), 0)
        below = next((w for w in WINDOWS[:2] if filled(first - w, first)), 0)
        if not above and not below:
            return first, last
        first, last = first - below, last + above


def _next_window(
    counts: Floats, variances: Floats, inside: tuple[int, int], missing: float, limit: float
) -> tuple[int, int] | None:
    """The window outside that stands out most above what is asked of it.

    That is 1 std of a neighbor; of another, nearly the limit, and half of the rows that are missing.
    """
    best: tuple[float, tuple[int, int] | None] = (0.0, None)
    for width in WINDOWS:
        scores = scores_of(counts, variances, width)
        starts = np.arange(scores.size)
        beside = (starts + width == inside[0]) | (starts == inside[1])
        apart = (starts + width < inside[0]) | (starts > inside[1])
        sums = np.convolve(counts, np.ones(width), "valid") if scores.size else scores
        likely = beside | (apart & (sums >= missing / 2))
        surplus = np.where(likely, scores - np.where(beside, 1.0, limit - 1), -np.inf)
        if surplus.size and surplus.max() > best[0]:
            start = int(np.argmax(surplus))
            best = (float(surplus[start]), (start, start + width))
    return best[1]
