"""Columns with units of their own: each is clamped between two ends with the least expected error.

1. Locate: histograms on a signed logarithmic grid about zero, then zooms into columns that are far from zero.
2. Look: a histogram about each center, and one round for the tails of all columns.
3. Count the values beyond all bins seen, fit each tail, and choose the ends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from ..errors import Floats, listing
from ..releases.decode import MissingCounts
from ..releases.learning_record import LOOK
from ..row_maps.histograms import ColumnHistograms
from .constants import BULK_BINS, BULK_STDS, MOST_ZOOMS, PLAIN, RATIO, ROUND_SHARE, UNNOTICED_STDS, ZOOM_BINS
from .histograms import TINY, Histogram, bulk_bins, grid, noise_limit, thresholds
from .rounds import Region, Rounds
from .tails import LOOKS_CONSTANT, choose_ends

PASSES = MOST_ZOOMS + 5
"""Locate, zooms, look, tails, counts beyond all bins seen, and the release."""
_FINEST = (2.0 * ZOOM_BINS) ** -MOST_ZOOMS
"""The smallest spread that zooms resolve, as a part of a column's distance from zero."""
_ROUGH = (
    "Located only roughly: {names}. The error may be far larger than the spread of the values, as the interval shows. "
    "Use more rows or a larger budget, or pass bounds."
)
_FAR = (
    "More values than expected lie beyond the learned ends of {names}, so the interval may be too narrow. Check units "
    "and codes for missing values, or pass bounds."
)
_ALIKE = (
    "All values of {names} that can be told from noise are alike. Up to {unnoticed} others could go unnoticed, and the "
    "interval does not allow for them. Use more rows or a larger budget, or pass bounds."
)


def find_columns(rounds: Rounds) -> Region:
    """Learn the ends of each column, and what clamping cuts off."""
    from scipy.special import ndtr

    search, unit = ColumnSearch(rounds), rounds.split.unit
    located = search.locate()
    histograms = search.look_about(located)
    centers = [one.center for one in located]
    beyond, count_std = search.count_beyond(histograms)
    columns = zip(histograms, centers, beyond, strict=True)
    ends = [choose_ends(one, center, unit, rows, count_std) for one, center, rows in columns]

    size, is_found = rounds.magnitude, np.array([one.hull.sure for one in histograms])
    distances, bias = np.array([[(end.distance, end.bias) for end in pair] for pair in ends]).transpose(2, 1, 0)
    lower, upper = np.clip(np.array(centers) + np.array([[-1.0], [1.0]]) * distances, -1, 1)
    spreads = [one.spread(*bounds) for one, *bounds in zip(histograms, lower, upper, strict=True)]
    noise = unit * distances.sum(axis=0) / rounds.n
    is_rough = [  # Unless most rows are in one bin, both histograms show the spread; noise seldom widens both.
        one.is_one_bin_wide(max(LOOKS_CONSTANT, abs(bulk.center) * _FINEST))
        or std > (spread if bulk.in_one_bin else min(spread, bulk.spread(*bounds)))
        for one, bulk, spread, std, *bounds in zip(histograms, located, spreads, noise, lower, upper, strict=True)
    ]
    surprise = noise_limit(float(ndtr(-PLAIN)) / rounds.d, rounds.is_pure)  # as rare among all columns as PLAIN in one
    is_far = np.array([max(end.surprise for end in pair) for pair in ends]) > surprise
    unnoticed = math.ceil(UNNOTICED_STDS * count_std)
    is_alike = distances.sum(axis=0) <= 2 * LOOKS_CONSTANT
    warnings = [
        text.format(names=listing(rounds.names[j] for j in np.flatnonzero(chosen & is_found)), unnoticed=unnoticed)
        for text, chosen in ((_ROUGH, np.array(is_rough)), (_FAR, is_far), (_ALIKE, is_alike & ~is_far))
        if (chosen & is_found).any()
    ]
    lower, upper, center = (
        np.where(is_found, size * part, 0.0) for part in (lower, upper, np.clip(centers, lower, upper))
    )
    lacking = np.array([(one.missing, one.std) if one.has_missing else (0.0, 0.0) for one in histograms]).T
    return Region(
        center,
        size * np.array(spreads),
        lower,
        upper,
        is_found,
        size * bias,
        tuple(warnings),
        unnoticed,
        MissingCounts(lacking[0], lacking[1], center),
        math.sqrt(rounds.d),
    )


