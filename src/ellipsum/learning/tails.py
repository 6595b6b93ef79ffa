"""What an end cuts off: the law of a column's tail on one side, from noisy counts, and the ends of least error.

Beyond a distance where counts are clear, a tail is generalized Pareto; its index, scale and size have a posterior on a
small grid, with a Gaussian likelihood of the noisy bins out to the magnitude.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..errors import Floats
from .constants import INTERVAL_LEVEL, PLAIN, TAIL_INDEX, TAIL_SPREAD
from .histograms import TINY, WINDOWS, Histogram, hull, scores_of

_INDICES = np.array([-0.25, 1e-6, 0.25, 0.5])
_SCALES = 2.0 ** np.arange(-3.0, 6.01, 0.5)
_SIZES = 2.0 ** np.arange(-1, 1.01, 0.5)[:, None]
_INDEX, _SCALE = (part.ravel() for part in np.meshgrid(_INDICES, _SCALES, indexing="ij"))
_LOG_SCALE = np.log(_SCALE)
_PRIOR = -0.5 * (_LOG_SCALE / TAIL_SPREAD) ** 2 - np.maximum(_INDEX, 0) / TAIL_INDEX
_FLAT = -np.abs(_LOG_SCALE) / TAIL_SPREAD  # for intervals: every index as likely, scales that fall off like a power
_WIDEST = _SCALE >= _SCALES[-2]
_NEVER = np.full(len(WINDOWS), np.inf)
_LOOKS_CONSTANT = 4 * TINY
"""A tail that starts so near is that of a column whose rows are all alike, as far as its histogram can resolve."""
_STEP = 0.125  # octaves between the ends that are tried


class EndCount(NamedTuple):
    """A noisy count of the entries beyond an end at this distance."""

    distance: float
    rows: float
    std: float


class Ends(NamedTuple):
    """Where a column is clamped, and what that cuts off; lengths in units of the magnitude."""

    low: float
    high: float
    below: float
    """How far the low end lies from the center; `above` is that of the high end."""
    above: float
    bias: tuple[float, float]
    """What clamping below and above cuts off the sum at most, at the interval's level."""
    surprise: float
    """How far a count beyond an end exceeds what the tail's law foresaw, in stds."""
    sure: bool


@dataclass(frozen=True)
class _Side:
    """The posterior of one side's tail: distances from the center, counts of the bins, nearest first."""

    distances: Floats
    counts: Floats
    seen: int
    """Bins within the hull."""
    inside: int
    """Bins before the tail begins."""
    start: float
    rows: float
    """Rows beyond the start, up to a factor of 2."""
    log_likelihood: Floats
    """(sizes, laws)"""
    surprise: float
    variances: Floats
    doubts: Floats
    """Stds that no window of empty bins exceeds by noise alone, but for a probability of 5%."""

    def excess(self, ends: Floats) -> Floats:
        """(laws, ends): E of how far a row of the tail lies beyond an end."""
        index, scale = _INDEX[:, None], (_SCALE * self.start)[:, None]

        def over(y: Floats) -> Floats:
            reached: Floats = scale / (1 - index) * np.maximum(1 + index * y / scale, 0) ** (1 - 1 / index)
            return reached

        beyond = over(np.maximum(ends - self.start, 0)[None, :]) - over(np.array([[self.distances[-1] - self.start]]))
        found: Floats = np.maximum(beyond, 0) + np.maximum(self.start - ends, 0)
        return found

    def within(self, ends: Floats) -> Floats:
        """What ends nearer than the start of the tail cut off of the rows before it."""
        middles = (self.distances[1:] + self.distances[:-1]) / 2
        far = np.maximum(middles[None, : self.inside] - ends[:, None], 0)
        far = np.minimum(far, np.maximum(self.start - ends, 0)[:, None])
        found: Floats = far @ np.maximum(self.counts[: self.inside], 0)
        return found

    def cut_off(self, ends: Floats) -> Floats:
        """The mean square of the sum that ends cut off: by the law, or by the bins seen where those say more."""
        weights = _normalized(_PRIOR + self.log_likelihood)
        rows = self.rows * _SIZES
        excess, near = self.excess(ends), self.within(ends)
        mean, square = (weights * rows).sum(0) @ excess, (weights * rows**2).sum(0) @ excess**2
        mean, square = mean + near, square + 2 * mean * near + near**2
        middles = (self.distances[1:] + self.distances[:-1]) / 2
        plain = np.maximum(middles[None, : self.seen] - ends[:, None], 0) @ self.counts[: self.seen]
        more = np.maximum(np.maximum(plain, 0) - mean, 0)
        found: Floats = square + 2 * mean * more + more**2
        return found

    def bound(self, end: float) -> float:
        """The posterior quantile of the sum that an end cuts off."""
        weights = _normalized(_FLAT + self.log_likelihood).ravel()
        at = np.array([end])
        sums = (self.rows * _SIZES * self.excess(at)[:, 0] + self.within(at)[0]).ravel()
        order = np.argsort(sums)
        place = np.searchsorted(np.cumsum(weights[order]), INTERVAL_LEVEL)
        return float(sums[order][min(int(place), sums.size - 1)]) + self._apart(end)

    def _apart(self, end: float) -> float:
        """What rows beyond the hull would add, of which noise shows so many with a probability below 5%."""
        counts, variances = self.counts[self.seen :], self.variances[self.seen :]
        far = np.maximum((self.distances[1:] + self.distances[:-1])[self.seen :] / 2 - end, 0)
        most = 0.0
        for width, limit in zip(WINDOWS, self.doubts, strict=True):
            scores = scores_of(counts, variances, width)
            for start in np.flatnonzero(scores > limit):
                rows = slice(start, start + width)
                most = max(most, float(counts[rows] @ far[rows]))
        return most


