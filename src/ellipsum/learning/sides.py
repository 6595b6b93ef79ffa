"""The law of one column: how far its rows lie from a center on either side, from noisy counts of distances.

Each side has a law of its own: a column of incomes needs less room below zero than above its middle. Works on noisy
counts and public numbers only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..errors import Floats
from ..rows import NormLaw
from ..rows.learned import STEP
from .chance import reach
from .norm_law import fit_norm_law

_ATOM = 0.15  # of the rows: more than a smooth law has within a sixteenth of its median
_SURE = 3.0  # stds: a side that holds rows
ROOM, LEAST_ROOM = 0.8, 0.2  # of the other side's distance: room for rows that noise hides
_SHARP = 0.03  # of the rows: so many in the last bin, and the side ends there
_STEP_DOWN = 2.0**-STEP
_ABOVE = 1 + 2.0**-8  # times a distance that rows sit at: none of them is clipped by a rounding
_BESIDE_ZERO, _FEWER, _HIDDEN = 1.5, 0.15, 1.5  # times the distance; of the rows on the other side; stds of noise
_FEW_BEYOND = 0.002  # of the rows: so few are expected beyond zero that there is no need for room
_WINDOW = 12  # bins
_NEAR_END, _EACH_OCTAVE, _FAR_END = 2.5, 0.5, 4.5  # stds: bins that surely hold rows
_KNOWN_END = 3.6  # stds, where some rows are known to lie far out
_NARROWEST = 16.0
_SURE_BEYOND = 4.0  # stds: rows that noise may hide beyond those
_NEAREST, _FURTHER, _FARTHEST = 2.0, 0.5, 4.0  # stds for the first octave beyond an end, each one more, and the most
_SLOWEST, _SLOWER = 0.9, 3.0  # how slowly a tail may fall: from bins to bins, and times slower than it was seen to


@dataclass(frozen=True)
class Counted:
    """Noisy counts of rows by their distance: the first up to the first edge, the last beyond all of them."""

    counts: Floats
    edges: Floats
    std: float
    pure: bool

    def beyond(self, end: float) -> tuple[float, float]:
        """What lies beyond an end, summed over the rows, at most, and the std of that.

        The first octave counts in any case; those further out where they surely hold rows, the further the surer.
        """
        low = np.concatenate([[0.0], self.edges])
        high = np.append(self.edges, 2 * self.edges[-1])
        part = np.clip((high - end) / (high - low), 0.0, 1.0)  # of a bin's rows, were they spread evenly
        over = np.maximum(high - end, 0.0)
        octave = np.floor(np.log2(np.maximum(high * (1 - 1e-9) / end, 1.0))).astype(np.int64)
        octaves = np.arange(int(octave.max()) + 1)
        rows = np.bincount(octave, weights=self.counts * part, minlength=octaves.size)
        noise = self.std * np.sqrt(np.bincount(octave, weights=part**2, minlength=octaves.size))
        bins = np.maximum(np.bincount(octave, weights=part > 0, minlength=octaves.size), 1)
        limits = reach(np.minimum(_NEAREST + _FURTHER * octaves, _FARTHEST), bins, self.pure)
        seen = np.flatnonzero(rows > limits * noise)
        weight = np.where(octave <= (seen[-1] if seen.size else 0), part * over, 0.0)
        return max(float(self.counts @ weight), 0.0), self.std * float(np.sqrt(weight @ weight))


@dataclass(frozen=True)
class Side:
    """Distances of the rows on one side of the center: the share of all rows, and the law; None where none is seen."""

    share: float
    law: NormLaw | None
    counted: Counted
    least: float = 0.0
    """Up to here there are so many rows in one bin that none of them may be clipped."""
    room: float = ROOM
    """How far the region reaches at least, over how far it does on the other side."""
    enough: float = math.inf
    """A distance that is room enough in any case: that of zero, where hardly a row is expected beyond."""
    family: NormLaw | None = None
    """The law with all of the tail that its family has, which the counts may not show."""

    def beyond(self, end: float) -> float:
        """The share of all rows beyond an end; those at one radius of a law may lie half a step farther out."""
        exact = 0 < self.least <= end
        return 0.0 if self.law is None else self.share * self.law.beyond(end if exact else end * _STEP_DOWN)

    def missed(self, end: float, n: float) -> tuple[float, float]:
        """What lies beyond an end at most, as a mean over n rows, and the noise of that: what is counted, or likely."""
        rows, noise = self.counted.beyond(end)
        return max(rows / n, self.likely(end)), noise / n

    def likely(self, end: float) -> float:
        """What lies beyond an end, as a mean over all rows, with the whole tail of the law's family."""
        return 0.0 if self.family is None else self.share * self.family.excess(end)

    def excess(self, at: Floats) -> Floats:
        """The mean, over all rows, of what lies beyond each distance."""
        if self.law is None:
            return np.zeros(at.size)
        over = np.maximum(self.law.radii[:, None] - at, 0.0)
        found: Floats = self.share * (self.law.mass @ over)
        return found


