"""A last region by columns: few columns, each clamped to ends of its own, under pure noise.

A count under Laplace noise is told from none only where it is ten times the noise's scale, so rounds are few, and each
tells much of all columns at once: octaves of the distance from zero; even bins over the interval that holds most rows,
until it covers several; then distances from the centre on either side, and how many rows lack the column. The last
round clamps each column between the two ends that are forecast to err least: an outlier stays in its column, and what
is clamped away was counted on either side, so that the bias is bounded column by column.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ..errors import Floats
from ..rows import LearnedBox, NormLaw
from ..shape import Clip, Ellipsoid
from .columns import FIRST, LEAST, Column, closer_look, even_bins, first_look, shortest
from .measure import Measure
from .methods import Final
from .rounds import Rounds
from .schedule import far_part, last_part, look_part, share_of_part
from .sides import LEAST_ROOM, ROOM, Side, Sides, learned_sides

MOST_COLUMNS = 4
USUAL_LOOKS = 2
_USUAL_WIDTH = 5.2  # stds of normal rows between the two ends
_AGAIN = 0.08  # of epsilon, for rows elsewhere than at a point
_MOST_SPENT, _MOST_LOOKS = 0.25, 8
_HEAVY, _MOST = 0.3, 0.8  # of the rows: in one bin, where a point may be; in three, where nothing else is
_POINT = 8 * LEAST
_ZERO = FIRST.size // 2
_UNSEEN = 2.0**-10  # of the magnitude: the unit where no row is seen but those at a point
_SURE = 3.0  # stds: more than noise
_FAR = 4.0  # half-widths from the middle of a box: rows beyond are far out
_SURELY_FAR, _TOLD = 5.8, 7.5  # scales of the noise of their number: once in 600 by chance, and in 3600
_BY_DISTANCES = 1.2  # times the noise of a count of distances: one that tells of as many rows in one bin
_CLOSER = 0.3  # of epsilon, for another look at distances where some seem to be
_FOUND = 0.75  # of the rows far out: fewer are found by the closer look, and the release warns
_ALIKE = 0.5  # how far what is clipped on one side is taken to make up for the other
_FINE = np.concatenate([np.arange(-4, -1, 0.25), np.arange(-1, 1, 1 / 8), np.arange(1, 4, 0.25)])
_COARSE = np.concatenate([np.arange(-4, -1, 1.0), np.arange(-1, 4, 0.5)])
_NARROW_BINS = 2000.0  # rows times epsilon from which narrow bins are more than noise


@dataclass(frozen=True)
class Place:
    """Where a column's rows are: their centre, and about how far they lie from it, in units of the magnitude."""

    center: float
    unit: float


def serves(rounds: Rounds) -> bool:
    """Whether a last region by columns may be learned: under pure noise, of few columns; of one for later releases."""
    most = MOST_COLUMNS if rounds.purpose == "release" else 1
    return rounds.pure and rounds.d <= most


def prepare(measure: Measure) -> Final | None:
    """Learn where to clamp each column; None where some column does not stand out of the noise."""
    places = _places(measure, share_of_part(look_part(noise_rows(measure))))
    if places is None:
        return None
    measure.rounds.let_go()
    return _last(measure, _Distances(measure, places))


def forecast(rows: float, d: int) -> float:
    """The error of a mean of normal columns, in their stds; rows: times epsilon, for each column."""
    left = 1 - USUAL_LOOKS * look_part(rows) - last_part(rows) - far_part(rows * d)
    return _USUAL_WIDTH * _block(d) / (rows * d * left)


def _block(d: int) -> float:
    """Noise std of a sum of one of d columns that share a block, for each unit of its width over epsilon [K2]."""
    return math.sqrt((d + 1) * (d + 2) / 3)


def noise_rows(measure: Measure) -> float:
    """Rows times epsilon for each column: with part p of epsilon a count has Laplace noise of scale 2 n / (p rows)."""
    rounds = measure.rounds
    sides = 1 if rounds.neighbours == "replace" else 2
    return measure.n * rounds.privacy.pure[0] * sides / (rounds.rows_each * measure.d)


