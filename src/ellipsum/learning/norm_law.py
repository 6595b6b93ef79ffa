"""The law of a norm from a noisy histogram: a posterior mean over smooth laws, plus what the counts say beyond them.

Works on noisy counts and public numbers only.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats
from ..rows import NormLaw
from ..rows.learned import STEP
from .chance import reach

_PARETO = 2.5  # index of a Pareto tail
_NARROW = (0.03, 0.07, 0.15, 0.3, 0.55)
_LEFTS, _RIGHTS = (*_NARROW, 1.0, 1.8), (*_NARROW, 0.75, 1.0, 1.3)
_SPLITS = [
    *product(_LEFTS, (*_RIGHTS, 1.8, 2.5), [(0.0, 0.0)], [0.0]),
    *product(_LEFTS, _RIGHTS, [(0.1, 0.0), (0.25, 0.0)], [-4.0]),
    *product((0.15, 0.55, 1.0, 1.8), (0.07, 0.3, 0.75), product((0.1, 0.25, 0.4), (1.4, 2.5)), [-5.5]),
]
"""Std below and above the mode, in octaves; the share of the rows in a tail; how likely a tail is beforehand, as a log.

A tail is Pareto's, or, where it has a width, half of a normal law in octaves, as of incomes."""
_LEFT, _RIGHT = (np.array([split[i] for split in _SPLITS]) for i in (0, 1))
_TAIL, _WIDTH = (np.array([split[2][i] for split in _SPLITS]) for i in (0, 1))
_SPLIT_PRIOR = -2 * _RIGHT - _LEFT - np.abs(np.log(_LEFT / _RIGHT)) / 2 + np.array([split[3] for split in _SPLITS])
_DEGREES, _FAR = (
    w.ravel() for w in np.meshgrid(2.0 ** np.arange(0, 10.5, 0.5), (0.0, 0.01, 0.04, 0.15), indexing="ij")
)
_CHI_PRIOR = 2.0 - np.where(_FAR > 0, 5.0, 0.0)
LOG_PRIOR = np.concatenate([_SPLIT_PRIOR, _CHI_PRIOR])
_QUIETEST = 1e-7  # noise below this share of the rows is taken as this share
_LOUD = 0.004  # noise above this share tells modes apart to an eighth of an octave at best
_NEGLIGIBLE = math.log(1e3)  # laws so much less likely than the best do not count
_FEWEST_ROWS = 0.01  # where fewer are expected the law ends
_NEAR = 4.0  # octaves
_UNLIKELY = 1.0  # for each octave between the middle and where it is expected, as a log
_FAR_HUMP, _SURE_HUMP, _LEAST_HUMP = 3.0, 6.0, 0.05  # octaves beyond the middle, stds of the noise, share of the rows
_QUIET = 0.01  # noise, as a share of the rows that do not all have one norm
_LEAST_LUMP, _LUMP, _SURE_LUMP = 0.05, 3.0, 10.0  # share of the rows, times what is beside it, stds of the noise
_SURE_BIN = 4.5  # stds of the noise: a single bin holds more or fewer rows than the others let expect
_NEAR_TAIL, _EACH_OCTAVE, _FAR_TAIL = 2.5, 0.45, 5.0  # stds of the noise: rows above the middle are no accident
_EACH_OCTAVE_PURE = 0.5  # windows of several bins have longer tails, too
_ABOVE, _WIDEST_TAIL = 1.0, 16  # octaves above the middle, bins
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


def _with_tail(core: Floats, share: Floats, width: Floats, t: Floats) -> Floats:
    """This share of the rows has a law from 0 on instead: Pareto's, or with a width half of a normal one."""
    from scipy.special import erf

    above = np.maximum(t, 0)
    normal = erf(above / np.maximum(width * math.sqrt(2), 1e-9)[:, None])
    tail = np.where(width[:, None] > 0, normal, 1 - np.exp2(-_PARETO * above))
    mixed: Floats = core + share[:, None] * (tail - core)
    return mixed


@lru_cache(maxsize=1)
def _table() -> Floats:
    """The family's distribution functions of octaves from the middle, on the lattice; a column a member."""
    t = np.arange(-_LATTICE * _FARTHEST, _LATTICE * _FARTHEST + 1) / _LATTICE
    laws = [_with_tail(_split(t), _TAIL, _WIDTH, t), _with_tail(_chi(t), _FAR, np.zeros_like(_FAR), t)]
    return np.ascontiguousarray(np.concatenate(laws).T)


def _places(points: Floats, modes: Floats) -> NDArray[np.int64]:
    """Row of the table for each distance of a point (down) from a mode (across): the next on the lattice."""
    place = np.rint((points[:, None] - modes) * _LATTICE)
    most = _LATTICE * _FARTHEST
    found: NDArray[np.int64] = np.clip(place + most, 0, 2 * most).astype(np.int64)
    return found


@lru_cache(maxsize=1)
def _rough_table() -> NDArray[np.float32]:
    """The table with seven digits, which are enough where noise is loud."""
    return _table().astype(np.float32)


