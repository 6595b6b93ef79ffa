"""Many columns, or vectors under one norm: rows are clipped to an ellipsoid, and the release has Gaussian noise.

1. Find the rows: columns with units of their own one by one (box.py), vectors by a ball that shrinks about them.
2. Center and spreads, from the positive and the negative parts of clipped rows: their difference is the mean, their sum
   the mean absolute value.
3. Norms of rows in the shape of these spreads, and how far each of several shells of rows lies to one side.
4. Axes from second moments, where few directions hold the rows; then 3 again.
5. The radius of least noise^2 + bias^2.
Errors are lengths over all columns, each in its own unit: its spread, or one unit for all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats
from ..regions.ellipsoid import Ellipsoid, length
from ..releases.decode import Absent
from ..row_maps.grid import ellipsoid_map, grid_bits
from ..row_maps.histograms import ColumnHistograms, Directions, NormHistogram, SecondMoments, SignedParts
from ..row_maps.maps import RowMap
from ..row_maps.prepared import Prepared
from ..rows import LearnedRows
from .box import ColumnSearch, far_warnings, learning_share
from .constants import (
    AXES_SHARE,
    BULK_STDS,
    CENTER_SHARE,
    DIRECTIONS_SHARE,
    LEAST_SHARE,
    MOST_AXES,
    MOST_FINDING,
    MOST_PASSES,
    NORMS_SHARE,
    OCTAVES,
    SHRINK,
    SMALLER,
    STANDS_OUT,
    UNNOTICED_STDS,
)
from .histograms import Histogram, hull, on_simplex, thresholds
from .rounds import NoisySum, Region, Rounds
from .tails import Ends, fitted

_SHELLS = np.array([0.5, 1.0, 1.6, 2.5, 4.0])  # where they begin, in median norms; the last has no end
_MEDIAN = 1.2  # about the median norm in the shape of the spreads: sqrt(pi / 2), or somewhat less for few columns
_COARSE, _FINE = 4, 8  # bins of norms in an octave: to find rows, and to choose a radius
_BULK = 4  # bins of norms that hold most rows, about
_STEPS, _NEAREST = 16, 8  # radii that are tried: steps in an octave, and from how many steps below the median
_EVEN = 2.0**24  # of units, largest over least: axes in original units keep more than half of a double's digits


@dataclass
class Place:
    """Where rows are: each column's center and unit, what entries are clamped to, and whether the column was found."""

    center: Floats
    unit: Floats
    lower: Floats
    upper: Floats
    found: NDArray[np.bool_]
    radius: float
    """About the median norm in these units."""
    passes: int
    """So many are done."""
    bias: Floats
    """(2, d): what clamping hides of each column's sum."""
    absent: Absent | None = None
    """The missing entries of columns that were found one by one, and clamped."""
    warnings: tuple[str, ...] = ()

    def ellipsoid(self, scale: Floats | float) -> Ellipsoid:
        """y = scale (x - center) / unit; zero in columns that were not found."""
        return Ellipsoid(self.center, np.where(self.found, scale / self.unit, 0.0))

    def clamped(self, row_map: RowMap) -> RowMap:
        """The map of clamped rows, missing entries at the center."""
        return row_map if self.absent is None else Prepared(row_map, self.center, self.lower, self.upper)

    def move(self, steps: Floats) -> None:
        """Move the center by steps in these units, and not out of what entries are clamped to."""
        self.center = np.clip(self.center + np.where(self.found, steps * self.unit, 0.0), self.lower, self.upper)

    def farthest(self, ellipsoid: Ellipsoid) -> float:
        """No row has a larger norm."""
        sides = np.maximum(self.upper - self.center, self.center - self.lower)
        matrix = ellipsoid.matrix
        return 2 * length(ellipsoid.scale * sides if matrix is None else np.abs(matrix) @ sides)


