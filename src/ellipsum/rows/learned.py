"""Rows as they were learned: the ellipsoid that they are clipped to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..errors import Floats, UsageError, names, vector
from ..regions.ellipsoid import Clip, Ellipsoid
from .base import NEAR, Reach, RegionOptions, Rows, close
from .parsing import Columns, short


@dataclass(frozen=True, init=False, repr=False)
class LearnedRows(Rows):
    """What `ellipsum.learn` found of vectors: rows are clipped where ‖scale * (axes^T (x - center))‖ exceeds 1.

    center_error: about how far the mean is from the center, one per column. outside: the share of rows that is
    expected to be clipped. lower, upper: what entries are clamped to before that, where columns were found one by one.
    """

    kind: ClassVar[str] = "learned"
    center: Floats
    scale: Floats
    axes: Floats | None
    center_error: Floats
    outside: float
    lower: Floats | None
    upper: Floats | None

    def __init__(
        self,
        center: Any,
        scale: Any,
        center_error: Any,
        axes: Any = None,
        outside: float = 0.0,
        columns: Columns | None = None,
        lower: Any = None,
        upper: Any = None,
    ) -> None:
        put = object.__setattr__
        put(self, "center", vector("center", center))
        put(self, "axes", None if axes is None else np.array(axes, np.float64))
        put(self, "scale", vector("scale", scale))
        put(self, "center_error", vector("center_error", center_error, self.center.size))
        put(self, "outside", float(outside))
        for name, side in (("lower", lower), ("upper", upper)):
            put(self, name, None if side is None else vector(name, side, self.center.size))
        put(self, "columns", names("columns", columns, self.d))
        self._ellipsoid.check()
        if not ((self.center_error >= 0).all() and 0 <= self.outside <= 1):
            raise UsageError("the learned rows are not valid. Learn them again.")
        if (self.lower is None) != (self.upper is None) or (
            self.lower is not None and self.upper is not None and not (self.lower <= self.upper).all()
        ):
            raise UsageError("the learned rows are not valid: lower must not exceed upper. Learn them again.")
        if self.axes is not None and not close(self.axes.T @ self.axes, np.eye(self.scale.size), NEAR):
            raise UsageError("the axes of learned rows must be of length 1 and at right angles.")

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

    def region(self, d: int, options: RegionOptions, n: int | None, noise_multiplier: float) -> Clip:
        """The ellipsoid that was learned."""
        if not (options.error_weights is None or isinstance(options.error_weights, str)):
            raise UsageError("error_weights cannot be chosen for learned bounds: they were learned.")
        return Clip(self._ellipsoid, None, 0.0, self.distance(d, n))

    def importances(self, d: int, weights: Any) -> Floats | None:
        return None

    def fits(self, region: Clip, n: int | None, noise: float) -> bool:
        found, axes = region.ellipsoid, self.axes
        if region.radius is not None or region.clipping_error != 0 or (found.axes is None) != (axes is None):
            return False
        alike = found.axes is None or axes is None or close(found.axes, axes, NEAR)
        return alike and close(found.center, self.center) and close(found.scale, self.scale)

    def middle(self) -> Floats:
        return self.center

    def distances(self, d: int, n: int | None) -> Floats:
        return self.center_error

    def outside_share(self, ellipsoid: Ellipsoid) -> float:
        return self.outside

    def spread(self) -> Floats:
        return self._ellipsoid.reach / math.sqrt(self.center.size)

    def reach(self, d: int, metric: str, n: int | None, clip_probability: float | None) -> Reach:
        if metric == "scaled":
            return Reach(self.center, self.scale, 1.0, self.axes)
        return Reach(self.center, np.ones(d), float(self._ellipsoid.unscale.max()))

    def __repr__(self) -> str:
        return f"LearnedRows(center={short(self.center)}, reach={short(self._ellipsoid.reach)})"