@dataclass(frozen=True)
class Sides:
    """A law of one column: a part of the rows at the center, the others below and above."""

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

    def outside(self, low: float, high: float) -> float:
        """The share of the rows outside an interval that holds the center."""
        return self.below.beyond(self.center - low) + self.above.beyond(high - self.center)

    def about(self, center: float, least: float) -> NormLaw:
        """The law of distances from another point, those below `least` taken as that."""
        x, mass = self.points()
        octaves = np.log2(np.maximum(np.abs(x - center), least))
        start = math.floor(float(octaves.min()) / STEP) * STEP
        places = np.rint((octaves - start) / STEP).astype(np.int64)
        masses = np.bincount(places, weights=mass).astype(np.float64)
        return NormLaw(np.asarray(start + STEP * np.arange(masses.size), np.float64), masses)


def learned_sides(
    counts: Floats, std: float, edges: Floats, center: float, n: float, unit: float, pure: bool, far: bool = False
) -> Sides:
    """The laws of distances from the center, from counts of the rows between the edges on either side.

    unit: about how far rows lie from the center. far: whether some are known to lie far out.
    """
    surely = _KNOWN_END if far else _FAR_END
    middle = edges.size
    below, inner, above = counts[:middle][::-1], float(counts[middle]), counts[middle + 1 :]
    atom = inner > _ATOM * n + _SURE * std
    both = n - inner if atom else n
    more = float(above.sum() - below.sum())
    noise = std * math.sqrt(middle / 2)

    def side(bins: Floats, sign: float, zero: float) -> Side:
        """zero: how far it is, if it lies on this side."""
        held = (both + sign * more) / 2
        if held < _SURE * noise:
            return _few(bins, std, edges, n, pure, surely)
        bins = np.concatenate([[0.0 if atom else inner / 2], bins])
        family = fit_norm_law(bins, std, edges, held, unit, pure=pure)
        if far:
            family = _with_far(family, bins, std, edges, held, pure)
        law = _ended(family, bins, std, edges, held, pure, surely)
        heavy = np.flatnonzero(bins[1:] > max(_SHARP * n, reach(surely, 1, pure) * std))
        least = _ABOVE * float(edges[min(heavy[-1] + 1, edges.size - 1)]) if heavy.size else 0.0
        last = _last_sure(bins, std, np.log2(edges / law.median), pure, surely)
        sharp = heavy.size > 0 and last is not None and sum(last) <= heavy[-1] + 3
        if _ends_at_zero(bins, std, edges, zero, pure):
            law, sharp, least = _cut(law, zero), True, max(least, _ABOVE * zero)
        enough = zero if zero < math.inf and held * law.beyond(zero) < _FEW_BEYOND * n else math.inf
        counted = Counted(bins, edges, std, pure)
        return Side(min(held, both) / n, law, counted, least, LEAST_ROOM if sharp else ROOM, enough, family)

    return Sides(
        center,
        side(below, -1.0, center if center > 0 else math.inf),
        side(above, 1.0, -center if center < 0 else math.inf),
    )