class Norms:
    """A noisy histogram of the norms of rows."""

    def __init__(self, edges: Floats, noisy: NoisySum, n: float) -> None:
        self._all = Histogram(edges, noisy.values, np.full(noisy.values.size, noisy.std**2), 0.0)
        first, self._last, _, self.sure = hull(self._all, thresholds(noisy.values.size), n)
        self.edges = edges[first : self._last + 1]
        self.rows = on_simplex(noisy.values[first : self._last], n)
        self.middles = (self.edges[1:] + self.edges[:-1]) / 2
        self.median = self.quantile(0.5)
        self.unnoticed = math.ceil(UNNOTICED_STDS * noisy.std)

    def quantile(self, share: float) -> float:
        below = np.concatenate([[0.0], np.cumsum(self.rows)])
        return float(np.interp(share * below[-1], below, self.edges))

    @property
    def dimensions(self) -> float:
        """So many normal axes of equal spread have squared norms that spread like these."""
        low, middle = self.quantile(0.16) ** 2, self.median**2
        return 2 * (middle / max(middle - low, 1e-300)) ** 2

    def radii(self) -> Floats:
        """Radii that may be tried."""
        octaves = math.log2(max(self.edges[-1] / self.median, 1.0))
        steps = np.arange(-_NEAREST, math.ceil(_STEPS * octaves) + 1)
        return np.asarray(np.minimum(self.median * 2.0 ** (steps / _STEPS), self.edges[-1]))

    def excess(self, radii: Floats) -> tuple[Floats, Floats]:
        """How far the rows of each bin reach beyond radii; and all rows, by the law of the norms' tail."""
        seen = np.maximum(self.middles - radii[:, None], 0) * self.rows
        whole = self._all
        start = min(int(np.searchsorted(whole.edges, self.quantile(0.16))), self._last - 1)
        near = whole.edges[start]
        tail = fitted(whole.edges[start:] - near, whole.counts[start:], whole.variances[start:], self._last - start)
        return seen, np.sqrt(tail.cut_off(np.maximum(radii - near, 0.0)))


@dataclass
class Shape:
    """An ellipsoid, the error that a unit along each of its axes makes, and what was measured of rows in it."""

    ellipsoid: Ellipsoid
    errors: Floats
    norms: Norms
    cuts: Floats
    pulls: Floats
    """By how much the rows of each shell move the sum, for a unit of their excess over a radius."""

    def pull(self, radii: Floats) -> tuple[Floats, Floats]:
        """How far clipping to radii moves the sum: by the rows seen; and with what the tail may have beside them."""
        excess, by_law = self.norms.excess(radii)
        shells = np.maximum(np.searchsorted(self.cuts, self.norms.middles, side="right") - 1, 0)
        seen = excess @ self.pulls[shells]
        return seen, seen + self.pulls[-1] * np.maximum(by_law - excess.sum(1), 0.0)


def ball(rounds: Rounds) -> Region:
    """Learn where to clip rows: columns with units of their own, or vectors."""
    return region_about(rounds, found_columns(rounds) if rounds.relative else found_vectors(rounds))


def region_about(rounds: Rounds, place: Place) -> Region:
    """The region of least error about a place where the rows are."""
    if not place.found.any():  # what is released says nothing, and costs nothing more
        size = np.asarray(rounds.magnitude, float)
        rows = LearnedRows(np.zeros(rounds.d), 1 / (size * math.sqrt(rounds.d)), size, columns=rounds.source.columns)
        return Region(rows, place.bias, place.found, place.warnings, 0, place.absent)
    shape, error = _measured_about(rounds, place)
    unit = _unit_noise(rounds, float(rounds.left))
    radii = shape.norms.radii()
    noise = unit * radii * length(shape.errors)
    seen, likely = shape.pull(radii)
    best = int(np.argmin(noise**2 + seen**2))
    radius, clip = float(radii[best]), shape.ellipsoid
    reach = clip.reach
    hidden = likely[best] * reach / max(length(reach / place.unit), 1e-300)  # over columns as the noise is
    found = place.found & shape.norms.sure
    outside = float(shape.norms.rows[shape.norms.middles > radius].sum()) / rounds.n
    limits = (None, None) if place.absent is None else (place.lower, place.upper)
    names = rounds.source.columns
    rows = LearnedRows(clip.center, clip.scale / radius, error, clip.axes, min(outside, 1.0), names, *limits)
    return Region(rows, place.bias + hidden, found, place.warnings, shape.norms.unnoticed, place.absent)


# Finding the rows -----------------------------------------------------------------------------------------


def found_vectors(rounds: Rounds) -> Place:
    """A ball about vectors: clipped means, each in the radius that the noise of the one before leaves.

    A pass measures such a mean and the norms about the center before it; it ends where these shrink no more.
    """
    n, d, size = rounds.n, rounds.d, np.asarray(rounds.magnitude, float)
    unit = np.full(d, float(size.max()))
    place = Place(np.zeros(d), unit, -size, size, np.ones(d, np.bool_), 1.0, 1, np.zeros((2, d)))
    noise = _unit_noise(rounds, 1) * math.sqrt(d) / n  # of a clipped mean for the whole budget, in radii
    one_bin = rounds.std(NormHistogram(place.ellipsoid(1.0), np.ones(1)), 1)
    look_share = min(max((STANDS_OUT * one_bin / n) ** 2, LEAST_SHARE), NORMS_SHARE[0])
    share = max((SHRINK * noise) ** 2, LEAST_SHARE)

    def look() -> tuple[Floats, tuple[str, RowMap, float]]:
        edges = edges_below(place.farthest(place.ellipsoid(1.0)))
        return edges, ("norms", NormHistogram(place.ellipsoid(1.0), edges[1:-1]), look_share)

    edges, asked = look()
    place.radius = clip = Norms(edges, rounds.sums(asked)[0], n).median
    while 1 - rounds.left + share + look_share <= MOST_FINDING and place.passes + 4 <= MOST_PASSES:
        row_map = ellipsoid_map(place.ellipsoid(1 / clip), grid_bits(round(n), rounds.privacy.mu))
        edges, asked = look()
        first = place.passes == 1  # the norms about this center are known
        mean, *looked = rounds.sums(("shrink", row_map, share), *([] if first else [asked]))
        place.passes += 1
        if looked:
            median = Norms(edges, looked[0], n).median
            ended = median > SMALLER * place.radius or median > 2 * clip
            place.radius = min(median, place.radius)
            if ended:
                break
        place.move(clip * mean.values / n)
        clip = (1 + 1 / math.sqrt(2 * d)) * clip * mean.std * math.sqrt(d) / n  # a deviation above its noise
    return place


