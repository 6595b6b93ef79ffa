"""The ellipsoid of least error that holds what is known: docs/proofs/shapes.md.

An ellipsoid {c + e : ‖B e‖ <= 1} is the clip region; the noise of a release is a multiple of B^-1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..errors import Floats, UsageError
from ..util.structural_equality import ValueEquality

# The largest scale a coordinate may get, relative to the others: directions thinner than this hold no
# noise budget, since their rounding on the grid would already exceed their spread.
THIN = 1e-150


@dataclass(frozen=True)
class Ellipsoid(ValueEquality):
    """Center and axes: y = scale * (axes^T (x - center)), axes None meaning the coordinates themselves.

    scale is 0 along directions without spread: rows are taken to lie at the center there.
    """

    center: Floats
    scale: Floats
    axes: Floats | None = None

    def check(self) -> None:
        """An error unless center, scale and axes fit together and are numbers that rows can be measured with."""
        center, scale, axes = self.center, self.scale, self.axes
        shaped = center.ndim == scale.ndim == 1 and 0 < scale.size <= center.size
        shaped &= scale.shape == center.shape if axes is None else axes.shape == (center.size, scale.size)
        finite = all(part is None or np.isfinite(part).all() for part in (center, scale, axes))
        if not (shaped and finite and (scale >= 0).all()):
            raise UsageError(
                "The center and scale are not a valid ellipsoid. Rescale the columns, or create a new plan."
            )

    @property
    def width(self) -> int:
        return int(self.scale.size)

    @property
    def matrix(self) -> Floats | None:
        """B as a (k, d) matrix, or None when it is diagonal."""
        return None if self.axes is None else np.ascontiguousarray((self.axes * self.scale).T)

    @cached_property
    def unscale(self) -> Floats:
        """1 / scale, and 0 where there is no spread; not to be written to, for copies share it."""
        with np.errstate(divide="ignore", over="ignore"):
            lengths: Floats = np.where(self.scale > 0, 1 / self.scale, 0.0)
        lengths.flags.writeable = False
        return lengths

    @property
    def reach(self) -> Floats:
        """How far the region extends in each column from its center, one per column."""
        lengths = self.unscale
        if self.axes is None:
            return lengths
        largest = float(lengths.max()) or 1.0  # Squares may exceed the range of doubles.
        return largest * np.sqrt(self.axes**2 @ (lengths / largest) ** 2)

    @property
    def trace(self) -> float:
        """tr((B^T B)^-1): total squared noise per unit of noise in the scaled space."""
        with np.errstate(over="ignore", under="ignore"):
            return float(np.sum(self.unscale**2))

    def along(self, offset: Floats) -> Floats:
        """An offset's coordinates along the axes."""
        return offset if self.axes is None else self.axes.T @ offset

    def scaled(self, offset: Floats) -> Floats:
        """B e: from an offset to the scaled space."""
        return self.scale * self.along(offset)

    def restore(self, offsets: Floats) -> Floats:
        """B^-1 y: from the scaled space to an offset from the center, or to one for each group."""
        stretched = offsets * self.unscale
        if self.axes is None:
            return stretched
        return self.axes @ stretched if stretched.ndim == 1 else stretched @ self.axes.T


@dataclass(frozen=True)
class Clip:
    """An ellipsoid with what clipping to it is expected to cost."""

    ellipsoid: Ellipsoid
    radius: float | None
    """Clip radius in the scaled space where E‖y‖^2 = 1 (Normal rows), else None."""
    clipping_error: float
    """E‖sum of clipped rows - sum of rows‖^2."""
    center_spread: float
    """The assumed distance of the mean from the center: it decides the weight of the count of an unknown n."""
    pull: float = 1.0
    """A clipped row is brought to this share of the radius, so that counting it costs no noise [S10]."""


def length(parts: Floats) -> float:
    """The norm of a vector, whatever its squares do to doubles."""
    largest = float(np.abs(parts).max())
    if not 0 < largest < np.inf:
        return largest
    return largest * float(np.linalg.norm(parts / largest))


def balanced_scale(half: Floats, weights: Floats | None = None) -> Floats:
    """[E2] The diagonal b of least sum_j w_j / b_j^2 with sum_j (b_j h_j)^2 = 1; 0 where h_j is 0."""
    importance = np.ones_like(half) if weights is None else np.sqrt(weights / weights.max())
    total = float(np.sum(half * importance))
    with np.errstate(divide="ignore"):
        return np.where(half > THIN, np.sqrt(importance / (half * total)), 0.0)
