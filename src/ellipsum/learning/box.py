"""A last region by columns: few columns, each clamped to ends of its own.

A count under Laplace noise is told from none only where it is ten times the noise's scale, so rounds are few, and each
tells much of all columns at once: octaves of the distance from zero; even bins over the interval that holds most rows,
until it covers several; then distances from the center on either side, and how many rows lack the column. The last
round clamps each column between the two ends that are forecast to err least: an outlier stays in its column, and what
is clamped away was counted on either side, so that the bias is bounded column by column.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ..errors import Floats
from ..privacy.guarantee import Privacy
from ..regions.ellipsoid import Clip, Ellipsoid, length
from ..rows import LearnedBox, NormLaw
from .columns import (
    FIRST,
    LEAST,
    Column,
    closer_look,
    even_bins,
    first_look,
    shortest,
)
from .looks import Looks
from .measure import Measure
from .methods import Final
from .rounds import Rounds
from .sides import LEAST_ROOM, ROOM, Side, Sides, learned_sides

_MOST_SPENT, _MOST_LOOKS = 0.25, 8
_HEAVY, _MOST = 0.3, 0.8  # of the rows: in one bin, where a point may be; in three, where nothing else is
_POINT = 8 * LEAST
_NEAREST = 2.0**-40  # of the magnitude: ends are no nearer to the center, and stay apart in doubles
_ZERO = FIRST.size // 2
_UNSEEN = 2.0**-10  # of the magnitude: the unit where no row is seen but those at a point
_SURE = 3.0  # stds: more than noise
_FAR = 4.0  # half-widths from the middle of a box: rows beyond are far out
_SURELY_FAR, _TOLD = (2.9, 4.1), (3.5, 5.3)
"""Stds of the noise of their number: once in 600 by chance, and in 3600, under Gaussian noise and Laplace's."""
_ASK_AGAIN, _MISSED = 0.7, 2.1  # stds from which on they are counted again; so many more are missed once in 40 times
_BY_DISTANCES = 7.0  # times the noise of a count of distances: rows in one bin that surely are told
_FOUND = 0.6  # of the rows far out: fewer are found by the closer look, and the release warns
_TAIL = 3.0  # times what the counts let expect beyond an end: the most that the stated error takes a tail to hold
_ALIKE = 0.5  # how far what is clipped on one side is taken to make up for the other
_FINE = np.concatenate([np.arange(-4, -1, 0.25), np.arange(-1, 1, 1 / 8), np.arange(1, 4, 0.25)])
_COARSE = np.concatenate([np.arange(-4, -1, 1.0), np.arange(-1, 4, 0.5)])
_NARROW_BINS, _AS_PURE = 2000.0, 4.0  # rows times epsilon from which narrow bins are more than noise; times mu


@dataclass(frozen=True)
class Place:
    """Where a column's rows are: their center, and about how far they lie from it, in units of the magnitude."""

    center: float
    unit: float


def serves(rounds: Rounds) -> bool:
    """Whether these rounds are for a last region by columns; groups share a region, and each has a mean of its own."""
    looks = looks_at(rounds.n, rounds.d, rounds.privacy, rounds.rows_each)
    return rounds.purpose != "groups" and looks.serve(rounds.purpose == "later")


def prepare(measure: Measure) -> Final | None:
    """Learn where to clamp each column; None where some column does not stand out of the noise."""
    places = _places(measure, _looks(measure))
    if places is None:
        return None
    measure.rounds.let_go()
    return _last(measure, _Distances(measure, places))


def _looks(measure: Measure) -> Looks:
    """For rounds that read the rows that are read now."""
    return looks_at(measure.n, measure.d, measure.rounds.privacy, measure.rounds.rows_each)


def looks_at(n: float, d: int, privacy: Privacy, rows_each: int) -> Looks:
    """For so many rows under a guarantee."""
    rows = n * (1 if privacy.neighbors == "replace" else 2) / rows_each
    if privacy.pure:
        return Looks(rows * privacy.pure[0] / d, d, True)
    return Looks(rows * privacy.mu / math.sqrt(d), d, False)