def found_columns(rounds: Rounds) -> Place:
    """Columns with units of their own, found one by one and clamped; a unit is the spread of the clamped entries."""
    n, d, size = rounds.n, rounds.d, rounds.magnitude
    one_bin = rounds.std(ColumnHistograms(d, range(d), [np.zeros(1)] * d), 1)
    share = learning_share(2 * n / one_bin)  # places and units take half of what ends take
    before = len(rounds.steps)
    columns = ColumnSearch(rounds, share, _unit_noise(rounds, 1 - share) / 2)
    ends = columns.ends(columns.count_beyond(columns.ends()))
    found = np.array([end.sure for end in ends])
    center, spread = np.array([_spread(columns, j, end) for j, end in enumerate(ends)]).T * size
    lower, upper = (size * np.array(side) for side in ([end.low for end in ends], [end.high for end in ends]))
    lower, upper = np.where(found, lower, 0.0), np.where(found, upper, 0.0)
    center = np.clip(center, lower, upper)
    bias = np.array([end.bias for end in ends]).T * size
    passes = len(rounds.steps) - before
    return Place(
        center,
        spread,
        lower,
        upper,
        found,
        math.sqrt(d),
        passes,
        bias,
        columns.absent(center),
        far_warnings(rounds, ends),
    )


def _spread(columns: ColumnSearch, j: int, end: Ends) -> tuple[float, float]:
    """Median and standard deviation of a column's clamped entries, in units of its magnitude."""
    histogram = columns.columns[j].histogram
    n = columns.rows(histogram)
    first, last, _, _ = hull(histogram, columns.limits, n)
    edges = histogram.edges[first : last + 1]
    rows = on_simplex(histogram.counts[first:last], max(n, 1.0))
    below = np.concatenate([[0.0], np.cumsum(rows)])
    middles = np.clip((edges[1:] + edges[:-1]) / 2, end.low, end.high)
    shares = rows / below[-1]
    variance = shares @ ((middles - shares @ middles) ** 2 + np.diff(edges) ** 2 / 12)
    return float(np.interp(below[-1] / 2, below, edges)), max(math.sqrt(variance), 1e-12 * (end.high - end.low), 1e-300)


# Measuring them -------------------------------------------------------------------------------------------


def center_and_spreads(rounds: Rounds, place: Place) -> tuple[Floats, Floats]:
    """Move to a better center; the columns' mean absolute values about the old one, and the noise of the new one.

    Where errors count in each column's own spread, these become the units.
    """
    row_map = SignedParts(place.ellipsoid(1 / place.radius))
    share = _unit_noise(rounds, 1) * math.sqrt(rounds.d) / rounds.n
    noisy = rounds.sum("center", place.clamped(row_map), min(max(share, CENTER_SHARE[0]), CENTER_SHARE[1]))
    place.passes += 1
    over, under = (place.radius * part / rounds.n for part in row_map.split(noisy.values))
    std = math.sqrt(2) * place.radius * noisy.std / rounds.n
    place.move(over - under)
    error = std * place.unit
    spreads = shrunk(over + under, std, place.found)
    if rounds.relative:
        place.unit, spreads = place.unit * spreads, np.ones(rounds.d)
        place.radius = _MEDIAN * math.sqrt(rounds.d)
    return spreads, error


def _measured_about(rounds: Rounds, place: Place) -> tuple[Shape, Floats]:
    """The shape of rows about a better center, and the std of that center's noise in each column."""
    d = rounds.d
    spreads, error = center_and_spreads(rounds, place)
    weights = 1 / np.sqrt(spreads * spreads[place.found].sum())
    clip = place.ellipsoid(weights)
    shape = _measured(rounds, place, clip, clip.unscale / place.unit, _MEDIAN)
    few = shape.norms.dimensions
    clear = _unit_noise(rounds, AXES_SHARE) * math.sqrt(d) / rounds.n
    even = place.unit[place.found].max() <= _EVEN * place.unit[place.found].min()
    if few < d / 2 and few * clear < 1 and even and d <= MOST_AXES and place.passes + 3 <= MOST_PASSES:
        clip, errors = _axes(rounds, place, shape)
        shape = _measured(rounds, place, clip, errors, shape.norms.median)
    return shape, error


