"""Few rows far beyond the others: counted again and again, as long as they seem to be there.

k rows at a distance R that nobody saw move the mean by k R / n; a last round that reaches them has noise of
2 R sqrt(d) / (n mu). So 2 sqrt(d) / mu rows are worth seeing, however many rows there are and however far these lie,
and a bin of the last histogram has more noise than that. All far rows in one number leave noise no choice among bins.
They are counted so beside the histogram; where that is more than nothing they are counted again, each time for a
larger share, as long as noise explains it badly, and in the end by distance [L12]. Ordinary rows rarely get so far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..errors import Floats
from .far import Places, Tally, beyond
from .measure import Bins, Measure
from .state import State

_ASK_AGAIN = ((-0.1, 0.008), (0.4, 0.015), (1.2, 0.03))  # stds from which on far rows are counted again; the share
_ASK_WHERE, _LEAST, _MOST = 2.0, 0.02, 0.1  # stds from which on they are counted by distance; least and largest share
_PLAIN = 6.0  # stds: nothing but the distance is asked for any more, and no bin that holds all needs to be more
_CONFIRMED = 4.25  # stds: by noise alone one release in 100,000 believes in rows that are not there
_PERHAPS = 3.0  # stds from which on a release warns: by noise alone one in 1500 does
_HALF, _MOST_HALVES = 0.04, 4  # of the budget, to tell two places apart, and how often
_WIDE = 30.0  # columns beyond which shares fall, as more rows must be far before it pays to see them
_COUNT_WEIGHT, _BINS_WEIGHT = 2, 3  # of the number of far rows, and of their histogram, in one round
_KNOWN = 0.5  # of the rows that are worth seeing: where the law has more of them so far out, they are seen already
_LEAST_BINS = 4


def worth_looking(far_edges: Floats, pure: bool) -> bool:
    """Whether rows may lie so far out; pure noise hides so many that it would take too much to see them."""
    return not pure and far_edges.size >= _LEAST_BINS


def seek(
    measure: Measure, state: State, latest: Bins, edges: Floats, counts: Floats, noise: float, first: Tally
) -> None:
    """Count far rows until they are surely there or not; the state keeps those that are, or that may be noise.

    latest: the last histogram; edges: those of it from where rows are far, counts and noise: its bins beyond; first:
    the first count.
    """
    known = measure.n * state.law.beyond(float(edges[0]))
    if known > _KNOWN * _worth_seeing(measure):
        return
    part = min(1.0, _WIDE / measure.d)
    ask = _Asker(measure, state, latest, part)
    found = _counted(ask, float(edges[0]), first.less(known), known)
    if found is None:
        return
    again, bins, variance = ask.where(edges, found.rows)
    found = found.joined(again.less(known))
    if found.sure < _PERHAPS:
        return
    places = Places(bins.size, found.rows)
    places.take(bins, variance)
    places.take(counts, noise**2)
    for _ in range(_MOST_HALVES if found.sure >= _CONFIRMED else 0):
        if (middle := places.middle) is not None:
            places.halve(middle, ask.count(float(edges[middle]), _HALF))
    if found.sure >= _CONFIRMED:
        state.far = places.found(edges, measure.n)
    if found.sure < _CONFIRMED or places.middle is not None:
        state.perhaps = places.perhaps(edges, found.std)


def _counted(ask: _Asker, start: float, found: Tally, known: float) -> Tally | None:
    """The number of far rows beyond those that are known, by all counts; None where too little speaks for them."""
    for enough, share in _ASK_AGAIN:
        if found.sure < enough:
            return None
        if found.sure < _PLAIN:
            found = found.joined(ask.count(start, share).less(known))
    return found if found.sure >= _ASK_WHERE else None


def _worth_seeing(measure: Measure) -> float:
    """Rows whose absence moves the mean by as much as the noise of a round that reaches them."""
    sides = 2 if measure.rounds.neighbors == "replace" else 1
    return sides * math.sqrt(measure.d) / measure.rounds.mu


@dataclass(frozen=True)
class _Asker:
    """Rounds about far rows; part: of their shares, where there are many columns."""

    measure: Measure
    state: State
    latest: Bins
    part: float

    def count(self, start: float, share: float) -> Tally:
        """Rows beyond a norm [L12]."""
        measure, edges = self.measure, np.array([start])
        share = measure.affordable(share * self.part)
        (counts,), std = measure.norms_again(self.state, [edges], self.latest, share, [1], "far rows")
        return beyond(counts, std, measure.public_n)

    def where(self, edges: Floats, rows: float) -> tuple[Tally, Floats, float]:
        """How many rows lie beyond the first edge, how many in each bin beyond, and the variance of these [L12]."""
        measure, weights = self.measure, (_COUNT_WEIGHT, _BINS_WEIGHT)
        one = 2 * (1 + (_COUNT_WEIGHT / _BINS_WEIGHT) ** 2) / measure.rounds.mu**2  # variance of a bin for the budget
        share = measure.affordable(min(max(one * (_PLAIN / rows) ** 2, _LEAST * self.part), _MOST * self.part))
        asked = [edges[:1], edges]
        (count, bins), std = measure.norms_again(self.state, asked, self.latest, share, weights, "far norms")
        n = measure.public_n
        total = beyond(count, std / _COUNT_WEIGHT, n).joined(beyond(bins, std / _BINS_WEIGHT, n))
        return total, bins[1:], (std / _BINS_WEIGHT) ** 2