def _places(measure: Measure, share: float) -> list[Place] | None:
    """Octaves of all columns, then closer looks at those that need one."""
    counts, std = measure.columns(np.tile(FIRST, (measure.d, 1)), share)
    at_zero: list[bool] = (counts[:, _ZERO] > _HEAVY * measure.n + _SURE * std).tolist()
    columns = [first_look(each, std, True) for each in counts]
    if not all(column.seen or zero for column, zero in zip(columns, at_zero, strict=True)):
        return None
    columns = _closer(measure, columns, at_zero, share)
    units = _elsewhere(measure, counts, std, at_zero)
    return [
        Place(0.0, unit) if zero else Place(column.center, max(column.length, _POINT) / 4)
        for column, zero, unit in zip(columns, at_zero, units, strict=True)
    ]


def _closer(measure: Measure, columns: list[Column], at_zero: list[bool], share: float) -> list[Column]:
    """Even bins over the intervals that hold most rows, until every one is found."""
    for _ in range(_MOST_LOOKS):
        done = [zero or one.found or one.length <= _POINT for one, zero in zip(columns, at_zero, strict=True)]
        if all(done) or measure.spent > _MOST_SPENT:
            break
        edges = np.stack([even_bins(column) for column in columns])
        counts, std = measure.columns(edges, share)
        looks = [_look(*each, std, measure.n) for each in zip(columns, edges, counts, strict=True)]
        columns = [old if still else new for old, new, still in zip(columns, looks, done, strict=True)]
    return columns


def _look(column: Column, edges: Floats, counts: Floats, std: float, n: float) -> Column:
    return _at_a_point(column, edges, counts, std, n) or closer_look(column, edges, counts, std, True)


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


def _elsewhere(measure: Measure, counts: Floats, std: float, at_zero: list[bool]) -> Floats:
    """The usual distance from zero of rows that do not sit there, of columns that have many there, by magnitude."""
    columns = [first_look(_without_zero(each), std, True) for each in counts]
    if not all(column.seen for column, zero in zip(columns, at_zero, strict=True) if zero):
        counts, std = measure.columns(np.tile(FIRST, (measure.d, 1)), share_of_part(_AGAIN))
        again = [first_look(_without_zero(each), std, True) for each in counts]
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
    """Counts of every column's rows by distance from its centre, and of those that lack it: of one round, or two."""

    def __init__(self, measure: Measure, places: list[Place]) -> None:
        self._measure, self._places = measure, places
        rows = noise_rows(measure)
        self._edges = _edges(places, _FINE if rows > _NARROW_BINS else _COARSE)
        self._counts, self.std = self._round(last_part(rows))

    def _round(self, part: float) -> tuple[Floats, float]:
        both = [
            np.concatenate([place.center - each[::-1], place.center + each])
            for place, each in zip(self._places, self._edges, strict=True)
        ]
        return self._measure.columns(np.stack(both), share_of_part(part), absences=True)

    def again(self, part: float) -> None:
        """Another round, joined with what is known by the noise of both."""
        counts, std = self._round(part)
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
            learned_sides(counts[:-1], self.std, edges, place.center, rows, place.unit, True, far)
            for counts, edges, place, rows in columns
        ]


def _edges(places: list[Place], steps: Floats) -> list[Floats]:
    """Distances from each centre up to the magnitude and beyond, as many for every column."""
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
    below, above = _ends(sides, unit)
    low, high = sides.center - below, sides.center + above
    x, mass = sides.points()
    inside = np.clip(x, low, high)
    mean = float(mass @ inside)
    std = math.sqrt(max(float(mass @ (inside - mean) ** 2), ((high - low) / 128) ** 2))
    both = (sides.below, below), (sides.above, above)
    over = [float(side.excess(np.array([end]))[0]) for side, end in both]
    missed, spread = (max(part) for part in zip(*(side.missed(end, n) for side, end in both), strict=True))
    lost = math.sqrt(float(mass @ (x - inside) ** 2))
    return _Clamp(low, high, mean, std, _left(*over), max(missed, *over), spread, lost)


@dataclass(frozen=True)
class _Far:
    """Rows far beyond the ends of their columns: how many, beside what the laws expect, and the scale of its noise."""

    rows: float
    scale: float
    low: list[float]
    high: list[float]
    lost: int = 0
    """So many surely lie there, and it is not found where."""

    def found(self, sides: list[Sides], there: Floats) -> float:
        """How many rows the laws of columns put there."""
        columns = zip(sides, self.low, self.high, there.tolist(), strict=True)
        return float(sum(n * side.outside(low, high) for side, low, high, n in columns))

    @property
    def sure(self) -> bool:
        return self.rows > _SURELY_FAR * self.scale