def _places(measure: Measure, looks: Looks) -> list[Place] | None:
    """Octaves of all columns, then closer looks at those that need one."""
    counts, std = measure.columns(np.tile(FIRST, (measure.d, 1)), looks.look)
    at_zero: list[bool] = (counts[:, _ZERO] > _HEAVY * measure.n + _SURE * std).tolist()
    columns = [first_look(each, std, looks.pure) for each in counts]
    if not all(column.seen or zero for column, zero in zip(columns, at_zero, strict=True)):
        return None
    columns = _closer(measure, columns, at_zero, looks)
    units = _elsewhere(measure, counts, std, at_zero, looks)
    return [
        Place(0.0, unit) if zero else Place(column.center, max(column.length, _POINT) / 4)
        for column, zero, unit in zip(columns, at_zero, units, strict=True)
    ]


def _closer(measure: Measure, columns: list[Column], at_zero: list[bool], looks: Looks) -> list[Column]:
    """Even bins over the intervals that hold most rows, until every one is found."""
    for _ in range(_MOST_LOOKS):
        done = [zero or one.found or one.length <= _POINT for one, zero in zip(columns, at_zero, strict=True)]
        if all(done) or measure.spent > _MOST_SPENT:
            break
        edges = np.stack([even_bins(column) for column in columns])
        counts, std = measure.columns(edges, looks.look)
        seen = [_look(*each, std, measure.n, looks.pure) for each in zip(columns, edges, counts, strict=True)]
        columns = [old if still else new for old, new, still in zip(columns, seen, done, strict=True)]
    return columns


def _look(column: Column, edges: Floats, counts: Floats, std: float, n: float, pure: bool) -> Column:
    return _at_a_point(column, edges, counts, std, n) or closer_look(column, edges, counts, std, pure)


def _at_a_point(column: Column, edges: Floats, counts: Floats, std: float, n: float) -> Column | None:
    """Where one bin holds many rows and surely some are elsewhere, no closer look helps.

    What three bins do not hold of n rows tells so more surely than a sum of many noisy bins.
    """
    inside = counts[1:-1]
    fullest = int(np.argmax(inside))
    about = float(inside[max(fullest - 1, 0) : fullest + 2].sum())
    if inside[fullest] < _HEAVY * n or about > _MOST * n - _SURE * std * math.sqrt(3):
        return None
    window = shortest(edges, counts, std)
    middles = (edges[1:] + edges[:-1]) / 2
    held = np.where((middles > window.low) & (middles < window.high), inside, 0.0)
    center = min(max(float(held @ middles) / window.rows, window.low), window.high)
    return replace(column, low=window.low, high=window.high, center=center, found=True)


def _elsewhere(measure: Measure, counts: Floats, std: float, at_zero: list[bool], looks: Looks) -> Floats:
    """The usual distance from zero of rows that do not sit there, of columns that have many there, by magnitude."""
    columns = [first_look(_without_zero(each), std, looks.pure) for each in counts]
    if not all(column.seen for column, zero in zip(columns, at_zero, strict=True) if zero):
        counts, std = measure.columns(np.tile(FIRST, (measure.d, 1)), looks.again)
        again = [first_look(_without_zero(each), std, looks.pure) for each in counts]
        columns = [old if old.seen else new for old, new in zip(columns, again, strict=True)]
    return np.array([_distance(column) for column in columns])


def _distance(column: Column) -> float:
    if not column.seen:
        return _UNSEEN
    far, near = max(abs(column.low), abs(column.high)), min(abs(column.low), abs(column.high))
    return math.sqrt(far * near) if column.low * column.high > 0 else far / 4


def _without_zero(counts: Floats) -> Floats:
    found = counts.copy()
    found[_ZERO] = 0.0
    return found


class _Distances:
    """Counts of every column's rows by distance from its center, and of those that lack it: of one round, or two."""

    def __init__(self, measure: Measure, places: list[Place]) -> None:
        self._measure, self._places = measure, places
        self.looks = _looks(measure)
        rows = self.looks.rows * (1 if self.looks.pure else _AS_PURE)
        self._edges = _edges(places, _FINE if rows > _NARROW_BINS else _COARSE)
        self._counts, self.std = self._round(self.looks.last)

    def _round(self, share: float) -> tuple[Floats, float]:
        both = [
            np.concatenate([place.center - each[::-1], place.center + each])
            for place, each in zip(self._places, self._edges, strict=True)
        ]
        return self._measure.columns(np.stack(both), share, absences=True)

    def again(self, share: float) -> None:
        """Another round, joined with what is known by the noise of both."""
        counts, std = self._round(share)
        weight = self.std**2 / (self.std**2 + std**2)
        self._counts = self._counts + weight * (counts - self._counts)
        self.std = std * math.sqrt(weight)

    @property
    def absent(self) -> Floats:
        """The number of rows that lack each column."""
        return np.where(self._measure.can_miss, self._counts[:, -1], 0.0)

    @property
    def there(self) -> Floats:
        """The number of rows that have each column, at least 1."""
        return np.maximum(self._measure.n - np.maximum(self.absent, 0.0), 1.0)

    def sides(self, far: bool = False) -> list[Sides]:
        """The law of each column; far: whether some rows are known to lie far out."""
        columns = zip(self._counts, self._edges, self._places, self.there.tolist(), strict=True)
        return [
            learned_sides(counts[:-1], self.std, edges, place.center, rows, place.unit, self.looks.pure, far)
            for counts, edges, place, rows in columns
        ]


