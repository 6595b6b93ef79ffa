"""The noise of a published vector: its covariance, spelled by the ellipsoid of the release."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .errors import Floats
from .shape import Ellipsoid


@dataclass(frozen=True)
class Noise:
    """Gaussian noise of a vector: covariance std^2 L L^T + u u^T, L the ellipsoid's inverse map."""

    ellipsoid: Ellipsoid
    std: float
    count_direction: Floats | None = None

    @property
    def stds(self) -> Floats:
        stds = self.ellipsoid.unscale * self.std
        if self.ellipsoid.axes is not None:
            largest = float(stds.max()) or 1.0  # squares of stds may leave the range of doubles
            stds = largest * np.sqrt(self.ellipsoid.axes**2 @ (stds / largest) ** 2)
        if self.count_direction is not None:
            stds = np.hypot(stds, self.count_direction)
        return stds

    @property
    def covariance(self) -> Floats:
        """The full d x d matrix."""
        axes, stretch = self.ellipsoid.axes, (self.ellipsoid.unscale * self.std) ** 2
        matrix = np.diag(stretch) if axes is None else (axes * stretch) @ axes.T
        if self.count_direction is not None:
            matrix = matrix + np.outer(self.count_direction, self.count_direction)
        return matrix

    def squared_length(self, offset: Floats) -> float:
        """offset^T V^-1 offset over the directions that carry noise."""
        ellipsoid = self.ellipsoid
        white = ellipsoid.scaled(offset) / self.std
        square = float(white @ white)
        if self.count_direction is not None:
            # Sherman-Morrison: the count's noise is one more direction.
            shared = ellipsoid.scaled(self.count_direction) / self.std
            square -= float(white @ shared) ** 2 / (1 + float(shared @ shared))
        return square

    @property
    def total(self) -> float:
        """Expected squared norm: the trace of the covariance."""
        total = self.std * self.std * self.ellipsoid.trace
        if self.count_direction is not None:
            with np.errstate(over="ignore", under="ignore"):
                total += float(self.count_direction @ self.count_direction)
        return total
