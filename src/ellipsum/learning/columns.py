"""Where each column lies and how far it spreads, from histograms of all columns at once.

A row adds one count per column, so a round costs the same whatever the scales [L10]. Octaves of the distance from zero
come first; then even bins over the shortest interval that holds four fifths of the rows, until it covers several.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..errors import Floats
from .chance import reach
from .measure import Measure

_OCTAVES = 60  # down from the magnitude
_NEXT = 4  # octaves next to the outermost that are looked at together
_COARSE = 2  # octaves to a bin, where there is one look alone
_FARTHEST = 32.0  # times the spread that is likely: how far the few rows elsewhere may be
_EVEN = 32
_MOST_ROUNDS = 10
_MOST_SPENT = 0.2  # of the budget, from which on no further round begins
_AGAIN = 8.0  # times the share of a round: for rows far from a point that nearly all others sit at
_FEWEST = 4  # bins that the interval covers once a column is found
_MOST = 0.8  # of a column's rows: what the interval holds
_NORMAL = 2.56  # stds of normal rows that hold so many
_SURE = 10.0  # sqrt(2 ln(bins) + 10) stds: from here on a bin surely holds rows
_LIKELY = 3.0  # stds of a count: some window holds the rows, so that less is enough than to say that any do
_MORE = 5.0  # stds of a count: more rows lie outside than inside (three counts, three stds of each)
_POINT = 8.0  # times what other bins hold each: the rows of one that may be at a point
LEAST = 2.0**-_OCTAVES
_DISTANCES = np.exp2(np.arange(-_OCTAVES, 1.0))
FIRST = np.concatenate([-_DISTANCES[::-1], _DISTANCES])


@dataclass(frozen=True)
class Column:
    """The interval that holds most rows, their mean and its error there, in units of the column's magnitude."""

    low: float
    high: float
    center: float
    error: float
    rows: float = 0.0
    """About how many the interval holds."""
    found: bool = False
    """Whether the interval covers several bins, so that its length tells the spread."""
    seen: bool = True
    """Whether the interval surely holds rows: of a column that few rows have, none may."""
    wide: float = 0.0
    """Root mean square distance of rows that surely lie elsewhere; 0 where none do."""
    outer: tuple[float, float] | None = None
    """The interval of the look before."""

    @property
    def length(self) -> float:
        return self.high - self.low

    @property
    def spread(self) -> float:
        """A column that sits at one point, but for few rows, has the spread of those."""
        return self.length / _NORMAL if self.found else self.wide


@dataclass(frozen=True)
class _Window:
    low: float
    high: float
    rows: float
    bins: int

    @property
    def length(self) -> float:
        return self.high - self.low


def search(measure: Measure, share: float, relative: bool) -> list[Column] | None:
    """Every column by several rounds of this share each; None where a spread is not found.

    relative: whether every column's spread matters, also of one whose rows sit at one point but for few.
    """
    look = _Octaves(measure, share)
    columns = look.columns()
    if not all(column.seen for column in columns):
        return None
    for _ in range(_MOST_ROUNDS):
        if all(column.found or column.length <= 4 * LEAST for column in columns) or measure.spent > _MOST_SPENT:
            break
        edges = np.stack([even_bins(column) for column in columns])
        counts, std = measure.columns(edges, share)
        columns = [closer_look(*each, std, look.pure) for each in zip(columns, edges, counts, strict=True)]
    if relative and not all(column.spread > 0 for column in columns) and look.again():
        columns = [replace(one, wide=now.wide) for one, now in zip(columns, look.columns(), strict=True)]
    return columns if all(column.spread > 0 for column in columns) else None


