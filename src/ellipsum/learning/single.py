"""One column under pure noise: few histograms tell where its rows are, and the rest is for the last round.

A count under Laplace noise is told from none only where it is ten times the noise's scale, so rounds are few, and each
tells much: octaves of the distance from zero; even bins over the interval that holds most rows, until it covers
several; then distances from the centre on either side. Each side has a law of its own, and the last round clips
between the two ends that are forecast to err least: a column of incomes needs less room below zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ..errors import Floats
from ..rows import NormLaw
from ..rows.base import PULL
from ..rows.learned import STEP
from ..shape import Clip, Ellipsoid
from .chance import reach
from .columns import FIRST, LEAST, Column, closer_look, even_bins, first_look, shortest
from .measure import Measure
from .methods import Final
from .norm_law import fit_norm_law
from .schedule import last_part, look_part, share_of_part

_AGAIN = 0.08  # of epsilon, for rows elsewhere than at a point
_MOST_SPENT, _MOST_LOOKS = 0.25, 8
_HEAVY, _MOST = 0.3, 0.8  # of the rows: in one bin, where a point may be; in three, where nothing else is
_ATOM = 0.15  # of the rows: more than a smooth law has within a sixteenth of its median
_POINT = 8 * LEAST
_ZERO = FIRST.size // 2
_UNSEEN = 2.0**-10  # of the magnitude: the unit where no row is seen but those at a point
_SURE = 3.0  # stds: a side that holds rows
_ROOM, _LEAST_ROOM = 0.8, 0.2  # of the other side's distance: room for rows that noise hides
_SHARP = 0.03  # of the rows: so many in the last bin, and the side ends there
_ALIKE = 0.5  # how far what is clipped on one side is taken to make up for the other
_FARTHEST_PULL, _PULL_NOISE = 0.3, 0.5
_STEP_DOWN = 2.0**-STEP
_ABOVE = 1 + 2.0**-8  # times a distance that rows sit at: clipped by a rounding, they would all be pulled in
_BESIDE_ZERO, _FEWER, _HIDDEN = 1.5, 0.15, 1.5  # times the distance; of the rows on the other side; stds of noise
_FEW_BEYOND = 0.002  # of the rows: so few are expected beyond zero that there is no need for room
_WINDOW = 12  # bins
_NEAR_END, _EACH_OCTAVE, _FAR_END = 2.5, 0.5, 4.5  # stds: bins that surely hold rows
_NARROWEST = 16.0
_SURE_BEYOND = 4.0  # stds: rows that noise may hide beyond those
_SLOWEST, _SLOWER = 0.9, 3.0  # how slowly a tail may fall: from bins to bins, and times slower than it was seen to
_FINE = np.concatenate([np.arange(-4, -1, 0.25), np.arange(-1, 1, 1 / 8), np.arange(1, 4, 0.25)])
_COARSE = np.concatenate([np.arange(-4, -1, 1.0), np.arange(-1, 4, 0.5)])
_NARROW_BINS = 2000.0  # rows times epsilon from which narrow bins are more than noise


@dataclass(frozen=True)
class Side:
    """Distances of the rows on one side of the centre: the share of all rows, and the law; None where none is seen."""

    share: float
    law: NormLaw | None
    least: float = 0.0
    """Up to here there are so many rows in one bin that none of them may be clipped."""
    room: float = _ROOM
    """How far the region reaches at least, over how far it does on the other side."""
    enough: float = math.inf
    """A distance that is room enough in any case: that of zero, where hardly a row is expected beyond."""

    def beyond(self, end: float) -> float:
        """The share of all rows beyond an end; those at one radius of a law may lie half a step farther out."""
        exact = 0 < self.least <= end
        return 0.0 if self.law is None else self.share * self.law.beyond(end if exact else end * _STEP_DOWN)

    def excess(self, at: Floats) -> Floats:
        """The mean, over all rows, of what lies beyond each distance."""
        if self.law is None:
            return np.zeros(at.size)
        over = np.maximum(self.law.radii[:, None] - at, 0.0)
        found: Floats = self.share * (self.law.mass @ over)
        return found


@dataclass(frozen=True)
class Sides:
    """A law of one column: a part of the rows at the centre, the others below and above."""

    center: float
    below: Side
    above: Side

    def points(self) -> tuple[Floats, Floats]:
        """Places and the shares of the rows there."""
        places, shares = [np.array([self.center])], [np.array([max(1 - self.below.share - self.above.share, 0.0)])]
        for sign, side in ((-1.0, self.below), (1.0, self.above)):
            if side.law is not None:
                places.append(self.center + sign * side.law.radii)
                shares.append(side.share * side.law.mass)
        x, mass = np.concatenate(places), np.concatenate(shares)
        return x, mass / mass.sum()

    def about(self, center: float, least: float) -> NormLaw:
        """The law of distances from another point, those below `least` taken as that."""
        x, mass = self.points()
        octaves = np.log2(np.maximum(np.abs(x - center), least))
        start = math.floor(float(octaves.min()) / STEP) * STEP
        places = np.rint((octaves - start) / STEP).astype(np.int64)
        masses = np.bincount(places, weights=mass).astype(np.float64)
        return NormLaw(np.asarray(start + STEP * np.arange(masses.size), np.float64), masses)


def prepare(measure: Measure) -> Final | None:
    """Learn where to clip; None where no interval stands out of the noise."""
    rows = _noise_rows(measure)
    share = share_of_part(look_part(rows))
    counts, std = _counts(measure, FIRST, share)
    if counts[_ZERO] > _HEAVY * measure.n + _SURE * std:
        center, unit = 0.0, _elsewhere(measure, counts, std)
    else:
        column = _place(measure, first_look(counts, std, True), share)
        if column is None:
            return None
        center, unit = column.center, max(column.length, _POINT) / 4
    measure.rounds.let_go()
    return _last(measure, _sides(measure, center, unit, rows))


def _noise_rows(measure: Measure) -> float:
    """Rows times epsilon: with part p of epsilon a count has Laplace noise of scale 2 n / (p rows)."""
    rounds = measure.rounds
    return measure.n * rounds.privacy.pure[0] * (1 if rounds.neighbours == "replace" else 2) / rounds.rows_each


def _counts(measure: Measure, edges: Floats, share: float) -> tuple[Floats, float]:
    (counts,), std = measure.columns(edges[None, :], share)
    return counts, std


def _place(measure: Measure, column: Column, share: float) -> Column | None:
    """The interval that holds most rows, in units of the magnitude; None where none stands out of the noise."""
    if not column.seen:
        return None
    for _ in range(_MOST_LOOKS):
        if column.found or column.length <= _POINT or measure.spent > _MOST_SPENT:
            break
        edges = even_bins(column)
        counts, std = _counts(measure, edges, share)
        point = _at_a_point(column, edges, counts, std, measure.n)
        column = point or closer_look(column, edges, counts, std, True)
    return column


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


def _elsewhere(measure: Measure, counts: Floats, std: float) -> float:
    """The usual distance from zero of rows that do not sit there, in units of the magnitude."""
    column = first_look(_without_zero(counts), std, True)
    if not column.seen:
        counts, std = _counts(measure, FIRST, share_of_part(_AGAIN))
        column = first_look(_without_zero(counts), std, True)
    if not column.seen:
        return _UNSEEN
    far, near = max(abs(column.low), abs(column.high)), min(abs(column.low), abs(column.high))
    return math.sqrt(far * near) if column.low * column.high > 0 else far / 4


def _without_zero(counts: Floats) -> Floats:
    found = counts.copy()
    found[_ZERO] = 0.0
    return found


def _sides(measure: Measure, center: float, unit: float, rows: float) -> Sides:
    """The laws of distances from the centre, in units of the magnitude."""
    steps = _FINE if rows > _NARROW_BINS else _COARSE
    farthest = math.log2((abs(center) + 1) / unit)
    octaves = np.concatenate([steps, np.arange(4.0, farthest + 0.25, 0.25)])
    edges = unit * np.exp2(octaves)
    if edges[0] < abs(center) < edges[-1]:  # a column may end at zero: no bin lies on both sides of it
        edges[np.argmin(np.abs(np.log(edges / abs(center))))] = abs(center)
    share = share_of_part(last_part(rows))
    counts, std = _counts(measure, np.concatenate([center - edges[::-1], center + edges]), share)
    middle, n = edges.size, measure.n
    below, inner, above = counts[:middle][::-1], float(counts[middle]), counts[middle + 1 :]
    atom = inner > _ATOM * n + _SURE * std
    both = n - inner if atom else n
    more = float(above.sum() - below.sum())
    noise = std * math.sqrt(middle / 2)

    def side(bins: Floats, sign: float, zero: float) -> Side:
        """zero: how far it is, if it lies on this side."""
        held = (both + sign * more) / 2
        if held < _SURE * noise:
            return _few(bins, std, edges, n)
        bins = np.concatenate([[0.0 if atom else inner / 2], bins])
        law = _ended(fit_norm_law(bins, std, edges, held, unit, pure=True), bins, std, edges, held)
        heavy = np.flatnonzero(bins[1:] > max(_SHARP * n, reach(_FAR_END, 1, True) * std))
        least = _ABOVE * float(edges[min(heavy[-1] + 1, edges.size - 1)]) if heavy.size else 0.0
        last = _last_sure(bins, std, np.log2(edges / law.median))
        sharp = heavy.size > 0 and last is not None and sum(last) <= heavy[-1] + 3
        if _ends_at_zero(bins, std, edges, zero):
            law, sharp, least = _cut(law, zero), True, max(least, _ABOVE * zero)
        enough = zero if zero < math.inf and held * law.beyond(zero) < _FEW_BEYOND * n else math.inf
        return Side(min(held, both) / n, law, least, _LEAST_ROOM if sharp else _ROOM, enough)

    return Sides(
        center,
        side(below, -1.0, center if center > 0 else math.inf),
        side(above, 1.0, -center if center < 0 else math.inf),
    )


def _few(bins: Floats, std: float, edges: Floats, n: float) -> Side:
    """A side that all its bins together do not tell from noise: rows are where a few of them surely hold some."""
    last = _last_sure(bins, std, np.full(bins.size - 1, np.inf))
    if last is None:
        return Side(0.0, None, room=_LEAST_ROOM)
    first, size = last
    end = float(edges[min(first + size, edges.size - 1)])
    rows = float(bins[first : first + size].sum())
    return Side(min(rows / n, 1.0), NormLaw(np.array([math.log2(end)]), np.ones(1)), end, _LEAST_ROOM)


def _ends_at_zero(counts: Floats, std: float, edges: Floats, zero: float) -> bool:
    """Whether there are rows up to zero, and next to none beyond: as many as a smooth law has there would be seen."""
    inside, within = _rows_between(counts, edges, zero / _BESIDE_ZERO, zero)
    beyond, bins = _rows_between(counts, edges, zero, zero * _BESIDE_ZERO)
    if not (bins and within):
        return False
    noise = std * math.sqrt(bins)
    seen = inside > reach(_FAR_END, within, True) * std * math.sqrt(within)
    return bool(seen and beyond < _SURE * noise and beyond + _HIDDEN * noise < _FEWER * inside)


def _rows_between(counts: Floats, edges: Floats, low: float, high: float) -> tuple[float, int]:
    """Rows in the bins that begin between two distances, and how many bins."""
    first, last = np.searchsorted(edges, [low, high])
    return float(counts[first + 1 : last + 1].sum()), int(last - first)


def _cut(law: NormLaw, end: float) -> NormLaw:
    """The law with what is beyond an end brought there."""
    inside = law.radii <= end
    mass = np.where(inside, law.mass, 0.0)
    if not inside.any():
        return NormLaw(np.array([math.log2(end)]), np.ones(1))
    mass[np.flatnonzero(inside)[-1]] += law.beyond(end)
    return NormLaw(law.grid, mass)


def _ended(law: NormLaw, counts: Floats, std: float, edges: Floats, n: float) -> NormLaw:
    """The law with no more rows beyond the last bins that surely hold some than these let expect.

    Its family has no sharp ends, and puts a far tail where the counts show one.
    """
    last = _last_sure(counts, std, np.log2(edges / law.median))
    if last is None:
        return law
    first, size = last
    low, high = float(edges[max(first - 1, 0)]), float(edges[min(first + size - 1, edges.size - 1)])
    rows, before = float(counts[first : first + size].sum()), float(counts[max(first - size, 0) : first].sum())
    ratio = min(rows / max(before, rows, 1.0), _SLOWEST)
    beyond = rows * ratio / (1 - ratio) if before > rows else 0.0
    fall = max((high - low) / -math.log(ratio) if before > rows else high - low, high / _NARROWEST)
    most = max(beyond, _SURE_BEYOND * std) / n * np.exp(-np.maximum(law.radii - high, 0.0) / (_SLOWER * fall))
    tail = np.cumsum(law.mass[::-1])[::-1]
    tail = np.where(law.radii > high, np.minimum(tail, most), tail)
    mass = tail - np.append(tail[1:], 0.0)
    return NormLaw(law.grid, mass / mass.sum())


def _last_sure(counts: Floats, std: float, octaves: Floats) -> tuple[int, int] | None:
    """The last few bins next to each other that surely hold rows: the first of them, and how many; None without any.

    octaves: of the edges, from the middle of the law; the farther out, the surer.
    """
    best: tuple[int, int] | None = None
    below = np.concatenate([octaves[:1], octaves])  # the lower edge of each bin
    for size in range(1, _WINDOW + 1):
        end = 0 if best is None else sum(best)
        sums = np.lib.stride_tricks.sliding_window_view(counts, size).sum(axis=1) / (std * math.sqrt(size))
        limits = reach(np.clip(_NEAR_END + _EACH_OCTAVE * below[size - 1 :], _NEAR_END, _FAR_END), size, True)
        sure = np.flatnonzero(sums > limits)
        if sure.size and sure[-1] >= end:
            best = int(sure[-1]), size
    return best


def _last(measure: Measure, sides: Sides) -> Final:
    """The ends of least forecast error, and the region between them."""
    unit = _noise_of_mean(measure)
    low, high = _ends(sides, unit)
    middle, radius = sides.center + (high - low) / 2, (low + high) / 2
    x, mass = sides.points()
    inside = np.clip(x, middle - radius, middle + radius)
    mean = float(mass @ inside)
    std = math.sqrt(max(float(mass @ (inside - mean) ** 2), (radius / 64) ** 2))
    beyond = sides.below.beyond(low) + sides.above.beyond(high)
    pull = 1 - min(max(_PULL_NOISE * unit / max(beyond, 1e-300), 1 - PULL), _FARTHEST_PULL)
    over = [float(side.excess(np.array([end]))[0]) for side, end in ((sides.below, low), (sides.above, high))]
    left = _hidden(*over) + (1 - pull) * radius * beyond
    size, n = float(measure.magnitudes[0]), measure.n
    limit = np.array([1.0])

    def combine(found: Floats, noise: Floats) -> tuple[Floats, Floats]:
        value = np.clip(middle + found * radius, -limit, limit)
        return value * size, np.hypot(noise * radius, left) * size

    lost = math.sqrt(float(mass @ (x - inside) ** 2) * n) * size
    region = Clip(
        ellipsoid=Ellipsoid(np.array([middle * size]), np.array([1 / (radius * size)])),
        radius=radius / std,
        clipping_error=lost * lost,
        center_spread=abs(mean - middle) * size,
        pull=1.0 if measure.rounds.handling.check is False else pull,
    )

    def about(center: float) -> NormLaw:
        return sides.about(center / size, radius / 1024).scaled(1 / std)

    scale = np.array([1 / (std * size)])
    bias = sum(over) * size
    return Final(region, np.array([std * size]), combine, bias, scale, about(middle * size), measure.magnitudes, about)


def _noise_of_mean(measure: Measure) -> float:
    """Noise std of the last round's mean for each unit of the radius."""
    return 2 * math.sqrt(2) / (_noise_rows(measure) * measure.left)


def _hidden(below: float, above: float) -> float:
    """What is clipped on one side partly makes up for the other."""
    return math.sqrt(max(below**2 + above**2 - 2 * _ALIKE * below * above, 0.0))


def _ends(sides: Sides, unit: float) -> tuple[float, float]:
    """How far the region reaches below and above the centre."""
    ladders = [_ladder(side) for side in (sides.below, sides.above)]
    known = [ladder for ladder in ladders if ladder.size]
    if not known:
        return _UNSEEN, _UNSEEN
    rooms = sides.below.room, sides.above.room
    least = sides.below.least, sides.above.least
    others = [part for ladder in known for part in (_LEAST_ROOM * ladder, _ROOM * ladder)]
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
