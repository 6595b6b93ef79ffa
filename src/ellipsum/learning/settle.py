"""The last histogram of norms, under several shapes at once: the shape of least forecast error, and its law."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..errors import Floats
from ..regions.ellipsoid import length
from .far import Tally, beyond
from .measure import Bins, Measure
from .norm_law import fit_norm_law
from .schedule import Shares
from .seek import seek, worth_looking
from .state import DOUBT, Shape, State, choose_radius

_FAR_OCTAVES = 48.0  # from rows at one point, as near as balls shrink, to the magnitude and beyond
_WEIGHT = 16  # of each histogram, beside that of the number of far rows
_SHRUNK = 8.0  # times as much as another column's: units that may have shrunk too far, and how far they may
_FINE = np.arange(-0.75, 0.75, 1 / 16)
_SETTLE_STEPS = np.concatenate([np.arange(-4, -0.75, 0.25), _FINE, [0.75, 1, 1.25, 1.5, 2, 2.5, 3]])
_COARSE_STEPS = np.concatenate([np.arange(-4, -1, 1.0), np.arange(-1, 1.01, 0.25), [1.5, 2, 3]])
_FAR_STEP = 0.25
_COARSE = 1000.0  # rows in units of the noise, up to which counts of narrow bins are nothing but noise


def _settle_edges(measure: Measure, trial: State, steps: Floats) -> Floats:
    """Edges about the expected median, and octaves up to the norm of the farthest row within the magnitude."""
    shape, middle = trial.shape, math.log2(trial.law.median)
    sides = np.abs(trial.center) + measure.sides
    farthest = math.log2(length(shape.b * (sides if shape.basis is None else np.abs(shape.basis).T @ sides)))
    return edges_about(middle, farthest, steps)


def edges_about(middle: float, farthest: float, steps: Floats) -> Floats:
    """Edges at these steps from the middle, and finer than octaves up to the farthest norm; all in octaves."""
    octaves = np.arange(4.0, min(farthest - middle, _FAR_OCTAVES) + _FAR_STEP, _FAR_STEP)
    return np.exp2(middle + np.concatenate([steps, octaves]))


def settle_steps(shares: Shares) -> Floats:
    """Where norms are counted about their middle, in octaves: coarse where counts of narrow bins are noise."""
    return _SETTLE_STEPS if shares.rows > _COARSE else _COARSE_STEPS


def _earlier(measure: Measure, state: State, units: list[Floats]) -> list[Shape]:
    """Shapes in the units of the first step, or as near to them as this, where some column's have shrunk far since.

    A column of one value in all but a few rows shrinks without end, until those few are farther off than anything.
    """
    b = measure.relative / units[0] if units else np.ones(measure.d)
    if b.min() >= b.max() / _SHRUNK:
        return []
    near = np.maximum(b, b.max() / _SHRUNK)
    return [Shape(state.shape.std, state.shape.basis, b=one / length(one * state.shape.std)) for one in (b, near)]


def settle_shape(measure: Measure, state: State, shares: Shares, units: list[Floats]) -> None:
    """Norms for b = std^-p, several p at once, and in earlier units: the shape whose law forecasts least error.

    Beside them the rows that are far out in one of the shapes, in one number: the first look for few far rows.
    """
    usual, earlier = _trials(measure, state, shares, units)
    trials, steps, n = usual + earlier, settle_steps(shares), measure.n
    edges = [_settle_edges(measure, trial, steps) for trial in trials]
    judge = len(usual) // 2
    far = edges[judge][steps.size : steps.size + 1] if worth_looking(edges[judge][steps.size :], shares.pure) else None
    counts, noise_std, first = _norms(measure, trials, edges, shares, (judge, far))
    for trial, count, edge in zip(trials, counts, edges, strict=True):
        trial.law = fit_norm_law(count, noise_std, edge, n, trial.law.median, pure=shares.pure)
    forecasts = [_forecast(trial, shares, n) for trial in trials]
    chosen = int(np.argmin(forecasts))
    state.shape, state.law = trials[chosen].shape, trials[chosen].law
    far_edges = edges[chosen][steps.size :]
    if first is not None and worth_looking(far_edges, shares.pure):
        latest = Bins(edges[chosen], sum(edge.size + 1 for edge in edges[:chosen]), _WEIGHT)
        seek(measure, state, latest, far_edges, counts[chosen][steps.size + 1 :], noise_std, first)
        _in_earlier_units(state, earlier, forecasts[len(usual) :], shares, n)


def _trials(measure: Measure, state: State, shares: Shares, units: list[Floats]) -> tuple[list[State], list[State]]:
    """The shapes that may be settled on, with the law of norms that is expected in them; those in earlier units."""
    std = state.shape.std
    uneven = len(std) * state.shape.squared_spread > (1.1 + 40 / shares.rows) * float(std.sum()) ** 2
    several = (0.2, 0.5, 0.75) if shares.rows > 4000 else (0.0, 0.3, 0.5)
    usual = [Shape(std, state.shape.basis, power) for power in (several if uneven else (0.5,))]
    law = state.law.scaled(1 / math.sqrt(float(((state.shape.b * std) ** 2).sum())))

    def trials(shapes: list[Shape]) -> list[State]:
        return [State(state.center, state.variance, shape, law, state.clipped) for shape in shapes]

    return trials(usual), trials(_earlier(measure, state, units))


def _norms(
    measure: Measure, trials: list[State], edges: list[Floats], shares: Shares, far: tuple[int, Floats | None]
) -> tuple[list[Floats], float, Tally | None]:
    """The histogram of each trial, the std of its noise, and how many rows lie beyond an edge of one of them [L12]."""
    share = measure.affordable(shares.final_norms * (1 + len(trials)) / 2)
    asked = [(trial.shape, edge) for trial, edge in zip(trials, edges, strict=True)]
    judge, edge = far
    if edge is None:
        counts, std = measure.norms(trials[0].center, asked, share)
        return counts, std, None
    # Squares of weights stand to each other as shares of rounds of their own would.
    weight = max(round(_WEIGHT * math.sqrt(shares.far_count * len(trials) / share)), 1)
    asked, weights = [*asked, (trials[judge].shape, edge)], [_WEIGHT] * len(trials) + [weight]
    (*counts, count), std = measure.norms(trials[0].center, asked, share + shares.far_count, weights)
    return counts, std / _WEIGHT, beyond(count, std / weight, measure.public_n)


def _in_earlier_units(state: State, earlier: list[State], forecasts: list[float], shares: Shares, n: float) -> None:
    """Where rows may be far in units alone that shrank too far: back to earlier ones, if those do better."""
    if state.far is None or not earlier:
        return
    best = int(np.argmin(forecasts))
    law = state.far.joined(state.law)
    if forecasts[best] < _forecast(replace(state, law=law, far=None), shares, n):
        state.shape, state.law = earlier[best].shape, earlier[best].law
        state.far = state.perhaps = None


def _forecast(trial: State, shares: Shares, n: float) -> float:
    """Expected squared error of a last round in this shape."""
    law, spread = trial.law, trial.shape.squared_spread
    candidates = law.ladder
    bias = lambda radius: DOUBT * law.excess(radius) ** 2 * spread  # noqa: E731
    return choose_radius(trial, shares.unit(0.8), n, candidates, bias)[0]