def _below(log_edges: Floats, modes: Floats, noise: float) -> NDArray[Any]:
    """Share of the rows below each edge (down) for each mode and member (across).

    Looked up; edges and modes of the rounds lie on the lattice.
    """
    table: NDArray[Any] = _rough_table() if noise > _LOUD else _table()
    return np.take(table, _places(log_edges, modes), axis=0).reshape(len(log_edges), -1)


def _between(below: Floats) -> Floats:
    """Share of the rows in each bin, from what is below its edges."""
    return np.diff(below, prepend=0.0, append=1.0, axis=0)


def _mixture(weight: Floats, grid: Floats, modes: Floats) -> Floats:
    """Mass of the weighted laws (modes, members) around each radius of the grid."""
    likely, members = weight.any(axis=1), weight.any(axis=0)  # few are
    places = _places(grid[:-1] + STEP / 2, modes[likely])
    first = places.min()
    laws = _table()[first : places.max() + 1, members] @ weight[np.ix_(likely, members)].T
    return _between(np.take_along_axis(laws, places - first, axis=0).sum(1))


class _Departures:
    """How the true law may differ from the family: smooth over half an octave, fading fast above the typical radius."""

    def __init__(self, log_edges: Floats, typical: float, noise: float, pure: bool) -> None:
        self.pure = pure
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
        """What a departure from the fit surely holds: its smooth part, single bins far beyond the noise, and tails."""
        smooth = self.smoother @ departure
        high = np.clip((self.middle - typical) * 1.5, 0, 1)
        smooth = _shrunk(smooth, np.where(smooth > 0, 1 + 2.2 * high, 1.0) * self.sure)
        beyond = self.middle - typical
        sure = np.maximum(_limits(beyond, self.pure), _SURE_BIN)
        found = smooth + _shrunk(departure - smooth, reach(sure, 1, self.pure) * noise)
        return _tails(found, departure, noise, beyond, self.pure)


def _limits(beyond: Floats, pure: bool) -> Floats:
    """How many stds of the noise rows so many octaves above the middle are: the further, the worse an accident."""
    each = _EACH_OCTAVE_PURE if pure else _EACH_OCTAVE
    return np.clip(_NEAR_TAIL + each * beyond, _NEAR_TAIL, _FAR_TAIL)


def _tails(found: Floats, departure: Floats, noise: float, beyond: Floats, pure: bool = False) -> Floats:
    """What was found, and in neighboring bins above the middle that together surely hold more rows, all of those."""
    found = found.copy()
    limits = _limits(beyond, pure)
    departure = np.where(beyond >= _ABOVE, departure, -np.inf)
    while (window := _surest(departure / noise, limits, pure)) is not None:
        rows = np.maximum(departure[window], 0.0)
        found[window] = rows * (departure[window].sum() / rows.sum())
        departure[window] = -np.inf
    return found


def _surest(departure: Floats, limits: Floats, pure: bool) -> slice | None:
    """The neighboring bins whose sum is farthest beyond its limit, or None; both in stds of the noise."""
    best, found = 1.0, None
    for size in range(1, min(_WIDEST_TAIL, len(departure)) + 1):
        totals = np.lib.stride_tricks.sliding_window_view(departure, size).sum(axis=1)
        sure = totals / (reach(limits[size - 1 :], size, pure) * math.sqrt(size))
        at = int(np.argmax(sure))
        if sure[at] > best:
            best, found = float(sure[at]), slice(at, at + size)
    return found


def _shrunk(values: Floats, limit: Any) -> Floats:
    found: Floats = values * np.maximum(0, 1 - limit**2 / np.maximum(values**2, 1e-300))
    return found


def fit_norm_law(
    counts: Floats,
    noise_std: float,
    edges: Floats,
    n: float,
    typical: float | None = None,
    near: float = _NEAR,
    pure: bool = False,
) -> NormLaw:
    """The law behind noisy counts of norms among edges; `typical` is where its median is expected, `near` how surely.

    near: octaves that it may be off. pure: whether noise is Laplace's. A hump far beyond the others, as where many
    rows are zero, is a law by itself.
    """
    log_edges = np.log2(edges)
    noise = max(noise_std / n, _QUIETEST)
    shares = counts / n
    grid = np.arange(log_edges[0] - 1, log_edges[-1] + 1, STEP)
    middle = float(log_edges.mean()) if typical is None else math.log2(typical)
    modes = _modes(grid, typical, noise, near)
    unlikely = 0.0 if typical is None else _UNLIKELY
    at, part = (0, 0.0) if typical is None else _lump(shares, noise, log_edges, pure)
    shares[at] -= part
    shares, noise = shares / (1 - part), noise / (1 - part)
    mass, rest = _fit(shares, noise, log_edges, grid, modes, middle, unlikely, pure)
    if typical is not None:
        mass = _with_hump(mass, rest, shares, noise, log_edges, grid, middle, pure)
    mass *= 1 - part
    mass[np.searchsorted(grid, log_edges[at])] += part  # at the far end of their bin: none of them is clipped
    beyond = np.cumsum(mass[::-1])[::-1]
    mass[beyond < _FEWEST_ROWS / n] = 0.0
    return NormLaw(grid, mass / mass.sum())


