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

_LEFT_WIDTHS = (0.03, 0.07, 0.15, 0.3, 0.55, 1.0, 1.8)
_RIGHT_WIDTHS = (0.03, 0.07, 0.15, 0.3, 0.55, 1.0, 1.6)
_TAILS = (0.0, 0.1, 0.25)
LEFT, RIGHT, TAIL = (w.ravel() for w in np.meshgrid(_LEFT_WIDTHS, _RIGHT_WIDTHS, _TAILS, indexing="ij"))
LOG_PRIOR = -2 * RIGHT - LEFT - np.abs(np.log(LEFT / RIGHT)) / 2 - np.where(TAIL > 0, 4.0, 0.0)
_QUIETEST = 1e-7  # noise below this share of the rows is taken as this share
_NEGLIGIBLE = math.log(1e3)  # laws so much less likely than the best do not count
_LATTICE, _FARTHEST = 96, 34  # tabulated: every 1/96 octave up to so many octaves from the mode


def _cdf(t: Floats, left: Floats, right: Floats, tail: Floats) -> Floats:
    """Split normal: mode 0, std `left` below and `right` above; a share `tail` is half-normal above, one octave."""
    from scipy.special import ndtr

    side = ndtr(t / np.where(t < 0, left, right))
    core = np.where(t < 0, 2 * left * side, left + right * (2 * side - 1)) / (left + right)
    far: Floats = core + tail * (np.maximum(2 * ndtr(t) - 1, 0) - core)
    return far


@lru_cache(maxsize=1)
def _table() -> Floats:
    """The family's distribution functions on the lattice; a row a member."""
    t = np.arange(-_LATTICE * _FARTHEST, _LATTICE * _FARTHEST + 1) / _LATTICE
    return _cdf(t, LEFT[:, None], RIGHT[:, None], TAIL[:, None])


def _places(points: Floats, modes: Floats) -> NDArray[np.int64] | None:
    """Column of the table for each distance of a point from a mode, or None where some are off the lattice."""
    distance = (points - modes[:, None]) * _LATTICE
    place = np.rint(distance)
    if np.abs(distance - place).max() > 1e-6:
        return None
    most = _LATTICE * _FARTHEST
    found: NDArray[np.int64] = np.clip(place + most, 0, 2 * most).astype(np.int64)
    return found


def _bin_masses(log_edges: Floats, modes: Floats) -> Floats:
    """(modes, members, bins): looked up where edges and modes lie on the lattice, as those of the rounds do."""
    places = _places(log_edges, modes)
    if places is None:
        distance = (log_edges - modes[:, None])[:, None, :]
        cdf = _cdf(distance, LEFT[:, None], RIGHT[:, None], TAIL[:, None])
    else:
        cdf = _table()[np.arange(len(LEFT))[None, :, None], places[:, None, :]]
    masses = np.empty((*cdf.shape[:2], cdf.shape[2] + 1))
    masses[..., 0], masses[..., -1] = cdf[..., 0], 1 - cdf[..., -1]
    np.subtract(cdf[..., 1:], cdf[..., :-1], out=masses[..., 1:-1])
    return masses


def _mixture(weight: Floats, grid: Floats, modes: Floats) -> Floats:
    """Mass of the weighted laws (modes, members) around each radius of the grid."""
    places = _places(grid[:-1] + STEP / 2, modes)
    assert places is not None  # modes are radii of the grid
    cdf = np.take_along_axis(weight @ _table(), places, axis=1).sum(0)
    return np.diff(np.concatenate([[0.0], cdf, [1.0]]))


class _Departures:
    """How the true law may differ from the family: smooth over half an octave, fading above the typical radius."""

    def __init__(self, log_edges: Floats, typical: float, noise: float) -> None:
        first, last = log_edges[0], log_edges[-1]
        self.middle = np.concatenate([[first], (log_edges[1:] + log_edges[:-1]) / 2, [last]])
        width = np.minimum(np.diff(np.concatenate([[first - 0.25], log_edges, [last + 0.25]])), 0.5)
        size = 0.06 * width * np.exp(-np.maximum(self.middle - typical - 1.5, 0))
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
    modes = grid[:: 4 if len(grid) > 300 else 1]
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
    return NormLaw(grid, _with_rest(_mixture(weight, grid, modes), rest, np.searchsorted(log_edges, grid)))


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
