"""The region of many columns, or of vectors under one norm: an ellipsoid, for a release with Gaussian noise.

1. Find the rows: locate named columns one by one (columns.py); shrink a ball about vectors.
2. Measure center and spreads: clipped rows are split into positive and negative parts. The difference of the parts is
   the mean, and their sum the mean absolute value.
3. Count norms of rows in units of these spreads, and sum the directions of rows in several shells.
4. Measure axes of vectors from second moments if most rows lie near few directions; then repeat 3.
5. Choose the radius with the least expected noise^2 + bias^2.
Errors are lengths over all columns. The unit of a named column is its spread; all columns of vectors share one unit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats
from ..regions.ellipsoid import Ellipsoid, length
from ..row_maps.histograms import Directions, NormHistogram, SecondMoments, SignedParts
from ..row_maps.maps import RowMap
from ..rows import LearnedRows
from .columns import find_columns
from .constants import (
    INTERVAL_LEVEL,
    LEAST_SHARE,
    MEASURE_SHARE,
    MEDIAN_NORM,
    MOST_AXES,
    MOST_FINDING,
    OCTAVES,
    SHELLS,
    SHRINK,
    SMALLER,
    STEP,
    UNNOTICED_STDS,
)
from .histograms import Histogram, noise_limit, thresholds
from .rounds import NoisySum, Region, Rounds
from .tails import Tail


def norm_edges(region: Region, clip: Ellipsoid) -> Floats:
    """Edges of bins of norms in an ellipsoid, which grow by the same ratio out to where no row is farther."""
    sides = np.maximum(region.upper - region.center, region.center - region.lower)
    matrix = clip.matrix
    farthest = 2 * length(clip.scale * sides if matrix is None else np.abs(matrix) @ sides)
    return np.append(0.0, farthest * 2.0 ** -np.arange(OCTAVES, -STEP, -STEP))


def count_norms(
    rounds: Rounds, region: Region, clip: Ellipsoid, share: float, *others: tuple[str, RowMap, float]
) -> tuple[Histogram, list[NoisySum]]:
    """The noisy histogram of the norms of rows in an ellipsoid, and the sums of other rounds in the same pass."""
    edges = norm_edges(region, clip)
    noisy, *sums = rounds.sums(("norms", region.clamp(NormHistogram(clip, edges[1:-1])), share), *others)
    return Histogram(edges, noisy.values, noisy.std, rounds.n, thresholds(noisy.values.size)), sums


@dataclass
class Shape:
    """An ellipsoid, and noisy measurements of rows in it.

    errors: the error of a unit along each axis. cuts: the inner radii of the shells. totals: (shells, d), noisy sums of
    the directions of each shell's rows, in original units. noise: the std of the noise in a total along an axis.
    """

    ellipsoid: Ellipsoid
    errors: Floats
    norms: Histogram
    cuts: Floats
    totals: Floats
    noise: float

    def __post_init__(self) -> None:
        hull, middles = self.norms.hull, self.norms.middles
        self.middles = middles[hull.first : hull.last]
        shells = np.maximum(np.searchsorted(self.cuts, self.middles, side="right") - 1, 0)
        self.rows_by_shell = self.norms.filled[:, None] * (shells[:, None] == np.arange(len(self.totals)))
        self.shell_rows = self.rows_by_shell.sum(axis=0)

    def excess(self, radii: Floats) -> Floats:
        """(radii, shells): the sum of the distances by which the rows of each shell exceed each radius."""
        return np.asarray(np.maximum(self.middles - radii[:, None], 0) @ self.rows_by_shell)

    def pull(self, radii: Floats, unit: Floats) -> Floats:
        """How far clipping to each radius moves the sum, without the part that noise explains."""
        squares = self.errors**2
        by_noise = self.noise**2 * (squares.sum() - math.sqrt(2 * (squares**2).sum()))
        lengths = np.sqrt(np.maximum(np.sum((self.totals / unit) ** 2, axis=1) - by_noise, 0.0))
        return np.asarray(self.excess(radii) @ np.minimum(lengths / np.maximum(self.shell_rows, 1), self.errors.max()))

    def bias(self, radius: float, std: Floats) -> Floats:
        """(2, d): the most by which clipping to a radius raises, and lowers, the sum of each column.

        std: of the noise of the release; the noise of the measured directions is added to it. The last shell reaches as
        far as the posterior of the norms' tail allows.
        """
        edges, last = self.norms.edges, self.norms.hull.last
        start = min(int(np.searchsorted(edges, self.norms.quantile(0.16))), last - 1)
        tail = Tail(edges[start:] - edges[start], self.norms.counts[start:], self.norms.variances[start:], last - start)
        excess = self.excess(np.array([radius]))[0]
        excess[-1] += max(tail.bound(max(radius - edges[start], 0.0)) - excess.sum(), 0.0)
        hidden = self.noise * math.sqrt(std.size)  # Noise hides a smaller number of rows.
        each = excess / np.maximum(self.shell_rows, hidden)
        lost, noise = each @ self.totals, length(each) * self.noise * self.ellipsoid.reach
        return np.asarray(
            np.maximum(np.stack([-lost, lost]), 0.0)
            + noise_limit((1 - INTERVAL_LEVEL) / 2) * (np.hypot(noise, std) - std)
        )


def learn_bounds(rounds: Rounds) -> Region:
    """The default method: ends of columns, or an ellipsoid about columns or vectors."""
    is_box = rounds.split.is_box
    region = find_columns(rounds) if is_box or rounds.has_units else find_vectors(rounds)
    return region if is_box else clip_about(rounds, region)


def find_vectors(rounds: Rounds) -> Region:
    """Find a ball about vectors by clipped means: the noise of each mean gives the radius of the next one.

    A pass measures a mean, and the norms about the center before it. Passes end when the norms shrink no more.
    """
    n, d = rounds.n, rounds.d
    region = rounds.whole_range()
    noise = rounds.unit_noise(1) * math.sqrt(d) / n  # of a clipped mean for the whole budget, in radii
    share = max((SHRINK * noise) ** 2, LEAST_SHARE)
    norms, _ = count_norms(rounds, region, region.ellipsoid(), LEAST_SHARE)
    clip = radius = norms.quantile(0.5)
    region.radius = 2 * clip
    while 1 - rounds.left + share + LEAST_SHARE <= MOST_FINDING and rounds.passes_left >= 4:
        shrink = "shrink", rounds.clip(region.ellipsoid(1 / clip)), share
        norms, (mean,) = count_norms(rounds, region, region.ellipsoid(), LEAST_SHARE, shrink)
        radius = norms.quantile(0.5)
        if radius > SMALLER * region.radius:
            break
        if radius > 2 * clip:  # The last mean missed the rows: repeat it in a ball that holds them.
            clip = radius
            continue
        region.radius = radius
        region.move(clip * mean.values / n)
        # The noise of the mean has this length, plus one standard deviation of it.
        clip = (1 + 1 / math.sqrt(2 * d)) * clip * mean.std * math.sqrt(d) / n
    region.radius = min(region.radius, radius)
    return region


# Measuring them -------------------------------------------------------------------------------------------


def clip_about(rounds: Rounds, region: Region) -> Region:
    """Choose the ellipsoid with the least expected error about a place where rows were found."""
    names = rounds.source.columns
    if not region.found.any():  # Nothing more is charged: the release carries no information.
        widest = 1 / (rounds.magnitude * math.sqrt(rounds.d))
        return replace(region, clip=LearnedRows(np.zeros(rounds.d), widest, rounds.magnitude, columns=names))
    spreads, error = center_and_spreads(rounds, region)
    shape = measure_shape(rounds, region, spreads)
    unit, median = rounds.unit_noise(rounds.left), shape.norms.quantile(0.5)
    octaves = math.log2(max(shape.norms.edges[shape.norms.hull.last] / median, 1.0))
    radii = median * 2.0 ** np.arange(-0.5, octaves + STEP, STEP)
    best = int(np.argmin((unit * radii * length(shape.errors)) ** 2 + shape.pull(radii, region.unit) ** 2))
    radius, clip = float(radii[best]), shape.ellipsoid
    outside = float(shape.norms.filled[shape.middles > radius].sum()) / rounds.n
    limits = (None, None) if region.missing_counts is None else (region.lower, region.upper)
    bias = region.bias + shape.bias(radius, unit * radius * clip.reach)
    is_found = region.found & shape.norms.hull.sure
    mean_bias = np.where(is_found, bias.max(axis=0) / rounds.n, rounds.magnitude)
    facts = error, clip.axes, min(outside, 1.0), names, *limits, mean_bias
    return replace(
        region,
        found=is_found,
        bias=bias,
        unnoticed=math.ceil(UNNOTICED_STDS * shape.norms.std),
        clip=LearnedRows(clip.center, clip.scale / radius, *facts),
    )


def center_and_spreads(rounds: Rounds, region: Region) -> tuple[Floats, Floats]:
    """Move to a better center; return the spreads about the old center, and the noise of the new center.

    The spread of a column is its mean absolute value. The spreads of named columns become their units.
    """
    row_map = SignedParts(region.ellipsoid(1 / region.radius))
    noisy = rounds.sum("center", region.clamp(row_map), MEASURE_SHARE)
    over, under = (region.radius * part / rounds.n for part in row_map.split(noisy.values))
    std = math.sqrt(2) * region.radius * noisy.std / rounds.n
    region.move(over - under)
    error = std * region.unit
    spreads = shrink_spreads(over + under, std, region.found)
    if rounds.has_units:
        region.unit, spreads = region.unit * spreads, np.ones(rounds.d)
    return spreads, error


def measure_shape(rounds: Rounds, region: Region, spreads: Floats) -> Shape:
    """The shape of rows about their center: from spreads of columns, or from axes if rows lie near few directions."""
    d = rounds.d
    clip = region.ellipsoid(1 / np.sqrt(spreads * spreads[region.found].sum()))
    shape = measure_norms(rounds, region, clip, clip.unscale / region.unit, MEDIAN_NORM)
    median, low = shape.norms.quantile(0.5), shape.norms.quantile(0.16)
    # The dimension of normal rows whose squared norms have this spread: 16% lie one standard deviation below.
    dimensions = 2 / max(1 - (low / median) ** 2, 1e-100) ** 2
    noise = rounds.unit_noise(MEASURE_SHARE) * math.sqrt(d) / rounds.n
    if rounds.has_units or d > MOST_AXES or rounds.passes_left < 3 or dimensions > min(d / 2, 1 / noise):
        return shape
    return measure_norms(rounds, region, *measure_axes(rounds, region, shape), median)


def measure_norms(rounds: Rounds, region: Region, clip: Ellipsoid, errors: Floats, median: float) -> Shape:
    """Measure norms of rows in an ellipsoid, and their directions in shells about the expected median norm."""
    directions = Directions(clip, median * np.array(SHELLS))
    beside = "directions", region.clamp(directions), MEASURE_SHARE
    norms, (noisy,) = count_norms(rounds, region, clip, MEASURE_SHARE, beside)
    totals = np.array([clip.restore(total) for total in directions.split(noisy.values)])
    return Shape(clip, errors, norms, directions.edges, totals, noisy.std)


def measure_axes(rounds: Rounds, region: Region, shape: Shape) -> tuple[Ellipsoid, Floats]:
    """The ellipsoid of second moments: the length of an axis is the square root of the spread along it."""
    clip, median = shape.ellipsoid, shape.norms.quantile(0.5)
    row_map = SecondMoments(Ellipsoid(clip.center, clip.scale / median))
    noisy = rounds.sum("axes", row_map, MEASURE_SHARE)
    std = row_map.diagonal_std(noisy.std) / rounds.n
    moments = remove_noise(row_map.matrix(noisy.values) / rounds.n, std)
    variances, axes = np.linalg.eigh(moments * np.outer(shape.errors, shape.errors))
    spreads = np.sqrt(np.maximum(variances, 1e-12 * variances[-1]))
    scale = np.sqrt(1 / (spreads * spreads.sum())) * median
    return Ellipsoid(clip.center, scale / float(region.unit[0]), axes), 1 / scale


def remove_noise(matrix: Floats, std: float) -> Floats:
    """Second moments without noise: eigenvalues above the edge of the noise lose its part; the others become equal.

    std: of the noise on the diagonal; entries beside the diagonal have 1/sqrt 2 of it.
    """
    d = len(matrix)
    values, vectors = np.linalg.eigh(matrix)
    clear = values > std * math.sqrt(2 * d)
    reduced = np.where(clear, values - d * std * std / np.where(clear, values, 1.0), 0.0)
    rest = max((values.sum() - reduced.sum()) / max(d - clear.sum(), 1), std / math.sqrt(d))
    return np.asarray((vectors * np.maximum(reduced, rest)) @ vectors.T)


def shrink_spreads(spreads: Floats, std: float, found: NDArray[np.bool_]) -> Floats:
    """Shrink noisy spreads to their mean by the share of noise in their variance. None is below the noise."""
    mean, variance = spreads[found].mean(), max(float(spreads[found].var()), 1e-300)
    shrunk = mean + max(0.0, 1 - std * std / variance) * (spreads - mean)
    return np.asarray(np.maximum(shrunk, max(std, 1e-9 * float(np.abs(spreads[found]).max()), 1e-300)))