def _few(bins: Floats, std: float, edges: Floats, n: float, pure: bool, surely: float) -> Side:
    """A side that all its bins together do not tell from noise: rows are where a few of them surely hold some."""
    last = _last_sure(bins, std, np.full(bins.size - 1, np.inf), pure, surely)
    counted = Counted(np.concatenate([[0.0], bins]), edges, std, pure)
    if last is None:
        return Side(0.0, None, counted, room=LEAST_ROOM)
    first, size = last
    end = float(edges[min(first + size, edges.size - 1)])
    rows = float(bins[first : first + size].sum())
    law = NormLaw(np.array([math.log2(end)]), np.ones(1))
    return Side(min(rows / n, 1.0), law, counted, end, LEAST_ROOM)


def _ends_at_zero(counts: Floats, std: float, edges: Floats, zero: float, pure: bool) -> bool:
    """Whether there are rows up to zero, and next to none beyond: as many as a smooth law has there would be seen."""
    inside, within = _rows_between(counts, edges, zero / _BESIDE_ZERO, zero)
    beyond, bins = _rows_between(counts, edges, zero, zero * _BESIDE_ZERO)
    if not (bins and within):
        return False
    noise = std * math.sqrt(bins)
    seen = inside > reach(_FAR_END, within, pure) * std * math.sqrt(within)
    return bool(seen and beyond < _SURE * noise and beyond + _HIDDEN * noise < _FEWER * inside)


def _rows_between(counts: Floats, edges: Floats, low: float, high: float) -> tuple[float, int]:
    """Rows in the bins that begin between two distances, and how many bins."""
    first, last = np.searchsorted(edges, [low, high])
    return float(counts[first + 1 : last + 1].sum()), int(last - first)


def _with_far(law: NormLaw, counts: Floats, std: float, edges: Floats, n: float, pure: bool) -> NormLaw:
    """The law with the rows of the last bins that surely hold some, where it has few of them: at their far end."""
    last = _last_sure(counts, std, np.log2(edges / law.median), pure, _KNOWN_END)
    if last is None:
        return law
    first, size = last
    low, high = float(edges[max(first - 1, 0)]), float(edges[min(first + size - 1, edges.size - 1)])
    part = float(counts[first : first + size].sum()) / n - (law.beyond(low) - law.beyond(high))
    place = int(np.searchsorted(law.grid, math.log2(high)))
    if not 0 < part < 1 or place >= law.grid.size:
        return law
    mass = law.mass * (1 - part)
    mass[place] += part
    return NormLaw(law.grid, mass)


def _cut(law: NormLaw, end: float) -> NormLaw:
    """The law with what is beyond an end brought there."""
    inside = law.radii <= end
    mass = np.where(inside, law.mass, 0.0)
    if not inside.any():
        return NormLaw(np.array([math.log2(end)]), np.ones(1))
    mass[np.flatnonzero(inside)[-1]] += law.beyond(end)
    return NormLaw(law.grid, mass)


def _ended(law: NormLaw, counts: Floats, std: float, edges: Floats, n: float, pure: bool, surely: float) -> NormLaw:
    """The law with no more rows beyond the last bins that surely hold some than these let expect.

    Its family has no sharp ends, and puts a far tail where the counts show one.
    """
    last = _last_sure(counts, std, np.log2(edges / law.median), pure, surely)
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


def _last_sure(counts: Floats, std: float, octaves: Floats, pure: bool, surely: float) -> tuple[int, int] | None:
    """The last few bins next to each other that surely hold rows: the first of them, and how many; None without any.

    octaves: of the edges, from the middle of the law; the farther out, the surer.
    """
    best: tuple[int, int] | None = None
    below = np.concatenate([octaves[:1], octaves])  # the lower edge of each bin
    for size in range(1, _WINDOW + 1):
        end = 0 if best is None else sum(best)
        sums = np.lib.stride_tricks.sliding_window_view(counts, size).sum(axis=1) / (std * math.sqrt(size))
        limits = reach(np.clip(_NEAR_END + _EACH_OCTAVE * below[size - 1 :], _NEAR_END, surely), size, pure)
        sure = np.flatnonzero(sums > limits)
        if sure.size and sure[-1] >= end:
            best = int(sure[-1]), size
    return best
