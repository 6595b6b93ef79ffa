"""The law of a norm from a noisy histogram: a posterior mean over smooth laws, plus what the counts say beyond them.

Works on noisy counts and public numbers only.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats
from ..rows import NormLaw
from ..rows.learned import STEP

_NARROW = (0.03, 0.07, 0.15, 0.3, 0.55)
_LEFTS, _RIGHTS = (*_NARROW, 1.0, 1.8), (*_NARROW, 0.75, 1.0, 1.3)
_LEFT, _RIGHT, _TAIL = (w.ravel() for w in np.meshgrid(_LEFTS, _RIGHTS, (0.0, 0.1, 0.25), indexing="ij"))
_SPLIT_PRIOR = -2 * _RIGHT - _LEFT - np.abs(np.log(_LEFT / _RIGHT)) / 2 - np.where(_TAIL > 0, 4.0, 0.0)
_DEGREES, _FAR = (
    w.ravel() for w in np.meshgrid(2.0 ** np.arange(0, 10.5, 0.5), (0.0, 0.01, 0.04, 0.15), indexing="ij")
)
_CHI_PRIOR = 2.0 - np.where(_FAR > 0, 5.0, 0.0)
LOG_PRIOR = np.concatenate([_SPLIT_PRIOR, _CHI_PRIOR])
_PARETO = 2.5  # index of the tails
_QUIETEST = 1e-7  # noise below this share of the rows is taken as this share
_NEGLIGIBLE = math.log(1e3)  # laws so much less likely than the best do not count
_FEWEST_ROWS = 0.01  # where fewer are expected the law ends
_NEAR = 4.0  # octaves
_LATTICE, _FARTHEST = 96, 34  # tabulated: every 1/96 octave up to so many octaves from the mode


def _split(t: Floats) -> Floats:
    """Split normal: mode 0, std `left` below and `right` above."""
    from scipy.special import ndtr

    left, right = _LEFT[:, None], _RIGHT[:, None]
    side = ndtr(t / np.where(t < 0, left, right))
    core: Floats = np.where(t < 0, 2 * left * side, left + right * (2 * side - 1)) / (left + right)
    return core


def _chi(t: Floats) -> Floats:
    """Norms of normal rows of so many columns, median 0."""
    from scipy.special import gammainc, gammaincinv

    half = _DEGREES[:, None] / 2
    core: Floats = gammainc(half, gammaincinv(half, 0.5) * np.exp2(2 * t))
    return core


def _with_tail(core: Floats, share: Floats, t: Floats) -> Floats:
    """This share of the rows has a Pareto law from 0 on instead."""
    far: Floats = core + share[:, None] * (np.maximum(1 - np.exp2(-_PARETO * t), 0) - core)
    return far


@lru_cache(maxsize=1)
def _table() -> Floats:
    """The family's distribution functions of octaves from the middle, on the lattice; a row a member."""
    t = np.arange(-_LATTICE * _FARTHEST, _LATTICE * _FARTHEST + 1) / _LATTICE
    return np.concatenate([_with_tail(_split(t), _TAIL, t), _with_tail(_chi(t), _FAR, t)])


def _places(points: Floats, modes: Floats) -> NDArray[np.int64]:
    """Column of the table for each distance of a point from a mode: the next on the lattice."""
    place = np.rint((points - modes[:, None]) * _LATTICE)
    most = _LATTICE * _FARTHEST
    found: NDArray[np.int64] = np.clip(place + most, 0, 2 * most).astype(np.int64)
    return found


def _bin_masses(log_edges: Floats, modes: Floats) -> Floats:
    """(modes, members, bins), looked up; edges and modes of the rounds lie on the lattice."""
    places = _places(log_edges, modes)
    cdf = _table()[np.arange(len(LOG_PRIOR))[None, :, None], places[:, None, :]]
    masses = np.empty((*cdf.shape[:2], cdf.shape[2] + 1))
    masses[..., 0], masses[..., -1] = cdf[..., 0], 1 - cdf[..., -1]
    np.subtract(cdf[..., 1:], cdf[..., :-1], out=masses[..., 1:-1])
    return masses


def _mixture(weight: Floats, grid: Floats, modes: Floats) -> Floats:
    """Mass of the weighted laws (modes, members) around each radius of the grid."""
    places = _places(grid[:-1] + STEP / 2, modes)
    cdf = np.take_along_axis(weight @ _table(), places, axis=1).sum(0)
    return np.diff(np.concatenate([[0.0], cdf, [1.0]]))


