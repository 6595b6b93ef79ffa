"""Columns with units of their own: each is clamped between two ends, chosen for the least forecast error.

1. Locate: histograms on a signed logarithmic grid about zero, then zooms into columns that are far from zero; under
   pure noise, private medians of the values and of their distances. 2. Look: a histogram about each center, and the
   tails of all columns at once. 3. Fit each tail, choose ends, count what lies beyond them, choose again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats, UsageError, named
from ..noise.block_law import box_std
from ..privacy.budget import Budget
from ..privacy.budget_split import mu_beside
from ..releases.decode import Absent
from ..releases.learning_record import LOOK
from ..row_maps.histograms import ColumnHistograms
from ..rows import Box
from .constants import (
    ALIKE,
    ALIKE_SPREAD,
    BULK_STDS,
    FEWEST_ROWS,
    FIRST_SHARE,
    INTERVAL_LEVEL,
    LEARNING_COST,
    LEVEL,
    MOST_SEARCH,
    MOST_ZOOMS,
    PLAIN,
    PURE_TAIL_SHARE,
    RATIO,
    TAIL_SHARE,
    UNNOTICED_STDS,
    ZOOM_BINS,
)
from .histograms import (
    TINY,
    Bulk,
    Histogram,
    bulk,
    bulk_bins,
    grid,
    hull,
    thresholds,
)
from .rounds import Region, Rounds
from .tails import EndCount, Ends, choose_ends

_LOG_RANGE = math.asinh(1 / TINY), math.log(2 / TINY)  # of values on a signed scale, and of distances
_BINS = [2 * _LOG_RANGE[0] / ALIKE, _LOG_RANGE[1] / ALIKE_SPREAD]
PASSES = MOST_ZOOMS + 5
"""Locate, zooms, look, tails, counts beyond the ends, and the release."""
_ROUGH = (
    "{name} was located only roughly: its error may be far larger than its spread, as its interval says. Use more rows "
    "or a larger budget, or state bounds."
)
_FAR = (
    "more values of {names} than foreseen lie beyond the ends that were learned: the release may be off by more than "
    "its interval says. Check units and codes for missing values, or state bounds."
)


# The budget ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shares:
    """How a budget is shared out between learning and a release of columns, by public numbers alone.

    mu, epsilon: the guarantee of everything. pure_release: the part of epsilon that is for the release, beside
    Gaussian rounds of `mu` in all, or after pure rounds. learning: the share of mu^2, or of epsilon, for rounds.
    medians: of it, for each column's median and spread (pure rounds). unit: noise std of the released sum for each
    unit of a column's width. clear: rows per standard deviation of a histogram's noise for the whole budget.
    """

    mu: float
    epsilon: float
    pure_release: float
    learning: float
    medians: tuple[float, float]
    unit: float
    clear: float
    rows: float = 1.0
    """The number of rows, or a guess, that medians were priced for."""

    def medians_for(self, rows: float, d: int) -> tuple[float, float]:
        """The shares of medians for another number of rows: they cost in inverse proportion to it."""
        most = MOST_SEARCH / max(d * sum(self.medians), 1e-300)
        times = min(self.rows / rows, most)
        return self.medians[0] * times, self.medians[1] * times

    @property
    def pure(self) -> bool:
        """Whether rounds are pure."""
        return self.mu == 0

    @property
    def enough(self) -> bool:
        """Whether there are enough rows to find columns."""
        return self.clear >= FEWEST_ROWS and not (self.pure and sum(self.medians) == 0)


def learning_share(clear: float) -> float:
    """The share lam that minimizes (1 + a / lam) / (1 - lam), a = LEARNING_COST / clear."""
    cost = LEARNING_COST / max(clear, 1e-300)
    return math.sqrt(cost * cost + cost) - cost


def counting_rows(n: float, d: int, budget: Budget, neighbors: str, rows_each: int) -> float:
    """Rows per standard deviation of the noise of a histogram of all columns, for the whole budget."""
    if budget.largest_mu is None:
        return _pure_rows(n, d, dict(budget.stated)["epsilon"], neighbors, rows_each)
    return n * budget.mu / (math.sqrt(_sides(neighbors) * d) * rows_each)


def _pure_rows(n: float, d: int, epsilon: float, neighbors: str, rows_each: int) -> float:
    return n * epsilon / (math.sqrt(2) * _sides(neighbors) * d * rows_each)


def _sides(neighbors: str) -> int:
    """A replaced row leaves one bin and enters another."""
    return 2 if neighbors == "replace" else 1


def shares_of(
    n: float,
    d: int,
    budget: Budget,
    neighbors: str,
    rows_each: int = 1,
    noise: str = "auto",
    in_groups: bool = False,
    later: bool = False,
) -> Shares:
    """The shares that are forecast to give the least noise: Gaussian or pure rounds, Gaussian or pure release [L8].

    noise: "norm" for pure noise alone, "gaussian" for Gaussian noise alone, which groups have as well. later: all of it
    is for learning, and ends are chosen for a later release of the same budget.
    """
    width = rows_each * _sides(neighbors) / 2  # how far a row moves a sum, in widths
    clear = counting_rows(n, d, budget, neighbors, rows_each)
    gaussian_alone = (noise == "gaussian" or in_groups) and budget.largest_mu is not None
    epsilon = 0.0 if budget.pair is None or gaussian_alone else budget.pair[0]
    pure_unit = width * box_std(d)
    all_pure = _pure_shares(n, d, epsilon, neighbors, rows_each) if epsilon else None
    if all_pure is not None and (budget.largest_mu is None or noise == "norm"):
        if later:
            whole = 1 - d * sum(all_pure.medians)
            return replace(all_pure, pure_release=0.0, learning=whole, unit=pure_unit / epsilon, clear=clear)
        return replace(all_pure, unit=pure_unit / all_pure.pure_release, clear=clear)
    if later:
        units = [width * math.sqrt(d) / budget.mu] + ([pure_unit / epsilon] if epsilon else [])
        return Shares(budget.mu, 0.0, 0.0, 1.0, (0.0, 0.0), min(units), clear)
    share = learning_share(clear)
    gaussian_unit = width * math.sqrt(d) / (budget.mu * math.sqrt(1 - share))
    gaussian = Shares(budget.mu, 0.0, 0.0, share, (0.0, 0.0), gaussian_unit, clear)
    if all_pure is None or budget.pair is None or pure_unit / ((1 - share) * epsilon) >= gaussian_unit:
        return gaussian
    if d == 1 and sum(all_pure.medians) > 0:
        return replace(all_pure, unit=pure_unit / all_pure.pure_release, clear=clear)
    left = (1 - share) * epsilon
    mu = mu_beside(left, *budget.pair)
    if mu is None:
        return gaussian
    return Shares(mu, epsilon, left, 1.0, (0.0, 0.0), pure_unit / left, clear)


def _pure_shares(n: float, d: int, epsilon: float, neighbors: str, rows_each: int) -> Shares:
    """All rounds pure: medians that err by less than half the rows, a histogram, counts, and the release."""
    moves = _sides(neighbors) * rows_each
    prices = [2 * moves / n * math.log(bins / LEVEL) / epsilon for bins in _BINS]
    enough = d * sum(prices) <= MOST_SEARCH
    medians = (prices[0], prices[1]) if enough else (0.0, 0.0)
    rest = 1 - d * sum(medians)
    looks = learning_share(_pure_rows(n, d, rest * epsilon, neighbors, rows_each)) * rest
    return Shares(0.0, epsilon, (rest - looks) * epsilon, looks, medians, 0.0, 0.0, n)


# Where the rows are -------------------------------------------------------------------------------------


@dataclass
class Column:
    """What is known of a column, in units of its magnitude."""

    center: float
    scale: float
    spread: bool
    """Whether its rows were located in more than one bin, by a histogram."""
    histogram: Histogram


class ColumnSearch:
    """Rounds of histograms over columns, and what they found so far."""

    def __init__(self, rounds: Rounds, share: float, unit: float, medians: tuple[float, float] = (0.0, 0.0)) -> None:
        self.rounds = rounds
        self.left = share
        self.unit = unit
        self.count_share = share * (PURE_TAIL_SHARE if rounds.pure else 0.0)
        self.columns: list[Column] = []
        self._look_about(self._medians(medians) if rounds.pure else self._located())

    @property
    def d(self) -> int:
        return self.rounds.d

    def rows(self, histogram: Histogram) -> float:
        """The rows that have a column: all of them, unless it surely lacks some."""
        return self.rounds.n - (histogram.absent if self.lacks(histogram) else 0.0)

    def rough(self, column: Column, end: Ends) -> bool:
        """Whether a column that is spread was located too widely.

        Then all its rows are in one bin of the look, or the release's noise is larger than the located scale.
        """
        first, last, _, _ = hull(column.histogram, self.limits, self.rows(column.histogram))
        noise = self.unit * (end.below + end.above) / self.rounds.n
        return column.spread and (last - first == 1 or noise > column.scale)

    def lacks(self, histogram: Histogram) -> bool:
        return bool(histogram.absent > self.limits[0] * math.sqrt(histogram.variances.max()))

    def absent(self, fill: Floats) -> Absent:
        """The missing entries of every column, where it surely lacks some; the release puts `fill` in their place."""
        histograms = [one.histogram for one in self.columns]
        lacking = np.array([self.lacks(one) for one in histograms])
        return Absent(
            np.where(lacking, [one.absent for one in histograms], 0.0),
            np.where(lacking, [math.sqrt(one.variances.max()) for one in histograms], 0.0),
            fill,
        )

    def ends(self, counts: list[tuple[EndCount, EndCount]] | None = None) -> list[Ends]:
        """The ends of every column, with counts beyond earlier ends where there are any."""
        bins = sum(column.histogram.counts.size for column in self.columns)
        doubts = thresholds(bins, self.rounds.pure, 1 - INTERVAL_LEVEL)
        pairs: Sequence[tuple[EndCount, EndCount] | None] = counts or [None] * self.d
        return [
            choose_ends(
                column.histogram, column.center, self.limits, self.rows(column.histogram), self.unit, pair, doubts
            )
            for column, pair in zip(self.columns, pairs, strict=True)
        ]

    def count_beyond(self, ends: list[Ends]) -> list[tuple[EndCount, EndCount]]:
        """How many entries lie beyond both ends of every column: one round, whose noise hardly grows with d."""
        size = self.rounds.magnitude
        edges = [_apart(np.array([end.low * size[j], end.high * size[j]])) for j, end in enumerate(ends)]
        outer = np.array([True, False, True, False])
        divided = "number" if self.rounds.pure else "root"
        row_map = ColumnHistograms(self.d, range(self.d), edges, [outer] * self.d, divided)
        share = min(Fraction(self.count_share), self.rounds.left)  # rounding must not ask for more than is left
        values, std = self.rounds.sum("beyond the ends", row_map, share)
        return [
            (EndCount(end.below, float(part[0]), std), EndCount(end.above, float(part[2]), std))
            for end, part in zip(ends, row_map.split(values), strict=True)
        ]

    def _histograms(self, name: str, places: list[int], grids: list[Floats], share: float) -> list[Histogram]:
        """One noisy histogram of each of these columns."""
        size = self.rounds.magnitude
        edges = [grid_[1:-1] * size[j] for j, grid_ in zip(places, grids, strict=True)]
        row_map = ColumnHistograms(self.d, places, edges)
        values, std = self.rounds.sum(name, row_map, share)
        self.limits = thresholds(sum(grid_.size for grid_ in grids), self.rounds.pure)
        return [
            Histogram(grid_, part[:-1], np.full(part.size - 1, std * std), float(part[-1]))
            for grid_, part in zip(grids, row_map.split(values), strict=True)
        ]

    def _std(self, columns: int, share: float) -> float:
        """The noise of a histogram of so many columns."""
        row_map = ColumnHistograms(self.d, range(columns), [np.zeros(1)] * columns)
        return self.rounds.std(row_map, share)

    def _located(self) -> list[tuple[float, float, bool]]:
        """(center, scale, spread) of every column: about zero by octaves, then by zooms away from it."""
        first = FIRST_SHARE * self.left
        bins = min(bulk_bins(self.rounds.n, self._std(self.d, first)), 2)
        about_zero = grid(0.0, TINY, 1, 1 + 1 / bins, around_zero=True)
        places = list(range(self.d))
        found = [
            bulk(one, self.limits, self.rows(one))
            for one in self._round("locate", places, [about_zero] * self.d, first)
        ]
        open_ = set(range(self.d))
        for _ in range(MOST_ZOOMS):
            open_ = {j for j in open_ if _may_zoom(found[j])}
            places = sorted(open_)
            share = FIRST_SHARE * self.left * len(places) / self.d
            if not places or self.rounds.n < BULK_STDS * self._std(len(places), share):
                break
            middles = [(found[j].low + found[j].high) / 2 for j in places]
            widths = [(found[j].high - found[j].low) / 2 for j in places]
            grids = [grid(*place, ZOOM_BINS, 2.0) for place in zip(middles, widths, strict=True)]
            for j, one in zip(places, self._round("zoom", places, grids, share), strict=True):
                zoomed = bulk(one, self.limits, self.rows(one))
                if zoomed.sure and found[j].low <= zoomed.median <= found[j].high:  # it has more than half of the rows
                    found[j] = zoomed
                else:
                    open_.discard(j)
        middles = [one.median if abs(one.median) > TINY else 0.0 for one in found]
        return [(c, max(one.half_width, TINY), not one.in_one) for c, one in zip(middles, found, strict=True)]

    def _round(self, name: str, places: list[int], grids: list[Floats], share: float) -> list[Histogram]:
        self.left -= share
        return self._histograms(name, places, grids, share)

    def _medians(self, shares: tuple[float, float]) -> list[tuple[float, float, bool]]:
        """(center, scale, spread) of every column: private medians of its values, and of their distances from those."""
        if not sum(shares):
            raise UsageError("too few rows for this budget.")
        size, d = self.rounds.magnitude, self.d
        steps = np.arange(-math.floor(_LOG_RANGE[0] / ALIKE), math.floor(_LOG_RANGE[0] / ALIKE) + 1) * ALIKE
        values = TINY * np.sinh(steps)
        row_map = ColumnHistograms(d, range(d), [values * size[j] for j in range(d)])
        middles = _middles(values)
        centers = middles[self.rounds.medians("median", row_map, [shares[0]] * d)]
        centers = np.where(np.abs(centers) > TINY, centers, 0.0)
        distances = TINY * np.exp(np.arange(0, _LOG_RANGE[1], ALIKE_SPREAD))
        edges = [distances * size[j] for j in range(d)]
        row_map = ColumnHistograms(d, range(d), edges, centers=centers * size)
        scales = _middles(distances)[self.rounds.medians("spread", row_map, [shares[1]] * d)]
        return [(c, max(s, TINY), False) for c, s in zip(centers.tolist(), scales.tolist(), strict=True)]

    def _look_about(self, found: list[tuple[float, float, bool]]) -> None:
        """A histogram about every center, and where rounds are Gaussian the tails of several columns at once."""
        tails = 0.0
        if not self.rounds.pure:
            self.count_share = TAIL_SHARE / 2 * self.left
            tails = self.count_share if self.d > 1 else 0.0
        share = self.left - self.count_share - tails
        bins = bulk_bins(self.rounds.n, self._std(self.d, share if self.rounds.pure else self.left))
        grids = [grid(center, scale, bins, max(1 + 1 / bins, RATIO)) for center, scale, _ in found]
        histograms = self._round(LOOK, list(range(self.d)), grids, share)
        if tails:
            histograms = self._tails(histograms, tails)
        self.columns = [Column(*place, one) for place, one in zip(found, histograms, strict=True)]

    def _tails(self, histograms: list[Histogram], share: float) -> list[Histogram]:
        """The histograms, with a second count of their tails, joined by the variances of both."""
        size = self.rounds.magnitude
        counted = [self._tail_bins(one) for one in histograms]
        edges = [one.edges[1:-1] * size[j] for j, one in enumerate(histograms)]
        row_map = ColumnHistograms(self.d, range(self.d), edges, [np.append(tail, False) for tail in counted], "root")
        values, std = self.rounds.sum("tails", row_map, share)
        joined = []
        for one, tail, part in zip(histograms, counted, row_map.split(values), strict=True):
            weight = one.variances / (one.variances + std * std)
            counts = np.where(tail, one.counts + weight * (part[:-1] - one.counts), one.counts)
            joined.append(replace(one, counts=counts, variances=np.where(tail, weight * std * std, one.variances)))
        return joined

    def _tail_bins(self, histogram: Histogram) -> NDArray[np.bool_]:
        """Bins where the outer count is below PLAIN stds: there counts say little by themselves."""
        first, last, _, _ = hull(histogram, 1.5 * self.limits, -math.inf)  # what lies apart is counted again
        small = PLAIN * math.sqrt(histogram.variances.max())
        inside = histogram.counts[first:last]
        above, below = np.cumsum(inside[::-1])[::-1] < small, np.cumsum(inside) < small
        high = first + int(np.argmax(above)) if above.any() else last
        low = first + int(np.flatnonzero(below)[-1]) + 1 if below.any() else first
        places = np.arange(histogram.counts.size)
        tail: NDArray[np.bool_] = (places >= high) | (places < low)
        return tail


def _may_zoom(one: Bulk) -> bool:
    """Whether most rows are in one bin away from zero."""
    return one.in_one and not one.low <= 0 <= one.high and one.high - one.low > TINY


def _middles(edges: Floats) -> Floats:
    """The middle of each bin of increasing edges; of the two outer bins, their edge."""
    found: Floats = np.concatenate([edges[:1], (edges[1:] + edges[:-1]) / 2, edges[-1:]])
    return found


def _apart(ends: Floats) -> Floats:
    """Edges whose middle bin holds both ends: an entry at the upper end is not beyond it."""
    return np.array([ends[0], np.nextafter(max(ends[1], ends[0]), np.inf)])


# The region ---------------------------------------------------------------------------------------------


def box(rounds: Rounds, shares: Shares) -> Region:
    """Learn where to clamp each column, and what that cuts off."""
    columns = ColumnSearch(rounds, shares.learning, shares.unit, shares.medians_for(rounds.n, rounds.d))
    counts = columns.count_beyond(columns.ends())
    ends = columns.ends(counts)
    found = np.array([end.sure for end in ends])
    size = rounds.magnitude
    low, high, center = (
        np.where(found, size * np.array(part), 0.0)
        for part in ([end.low for end in ends], [end.high for end in ends], [one.center for one in columns.columns])
    )
    bias = np.array([end.bias for end in ends]).T * size
    absent = columns.absent(np.clip(center, low, high))
    unnoticed = math.ceil(UNNOTICED_STDS * counts[0][0].std)
    rough = [named(rounds.names[j]) for j in np.flatnonzero(found) if columns.rough(columns.columns[j], ends[j])]
    texts = (*(_ROUGH.format(name=name) for name in rough), *far_warnings(rounds, ends))
    return Region(Box(low, high), bias, found, texts, unnoticed, absent)


def far_warnings(rounds: Rounds, ends: list[Ends]) -> tuple[str, ...]:
    """The columns with more values beyond their ends than was foreseen, at PLAIN stds for all of them together."""
    from scipy.special import ndtr, ndtri

    odds = float(ndtr(-PLAIN)) / len(ends)
    limit = -math.log(2 * odds) / math.sqrt(2) if rounds.pure else -float(ndtri(odds))
    far = [named(rounds.names[j]) for j, end in enumerate(ends) if end.sure and end.surprise > limit]
    if not far:
        return ()
    return (_FAR.format(names=", ".join(far[:3]) + (f" and {len(far) - 3} more" if len(far) > 3 else "")),)