class ColumnSearch:
    """Rounds of histograms over columns, in units of each column's magnitude."""

    def __init__(self, rounds: Rounds) -> None:
        self.rounds, self.left, self.d = rounds, rounds.split.share, rounds.d

    def locate(self) -> list[Histogram]:
        """Locate every column: first on a grid about zero, then by zooms into one bin."""
        share = ROUND_SHARE * self.left
        bins = min(bulk_bins(self.rounds.n, self._std(self.d, share)), 2)
        about_zero = grid(0.0, TINY, 1, 1 + 1 / bins, around_zero=True)
        located = self._histograms("locate", range(self.d), [about_zero] * self.d, share)
        places = list(range(self.d))
        for _ in range(MOST_ZOOMS):
            places = [j for j in places if located[j].is_far_from_zero]
            share = ROUND_SHARE * self.left * len(places) / self.d
            if not places or self.rounds.n < BULK_STDS * self._std(len(places), share):
                break
            spans = [located[j].span for j in places]
            grids = [grid((low + high) / 2, (high - low) / 2, ZOOM_BINS, 2.0) for low, high in spans]
            zoomed = self._histograms("zoom", places, grids, share)
            confirmed = {
                j: one  # The bin still has most of the rows.
                for j, one, (low, high) in zip(places, zoomed, spans, strict=True)
                if one.hull.sure and low <= one.center <= high
            }
            located = [confirmed.get(j, one) for j, one in enumerate(located)]
            places = list(confirmed)
        return located

    def look_about(self, located: list[Histogram]) -> list[Histogram]:
        """Make a histogram about each center; with Gaussian rounds, also one round for the tails of all columns."""
        self.count_share = ROUND_SHARE * self.left
        share = self.left - self.count_share
        tails = 0.0 if self.rounds.is_pure or self.d == 1 else share / 2
        share -= tails
        bins = bulk_bins(self.rounds.n, self._std(self.d, share if self.rounds.is_pure else self.left))
        grids = [
            grid(one.center, one.scale, min(2 * bins, BULK_BINS) if one.in_one_bin else bins, max(1 + 1 / bins, RATIO))
            for one in located
        ]
        histograms = self._histograms(LOOK, range(self.d), grids, share)
        return self._add_tails(histograms, tails) if tails else histograms

    def _add_tails(self, histograms: list[Histogram], share: float) -> list[Histogram]:
        """Count the tails a second time, and average both counts by their variances."""
        tails = [one.tail_bins for one in histograms]
        edges = self._edges(range(self.d), [one.edges for one in histograms])
        row_map = ColumnHistograms(self.d, range(self.d), edges, [np.append(tail, False) for tail in tails], "root")
        values, std = self.rounds.sum("tails", row_map, share)
        joined = []
        for one, tail, part in zip(histograms, tails, row_map.split(values), strict=True):
            weight = np.where(tail, one.std**2 / (one.std**2 + std**2), 0.0)
            counts = one.counts + weight * (part[:-1] - one.counts)
            joined.append(replace(one, counts=counts, weights=1 - weight))
        return joined

    def count_beyond(self, histograms: list[Histogram]) -> tuple[list[tuple[float, float]], float]:
        """Count the values below and above all bins seen; the noise does not grow with the number of columns."""
        edges = []
        for one, size in zip(histograms, self.rounds.magnitude, strict=True):
            ends = np.concatenate([[-2.0], one.edges[1:-1], [2.0]])  # Values beyond the magnitude count as within.
            edges.append(size * ends[[one.hull.first, one.hull.last]])
        outer = np.array([True, False, True, False])
        divided = "number" if self.rounds.is_pure else "root"
        row_map = ColumnHistograms(self.d, range(self.d), edges, [outer] * self.d, divided)
        share = min(Fraction(self.count_share), self.rounds.left)  # Rounding must not exceed the rest.
        values, std = self.rounds.sum("beyond the bins", row_map, share)
        return [(float(part[0]), float(part[2])) for part in row_map.split(values)], std

    def _histograms(self, name: str, places: Sequence[int], grids: Sequence[Floats], share: float) -> list[Histogram]:
        """Make a noisy histogram of each of these columns in one round."""
        self.left -= share
        row_map = ColumnHistograms(self.d, places, self._edges(places, grids))
        values, std = self.rounds.sum(name, row_map, share)
        limits = thresholds(sum(edges.size for edges in grids), self.rounds.is_pure)
        return [
            Histogram(edges, part[:-1], std, self.rounds.n, limits, float(part[-1]), n_std=self.rounds.n_std)
            for edges, part in zip(grids, row_map.split(values), strict=True)
        ]

    def _edges(self, places: Sequence[int], grids: Sequence[Floats]) -> list[Floats]:
        """Inner edges in original units."""
        return [edges[1:-1] * self.rounds.magnitude[j] for j, edges in zip(places, grids, strict=True)]

    def _std(self, columns: int, share: float) -> float:
        """Standard deviation of the noise in a histogram of this number of columns."""
        return self.rounds.std(ColumnHistograms(self.d, range(columns), [np.zeros(1)] * columns), share)
