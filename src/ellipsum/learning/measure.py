"""The noisy sums that the rounds of `auto` ask for, in units of the magnitude and of the scaled space."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from ..errors import Floats
from ..grid import ellipsoid_map, grid_bits
from .maps import AbsoluteSum, NormHistogram, OuterSum, ShellSum
from .rounds import Rounds
from .state import Shape, State

_MOST_OF_THE_REST = Fraction(1, 2)  # no round before the last takes more than this of what is left


class Measure:
    """Rounds in units of the magnitude. n is public under "replace" and noisy, at least 1, under "add_remove"."""

    def __init__(self, rounds: Rounds, magnitude: float) -> None:
        self.rounds, self.magnitude, self.d = rounds, magnitude, rounds.d
        self.n = float(rounds.n)
        self._bits = grid_bits(rounds.n, rounds.mu)

    @property
    def spent(self) -> float:
        return float(self.rounds.spent)

    @property
    def left(self) -> float:
        return float(self.rounds.left)

    def affordable(self, share: float) -> float:
        """An optional round takes at most a fifth of what is left, so that the last round is never starved."""
        return min(share, 0.2 * self.left)

    def share(self, wanted: float) -> Fraction:
        return min(Fraction(wanted), self.rounds.left * _MOST_OF_THE_REST)

    def norms(self, center: Floats, trials: Sequence[tuple[Shape, Floats]], share: float) -> tuple[list[Floats], float]:
        """Histograms of ‖y‖ for several shapes at once, each among its own edges."""
        shapes = [(shape.ellipsoid(center, 1.0, self.magnitude), edges) for shape, edges in trials]
        histogram = NormHistogram(shapes)
        found = self.rounds.sum("norms", histogram, self.share(share))
        return histogram.split(found.values), found.std

    def clipped_mean(self, name: str, state: State, radius: float, share: float) -> tuple[Floats, float]:
        """Mean of y clipped to the radius, and the std of its noise."""
        ellipsoid = state.shape.ellipsoid(state.center, radius, self.magnitude)
        found = self.rounds.sum(name, ellipsoid_map(ellipsoid, self._bits), self.share(share))
        return found.values * (radius / self.n), found.std * radius / self.n

    def absolute_mean(self, state: State, radius: float, share: float) -> tuple[Floats, float]:
        """Mean of |y| clipped to the radius."""
        ellipsoid = state.shape.ellipsoid(state.center, radius, self.magnitude)
        found = self.rounds.sum("scales", AbsoluteSum(ellipsoid, self._bits), self.share(share))
        return found.values * (radius / self.n), found.std * radius / self.n

    def shell_mean(self, state: State, inner: float, outer: float, share: float) -> tuple[Floats, float]:
        """Mean of what lies of y between two radii."""
        ellipsoid = state.shape.ellipsoid(state.center, 1.0, self.magnitude)
        found = self.rounds.sum("shell", ShellSum(ellipsoid, inner, outer, self._bits), self.share(share))
        thickness = (outer - inner) / self.n
        return found.values * thickness, found.std * thickness

    def second_moments(self, name: str, state: State, radius: float, share: float) -> tuple[Floats, float]:
        """Mean of y y^T, y clipped to the radius; noise of this std on the diagonal, 1/sqrt 2 of it beside."""
        ellipsoid = state.shape.ellipsoid(state.center, radius, self.magnitude)
        products = OuterSum(ellipsoid, self._bits)
        found = self.rounds.sum(name, products, self.share(share))
        return products.matrix(found.values) * (radius**2 / self.n), found.std * radius**2 / self.n

    def count(self, share: float) -> None:
        """Replace the caller's guess of n by a noisy count."""
        self.rounds.count(self.share(share))
        self.n = float(self.rounds.n)
