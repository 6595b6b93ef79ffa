"""The last round of `auto`: the radius of least error, what is added back of what it clips, and the stated error."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..errors import Floats
from ..regions.ellipsoid import Clip, length
from ..rows import NormLaw
from ..rows.base import PULL
from .far import Far
from .measure import Measure
from .methods import Final
from .schedule import Shares
from .state import State, choose_radius, clip_effects

_ALIGNED = 0.1  # share of the worst squared bias that is stated where no shell was measured
_BEYOND = 1.5  # radii: rows that may lie no further are as good as reached
_FARTHEST_PULL, _PULL_NOISE = 0.3, 0.5  # of the radius at most, and as long as it moves the mean by this much noise


@dataclass(frozen=True)
class Shell:
    """The mean of what lies of rows between two radii, noise of this std in every entry, and the weight it is given."""

    inner: float
    outer: float
    mean: Floats
    std: float
    weight: float

    @property
    def squares(self) -> Floats:
        """Squares of the mean along the axes, without those of the noise."""
        found: Floats = np.maximum(self.mean**2 - self.std**2, 0.0)
        return found

    @property
    def size(self) -> float:
        """Length of the mean, without that of the noise."""
        return math.sqrt(max(float((self.mean**2).sum()) - self.mean.size * self.std**2, 0.0))

    def fade(self, law: NormLaw, radius: float) -> float:
        """What part of the shell lies beyond the radius."""
        return law.excess(radius, self.outer) / max(law.excess(self.inner, self.outer), 1e-300)


def last_round(measure: Measure, state: State, shares: Shares) -> Final:
    """Radius of least error, with the shell beyond it measured where the radius would lose too much."""
    shape, law, n = state.shape, state.law, measure.n
    units = measure.units
    shell = _shell(measure, state, shares)
    radius = _radius(measure, state, shares, shell)
    weight = shell.weight * shell.fade(law, radius)
    gain, residual = clip_effects(law, shape, radius, n)
    gain_shell = gain + weight * (clip_effects(law, shape, shell.outer, n)[0] - gain)
    if state.perhaps is not None and state.perhaps.norm > _BEYOND * radius and measure.rounds.purpose == "release":
        measure.rounds.far = state.perhaps.to_dict(radius)
    pull = _pull(law, radius, shares.unit(measure.left))
    left = _left(state, shell, radius, pull)

    def combine(mean: Floats, std: Floats) -> tuple[Floats, Floats]:
        one_sided = _one_sided(mean * radius, state.far)
        spread = ((std * radius) ** 2 + (weight * shell.std) ** 2) / shape.b**2 + residual
        state.update((mean * radius + weight * shell.mean) / shape.b, gain_shell, spread)
        center = np.clip(state.center, -measure.sides, measure.sides)  # what is known of every row holds for the mean
        return center * units, np.sqrt(state.variance + one_sided**2 * left / shape.b**2) * units

    region = _region(measure, state, radius, residual, pull)
    bias = law.excess(radius) * length(shape.std * units)
    return Final(region, absolute_std(state) * units, combine, bias, shape.b / units, law, measure.magnitudes)


def _shell(measure: Measure, state: State, shares: Shares) -> Shell:
    """Between the radius that is best if what it clips has hardly a direction, and the one that is if it has one.

    The more columns there are, the less of one: of a single column all that is clipped may lie on one side.
    """
    shape, law, n, d = state.shape, state.law, measure.n, measure.d
    unit = shares.unit(measure.left)

    def worst(radius: float) -> float:
        return law.excess(radius) ** 2 * shape.squared_spread

    _, outer = choose_radius(state.doubtful, unit, n, law.ladder, worst)
    if state.far is not None:  # so few rows that a shell would be nothing but noise
        return Shell(outer, outer, np.zeros(d), 0.0, 0.0)
    _, inner = choose_radius(state, unit, n, law.ladder, lambda radius: worst(radius) / d**2)
    if outer <= 1.02 * inner or measure.rounds.purpose == "groups":  # what is clipped of one group is not that of all
        return Shell(inner, inner, np.zeros(d), 0.0, 0.0)
    share = measure.affordable(min(max(0.4 * (outer / inner - 1) / math.sqrt(d), 0.004), 0.1))
    mean, std = measure.shell_mean(state, inner, outer, share)
    weight = max(0.0, 1 - 1.14 * d * std**2 / float((mean**2).sum()))
    return Shell(inner, outer, mean, std, weight)


def _radius(measure: Measure, state: State, shares: Shares, shell: Shell) -> float:
    """From the shell's inner to its outer radius: the less its noise, the nearer to the inner one."""
    law, d = state.law, measure.d
    if shell.outer == shell.inner:
        return shell.inner
    risk = shell.std**2 * (d * shell.weight + 0.04 * math.sqrt(2 * d)) * state.shape.squared_spread
    between = law.ladder[(law.ladder >= shell.inner) & (law.ladder <= shell.outer)]
    unit = shares.unit(measure.left)
    return choose_radius(state, unit, measure.n, between, lambda r: shell.fade(law, r) ** 2 * risk)[1]


def _pull(law: NormLaw, radius: float, unit: float) -> float:
    """The share of the radius that clipped rows keep: the fewer there are, the less, and the better they are counted.

    unit: noise std of the mean for each unit of radius.
    """
    room = _PULL_NOISE * unit / max(law.beyond(radius), 1e-300)
    return 1 - min(max(room, 1 - PULL), _FARTHEST_PULL)


def _left(state: State, shell: Shell, radius: float, pull: float) -> Floats:
    """Squared bias along the axes, in the scaled space, that clipping is expected to leave [L7]."""
    law = state.law
    worst = law.excess(shell.inner, shell.outer)
    aligned = min(shell.size / worst, 1.0) if worst > 0 else math.sqrt(_ALIGNED) if state.far is None else 1.0
    beyond = law.excess(shell.outer) + (1 - pull) * radius * law.beyond(radius)
    size = (1 - shell.weight) * shell.fade(law, radius) * shell.size + aligned * beyond
    squares = shell.squares if shell.squares.any() else np.ones(shell.mean.size)
    found: Floats = size**2 * squares / float(squares.sum())
    return found


def _one_sided(moved: Floats, far: Far | None) -> float:
    """Of what far rows move the mean by if they lie on one side, the part that it did move by, noise included."""
    return 1.0 if far is None else min(length(moved) / far.moment(1), 1.0)


def absolute_std(state: State) -> Floats:
    """Spread along the axes with its level: the median norm of normal rows is that of the learned law."""
    from ..numerics.weighted_chisquare import WeightedChiSquare

    typical = math.sqrt(WeightedChiSquare(state.shape.weights).isf(0.5))
    return state.shape.std * (state.law.median / typical)


def _region(measure: Measure, state: State, radius: float, residual: Floats, pull: float) -> Clip:
    units = measure.units
    level = float((state.shape.b * absolute_std(state)) @ (state.shape.b * absolute_std(state))) ** 0.5
    lost = length(np.sqrt(residual) * units) * measure.n
    return Clip(
        ellipsoid=state.shape.ellipsoid(state.center, radius, units),
        radius=radius / level,
        clipping_error=lost * lost,
        center_spread=length(np.sqrt(state.variance) * units),
        pull=1.0 if measure.rounds.handling.check is False else pull,
    )