def _lump(shares: Floats, noise: float, log_edges: Floats, pure: bool) -> tuple[int, float]:
    """The bin of rows that all have one norm, as those that are zero do, and their share; 0 where none stands out.

    No smooth law has them, and fitted as one they would decide what its tail is.
    """
    width = np.diff(log_edges)
    inner = shares[1:-1]
    density = np.concatenate([[0.0], inner / width, [0.0]])
    beside = np.maximum(np.maximum(density[:-2], density[2:]), 0.0) * width
    excess = inner - beside
    stands_out = (
        (excess > _LEAST_LUMP)
        & (excess < 1 - _LEAST_LUMP)
        & (inner > _LUMP * beside)
        & (excess > reach(_SURE_LUMP, 1, pure) * noise)
    )
    stands_out &= noise < _QUIET * (1 - excess)  # else the others are better told together with them
    if not stands_out.any():
        return 0, 0.0
    at = int(np.argmax(np.where(stands_out, excess, 0.0)))
    return at + 1, float(excess[at])


def _fit(
    shares: Floats,
    noise: float,
    log_edges: Floats,
    grid: Floats,
    modes: Floats,
    middle: float,
    unlikely: float,
    pure: bool,
) -> tuple[Floats, Floats]:
    """Masses on the grid, and what the family leaves of the shares; `middle` is where the median is expected.

    unlikely: what each octave between them costs, as a log.
    """
    departures = _Departures(log_edges, middle, noise, pure)
    below = _below(log_edges, modes, noise)
    # Whitened distances in one product; bins are differences, and what the last one holds is 1 but for what is below.
    last = np.zeros(len(shares))
    last[-1] = 1.0
    white = (departures.white[:, :-1] - departures.white[:, 1:]).astype(below.dtype) @ below
    white -= (departures.white @ (shares - last)).astype(below.dtype)[:, None]
    misfit = np.einsum("ij,ij->j", white, white).reshape(len(modes), -1) / 2
    log_weight = LOG_PRIOR - unlikely * np.abs(modes - middle)[:, None] - misfit
    log_weight -= log_weight.max()
    weight = np.where(log_weight > -_NEGLIGIBLE, np.exp(log_weight), 0.0)
    weight /= weight.sum()
    few = np.flatnonzero(weight)
    fitted = _between(below[:, few] @ weight.ravel()[few])
    rest = departures.rest(shares - fitted, middle, noise)
    mass = _with_rest(_mixture(weight, grid, modes), rest, np.searchsorted(log_edges, grid))
    return mass, shares - fitted


def _with_hump(
    mass: Floats,
    rest: Floats,
    shares: Floats,
    noise: float,
    log_edges: Floats,
    grid: Floats,
    middle: float,
    pure: bool = False,
) -> Floats:
    """The masses, or where the rest shows a hump far beyond, those of two laws: one for the bins below it."""
    bins, part = _hump(rest / noise, noise, log_edges, middle, pure)
    if part == 0:
        return mass
    above = np.arange(len(shares)) >= bins.start
    peak = float(np.append(log_edges, log_edges[-1])[bins.start + int(np.argmax(rest[bins]))])

    def law(chosen: Any, share: float, at: float) -> Floats:
        modes = _modes(grid, 2.0**at, noise)
        return _fit(np.where(chosen, shares, 0) / share, noise / share, log_edges, grid, modes, at, 0.0, pure)[0]

    return (1 - part) * law(~above, 1 - part, middle) + part * law(above, part, peak)


def _hump(rest: Floats, noise: float, log_edges: Floats, middle: float, pure: bool) -> tuple[slice, float]:
    """Neighboring far bins that together hold surely more than was fitted, and their share of the rows.

    rest: in stds of the noise, which is a share of the rows.
    """
    start = int(np.searchsorted(log_edges, middle + _FAR_HUMP)) + 1
    sums = np.concatenate([[0.0], np.cumsum(rest)])
    best, found = 1.0, (slice(0), 0.0)
    for first in range(start, len(rest)):
        totals = sums[first + 1 :] - sums[first]
        bins = np.arange(1, totals.size + 1)
        sure = totals / (reach(_SURE_HUMP, bins, pure) * np.sqrt(bins))
        last = int(np.argmax(sure))
        if sure[last] > best and _LEAST_HUMP < totals[last] * noise < 1 - _LEAST_HUMP:
            best, found = float(sure[last]), (slice(first, first + last + 1), float(totals[last] * noise))
    return found


def _modes(grid: Floats, typical: float | None, noise: float, octaves: float = _NEAR) -> Floats:
    """Where the middle of the law may be: within so many octaves of what is expected, or anywhere."""
    if typical is None:
        return grid[:: 4 if len(grid) > 300 else 1]
    near = grid[np.abs(grid - math.log2(typical)) <= octaves]
    return near[::2] if noise > _LOUD else near


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