def _edges(places: list[Place], steps: Floats) -> list[Floats]:
    """Distances from each center up to the magnitude and beyond, as many for every column."""
    farthest = max(math.log2((abs(place.center) + 1) / place.unit) for place in places)
    octaves = np.concatenate([steps, np.arange(4.0, farthest + 0.25, 0.25)])
    found = []
    for place in places:
        edges = place.unit * np.exp2(octaves)
        if edges[0] < abs(place.center) < edges[-1]:  # a column may end at zero: no bin lies on both sides of it
            edges[np.argmin(np.abs(np.log(edges / abs(place.center))))] = abs(place.center)
        found.append(edges)
    return found


@dataclass(frozen=True)
class _Clamp:
    """One column between its ends, in units of its magnitude."""

    low: float
    high: float
    mean: float
    std: float
    left: float
    """The bias that clamping is expected to leave."""
    missed: float
    missed_std: float
    """What clamping hides at most, as a mean over the rows that have the column, and the noise of that."""
    lost: float
    """Root mean square of what is clamped away."""


def _clamp(sides: Sides, unit: float, n: float) -> _Clamp:
    """unit: noise std of the column's mean for each unit of half its width."""
    below, above = (max(end, _NEAREST) for end in _ends(sides, unit))
    low, high = sides.center - below, sides.center + above
    x, mass = sides.points()
    inside = np.clip(x, low, high)
    mean = float(mass @ inside)
    std = math.sqrt(max(float(mass @ (inside - mean) ** 2), ((high - low) / 128) ** 2))
    both = (sides.below, below), (sides.above, above)
    over = [float(side.excess(np.array([end]))[0]) for side, end in both]
    missed, spread = (max(part) for part in zip(*(side.missed(end, n) for side, end in both), strict=True))
    lost = math.sqrt(float(mass @ (x - inside) ** 2))
    likely = [min(max(one, side.likely(end)), _TAIL * one) for one, (side, end) in zip(over, both, strict=True)]
    return _Clamp(low, high, mean, std, _left(*likely), max(missed, *over), spread, lost)


@dataclass(frozen=True)
class _Far:
    """Rows far beyond the ends of their columns: how many, beside what the laws expect, and the noise of that."""

    rows: float
    std: float
    pure: bool
    low: list[float]
    high: list[float]
    unseen: float = 0.0
    """So many may go unseen."""
    lost: int = 0
    """So many surely lie there, and it is not found where."""

    def found(self, sides: list[Sides], there: Floats) -> float:
        """How many rows the laws of columns put there."""
        columns = zip(sides, self.low, self.high, there.tolist(), strict=True)
        return float(sum(n * side.outside(low, high) for side, low, high, n in columns))

    @property
    def sure(self) -> bool:
        return self.rows > _SURELY_FAR[self.pure] * self.std


def _far_rows(measure: Measure, clamps: list[_Clamp], sides: list[Sides], distances: _Distances) -> _Far:
    """[L2] One count for all columns, whatever their number: it tells of fewer rows than any histogram of them."""
    low, high = (np.array([getattr(clamp, name) for clamp in clamps]) for name in ("low", "high"))
    center, reach = (low + high) / 2, _FAR * (high - low) / 2
    looks = distances.looks
    if looks.far == 0:
        return _Far(0.0, 0.0, looks.pure, [], [], _BY_DISTANCES * distances.std)
    place = center * measure.magnitudes, reach * measure.magnitudes
    rows, std = measure.far(*place, looks.far)
    found = _Far(rows, std, looks.pure, (center - reach).tolist(), (center + reach).tolist())
    expected, limit = found.found(sides, distances.there), _ASK_AGAIN * std
    found = replace(found, rows=rows - expected, unseen=limit + _MISSED * std)
    if found.rows > limit:
        again, other = measure.far_again(*place, looks.far_again)
        weight = std**2 / (std**2 + other**2)
        found = replace(found, rows=rows + weight * (again - rows) - expected, std=other * math.sqrt(weight))
    return found