def sizes(measure: Measure, share: float) -> list[Floats]:
    """How far from zero most rows of each column lie at most, in units of its magnitude; none where no column shows.

    The likeliest sizes, and, where some columns do not stand out of the noise, those with the largest for these.
    Units of columns that sit at zero are kept from shrinking until the few rows elsewhere are farther off than counts.
    """
    edges = LEAST * np.exp2(np.arange(0, _OCTAVES + 1, _COARSE))
    counts, std = measure.columns(np.tile(edges, (measure.d, 1)), share, folded=True)
    counts[:, -2] += counts[:, -1]
    windows = [list(_distances(each[:-1], edges)) for each in counts]
    best = [_shortest(each, std) for each in windows]
    sure = np.array([window.rows > _LIKELY * std * math.sqrt(window.bins) for window in best])
    known = [window.high for window, seen in zip(best, sure, strict=True) if seen and window.low > 0]
    if not known:
        return []
    for j in np.flatnonzero(~sure):
        best[j] = _shortest([window for window in windows[j] if min(known) <= window.high <= max(known)], std)
    elsewhere = np.clip(measure.n - counts[:, 0] + std, std, measure.n) / measure.n
    beside_zero = min(known) * np.sqrt(elsewhere)  # root mean square of a column at zero but for the rows elsewhere
    away = np.array([window.low > 0 for window in best])
    likely = np.where(away, [window.high for window in best], beside_zero)
    measure.least = measure.relative * np.where(away, 0.0, likely / _FARTHEST)
    return [likely] if sure.all() else [likely, np.where(sure, likely, max(known))]


