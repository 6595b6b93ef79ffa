"""Contour integrals of the weighted chi-square law: its transform, kept small, and paths to integrate it on.

Symbols: weights a_j, ratios r_j = a_j / max a, and the point t = 1 - 2 s max a of the transform plane, so
that 1 - 2 a_j s = (1 - r_j) + r_j t is a sum of non-negative terms for every real t >= 0. The branch cut is
t <= 0, s = 0 is t = 1, and e^(-s x) = e^(level (t - 1)) with level = x / (2 max a).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats

Complexes = NDArray[np.complex128]
Integrand = Callable[[Complexes, Complexes], Complexes]
Number = TypeVar("Number", Floats, Complexes)

KEPT_WHOLE = 2048  # up to this many weights nothing is compressed
TOP_KEPT = 1024  # of more, this many of the largest are kept as they are
BINS_PER_OCTAVE = 32
NODES_PER_BIN = 8
NEGLIGIBLE = 1e-17  # the path ends where the integrand has fallen by this factor
TURN = 3e-7  # accepted change between step 2h and step h; the error at h is its square [C2]
STEP = 0.13
NARROW = 0.57
BLOCK = 16
CACHED = 1 << 14


def dot(values: Number, others: Number) -> Number:
    """Sums of products along the last axis, in this thread: for so few BLAS starts others, and waits for them."""
    return np.asarray(np.einsum("...j,...j->...", values, others))


class Spectrum:
    """The weights, scaled by their largest, as few nodes with multiplicities [C3]."""

    def __init__(self, weights: Floats, counts: Floats | None = None) -> None:
        self.largest = float(weights.max())
        self.cut = 0.0
        if counts is not None:
            self.ratios, self.nodes, self.counts = weights, weights / self.largest, counts
            self.total, self.size = float(self.nodes @ counts), float(counts.sum())
        else:
            self.ratios = np.sort(weights) / self.largest
            self.total, self.size = float(self.ratios.sum()), float(self.ratios.size)
            self._compress()
        self.gaps = 1.0 - self.nodes

    def _compress(self) -> None:
        if self.size > KEPT_WHOLE:
            self.cut, self.nodes, self.counts = _compress(self.ratios)
        else:
            self.nodes, counts = np.unique(self.ratios, return_counts=True)
            self.counts = counts.astype(np.float64)

    def exact(self) -> Spectrum:
        """The same weights without compression, for points too near the branch cut."""
        nodes, counts = np.unique(self.ratios, return_counts=True)
        return Spectrum(nodes * self.largest, counts.astype(np.float64))

    def fits(self, point: float) -> bool:
        """Whether the compressed nodes serve this saddle point to 1e-12 [C3]."""
        return self.cut * (1.0 - point) <= 0.82

    def tilts(self, point: float) -> tuple[float, float, float]:
        """Scaled derivatives of the log transform: sum w/2, sum w^2/2, sum w^3 with w = r t/(1 - r + r t)."""
        tilt = self.nodes * point / (self.gaps + self.nodes * point)
        weighted = self.counts * tilt
        first, second = float(weighted.sum()), float(dot(weighted, tilt))
        return 0.5 * first, 0.5 * second, float(dot(weighted, tilt * tilt))

    def height(self, point: float) -> tuple[float, float]:
        """(base, anchor) with K(s) - s x = base + (t - 1)(level - anchor) at a real point t.

        Near t = 1 the anchor is the mean: what is large then cancels before it is rounded.
        """
        offset = point - 1.0
        shift = self.nodes * offset
        near = np.abs(shift) < 0.5
        logs = np.where(near, np.log1p(np.where(near, shift, 0.0)), np.log(self.gaps + self.nodes * point))
        if abs(offset) < 1.0:
            return float(-0.5 * dot(logs - shift, self.counts)), 0.5 * self.total
        return float(-0.5 * dot(logs, self.counts)), 0.0

    def log_height(self, point: float, level: float) -> float:
        """K(s) - s x at a real point."""
        base, anchor = self.height(point)
        return base + (point - 1.0) * (level - anchor)

    def log_ratio(self, point: float, offsets: Complexes) -> Complexes:
        """log of transform(t + t offset)/transform(t) for complex offsets in the upper half plane."""
        tilt = self.nodes * point / (self.gaps + self.nodes * point)
        shift, imag = np.multiply.outer(offsets.real, tilt), np.multiply.outer(offsets.imag, tilt)
        real = 1.0 + shift
        angle = dot(np.arctan2(imag, real), self.counts)
        if self.size <= KEPT_WHOLE:
            modulus = dot(np.log(real * real + imag * imag), self.counts)
        else:  # a node that stands for 10^6 weights multiplies the rounding of its logarithm by 10^6
            modulus = dot(np.log1p(shift * (2.0 + shift) + imag * imag), self.counts)
        return np.asarray(-0.25 * modulus - 0.5j * angle)


def _compress(ratios: Floats) -> tuple[float, Floats, Floats]:
    """Largest compressed ratio, nodes and counts that integrate smooth functions of the ratios [C3]."""
    low, top = ratios[:-TOP_KEPT], ratios[-TOP_KEPT:]
    first, last = (math.floor(math.log2(value) * BINS_PER_OCTAVE) for value in (low[0], low[-1]))
    edges = np.exp2(np.arange(first, last + 2.0) / BINS_PER_OCTAVE)
    bounds = np.searchsorted(low, edges)
    bounds[0], bounds[-1] = 0, low.size
    many = np.diff(bounds) > NODES_PER_BIN
    crowded = np.repeat(many, np.diff(bounds))
    sparse = low[~crowded]
    middle, half = 0.5 * (edges[1:] + edges[:-1])[many], 0.5 * (edges[1:] - edges[:-1])[many]
    moments = _chebyshev_moments(low[crowded] if sparse.size else low, np.diff(bounds)[many], middle, half)
    index = np.arange(NODES_PER_BIN)
    angles = np.pi * (index + 0.5) / NODES_PER_BIN
    doubled = np.where(index == 0, 1.0, 2.0)[:, None] / NODES_PER_BIN
    spread = np.cos(np.multiply.outer(index, angles)) * doubled
    nodes = (middle[:, None] + half[:, None] * np.cos(angles)).ravel()
    counts = (moments @ spread).ravel()
    counts = np.append(counts, np.ones(sparse.size + TOP_KEPT))
    return float(low[-1]), np.concatenate([nodes, sparse, top]), counts


def _chebyshev_moments(members: Floats, sizes: NDArray[np.intp], middle: Floats, half: Floats) -> Floats:
    """sum over the members of each bin of T_k(position in the bin), k < NODES_PER_BIN."""
    moments = np.empty((sizes.size, NODES_PER_BIN))
    moments[:, 0] = sizes
    ends = np.cumsum(sizes)
    first = 0
    while first < sizes.size:
        begin = ends[first] - sizes[first]
        # as many bins at a time as fit the cache; a larger bin goes by itself
        last = max(first + 1, int(np.searchsorted(ends, begin + CACHED, side="right")))
        run = slice(first, last)
        starts = ends[run] - sizes[run] - begin
        place = members[begin : ends[last - 1]] - np.repeat(middle[run], sizes[run])
        place /= np.repeat(half[run], sizes[run])
        before, now = np.ones_like(place), place.copy()
        place *= 2.0
        moments[run, 1] = np.add.reduceat(now, starts)
        for k in range(2, NODES_PER_BIN):
            np.subtract(place * now, before, out=before)
            before, now = now, before
            moments[run, k] = np.add.reduceat(now, starts)
        first = last
    return moments


@dataclass
class Path:
    """Nodes t = point (1 + offset) in the upper half plane and the transform on them [C1].

    The lower half follows by symmetry: (1/(2 pi i)) * integral of F dt = point * sum of Im(steps * F) / pi.
    """

    spectrum: Spectrum
    point: float
    offsets: Complexes
    steps: Complexes
    logs: Complexes
    heights: Complexes
    """The function that is integrated, over its value at the saddle; one row each where there are several."""
    integrand: Integrand
    pieces: Callable[[Floats], tuple[Complexes, Complexes]]
    step: float

    def halved(self) -> Path:
        """The same path with twice the nodes; the old ones are kept at even places."""
        size = self.offsets.size
        offsets, slopes = self.pieces(self.step * np.arange(0.5, size))
        logs = self.spectrum.log_ratio(self.point, offsets)
        steps = 0.5 * self.step * slopes
        return Path(
            self.spectrum,
            self.point,
            _interleave(self.offsets, offsets),
            _interleave(0.5 * self.steps, steps),
            _interleave(self.logs, logs),
            _interleave(self.heights, self.integrand(offsets, logs)),
            self.integrand,
            self.pieces,
            0.5 * self.step,
        )

    @property
    def values(self) -> Complexes:
        """The integrand with the steps, whose sum is the integral."""
        return self.steps * self.heights

    def settled(self) -> bool:
        """Whether every second node gives the same sum [C2]."""
        values = self.values
        fine = values.imag.sum(axis=-1)
        coarse = 2.0 * values[..., ::2].imag.sum(axis=-1)
        return bool(np.all(np.abs(fine - coarse) <= TURN * np.abs(fine)))

    def three_degrees(self, ratios: Floats, values: Complexes) -> Floats:
        """sum_k Im(values_k / (1 - 2 a_j s_k)): coordinate j with three degrees of freedom [C5]."""
        out = np.empty(ratios.size)
        rows = max(1, CACHED // self.offsets.size)
        for start in range(0, ratios.size, rows):
            chunk = slice(start, start + rows)
            out[chunk] = dot(self.factors(ratios[chunk]), values).imag
        return out

    def factors(self, ratios: Floats) -> Complexes:
        """1/(1 - 2 a_j s_k), one row a weight."""
        ratio = ratios[:, None]
        return np.asarray(1.0 / ((1.0 - ratio) + ratio * (self.point * (1.0 + self.offsets))))


def _interleave(even: Complexes, odd: Complexes) -> Complexes:
    both = np.empty((*even.shape[:-1], 2 * even.shape[-1]), dtype=np.complex128)
    both[..., 0::2], both[..., 1::2] = even, odd
    return both


@dataclass(frozen=True)
class Poles:
    """Factors (place - t)^-order of an integrand besides the transform; place < t is a pole on the left."""

    places: tuple[float, ...] = ()
    orders: tuple[float, ...] = ()

    def derivatives(self, point: float) -> tuple[float, float, float]:
        """Scaled first three derivatives of -sum order log|place - t|."""
        first = second = third = 0.0
        for place, order in zip(self.places, self.orders, strict=True):
            pull = point / (place - point)
            first += order * pull
            second += order * pull**2
            third += 2.0 * order * pull**3
        return first, second, third


def saddle(spectrum: Spectrum, level: float, poles: Poles, low: float, high: float) -> float:
    """The real t in (low, high) where the integrand is least on the real line; to about 1e-3.

    Newton on log(level t + pulls to the left) - log(pulls to the right), nearly linear in log(t - low) or in
    log((t - low)/(high - t)).
    """
    point = _start(spectrum, level, poles, low, high)
    y = math.log(point - low) - (math.log(high - point) if high < math.inf else 0.0)
    for _ in range(80):
        first, second, _ = spectrum.tilts(point)
        pull, bend, _ = poles.derivatives(point)
        if pull >= 0:
            grows, falls = level * point + pull, first
            slope = 1.0 + bend / grows - (first - second) / falls
        else:
            grows, falls = level * point, first - pull
            slope = 1.0 - (first - second - pull - bend) / falls
        # d log t / dy
        chain = (point - low) / point * ((high - point) / (high - low) if high < math.inf else 1.0)
        move = -math.log(grows / falls) / (slope * chain)
        y = max(-700.0, min(660.0 if high == math.inf else 34.0, y + move))
        growth = math.exp(y)
        point = low + growth if high == math.inf else (low + high * growth) / (1.0 + growth)
        if abs(move) < 1e-3:
            break
    return point


def _start(spectrum: Spectrum, level: float, poles: Poles, low: float, high: float) -> float:
    """The saddle point of the normal law with the same mean and variance."""
    excess = level - 0.5 * spectrum.total
    spread = spectrum.tilts(1.0)[1]
    root = math.sqrt(excess * excess + 4.0 * sum(poles.orders) * spread)
    toward = excess if high < math.inf else abs(excess)
    if toward >= 0:
        reach = (toward + root) / (2.0 * spread)
    else:
        reach = 2.0 * sum(poles.orders) / (root - toward)
    return 1.0 + reach if low == 1.0 or (high == math.inf and excess < 0) else 1.0 / (1.0 + reach)


def trace(
    spectrum: Spectrum,
    point: float,
    poles: Poles,
    low: float,
    high: float,
    integrand: Integrand,
    bend: float | None = None,
) -> Path:
    """A path through the saddle, between the singularities low and high, that has converged [C2].

    integrand(offsets, logs) is the function to integrate, over its value at the saddle. A bend may be
    prescribed.
    """
    _, second, cubed = spectrum.tilts(point)
    _, pull, twist = poles.derivatives(point)
    curvature, third = second + pull, twist - cubed
    left, right = (point - low) / point, (high - point) / point
    if bend is None:
        bend = _bend(second, curvature, third, left, right)
    path = _walk(spectrum, point, _scale(bend, left, right), bend, curvature, integrand)
    for _ in range(10):
        if path.settled():
            return path
        path = path.halved()
    raise ArithmeticError("the contour integral did not converge")


def _scale(bend: float, left: float, right: float) -> float:
    return min(left / (1.0 - bend), right / (1.0 + bend))


def _bend(second: float, curvature: float, third: float, left: float, right: float) -> float:
    """sin w of the hyperbola that follows steepest descent between two singularities [C2].

    second: curvature of the log transform alone; curvature, third: derivatives of the whole exponent;
    left, right: distances from the saddle to the singularities. All in units of the saddle point. Few
    degrees of freedom decay slowly, so there the path must turn to where e^(-s x) decays; with many it may
    go straight up.
    """
    least = min(0.55, 1.0 / math.sqrt(second))
    bend = least
    for _ in range(6):
        want = -_scale(bend, left, right) * third / (3.0 * curvature)
        sine = want / (0.5 + math.sqrt(0.25 + want * want))
        bend = 0.5 * (bend + min(0.6, max(least, sine)))
    return bend


def _hyperbola(scale: float, bend: float) -> Callable[[Floats], tuple[Complexes, Complexes]]:
    """Offsets scale (sin w - sin(w - i tau)), sin w = bend, and their slopes."""
    cosine = math.sqrt(1.0 - bend * bend)

    def pieces(tau: Floats) -> tuple[Complexes, Complexes]:
        sinh, cosh = np.sinh(tau), np.cosh(tau)
        offsets = scale * (-bend * 2.0 * np.sinh(0.5 * tau) ** 2 + 1j * cosine * sinh)
        slopes = scale * (-bend * sinh + 1j * cosine * cosh)
        return offsets, slopes

    return pieces


def _walk(spectrum: Spectrum, point: float, scale: float, bend: float, curvature: float, integrand: Integrand) -> Path:
    """Lay nodes outwards from the saddle until the integrand is negligible."""
    pieces = _hyperbola(scale, bend)
    narrow = scale * math.sqrt(curvature * (1.0 - bend * bend))
    step = 1.0 / math.hypot(1.0 / STEP, narrow / NARROW)
    offsets, slopes, logs, heights = [], [], [], []
    for block in range(100):
        offset, slope = pieces(step * np.arange(float(BLOCK * block), BLOCK * (block + 1)))
        log = spectrum.log_ratio(point, offset)
        offsets.append(offset)
        slopes.append(slope)
        logs.append(log)
        heights.append(integrand(offset, log))
        size = np.abs(heights[-1] * slope) / scale
        if np.all(size[..., -2:] < NEGLIGIBLE):
            break
    steps = step * np.concatenate(slopes)
    steps[0] *= 0.5
    parts = np.concatenate(offsets), steps, np.concatenate(logs), np.concatenate(heights, axis=-1)
    return Path(spectrum, point, *parts, integrand, pieces, step)