class _Departures:
    """How the true law may differ from the family: smooth over half an octave, fading fast above the typical radius."""

    def __init__(self, log_edges: Floats, typical: float, noise: float) -> None:
        first, last = log_edges[0], log_edges[-1]
        self.middle = np.concatenate([[first], (log_edges[1:] + log_edges[:-1]) / 2, [last]])
        width = np.minimum(np.diff(np.concatenate([[first - 0.25], log_edges, [last + 0.25]])), 0.5)
        size = 0.06 * width * np.exp(-2 * np.maximum(self.middle - typical - 0.5, 0))
        distance = np.abs(np.subtract.outer(self.middle, self.middle))
        cover = np.outer(size, size) * np.exp(-distance / 0.5)
        total = cover + np.eye(len(self.middle)) * noise**2
        self.white = np.linalg.inv(np.linalg.cholesky(total))
        self.smoother = cover @ np.linalg.inv(total)
        self.sure = noise * np.sqrt((self.smoother**2).sum(1))

    def rest(self, departure: Floats, typical: float, noise: float) -> Floats:
        """What a departure from the fit surely holds: its smooth part, and single bins far beyond the noise."""
        smooth = self.smoother @ departure
        high = np.clip((self.middle - typical) * 1.5, 0, 1)
        smooth = _shrunk(smooth, np.where(smooth > 0, 1 + 2.2 * high, 1.0) * self.sure)
        return smooth + _shrunk(departure - smooth, 4.5 * noise)


def _shrunk(values: Floats, limit: Any) -> Floats:
    found: Floats = values * np.maximum(0, 1 - limit**2 / np.maximum(values**2, 1e-300))
    return found


def fit_norm_law(counts: Floats, noise_std: float, edges: Floats, n: float, typical: float | None = None) -> NormLaw:
    """The law behind noisy counts of norms among edges; `typical` is where its median is expected."""
    log_edges = np.log2(edges)
    middle = float(log_edges.mean()) if typical is None else math.log2(typical)
    noise = max(noise_std / n, _QUIETEST)
    shares = counts / n
    grid = np.arange(log_edges[0] - 1, log_edges[-1] + 1, STEP)
    departures = _Departures(log_edges, middle, noise)
    modes = _modes(grid, typical)
    masses = _bin_masses(log_edges, modes)
    # One product of two matrices: a product for each mode would start BLAS's threads anew, and wait for them.
    white = (shares - masses).reshape(-1, len(shares)) @ departures.white.T
    misfit = np.einsum("ij,ij->i", white, white).reshape(masses.shape[:2]) / 2
    log_weight = LOG_PRIOR - misfit
    log_weight -= log_weight.max()
    weight = np.where(log_weight > -_NEGLIGIBLE, np.exp(log_weight), 0.0)
    weight /= weight.sum()
    fitted = np.tensordot(weight, masses, 2)
    rest = departures.rest(shares - fitted, middle, noise)
    mass = _with_rest(_mixture(weight, grid, modes), rest, np.searchsorted(log_edges, grid))
    beyond = np.cumsum(mass[::-1])[::-1]
    mass[beyond < _FEWEST_ROWS / n] = 0.0
    return NormLaw(grid, mass / mass.sum())


def _modes(grid: Floats, typical: float | None) -> Floats:
    """Where the middle of the law may be: within a few octaves of what is expected, or anywhere."""
    if typical is None:
        return grid[:: 4 if len(grid) > 300 else 1]
    return grid[np.abs(grid - math.log2(typical)) <= _NEAR]


def _with_rest(mass: Floats, rest: Floats, owner: Any) -> Floats:
    """Masses with the rest of each bin added: in proportion where the bin has mass, evenly where it has none."""
    bins = len(rest)
    have = np.bincount(owner, weights=mass, minlength=bins)
    places = np.maximum(np.bincount(owner, minlength=bins), 1)
    scale = np.maximum(1 + rest / np.maximum(have, 1e-12), 0)
    even = np.maximum(mass + (rest / places)[owner], 0)
    mass = np.maximum(np.where((have > 0.2 * np.abs(rest))[owner], mass * scale[owner], even), 0.0)
    total: Floats = mass / mass.sum()
    return total