def _distances(counts: Floats, edges: Floats) -> Iterator[_Window]:
    """A few bins next to each other, of distances from zero."""
    lows = np.concatenate([[0.0], edges])
    for bins in range(1, _NEXT // _COARSE + 1):
        for i in range(len(counts) + 1 - bins):
            yield _Window(float(lows[i]), float(lows[i + bins]), float(counts[i : i + bins].sum()), bins)


class _Octaves:
    """Counts of every column's rows in octaves of its magnitude, from one round, or two where one hides some rows."""

    def __init__(self, measure: Measure, share: float) -> None:
        self._measure, self._share = measure, share
        self.pure = measure.rounds.pure
        self._counts, self._std = self._round(share)

    def _round(self, share: float) -> tuple[Floats, float]:
        return self._measure.columns(np.tile(FIRST, (self._measure.d, 1)), share)

    def columns(self) -> list[Column]:
        return [first_look(counts, self._std, self.pure) for counts in self._counts]

    def again(self) -> bool:
        """Another round with less noise, joined with the first; False where it would cost too much."""
        share = _AGAIN * self._share
        if self._measure.spent + share >= _MOST_SPENT:
            return False
        counts, std = self._round(share)
        weight = self._std**2 / (self._std**2 + std**2)
        self._counts = self._counts + weight * (counts - self._counts)
        self._std = std * math.sqrt(weight)
        return True


def even_bins(column: Column) -> Floats:
    """Even bins over the interval and a little beyond."""
    beside = column.length / 8 + LEAST
    return np.linspace(column.low - beside, column.high + beside, _EVEN + 1)


def first_look(counts: Floats, std: float, pure: bool = False) -> Column:
    """The interval among octaves: some on one side of zero, or all on both sides up to one."""
    windows = list(_octaves(counts))
    best = _shortest(windows, std)
    limit = _Limit(len(windows), std, pure)
    wide = _wide(windows, best, limit)
    seen = best.rows > limit.of(best.bins)
    return Column(best.low, best.high, (best.low + best.high) / 2, best.length, best.rows, seen=seen, wide=wide)


def _octaves(counts: Floats) -> Iterator[_Window]:
    size = _DISTANCES.size
    negative, zero, positive = counts[1:size][::-1], counts[size], counts[size + 1 : -1]
    for first in range(size - 1):
        for last in range(first + 1, min(first + _NEXT, size)):
            low, high = float(_DISTANCES[first]), float(_DISTANCES[last])
            yield _Window(low, high, float(positive[first:last].sum()), last - first)
            yield _Window(-high, -low, float(negative[first:last].sum()), last - first)
    for last in range(size):
        near = slice(max(last - _NEXT, 0), last)
        rows = float(zero + positive[near].sum() + negative[near].sum())
        yield _Window(-float(_DISTANCES[last]), float(_DISTANCES[last]), rows, 2 * min(last, _NEXT) + 1)


def shortest(edges: Floats, counts: Floats, std: float) -> _Window:
    """Of even bins, the shortest few next to each other that likely hold most rows."""
    return _shortest(_even_windows(edges, counts), std)


def _even_windows(edges: Floats, counts: Floats) -> list[_Window]:
    inside = np.concatenate([[0.0], np.cumsum(counts[1:-1])])
    return [
        _Window(float(edges[i]), float(edges[i + k]), float(inside[i + k] - inside[i]), k)
        for k in range(1, _EVEN + 1)
        for i in range(_EVEN + 1 - k)
    ]


def closer_look(before: Column, edges: Floats, counts: Floats, std: float, pure: bool = False) -> Column:
    """The interval among even bins; as before where the column was found.

    Where noise hides it, its rows lie in more bins than as many as would stand out.
    """
    if before.found:
        return before
    windows = _even_windows(edges, counts)
    if before.outer is not None and counts[0] + counts[-1] - before.rows > _MORE * std:
        return _within(before.outer, before)
    limit = _Limit(len(windows), std, pure)
    sure = [window for window in windows if window.rows > limit.of(window.bins)]
    if not sure:
        return _widespread(before, limit)
    best = _shortest(windows, std)
    if best not in sure:
        best = max(sure, key=lambda window: window.rows / limit.of(window.bins))
    chance = limit.of(best.bins)
    fullest = max((one for one in windows if one.bins == 1 and best.low <= one.low < best.high), key=lambda w: w.rows)
    others = best.rows - fullest.rows
    few = others < fullest.rows * max(1.0, (best.bins - 1) / _POINT)
    if few and others < chance:  # they may hold noise alone, chosen for it
        best = fullest
    middles = (edges[1:] + edges[:-1]) / 2
    held = np.where((middles > best.low) & (middles < best.high), counts[1:-1], 0.0)
    center = min(max(float((held * middles).sum()) / best.rows, best.low), best.high)
    length = best.length
    error = 0.1 * length + 0.3 * length * std * math.sqrt(best.bins) / best.rows
    found = best.bins >= _FEWEST
    outer = before.low, before.high
    return replace(
        before, low=best.low, high=best.high, center=center, error=error, rows=best.rows, found=found, outer=outer
    )


def _within(outer: tuple[float, float], column: Column) -> Column:
    """Most rows lie outside the interval, where they spread so far that no few bins stand out: it is the one before."""
    low, high = outer
    return replace(column, low=low, high=high, center=(low + high) / 2, error=(high - low) / 4, found=True)


def _widespread(before: Column, limit: _Limit) -> Column:
    """A column whose rows fill the interval, or so many bins of it that they do not stand out of the noise."""
    least = min(max((before.rows / limit.of(1)) ** 2, 1.0), _EVEN)  # of the bins
    length = before.length * math.sqrt(least / _EVEN)
    middle = (before.low + before.high) / 2
    low, high = middle - length / 2, middle + length / 2
    return replace(before, low=low, high=high, center=middle, error=before.length / 4, found=True)


def _shortest(windows: list[_Window], std: float) -> _Window:
    """The shortest that likely holds most rows of the column; else the one that holds most."""
    noise = [std * math.sqrt(window.bins) for window in windows]
    fullest = max(range(len(windows)), key=lambda i: windows[i].rows - noise[i])
    whole = windows[fullest].rows - noise[fullest]
    most = [w for w, error in zip(windows, noise, strict=True) if w.rows >= _MOST * whole + 1.5 * error]
    return min([*most, windows[fullest]], key=lambda window: window.length)


@dataclass(frozen=True)
class _Limit:
    """What none of so many windows holds by noise alone."""

    windows: int
    std: float
    pure: bool

    def of(self, bins: int) -> float:
        """For a window of so many bins."""
        stds = math.sqrt(2 * math.log(self.windows) + _SURE)
        return self.std * math.sqrt(bins) * float(reach(stds, bins, self.pure))


def _wide(windows: list[_Window], best: _Window, limit: _Limit) -> float:
    """The farthest root mean square distance from the best window of the rows in one that surely holds some."""
    center, whole = (best.low + best.high) / 2, max(best.rows, 1.0)
    apart = [
        math.sqrt(window.rows / whole) * abs((window.low + window.high) / 2 - center)
        for window in windows
        if window.rows > limit.of(window.bins) and (window.low >= best.high or window.high <= best.low)
    ]
    return max(apart, default=0.0)