def _measured(rounds: Rounds, place: Place, clip: Ellipsoid, errors: Floats, median: float) -> Shape:
    """Norms of rows in a shape, and the directions of those in shells about where the median norm is expected."""
    edges = edges_below(place.farthest(clip), _FINE)
    histogram, directions = NormHistogram(clip, edges[1:-1]), Directions(clip, median * _SHELLS)
    wanted = (_BULK * BULK_STDS * rounds.std(histogram, 1) / rounds.n) ** 2
    share = min(max(wanted, NORMS_SHARE[0]), NORMS_SHARE[1])
    counts, noisy = rounds.sums(
        ("norms", place.clamped(histogram), share), ("directions", place.clamped(directions), DIRECTIONS_SHARE)
    )
    place.passes += 1
    norms = Norms(edges, counts, rounds.n)
    inside = np.searchsorted(directions.edges, norms.middles, side="right") - 1
    by_noise = noisy.std**2 * (float((errors**2).sum()) - math.sqrt(2 * float((errors**4).sum())))
    pulls = [
        math.sqrt(max(length(clip.restore(total) / place.unit) ** 2 - by_noise, 0.0))
        / max(norms.rows[inside == k].sum(), 1)
        for k, total in enumerate(directions.split(noisy.values))
    ]
    return Shape(clip, errors, norms, directions.edges, np.minimum(pulls, errors.max()))


def _axes(rounds: Rounds, place: Place, shape: Shape) -> tuple[Ellipsoid, Floats]:
    """The ellipsoid of second moments: along an axis it is as long as the square root of the rows' spread there."""
    clip, median = shape.ellipsoid, shape.norms.median
    row_map = SecondMoments(Ellipsoid(clip.center, clip.scale / median, clip.axes))
    noisy = rounds.sum("axes", place.clamped(row_map), AXES_SHARE)
    place.passes += 1
    std = row_map.diagonal_std(noisy.std) / rounds.n
    moments = denoised(row_map.matrix(noisy.values) / rounds.n, std)
    variances, axes = np.linalg.eigh(moments * np.outer(shape.errors, shape.errors))
    spreads = np.sqrt(np.maximum(variances, 1e-12 * variances[-1]))
    scale = np.sqrt(1 / (spreads * spreads.sum())) * median
    _, scale_, axes_ = np.linalg.svd((axes * scale).T / place.unit, full_matrices=False)
    return Ellipsoid(clip.center, scale_, axes_.T), 1 / scale


def denoised(matrix: Floats, std: float) -> Floats:
    """A noisy second moment: eigenvalues above the edge of the noise less what it adds to them, the rest evenly.

    std: of the noise on the diagonal; beside it it is 1/sqrt 2 of that.
    """
    d = len(matrix)
    values, vectors = np.linalg.eigh(matrix)
    kept = values > 1.05 * std * math.sqrt(2 * d)
    held = np.where(kept, values - d * std * std / np.where(kept, values, 1.0), 0.0)
    rest = max((values.sum() - held.sum()) / max(d - kept.sum(), 1), std / math.sqrt(d))
    found: Floats = (vectors * np.maximum(held, rest)) @ vectors.T
    return found


def shrunk(spreads: Floats, std: float, found: NDArray[np.bool_]) -> Floats:
    """Noisy spreads, drawn to their mean by the share of their variance that is noise; never below the noise."""
    known = spreads[found]
    weight = max(0.0, 1 - std * std / max(float(known.var()), 1e-300))
    mean = float(known.mean())
    least = max(std, 1e-9 * float(np.abs(known).max()), 1e-300)
    return np.asarray(np.maximum(mean + weight * (spreads - mean), least))


def _unit_noise(rounds: Rounds, share: float | Fraction) -> float:
    """The noise of a sum of rows clipped to norm 1, for this share of the budget."""
    one = Ellipsoid(np.zeros(rounds.d), np.ones(rounds.d))
    return rounds.std(ellipsoid_map(one, grid_bits(round(rounds.n), rounds.privacy.mu)), share)


def edges_below(farthest: float, steps: int = _COARSE) -> Floats:
    """Edges of norms: so many in an octave, down from the farthest; the first is zero."""
    edges = farthest * 2.0 ** (-np.arange(OCTAVES * steps, -1, -1) / steps)
    return np.concatenate([[0.0], edges[1:]])
