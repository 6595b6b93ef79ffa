"""The noise of a published vector: its covariance, spelled by the ellipsoid of the release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .alike import Alike
from .errors import Floats
from .shape import Ellipsoid

_FEW = 3.0  # stds of the count: a column of fewer rows is held to its region


@dataclass(frozen=True)
class Noise(Alike):
    """Gaussian noise of a vector: covariance std^2 S L L^T S + u u^T + diag(own^2), L the ellipsoid's inverse map.

    stretch: S, one per column, where columns are divided by counts of their own. count_direction: u, the noise of a
    count that all columns share. own: stds of the columns' own counts.
    """

    ellipsoid: Ellipsoid
    std: float
    count_direction: Floats | None = None
    stretch: Floats | None = None
    own: Floats | None = None

    @property
    def sums_stds(self) -> Floats:
        """Stds of the noise of the sums alone, counts left aside."""
        stds = self.ellipsoid.reach * self.std
        return stds if self.stretch is None else stds * self.stretch

    @property
    def stds(self) -> Floats:
        stds = self.sums_stds
        for part in (self.count_direction, self.own):
            stds = stds if part is None else np.hypot(stds, part)
        return stds

    @property
    def covariance(self) -> Floats:
        """The full d x d matrix."""
        axes, lengths = self.ellipsoid.axes, (self.ellipsoid.unscale * self.std) ** 2
        matrix = np.diag(lengths) if axes is None else (axes * lengths) @ axes.T
        if self.stretch is not None:
            matrix = matrix * np.outer(self.stretch, self.stretch)
        if self.count_direction is not None:
            matrix = matrix + np.outer(self.count_direction, self.count_direction)
        return matrix if self.own is None else matrix + np.diag(self.own**2)

    def squared_length(self, offset: Floats) -> float:
        """offset^T V^-1 offset over the directions that carry noise."""
        ellipsoid = self.ellipsoid
        stretch = 1.0 if self.stretch is None else self.stretch
        if ellipsoid.axes is None:
            stds = self.sums_stds if self.own is None else np.hypot(self.sums_stds, self.own)
            return self._white_length(offset, lambda part: part[stds > 0] / stds[stds > 0])
        if self.own is None:
            return self._white_length(offset, lambda part: ellipsoid.scaled(part / stretch) / self.std)
        live = self.stds > 0
        matrix = self.covariance[np.ix_(live, live)]
        return float(offset[live] @ np.linalg.solve(matrix, offset[live]))

    def _white_length(self, offset: Floats, whiten: Callable[[Floats], Floats]) -> float:
        """Where the shared count's noise is one more direction beside noise that `whiten` makes white."""
        white = whiten(offset)
        square = float(white @ white)
        if self.count_direction is not None:  # Sherman-Morrison
            shared = whiten(self.count_direction)
            square -= float(white @ shared) ** 2 / (1 + float(shared @ shared))
        return square

    @property
    def total(self) -> float:
        """Expected squared norm: the trace of the covariance."""
        with np.errstate(over="ignore", under="ignore"):
            if self.stretch is None:
                total = self.std * self.std * self.ellipsoid.trace
            else:
                total = float(np.sum(self.sums_stds**2))
            for part in (self.count_direction, self.own):
                total += 0.0 if part is None else float(part @ part)
        return total


def in_doubt(rows: Floats, stds: Floats) -> NDArray[np.bool_]:
    """The columns whose noisy counts are hardly above their noise [U3]."""
    few: NDArray[np.bool_] = (stds > 0) & (rows < np.maximum(1.0, _FEW * stds))
    return few
