"""The tail of a column on one side, what an end cuts off it, and the ends with the least expected error.

A tail is generalized Pareto beyond the distance where counts are clear. Its index, scale and size have a posterior
on a small grid. The likelihood is Gaussian in the noisy bins out to the magnitude, and in a count beyond the bins seen.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..errors import Floats
from .constants import INTERVAL_LEVEL, PLAIN, STEP, TAIL_INDEX, TAIL_INDICES, TAIL_SCALES, TAIL_SIZES
from .histograms import TINY, Histogram

_LAWS = (np.array(part) for part in (TAIL_INDICES, TAIL_SCALES, TAIL_SIZES))
_INDEX, _SCALE, _SIZE = (part.reshape(-1, 1) for part in np.meshgrid(*_LAWS, indexing="ij"))
_LOG_SCALE = np.abs(np.log(_SCALE[:, 0]))
_PRIOR = -0.5 * _LOG_SCALE**2 - np.maximum(_INDEX[:, 0], 0) / TAIL_INDEX
_FLAT = -_LOG_SCALE  # For intervals: all indices are equally likely, and scales fall off like a power.
LOOKS_CONSTANT = 4 * TINY
"""If a tail starts within this distance, all rows of its column are equal as far as the histogram can show."""


class End(NamedTuple):
    """The end of a column on one side, and what clamping there cuts off, in units of the magnitude."""

    distance: float
    """From the center."""
    bias: float
    """A bound on the sum that clamping cuts off, at INTERVAL_LEVEL."""
    surprise: float
    """The count beyond all bins seen, less its expected value, in standard deviations of its noise."""


class Tail:
    """The posterior of the tail on one side.

    distances: the edges of the bins, as distances from the center; counts and variances of the bins, nearest first.
    seen: bins within the hull; beyond: the noisy count of values farther out, and the std of its noise. The tail begins
    where the count of all bins beyond reaches 2 PLAIN stds.
    """

    def __init__(
        self,
        distances: Floats,
        counts: Floats,
        variances: Floats,
        seen: int,
        beyond: tuple[float, float] = (0.0, math.inf),
    ) -> None:
        outer = np.concatenate([np.cumsum(counts[:seen][::-1])[::-1], [0.0]])
        stds = np.sqrt(np.append(variances, variances[-1]))[: seen + 1]
        clear = np.flatnonzero(outer >= 2 * PLAIN * stds)
        begin = int(clear[-1]) if clear.size else 0
        self.distances, self.middles = distances, (distances[1 : seen + 1] + distances[:seen]) / 2
        # Up to the bin where the tail begins, all rows of a bin may be equal: an end should not cut through it.
        self.farthest = np.where(np.arange(seen) <= begin, distances[1 : seen + 1], self.middles)
        self.counts, self.inside = counts[:seen], begin
        self.start = max(float(distances[begin]), float(distances[1]) / 2)
        self.rows = max(float(outer[begin]), float(stds[begin])) * _SIZE
        reached = self._reached(distances[begin:])
        reached[:, -1] = 0
        misfit = (counts[begin:] - reached[:, :-1] + reached[:, 1:]) ** 2 / variances[begin:]
        self.log_likelihood = -0.5 * misfit.sum(axis=1)
        farther, (rows, std) = self._reached(distances[[seen]])[:, 0], beyond
        self.log_likelihood -= 0.5 * ((rows - farther) / std) ** 2
        # A column that looks constant has no tail that could explain the count.
        expected = 0.0 if self.start <= LOOKS_CONSTANT else float(self._weights(_FLAT) @ farther)
        self.surprise = (rows - expected) / std

    def _reached(self, distances: Floats) -> Floats:
        """(laws, distances): the number of rows of the tail beyond a distance."""
        past = np.maximum(distances - self.start, 0) / (_SCALE * self.start)
        return np.asarray(self.rows * np.maximum(1 + _INDEX * past, 0) ** (-1 / _INDEX))

    def _weights(self, prior: Floats) -> Floats:
        weights = np.exp(prior + self.log_likelihood - (prior + self.log_likelihood).max())
        return np.asarray(weights / weights.sum())

    def cut_off(self, ends: Floats, places: Floats) -> Floats:
        """(laws, ends): the sum of excesses beyond an end; at least that of the bins seen, with rows at places."""
        scale = _SCALE * self.start

        def excess(distances: Floats) -> Floats:
            past = np.maximum(distances - self.start, 0)
            return np.asarray(scale / (1 - _INDEX) * np.maximum(1 + _INDEX * past / scale, 0) ** (1 - 1 / _INDEX))

        nearer = np.maximum(self.start - ends, 0)
        tail = np.maximum(excess(ends) - excess(self.distances[-1:]), 0) + nearer
        over = np.maximum(places - ends[:, None], 0)
        before = np.minimum(over[:, : self.inside], nearer[:, None]) @ np.maximum(self.counts[: self.inside], 0)
        return np.asarray(np.maximum(self.rows * tail + before, over @ self.counts))

    def mean_square(self, ends: Floats) -> Floats:
        """The expected square of the sum that ends cut off."""
        return np.asarray(self._weights(_PRIOR) @ self.cut_off(ends, self.farthest) ** 2)

    def bound(self, end: float) -> float:
        """The posterior quantile of the sum that an end cuts off."""
        sums = self.cut_off(np.array([end]), self.middles)[:, 0]
        order = np.argsort(sums)
        place = np.searchsorted(np.cumsum(self._weights(_FLAT)[order]), INTERVAL_LEVEL)
        return float(sums[order][min(int(place), sums.size - 1)])

    @property
    def ladder(self) -> Floats:
        """The ends that are tried, from half the nearest bin out to the magnitude."""
        nearest, farthest = self.distances[1], self.distances[-1]
        octaves = np.arange(-1, math.log2(farthest / nearest) + STEP, STEP)
        return np.asarray(np.minimum(nearest * 2.0**octaves, farthest))


def choose_ends(
    histogram: Histogram, center: float, unit: float, beyond: tuple[float, float], std: float
) -> tuple[End, End]:
    """The ends below and above the center with the least expected noise^2 + bias^2.

    unit: std of the noise of the released sum for each unit of width. beyond: noisy counts of the values below and
    above all bins seen, with noise of this std.
    """
    tails = [_tail(histogram, center, sign, (rows, std)) for sign, rows in zip((-1, 1), beyond, strict=True)]
    below, above = (tail.ladder for tail in tails)
    cost = (unit * (below[:, None] + above)) ** 2 + tails[0].mean_square(below)[:, None] + tails[1].mean_square(above)
    places = np.unravel_index(int(np.argmin(cost)), cost.shape)
    low, high = (
        End(float(tail.ladder[place]), tail.bound(float(tail.ladder[place])), tail.surprise)
        for tail, place in zip(tails, places, strict=True)
    )
    return low, high


def _tail(histogram: Histogram, center: float, sign: int, beyond: tuple[float, float]) -> Tail:
    """The tail above the center, or below it for sign = -1."""
    places = np.flatnonzero(sign * (histogram.middles - center) > 0)[::sign]
    ends = histogram.edges[1:] if sign > 0 else histogram.edges[:-1]
    distances = np.append(0.0, sign * (ends[places] - center))
    within = places < histogram.hull.last if sign > 0 else places >= histogram.hull.first
    return Tail(distances, histogram.counts[places], histogram.variances[places], int(within.sum()), beyond)
