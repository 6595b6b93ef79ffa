"""The noisy sums that the rounds of `auto` ask for, in units of the magnitude and of the scaled space."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from ..errors import Floats
from ..regions.ellipsoid import Clip, Ellipsoid
from ..request.missing import clipped_riders
from ..row_maps.auxiliary_counts import Riders
from ..row_maps.grid import ellipsoid_map, grid_bits
from ..row_maps.maps import RowMap
from ..rows import Unknown
from .maps import (
    AbsoluteSum,
    CoordinateHistogram,
    FarCount,
    FilledMap,
    NormHistogram,
    OuterSum,
    ShellSum,
)
from .rounds import NoisySum, Rounds
from .state import Shape, State

_UNKNOWN = Unknown(1.0)
_MOST_OF_THE_REST = Fraction(1, 2)  # no round before the last takes more than this of what is left
_SURE = 14.0  # with d columns absences count from sqrt(2 ln(2 d) + 14) stds on: by noise alone once in 20,000 rounds


@dataclass(frozen=True)
class Bins:
    """Edges of a histogram, the place of its first bin among all of a round, and what a row counts there."""

    edges: Floats
    start: int
    weight: int

    def between(self, edges: Floats) -> list[slice]:
        """The bins between some of the edges, which are among those of the histogram, and before and beyond them."""
        places = [int(np.flatnonzero(self.edges == edge)[0]) + 1 for edge in edges]
        ends = [0, *places, self.edges.size + 1]
        return [slice(self.start + first, self.start + last) for first, last in itertools.pairwise(ends)]


class Presence:
    """The share of rows that has each column, from every round that counted absences."""

    def __init__(self, d: int) -> None:
        self._absent = np.zeros(d)
        self._precision = np.zeros(d)

    def take(self, absent: Floats, stds: Floats) -> None:
        """Join one more measurement of the shares that are absent, by their variances."""
        precision = np.where(np.isfinite(stds), stds, np.inf) ** -2.0
        total = self._precision + precision
        known = total > 0
        joined = self._absent * self._precision + np.where(precision > 0, absent * precision, 0.0)
        self._absent = np.where(known, joined / np.where(known, total, 1.0), 0.0)
        self._precision = total

    @property
    def shares(self) -> Floats:
        """At least a hundredth; 1 where what was counted may be noise alone, were it that of the noisiest column."""
        with np.errstate(divide="ignore"):
            stds = self._precision**-0.5
        limit = math.sqrt(2 * math.log(2 * len(stds)) + _SURE) * stds
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            sure = np.where(self._absent > limit, self._absent * (1 - (limit / self._absent) ** 2), 0.0)
        found: Floats = np.clip(1 - sure, 0.01, 1.0)
        return found

    def corrected(self, along_axes: Floats, shape: Shape) -> Floats:
        """A mean over all rows, absent cells at the center, as one over the rows that have each column."""
        shares = self.shares
        if (shares == 1).all():
            return along_axes
        if shape.basis is None:
            return along_axes / shares
        turned: Floats = shape.basis.T @ (shape.turned(along_axes) / shares)
        return turned


class Measure:
    """Rounds in units of the magnitude, or of each column. n is public under "replace", else noisy and at least 1."""

    def __init__(self, rounds: Rounds, magnitude: float | Floats) -> None:
        self.rounds, self.d = rounds, rounds.d
        self.magnitudes = np.broadcast_to(np.asarray(magnitude, np.float64), rounds.d)
        self.magnitude = float(self.magnitudes.max())
        """The largest: what lengths are measured in where errors count alike in all columns."""
        self.relative = self.magnitudes / self.magnitude if rounds.relative else np.ones(rounds.d)
        """The unit of each column, as a share of the largest magnitude."""
        self.least = np.zeros(rounds.d)
        """Units that are not to shrink further."""
        self._bits = grid_bits(rounds.n, rounds.fineness)
        self.presence = Presence(rounds.d)

    @property
    def n(self) -> float:
        """Rows that a round reads."""
        return self.rounds.n * self.rounds.rate

    @property
    def can_miss(self) -> tuple[bool, ...]:
        """For each column, whether its statistic is over the rows that have it, and some may not."""
        handling = self.rounds.handling
        counted = handling.rule(_UNKNOWN, self.d)[0] == "column"
        return tuple(counted and can for can in handling.can_miss(self.d))

    @property
    def public_n(self) -> float | None:
        """n, where it is the exact and public number of the rows that are read."""
        return self.n if self.rounds.public_rows and self.rounds.rate == 1 else None

    @property
    def units(self) -> Floats:
        """The unit of each column."""
        return self.magnitude * self.relative

    @property
    def sides(self) -> Floats:
        """The magnitude of each column in its unit."""
        return self.magnitudes / self.units

    @property
    def spent(self) -> float:
        return float(self.rounds.spent)

    @property
    def left(self) -> float:
        return float(self.rounds.left)

    def affordable(self, share: float) -> float:
        return self.rounds.affordable(share)

    def share(self, wanted: float) -> Fraction:
        return min(Fraction(wanted), self.rounds.left * _MOST_OF_THE_REST)

    def _sum(self, name: str, row_map: RowMap, share: float) -> NoisySum:
        """A round over rows as the last one takes them: stated numbers in the place of missing entries."""
        _, fill = self.rounds.handling.rule(_UNKNOWN, self.d)
        return self.rounds.sum(name, row_map if fill is None else FilledMap(row_map, fill), self.share(share))

    def norms(
        self,
        center: Floats,
        trials: Sequence[tuple[Shape, Floats]],
        share: float,
        weights: Sequence[int] | None = None,
        name: str = "norms",
    ) -> tuple[list[Floats], float]:
        """Histograms of ‖y‖ for several shapes at once, each among its own edges, and the std of their noise.

        weights: where noise is not to be alike, that of each is the std over its weight.
        """
        histogram = self._histogram(center, trials, weights)
        found = self._sum(name, histogram, share)
        return histogram.split(found.values), found.std

    def _histogram(
        self, center: Floats, trials: Sequence[tuple[Shape, Floats]], weights: Sequence[int] | None
    ) -> NormHistogram:
        ellipsoids = {id(shape): shape.ellipsoid(center, 1.0, self.units) for shape, _ in trials}
        return NormHistogram([(ellipsoids[id(shape)], edges) for shape, edges in trials], weights)

    def norms_again(
        self, state: State, asked: Sequence[Floats], bins: Bins, share: float, weights: Sequence[int], name: str
    ) -> tuple[list[Floats], float]:
        """The same, in the state's shape, for edges that the latest histogram had too: its bins are added up [L12].

        No rows are read: what the latest pass counted exactly gets noise of its own again, for this share.
        """
        histogram = self._histogram(state.center, [(state.shape, edges) for edges in asked], weights)
        parts = [(w, bins.weight, at) for w, edges in zip(weights, asked, strict=True) for at in bins.between(edges)]
        found = self.rounds.sum_again(name, histogram, self.share(share), parts)
        return histogram.split(found.values), found.std

    def columns(
        self, edges: Floats, share: float, folded: bool = False, absences: bool = False
    ) -> tuple[Floats, float]:
        """Histograms of all columns at once, edges in units of its magnitude; a row of counts for each column.

        folded: of distances from zero. absences: the last count is that of rows that lack the column.
        """
        histogram = CoordinateHistogram(edges * self.magnitudes[:, None], folded, absences)
        found = self._sum("columns", histogram, share)
        return histogram.table(found.values), found.std

    def far(self, center: Floats, reach: Floats, share: float) -> tuple[float, float]:
        """The number of rows with an entry farther than `reach` from the center, in original units, and its noise."""
        found = self._sum("far rows", FarCount(center, reach), share)
        return float(found.values[0]), found.std

    def far_again(self, center: Floats, reach: Floats, share: float) -> tuple[float, float]:
        """The same number with other noise, as the latest pass counted it: no rows are read."""
        found = self.rounds.sum_again("far rows", FarCount(center, reach), self.share(share), [(1, 1, slice(0, 1))])
        return float(found.values[0]), found.std

    def clipped_mean(self, name: str, state: State, radius: float, share: float) -> tuple[Floats, float]:
        """Mean of y clipped to the radius, over the rows that have each column, and the std of its noise."""
        shape = state.shape
        ellipsoid = shape.ellipsoid(state.center, radius, self.units)
        riders = self._riders(ellipsoid, shape.column_weights)
        found = self.rounds.sum(name, ellipsoid_map(ellipsoid, self._bits, riders), self.share(share))
        width = ellipsoid.width
        self._take_absences(riders, found.values[width:], found.std)
        mean = self.presence.corrected(found.values[:width] / shape.b, shape) * shape.b
        return mean * (radius / self.n), found.std * radius / self.n

    def _riders(self, ellipsoid: Ellipsoid, weights: Floats) -> Riders:
        handling = replace(self.rounds.handling, check=False)
        rule, fill = handling.rule(_UNKNOWN, self.d)
        region = Clip(ellipsoid, None, 0.0, 0.0)
        return clipped_riders(weights, region, rule, fill, "mean", self.rounds.neighbors, handling, self._bits)

    def _take_absences(self, riders: Riders, values: Floats, std: float) -> None:
        units = np.ldexp(np.array(riders.absences, float), -self._bits)
        if units.size and self.n > 0:
            known = np.where(units > 0, units, np.inf)
            counts, stds = values / known, np.where(units > 0, std / known, np.inf)
            self.presence.take(np.broadcast_to(counts, self.d) / self.n, np.broadcast_to(stds, self.d) / self.n)

    def absolute_mean(self, state: State, radius: float, share: float) -> tuple[Floats, float]:
        """Mean of |y| clipped to the radius."""
        ellipsoid = state.shape.ellipsoid(state.center, radius, self.units)
        found = self._sum("scales", AbsoluteSum(ellipsoid, self._bits), share)
        there = self.presence.shares if state.shape.basis is None else 1.0
        return found.values * (radius / self.n) / there, found.std * radius / self.n

    def shell_mean(self, state: State, inner: float, outer: float, share: float) -> tuple[Floats, float]:
        """Mean of what lies of y between two radii."""
        ellipsoid = state.shape.ellipsoid(state.center, 1.0, self.units)
        found = self._sum("shell", ShellSum(ellipsoid, inner, outer, self._bits), share)
        thickness = (outer - inner) / self.n
        return found.values * thickness, found.std * thickness

    def second_moments(self, name: str, state: State, radius: float, share: float) -> tuple[Floats, float]:
        """Mean of y y^T, y clipped to the radius; noise of this std on the diagonal, about 1/sqrt 2 of it beside."""
        ellipsoid = state.shape.ellipsoid(state.center, radius, self.units)
        products = OuterSum(ellipsoid)
        found = self._sum(name, products, share)
        unit = radius**2 / self.n
        return products.matrix(found.values) * unit, products.diagonal_std(found.std) * unit

    def of_all(self) -> AbstractContextManager[None]:
        """Rounds inside read all rows."""
        return self.rounds.of_all()

    def count(self, share: float) -> None:
        """Replace the caller's guess of n by a noisy count."""
        self.rounds.count(self.share(share))
