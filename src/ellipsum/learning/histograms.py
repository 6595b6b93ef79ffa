"""Noisy histograms: their grids, the bins that hold rows, and the center and spread of these rows.

Columns are in units of their magnitude, so that values lie within [-1, 1]. A histogram decides the next bins to count;
it never decides how much noise is added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats
from ..releases.histogram_release import on_simplex
from .constants import BULK_BINS, BULK_STDS, LEVEL, MOST_ROWS, NEXT, OCTAVES, PLAIN, WINDOWS

TINY = 2.0**-OCTAVES
"""The smallest length that a grid resolves, as a part of the magnitude."""


class Hull(NamedTuple):
    """The bins [first, last) that hold the rows, and whether any bin surely holds some."""

    first: int
    last: int
    sure: bool


@dataclass(frozen=True)
class Histogram:
    """Noisy counts of n rows between edges, the std of their noise, and the noisy count of missing values.

    n_std: the std of the noise in n, if the number of rows is private. limits: for each length in WINDOWS, the standard
    deviations that the noise of empty bins does not exceed. weights: factors of the variances of the counts; they are
    below 1 in bins that were counted twice.
    """

    edges: Floats
    counts: Floats
    std: float
    n: float
    limits: Floats
    missing: float = 0.0
    weights: Floats | float = 1.0
    n_std: float = 0.0

    @cached_property
    def variances(self) -> Floats:
        return np.asarray(np.full(self.counts.size, self.std**2) * self.weights)

    @property
    def middles(self) -> Floats:
        return np.asarray((self.edges[1:] + self.edges[:-1]) / 2)

    @property
    def has_missing(self) -> bool:
        """Whether some values are surely missing."""
        return bool(self.missing > self.limits[0] * self.std)

    @property
    def rows(self) -> float:
        """The number of rows with a value, at least 1; missing values count only if some are surely missing."""
        return max(self.n - (self.missing if self.has_missing else 0.0), 1.0)

    # Where the rows are ---------------------------------------------------------------------------------

    @cached_property
    def hull(self) -> Hull:
        """Windows above the limits, and all between them; grown by other windows that stand out."""
        marked = np.zeros(self.counts.size, np.bool_)
        for width, limit in zip(WINDOWS, self.limits, strict=True):  # short ones first
            before = np.concatenate([[0], np.cumsum(marked)])
            for start in np.flatnonzero((self._scores(width) > limit) & (before[width:] == before[:-width])):
                marked[start : start + width] = True
        filled = np.flatnonzero(marked)
        first, last = (int(filled[0]), int(filled[-1]) + 1) if filled.size else self._clearest()
        while grown := self._grown(first, last):
            first, last = grown
        return Hull(first, last, bool(filled.size))

    def _clearest(self) -> tuple[int, int]:
        """The window of any length whose count is the most standard deviations above zero."""
        scores = {width: self._scores(width) for width in range(1, self.counts.size + 1)}
        width = max(scores, key=lambda one: float(scores[one].max()))
        first = int(scores[width].argmax())
        return first, first + width

    def _scores(self, width: int) -> Floats:
        """Sums of `width` adjacent bins, each divided by its standard deviation."""
        sums, squares = (np.concatenate([[0.0], np.cumsum(part)]) for part in (self.counts, self.variances))
        return np.asarray((sums[width:] - sums[:-width]) / np.sqrt(squares[width:] - squares[:-width]))

    def _grown(self, first: int, last: int) -> tuple[int, int] | None:
        """The hull with the window outside that exceeds its limit by most; None if no window does.

        The limit of neighbors is PLAIN. While more rows than noise explains are missing from the hull, it is NEXT, and
        windows anywhere may be one standard deviation below the limits of marked ones.
        """
        missing = self.rows - self.counts[first:last].sum()
        is_missing = missing >= PLAIN * math.sqrt(self.variances[first:last].sum() + self.n_std**2)
        best, grown = 0.0, None
        for width, limit in zip(WINDOWS, self.limits, strict=True):
            if width > self.counts.size or (not is_missing and width > 2):
                break
            near, far = (NEXT, limit - 1) if is_missing else (PLAIN, math.inf)
            scores = self._scores(width)
            starts = np.arange(scores.size)
            gaps = np.maximum(first - starts - width, starts - last)  # negative where they overlap
            excess = np.where(gaps < 0, -math.inf, scores - np.where(gaps == 0, near, far))
            start = int(excess.argmax())
            if excess[start] > best:
                best, grown = float(excess[start]), (min(first, start), max(last, start + width))
        return grown

    # The rows in the hull -------------------------------------------------------------------

    @cached_property
    def filled(self) -> Floats:
        """The counts of the hull, projected so that none is negative and their sum is the number of rows."""
        return on_simplex(self.counts[self.hull.first : self.hull.last], self.rows)

    def quantile(self, share: float) -> float:
        below = np.concatenate([[0.0], np.cumsum(self.filled)])
        return float(np.interp(share * below[-1], below, self.edges[self.hull.first : self.hull.last + 1]))

    @property
    def center(self) -> float:
        """The median, or zero."""
        median = float(np.clip(self.quantile(0.5), TINY - 1, 1 - TINY))
        return median if abs(median) > TINY else 0.0

    @cached_property
    def _shortest(self) -> tuple[int, int]:
        """The first and the last bin of the shortest run with MOST_ROWS of the rows."""
        below = np.concatenate([[0.0], np.cumsum(self.filled)])
        ends = np.searchsorted(below, below + MOST_ROWS * below[-1] - 1e-9)
        starts = np.flatnonzero(ends < below.size)
        edges = self.edges[self.hull.first : self.hull.last + 1]
        best = int(starts[np.argmin(edges[ends[starts]] - edges[starts])])
        return self.hull.first + best, self.hull.first + int(ends[best]) - 1

    @property
    def span(self) -> tuple[float, float]:
        """The two ends of that run."""
        return float(self.edges[self._shortest[0]]), float(self.edges[self._shortest[1] + 1])

    @property
    def scale(self) -> float:
        """Half the length of that run."""
        return max((self.span[1] - self.span[0]) / 2, TINY)

    @property
    def in_one_bin(self) -> bool:
        """Whether most rows are in one bin."""
        return self._shortest[0] == self._shortest[1]

    @property
    def is_far_from_zero(self) -> bool:
        """Whether most rows are in one bin that does not contain zero and can be split."""
        low, high = self.span
        return self.in_one_bin and not low <= 0 <= high and high - low > TINY

    def is_one_bin_wide(self, least: float) -> bool:
        """Whether all rows are in one bin of at least this length, so that their spread is unknown."""
        first, last, _ = self.hull
        return last - first == 1 and bool(self.edges[last] - self.edges[first] > least)

    def spread(self, lower: float, upper: float) -> float:
        """The standard deviation of clamped values."""
        first, last, _ = self.hull
        middles, shares = np.clip(self.middles[first:last], lower, upper), self.filled / self.filled.sum()
        variance = shares @ ((middles - shares @ middles) ** 2 + np.diff(self.edges)[first:last] ** 2 / 12)
        return max(math.sqrt(variance), 1e-12 * (upper - lower), 1e-300)

    @property
    def tail_bins(self) -> NDArray[np.bool_]:
        """The bins where the outer count is below PLAIN stds, so that a second count helps."""
        places = np.arange(self.counts.size)
        inside = np.where((places >= self.hull.first) & (places < self.hull.last), self.counts, 0.0)
        return np.asarray(np.minimum(np.cumsum(inside[::-1])[::-1], np.cumsum(inside)) < PLAIN * self.std)


def grid(center: float, scale: float, bins: int, ratio: float, around_zero: bool = False) -> Floats:
    """Edges about a center: equal bins up to `scale` on either side, then bins that grow by a ratio, out to ±1.

    around_zero: the two bins beside the center are one.
    """
    growing = max(math.ceil(math.log(max((1 + abs(center)) / scale, 1.0)) / math.log(ratio)), 0)
    sides = np.concatenate([scale * np.arange(1, bins + 1) / bins, scale * ratio ** np.arange(1, growing + 1)])
    inner = np.concatenate([-sides[::-1], [] if around_zero else [0.0], sides]) + center
    return np.unique(np.concatenate([[-1.0], inner[(inner > -1) & (inner < 1)], [1.0]]))


def bulk_bins(n: float, std: float) -> int:
    """Bins on each side of the bulk: as many as stand out of the noise."""
    return int(np.clip(n / (BULK_STDS * std), 1, BULK_BINS))


def noise_limit(odds: float, laplace: bool = False, width: int = 1) -> float:
    """The standard deviations that the noise of a window of empty bins exceeds with probability at most `odds`."""
    from scipy.special import ndtri

    if not laplace:
        return -float(ndtri(odds))
    tilt = np.linspace(0.01, 0.999, 200)  # Chernoff's bound for a sum of Laplace variables
    return float(((-math.log(odds) - width * np.log1p(-(tilt**2))) / tilt).min() / math.sqrt(2 * width))


def thresholds(bins: int, laplace: bool = False) -> Floats:
    """For each length in WINDOWS, a limit: noise alone exceeds any of all with probability at most LEVEL."""
    return np.array([noise_limit(LEVEL / (len(WINDOWS) * bins), laplace, width) for width in WINDOWS])
