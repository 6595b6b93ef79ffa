"""What clipping to an ellipsoid removes from normal rows: exact expectations, and their slope in the shape.

A row u has independent N(0, t_j^2) coordinates and is clipped to ‖b u‖ <= 1, so Y = ‖b u‖^2 = sum a_j Z_j^2
with a_j = (b_j t_j)^2 and the clip removes r = u (1 - Y^-1/2)_+. Needed: E[Z_j^2 (1 - Y^-1/2)_+^k], k = 1, 2
[C6].
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from ..errors import Floats
from .contour import CACHED, Complexes, Path, Poles, Spectrum, dot, saddle, trace

AWAY = -0.5  # bend of a path that turns away from the branch cut
TINY = 1e-300
_FAR = 40.0
_TERMS = np.arange(1, 31)
_HALVES = special.binom(-0.5, _TERMS)
_FACTORIALS = special.factorial(_TERMS)
_SERIES = np.array([-_HALVES, np.where(_TERMS % 2 == 0, 1.0, -1.0) - 2.0 * _HALVES]) * _FACTORIALS


def scaled_transforms(w: Complexes) -> Complexes:
    """Integrals over t > 0 of (1 - (1 + t)^-1/2)^k e^(-w t), k = 1, 2, for w off the negative axis [C6]."""
    far = np.abs(w) >= _FAR
    if not far.any():
        return _transforms_nearby(w)
    both = np.empty((2, *w.shape), np.complex128)
    both[:, far] = _transforms_far_out(w[far])
    both[:, ~far] = _transforms_nearby(w[~far])
    return both


def _transforms_nearby(w: Complexes) -> Complexes:
    root = np.sqrt(w)
    half = math.sqrt(math.pi) / root * special.wofz(1j * root)
    whole = np.exp(w) * special.exp1(w)
    return np.array([1.0 / w - half, 1.0 / w - 2.0 * half + whole])


def _transforms_far_out(w: Complexes) -> Complexes:
    inverse = 1.0 / w
    total = np.zeros((2, *w.shape), np.complex128)
    for values in _SERIES.T[::-1]:
        total = inverse * (values[:, None] + total)
    return inverse * total


@dataclass
class Clipped:
    """Contour nodes with the two clip functions on them: E[f(Z) (1 - Y^-1/2)_+^k] = sum Im(values_k F)."""

    path: Path
    largest: float
    first: Complexes
    second: Complexes

    @property
    def points(self) -> Complexes:
        """s at the nodes."""
        return np.asarray((1.0 - self.path.point * (1.0 + self.path.offsets)) / (2.0 * self.largest))

    def moments(self, weights: Floats) -> tuple[Floats, Floats]:
        """E[Z_j^2 (1 - Y^-1/2)_+^k] for k = 1, 2 and every weight."""
        ratios = weights / self.largest
        return self.path.three_degrees(ratios, self.first), self.path.three_degrees(ratios, self.second)


def clipped(weights: Floats, counts: Floats | None = None) -> Clipped:
    """Integrate the clip functions at Y > 1 for Y = sum a_j Z_j^2 (counts: how often each weight occurs)."""
    spectrum = Spectrum(weights, counts)
    level = 0.5 / spectrum.largest
    # the transform of the second clip function is near 1/(w (1 + sqrt(2) w)^2), w = s = level (1 - t)
    poles = Poles((1.0, 1.0 + 1.0 / (math.sqrt(2.0) * level)), (1.0, 2.0))
    point = saddle(spectrum, level, poles, 0.0, 1.0)
    if not spectrum.fits(point):
        spectrum = spectrum.exact()
    gap = level * (1.0 - point)
    scale = float(scaled_transforms(np.array([gap + 0j]))[1][0].real)

    def integrand(offsets: Complexes, logs: Complexes) -> Complexes:
        both = scaled_transforms(gap - (level * point) * offsets)
        return np.asarray(np.exp(logs + (level * point) * offsets) * both / scale)

    path = trace(spectrum, point, poles, 0.0, 1.0, integrand, AWAY if _all_clipped(spectrum, level) else None)
    height = math.exp(spectrum.log_height(point, level))
    values = path.values * (scale * height * level * point / math.pi)
    return Clipped(path, spectrum.largest, values[0], values[1])


def _all_clipped(spectrum: Spectrum, level: float) -> bool:
    """Whether P[Y <= 1] is negligible, by its Chernoff bound: then another path is allowed [C6]."""
    if level > 0.5 * spectrum.total:  # 1 is above the mean
        return False
    return spectrum.log_height(saddle(spectrum, level, Poles(), 0.0, math.inf), level) < -45.0


@dataclass(frozen=True)
class Offsets:
    """The law of a row about the stated center: independent normals, in part the error of the center itself.

    stds: t_j, root mean square offset; shared: rho_j, the share of t_j^2 that is the center's error, common to
    all rows; importance: weight of coordinate j's squared error; counts: how many coordinates each entry
    stands for.
    """

    stds: Floats
    shared: Floats
    importance: Floats
    counts: Floats

    @staticmethod
    def about(stds: Floats, center_error: Floats, importance: Floats | None = None) -> Offsets:
        """Rows N(c + e, stds^2) with e ~ N(0, (center_error stds)^2)."""
        inflation = 1.0 + center_error**2
        ones = np.ones_like(stds)
        return Offsets(
            stds * np.sqrt(inflation), center_error**2 / inflation, ones if importance is None else importance, ones
        )

    @property
    def blend(self) -> Floats:
        """v = 2 rho/(1 + rho), of the coordinate or of all together if that is larger [E14]."""
        weight = self.counts * self.stds**2
        together = float(weight @ self.shared) / float(weight.sum())
        share = np.maximum(self.shared, together)
        return 2.0 * share / (1.0 + share)

    def common(self, first: Floats, second: Floats) -> Floats:
        """E_e (E[r_j | e])^2 / t_j^2, about rho_j first^(2 - 2v) second^v [E14]."""
        blend = self.blend
        return self.shared * np.maximum(first, TINY) ** (2.0 - 2.0 * blend) * np.maximum(second, TINY) ** blend


@dataclass(frozen=True)
class Removal:
    """Per coordinate, over t_j^2: what the clip removes from a row and from the mean row [E13]."""

    first: Floats
    second: Floats
    common: Floats

    def pulled(self, offsets: Offsets, pull: float) -> Removal:
        """What is removed where clipped rows are brought to `pull` times the radius [E16]."""
        if pull == 1:
            return self
        more = 1.0 - pull
        tail = np.minimum(2.0 * self.first**2 / np.maximum(self.second, TINY), 1.0)  # about E[Z^2; Y > 1]
        first = self.first + more * (tail - self.first)
        second = self.second + 2.0 * more * (self.first - self.second)
        second = second + more * more * (tail - 2.0 * self.first + self.second)
        return Removal(first, second, offsets.common(first, second))

    def error(self, offsets: Offsets, n: float) -> float:
        """E‖sum of removed parts‖^2, weighted by importance."""
        each = n * self.second + n * (n - 1.0) * self.common
        return float((offsets.importance * offsets.counts * offsets.stds**2) @ each)


def removal(offsets: Offsets, weights: Floats) -> Removal:
    """What the clip with a_j = weights removes."""
    counts = None if np.all(offsets.counts == 1.0) else offsets.counts
    first, second = clipped(weights, counts).moments(weights)
    return Removal(first, second, offsets.common(first, second))


def error_and_slope(
    offsets: Offsets, weights: Floats, n: float, noise_multiplier: float
) -> tuple[float, Floats, Floats]:
    """Total squared error of a sum [E13], its slope in each log a_j [E15], and the noise by coordinate."""
    square = offsets.importance * offsets.stds**2
    contour = clipped(weights, offsets.counts)
    ratios, points = weights / contour.largest, contour.points
    lines, slopes = np.zeros((2, points.size), dtype=np.complex128), np.empty_like(weights)
    first, second = np.empty_like(weights), np.empty_like(weights)
    heights: Complexes = np.array([contour.first, contour.second])
    rows = max(1, 8 * CACHED // points.size)
    chunks = [slice(start, start + rows) for start in range(0, weights.size, rows)]

    def factors(chunk: slice) -> Complexes:
        return contour.path.factors(ratios[chunk])

    for chunk in chunks:
        first[chunk], second[chunk] = dot(heights[:, None], factors(chunk)).imag
    common = offsets.common(first, second)
    blend, pairs = offsets.blend, n * (n - 1.0) * square * common
    by_first = pairs * (2.0 - 2.0 * blend) / np.maximum(first, TINY)
    by_second = n * square + pairs * blend / np.maximum(second, TINY)
    for chunk in chunks:
        share = offsets.counts[chunk] * np.array([by_first[chunk], by_second[chunk]])
        lines += np.einsum("kj,jp->kp", share, factors(chunk))
    pulls = points * heights
    line = (pulls * lines).sum(axis=0)
    for chunk in chunks:
        factor = factors(chunk)
        twice = dot(pulls[:, None], factor * factor).imag
        slopes[chunk] = dot(factor, line).imag + 2.0 * (by_first[chunk] * twice[0] + by_second[chunk] * twice[1])
    noise = noise_multiplier**2 * offsets.counts * square / weights
    total = float(noise.sum() + offsets.counts @ (n * square * second + pairs))
    return total, offsets.counts * weights * slopes - noise, noise
