"""What is learned so far: center with its error, shape, and the law of norms; and the radius of least error.

Lengths are in units of the stated magnitude, or of each column's spread: no squares overflow, whatever it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..errors import Floats
from ..regions.ellipsoid import Ellipsoid
from ..rows import NormLaw
from .far import Far, Perhaps

DOUBT = 0.1
"""Share of the worst-case clipping bias that early rounds reckon with."""
_STEEPEST = 1e300
_FARTHEST = 8e307
_SURE = 3.0  # stds of a sum of squares of noise, beyond which it is not noise alone
_LIKELY = 1.0  # the same, where far rows were found, which may well lie on one side


class Shape:
    """y = b * (basis^T (x - c)), b proportional to std^-power with sum_j (b_j std_j)^2 = 1.

    std is the learned spread along each axis of the basis, up to one factor.
    """

    def __init__(self, std: Floats, basis: Floats | None = None, power: float = 0.5, b: Floats | None = None) -> None:
        self.std, self.basis, self.power = std, basis, power
        if b is None:
            b = std**-power
            b = b / math.sqrt(float(((b * std) ** 2).sum()))
        self.b = b
        self.weights = (b * std) ** 2
        self.squared_spread = float((std**2).sum())

    def ellipsoid(self, center: Floats, radius: float, units: Floats) -> Ellipsoid:
        """The region ‖y‖ <= radius about the center, in original units; all units are alike where axes were learned."""
        scale = np.minimum(self.b / radius, _STEEPEST * np.minimum(units, 1.0)) / units
        return Ellipsoid(_within_range(center, units), scale, self.basis)

    @property
    def column_weights(self) -> Floats:
        """About how much of a row's squared norm each column brings."""
        return self.weights if self.basis is None else self.basis**2 @ self.weights

    def turned(self, along_axes: Floats) -> Floats:
        """From coordinates along the axes to coordinates of rows."""
        return along_axes if self.basis is None else self.basis @ along_axes


def _within_range(center: Floats, units: Floats) -> Floats:
    """center * units, kept where differences of doubles stay finite."""
    most = _FARTHEST / np.maximum(units, 1.0)
    placed: Floats = np.clip(center, -most, most) * units
    return placed


@dataclass
class State:
    """Center, its error variance along the axes of the shape, the shape, and the law of ‖y‖ about the center.

    clipped: the radius within which the center was measured, in median norms.
    far: few rows far beyond the law that were found; perhaps: such rows that may be noise, or not so far.
    """

    center: Floats
    variance: Floats
    shape: Shape
    law: NormLaw
    clipped: float = 1.0
    far: Far | None = None
    perhaps: Perhaps | None = None

    @property
    def off_center(self) -> float:
        """Share of the typical squared norm that is due to the center's error."""
        return float((self.shape.b**2 * self.variance).sum()) / self.law.median**2

    def reshape(self, std: Floats) -> None:
        """Shape for spreads `std`; the law of norms is scaled by what the spreads predict."""
        old = self.shape
        self.shape = Shape(std, old.basis)
        self.law = self.law.scaled(math.sqrt(self.shape.weights.sum() / float(((old.b * std) ** 2).sum())))

    @property
    def _hidden(self) -> float:
        """What the clipping of the center hides by the law that is known now, in spreads, were it all on one side."""
        return self.law.excess(self.clipped * self.law.median)

    def doubt_center(self) -> None:
        """Take into the center's variance what its clipping hides.

        Of one column all that was clipped may lie on one side; of more, less and less of it.
        """
        self.variance = self.variance + (self._hidden / self.shape.std.size * self.shape.std) ** 2

    def hides_far(self, n: float) -> float:
        """Squared error of a center that has not seen the far rows, if those lie on all sides."""
        return 0.0 if self.far is None else self.far.moment(2) / n * self.shape.squared_spread

    def take_far(self, n: float) -> None:
        """Take far rows into the law, and what they move the center by, if they lie on all sides.

        If they lie on one side, the last step is longer than that explains, and raises the variance by itself.
        """
        if self.far is not None:
            self.law = self.far.joined(self.law)
            self.variance = self.variance + self.far.moment(2) / n * self.shape.std**2

    @property
    def doubtful(self) -> State:
        """The same, were all that is hidden on one side: no wide and noisy round is better than such a center then."""
        return replace(self, variance=self.variance + (self._hidden * self.shape.std) ** 2)

    def update(self, moved: Floats, gain: Floats, spread: Floats) -> None:
        """Take in a step along the axes with mean gain * (mean - center) and variance `spread`: a linear filter.

        A step longer than the stated errors explain, and not by chance, raises the variance of the center first.
        """
        chance = (_SURE if self.far is None else _LIKELY) * math.sqrt(2 * float((spread**2).sum()))
        surprise = float((moved**2).sum() - spread.sum() - chance) / float((gain**2 * self.variance).sum())
        variance = self.variance * max(1.0, surprise)
        k = gain * variance / (gain**2 * variance + spread)
        self.center = self.center + self.shape.turned(k * moved)
        self.variance = variance * spread / (gain**2 * variance + spread)


def clip_effects(law: NormLaw, shape: Shape, radius: float, n: float) -> tuple[Floats, Floats]:
    """Per axis: gain of the clipped mean on a center error, and sampling variance of what is clipped away."""
    inside = law.radii <= radius
    shrunk = float((law.mass * ~inside * radius / law.radii).sum())
    gain = float(law.mass[inside].sum()) + shrunk * (1 - shape.weights)
    over = np.maximum(law.radii - radius, 0)
    residual = float((law.mass * over**2).sum()) / n * shape.std**2
    return np.maximum(gain, 1e-6), residual


def _none(radius: float) -> float:
    return 0.0


def choose_radius(
    state: State,
    unit: float,
    n: float,
    candidates: Floats,
    bias: Callable[[float], float] = _none,
    doubt: Callable[[float], float] = _none,
) -> tuple[float, float]:
    """(forecast squared error, radius): noise, clipped sampling, center error kept, and a bias term.

    unit is the noise std of the mean for each unit of radius; doubt a squared bias in spreads that the step is known
    to have, so that it moves the center the less.
    """
    best = (math.inf, float(candidates[0]))
    for radius in candidates.tolist():
        gain, residual = clip_effects(state.law, state.shape, radius, n)
        spread = (unit * radius / state.shape.b) ** 2 + residual + doubt(radius) * state.shape.std**2
        forecast = float((1 / (1 / state.variance + gain**2 / spread)).sum()) + bias(radius)
        best = min(best, (forecast, radius))
    return best