def choose_ends(
    histogram: Histogram,
    center: float,
    limits: Floats,
    n: float,
    unit: float,
    counts: tuple[EndCount, EndCount] | None = None,
    doubts: Floats = _NEVER,
) -> Ends:
    """The ends of least forecast noise^2 + bias^2.

    unit: std of the noise of the released sum for each unit of width. counts: what lies below and above earlier ends.
    doubts: thresholds of windows of bins that an interval has to allow for.
    """
    first, last, _, sure = hull(histogram, limits, n)
    sides, ladders, squares = [], [], []
    for sign, count in zip((-1, 1), counts or (None, None), strict=True):
        side = _side(histogram, center, sign, first, last, count, doubts)
        sides.append(side)
        ladders.append(np.zeros(1) if side is None else _ladder(side.distances))
        squares.append(np.zeros(1) if side is None else side.cut_off(ladders[-1]))
    cost = (unit * (ladders[0][:, None] + ladders[1])) ** 2 + squares[0][:, None] + squares[1]
    i, j = np.unravel_index(int(np.argmin(cost)), cost.shape)
    below, above = float(ladders[0][i]), float(ladders[1][j])
    bias = tuple(0.0 if side is None else side.bound(end) for side, end in zip(sides, (below, above), strict=True))
    surprise = max(0.0 if side is None else side.surprise for side in sides)
    low, high = max(center - below, -1.0), min(center + above, 1.0)
    return Ends(low, high, below, above, (bias[0], bias[1]), surprise, sure)


def _ladder(distances: Floats) -> Floats:
    """The ends that are tried, from half the nearest bin out to the magnitude."""
    nearest, farthest = distances[1], distances[-1]
    octaves = np.arange(-1, math.log2(farthest / nearest) + _STEP, _STEP)
    found: Floats = np.minimum(nearest * 2.0**octaves, farthest)
    return found


def _side(
    histogram: Histogram, center: float, sign: int, first: int, last: int, count: EndCount | None, doubts: Floats
) -> _Side | None:
    """The tail of one side; None where there are no bins on it."""
    places = np.flatnonzero(sign * (histogram.middles - center) > 0)
    if not places.size:
        return None
    if sign > 0:
        seen, ends = last - places[0], histogram.edges[1:]
    else:
        seen, ends = places[-1] + 1 - first, histogram.edges[:-1]
        places = places[::-1]
    distances = np.concatenate([[0.0], sign * (ends[places] - center)])
    seen = int(np.clip(seen, 0, places.size))
    return fitted(distances, histogram.counts[places], histogram.variances[places], seen, count, doubts)


def fitted(
    distances: Floats,
    counts: Floats,
    variances: Floats,
    seen: int,
    count: EndCount | None = None,
    doubts: Floats = _NEVER,
) -> _Side:
    """The posterior of a tail, which begins where the outer count reaches six stds."""
    outer = np.concatenate([np.cumsum(counts[:seen][::-1])[::-1], [0.0]])
    inside = seen
    while inside > 0 and outer[inside] < 2 * PLAIN * math.sqrt(variances[min(inside, variances.size - 1)]):
        inside -= 1
    start = max(float(distances[inside]), float(distances[1]) / 2)
    rows = max(float(outer[inside]), math.sqrt(variances[min(inside, variances.size - 1)]))
    survival = _survival(np.maximum(distances[inside:] - start, 0)[None, :], start)
    survival[:, -1] = 0
    shares = survival[:, :-1] - survival[:, 1:]
    squares = (counts[inside:] - rows * _SIZES[:, :, None] * shares) ** 2 / variances[inside:]
    likelihood = -0.5 * squares.sum(-1)
    if count is None:
        return _Side(distances, counts, seen, inside, start, rows, likelihood, 0.0, variances, doubts)
    middles = (distances[1:] + distances[:-1]) / 2
    held = max(float(counts[:inside][middles[:inside] > count.distance].sum()), 0.0)
    past = np.array([max(count.distance - start, 0.0)])
    foreseen = rows * _SIZES * _survival(past[None, :], start)[:, 0] + held
    likelihood = likelihood - 0.5 * ((count.rows - foreseen) / count.std) ** 2
    weights = _normalized(_FLAT + likelihood)
    surprise = (count.rows - float((weights * foreseen).sum())) / count.std
    is_unlimited = count.rows > PLAIN * count.std and weights[:, _WIDEST].sum() > 1 - INTERVAL_LEVEL
    if is_unlimited or start <= _LOOKS_CONSTANT:
        surprise = max(surprise, count.rows / count.std)  # there are such rows, and it is not known how far they lie
    return _Side(distances, counts, seen, inside, start, rows, likelihood, surprise, variances, doubts)


def _survival(y: Floats, start: float) -> Floats:
    """(laws, places): the share of a tail's rows beyond y from its start."""
    index, scale = _INDEX[:, None], (_SCALE * start)[:, None]
    found: Floats = np.maximum(1 + index * y / scale, 0) ** (-1 / index)
    return found


def _normalized(log_weights: Floats) -> Floats:
    weights = np.exp(log_weights - log_weights.max())
    found: Floats = weights / weights.sum()
    return found