def _far_rows(measure: Measure, clamps: list[_Clamp], sides: list[Sides], distances: _Distances) -> _Far:
    """[L2] One count for all columns, whatever their number: it tells of fewer rows than any histogram of them."""
    low, high = (np.array([getattr(clamp, name) for clamp in clamps]) for name in ("low", "high"))
    center, reach = (low + high) / 2, _FAR * (high - low) / 2
    part = far_part(noise_rows(measure) * measure.d)
    if part == 0:
        return _Far(0.0, _BY_DISTANCES * distances.std, [], [])
    rows, std = measure.far(center * measure.magnitudes, reach * measure.magnitudes, share_of_part(part))
    found = _Far(rows, std / math.sqrt(2), (center - reach).tolist(), (center + reach).tolist())
    return replace(found, rows=rows - found.found(sides, distances.there))


def _last(measure: Measure, distances: _Distances) -> Final:
    """The ends of least forecast error, and the box between them; a closer look where rows seem to lie far beyond."""
    sides = distances.sides()
    clamps = _clamps(measure, distances, sides)
    far = _far_rows(measure, clamps, sides, distances)
    if far.sure:
        distances.again(min(_CLOSER, float(measure.left) / 2))
        sides = distances.sides(far=True)
        clamps = _clamps(measure, distances, sides)
        if far.rows > _TOLD * far.scale and far.found(sides, distances.there) < _FOUND * far.rows:
            far = replace(far, lost=round(far.rows))
    return _final(measure, distances, sides, clamps, far)


def _clamps(measure: Measure, distances: _Distances, sides: list[Sides]) -> list[_Clamp]:
    unit = _noise_of_mean(measure)
    return [_clamp(side, unit, rows) for side, rows in zip(sides, distances.there.tolist(), strict=True)]


def _final(measure: Measure, distances: _Distances, sides: list[Sides], clamps: list[_Clamp], far: _Far) -> Final:
    """The box, in original units."""
    n, size = measure.n, measure.magnitudes
    low, high, mean, std, left, missed, spread, lost = (
        np.array([getattr(clamp, name) for clamp in clamps]) * size
        for name in ("low", "high", "mean", "std", "left", "missed", "missed_std", "lost")
    )
    absent_std = np.where(measure.can_miss, distances.std, 0.0)
    unseen = max(math.ceil(_SURELY_FAR * far.scale), 1)
    box = LearnedBox(low, high, mean, std, missed, spread, distances.absent, absent_std, unseen, far.lost)

    def combine(found: Floats, noise: Floats) -> tuple[Floats, Floats]:
        return np.clip(found, -size, size), np.hypot(noise, left)

    region = Clip(
        ellipsoid=Ellipsoid((low + high) / 2, 2 / (high - low)),
        radius=None,
        clipping_error=float((lost**2).sum()) * n,
        center_spread=float(np.linalg.norm(mean - (low + high) / 2)),
    )
    bias = float(np.linalg.norm(missed))
    if measure.d > 1:
        return Final(region, std, combine, bias, magnitude=size, box=box)
    (one,), width = sides, float(high[0] - low[0]) / 2

    def about(center: float) -> NormLaw:
        return one.about(center / size[0], width / size[0] / 1024).scaled(size[0] / std[0])

    law = about(float(low[0]) + width)
    return Final(region, std, combine, bias, 1 / std, law, size, about, box=box)


def _noise_of_mean(measure: Measure) -> float:
    """Noise std of the last round's mean of a column for each unit of half its width, columns in one block [K2]."""
    return 2 * _block(measure.d) / (noise_rows(measure) * measure.d * measure.left)


def _left(below: float, above: float) -> float:
    """What is clipped on one side partly makes up for the other."""
    return math.sqrt(max(below**2 + above**2 - 2 * _ALIKE * below * above, 0.0))


def _ends(sides: Sides, unit: float) -> tuple[float, float]:
    """How far the region reaches below and above the centre."""
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