def _last(measure: Measure, distances: _Distances) -> Final:
    """The ends of least forecast error, and the box between them; a closer look where rows seem to lie far beyond."""
    sides = distances.sides()
    clamps = _clamps(measure, distances, sides)
    far = _far_rows(measure, clamps, sides, distances)
    if far.sure:
        distances.again(distances.looks.closer)
        sides = distances.sides(far=True)
        clamps = _clamps(measure, distances, sides)
        if far.rows > _TOLD[far.pure] * far.std and far.found(sides, distances.there) < _FOUND * far.rows:
            far = replace(far, lost=round(far.rows))
    return _final(measure, distances, sides, clamps, far)


def _clamps(measure: Measure, distances: _Distances, sides: list[Sides]) -> list[_Clamp]:
    unit = distances.looks.unit(measure.left)
    return [_clamp(side, unit, rows) for side, rows in zip(sides, distances.there.tolist(), strict=True)]


def _final(measure: Measure, distances: _Distances, sides: list[Sides], clamps: list[_Clamp], far: _Far) -> Final:
    """The box, in original units."""
    n, size = measure.n, measure.magnitudes
    low, high, mean, std, left, missed, spread, lost = (
        np.array([getattr(clamp, name) for clamp in clamps]) * size
        for name in ("low", "high", "mean", "std", "left", "missed", "missed_std", "lost")
    )
    absent_std = np.where(measure.can_miss, distances.std, 0.0)
    unseen = max(math.ceil(far.unseen), 1)
    box = LearnedBox(low, high, mean, std, missed, spread, distances.absent, absent_std, unseen, far.lost)

    def combine(found: Floats, noise: Floats) -> tuple[Floats, Floats]:
        return np.clip(found, -size, size), np.hypot(noise, left)

    region = Clip(
        ellipsoid=Ellipsoid((low + high) / 2, 2 / (high - low)),
        radius=None,
        clipping_error=length(lost) * length(lost) * n,
        center_spread=length(mean - (low + high) / 2),
    )
    bias = length(missed)
    if measure.d > 1:
        return Final(region, std, combine, bias, magnitude=size, box=box)
    (one,), width = sides, float(high[0] - low[0]) / 2

    def about(center: float) -> NormLaw:
        return one.about(center / size[0], width / size[0] / 1024).scaled(size[0] / std[0])

    law = about(float(low[0]) + width)
    return Final(region, std, combine, bias, 1 / std, law, size, about, box=box)


def _left(below: float, above: float) -> float:
    """What is clipped on one side partly makes up for the other."""
    return math.sqrt(max(below**2 + above**2 - 2 * _ALIKE * below * above, 0.0))


def _ends(sides: Sides, unit: float) -> tuple[float, float]:
    """How far the region reaches below and above the center."""
    ladders = [_ladder(side) for side in (sides.below, sides.above)]
    known = [ladder for ladder in ladders if ladder.size]
    if not known:
        return _POINT, _POINT
    rooms = sides.below.room, sides.above.room
    least = sides.below.least, sides.above.least
    others = [part for ladder in known for part in (LEAST_ROOM * ladder, ROOM * ladder)]
    enough = sides.below.enough, sides.above.enough
    places = [end for end in (*least, *enough) if 0 < end < math.inf]
    both = np.unique(np.concatenate([*known, *others, places]))
    low, high = sides.below.excess(both), sides.above.excess(both)
    squares = low[:, None] ** 2 + high**2 - 2 * _ALIKE * low[:, None] * high
    squares = squares + (unit * (both[:, None] + both) / 2) ** 2
    wanted = [np.minimum(room * both * (1 - 1e-9), most) for room, most in zip(rooms, enough, strict=True)]
    roomy = (both[:, None] >= wanted[0]) & (both >= wanted[1][:, None])
    roomy &= (both[:, None] >= least[0]) & (both >= least[1])
    i, j = np.unravel_index(int(np.argmin(np.where(roomy, squares, np.inf))), squares.shape)
    return float(both[i]), float(both[j])


def _ladder(side: Side) -> Floats:
    return np.zeros(0) if side.law is None else side.law.ladder
