"""Rows as they were learned: the ellipsoid that they are clipped to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..errors import Floats, UsageError, names, vector
from ..regions.ellipsoid import Clip, Ellipsoid
from .base import NEAR, Columns, ErrorWeights, Reach, Rows, close, short


@dataclass(frozen=True, init=False, repr=False)
class LearnedRows(Rows):
    """An ellipsoid that was learned: rows are clipped where ‖scale * (axes^T (x - center))‖ exceeds 1.

    center_error: about how far the mean is from the center, one per column. outside: the share of rows that is
    expected to be clipped. mean_bias: how far that moves the mean of each column at most, where it was measured.
    lower, upper: what values are clamped to before that, where columns were found one by one.
    """

    kind: ClassVar[str] = "learned"
    described_by: ClassVar[str] = "the learned region"
    remedy: ClassVar[str] = "Learn the bounds again with a larger budget."
    open_range: ClassVar[str] = "the uncertainty of the learned center"
    center: Floats
    scale: Floats
    axes: Floats | None
    center_error: Floats
    outside: float
    mean_bias: Floats | None
    lower: Floats | None
    upper: Floats | None

    def __init__(
        self,
        center: ArrayLike,
        scale: ArrayLike,
        center_error: ArrayLike,
        axes: ArrayLike | None = None,
        outside: float = 0.0,
        columns: Columns | None = None,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        mean_bias: ArrayLike | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "center", vector("center", center))
        put(self, "axes", None if axes is None else np.array(axes, np.float64))
        put(self, "scale", vector("scale", scale))
        put(self, "center_error", vector("center_error", center_error, self.center.size))
        put(self, "outside", float(outside))
        for name, side in (("mean_bias", mean_bias), ("lower", lower), ("upper", upper)):
            put(self, name, None if side is None else vector(name, side, self.center.size))
        put(self, "columns", names("columns", columns, self.d))
        self._ellipsoid.check()
        is_valid = self.mean_bias is None or bool((self.mean_bias >= 0).all())
        if not (is_valid and (self.center_error >= 0).all() and 0 <= self.outside <= 1):
            raise UsageError("Invalid file: the learned bounds are not valid. Learn them again.")
        if (self.lower is None) != (self.upper is None) or (
            self.lower is not None and self.upper is not None and not (self.lower <= self.upper).all()
        ):
            raise UsageError("Invalid file: lower must not exceed upper in learned bounds. Learn them again.")
        if self.axes is not None and not close(self.axes.T @ self.axes, np.eye(self.scale.size), NEAR):
            raise UsageError("Invalid file: the axes of learned bounds must be orthonormal. Learn them again.")

    @property
    def _ellipsoid(self) -> Ellipsoid:
        return Ellipsoid(self.center, self.scale, self.axes)

    @property
    def region_reach(self) -> Floats:
        """How far the region extends from its center in each column."""
        return self._ellipsoid.reach

    @property
    def d(self) -> int | None:
        return int(self.center.size)

    def resolve(self, d: int) -> LearnedRows:
        self._check_length(d)
        return self

    def region(
        self, d: int, n: int | None, noise_multiplier: float, error_weights: ErrorWeights, count_clipped: bool
    ) -> Clip:
        """The ellipsoid that was learned."""
        if not (error_weights is None or isinstance(error_weights, str)):
            raise UsageError("error_weights cannot be chosen for learned bounds: they were learned.")
        return Clip(self._ellipsoid, None, 0.0, self.distance(d, n))

    def importances(self, d: int, weights: ErrorWeights) -> Floats | None:
        return None

    def fits(self, region: Clip, n: int | None, noise: float) -> bool:
        ellipsoid, axes = region.ellipsoid, self.axes
        if region.radius is not None or region.clipping_error != 0 or (ellipsoid.axes is None) != (axes is None):
            return False
        alike = ellipsoid.axes is None or axes is None or close(ellipsoid.axes, axes, NEAR)
        return alike and close(ellipsoid.center, self.center) and close(ellipsoid.scale, self.scale)

    def middle(self) -> Floats:
        return self.center

    def distances(self, d: int, n: int | None) -> Floats:
        return self.center_error

    def clipped_shares(self, ellipsoid: Ellipsoid, classes: int) -> Floats:
        return np.append(np.zeros(classes - 1), self.outside)

    @property
    def learned_bias(self) -> Floats | None:
        return self.mean_bias

    def spread(self) -> Floats:
        return self._ellipsoid.reach / math.sqrt(self.center.size)

    def reach(self, d: int, metric: str, n: int | None) -> Reach:
        if metric == "scaled":
            return Reach(self.center, self.scale, 1.0, self.axes)
        return Reach(self.center, np.ones(d), float(self._ellipsoid.unscale.max()))

    def __repr__(self) -> str:
        return f"LearnedRows(center={short(self.center)}, reach={short(self._ellipsoid.reach)})"
