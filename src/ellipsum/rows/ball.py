"""Rows within a ball: the Gaussian mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..errors import Floats, UsageError, names, positive
from ..regions.ellipsoid import Clip, Ellipsoid
from .base import Reach, RegionOptions, Rows, close, without_clip
from .parsing import Columns, length_of, scalar_or_vector, short, spread_out


@dataclass(frozen=True, init=False, repr=False)
class Ball(Rows):
    """Every row lies within `radius` of `center`: the Gaussian mechanism.

    Ball(10) is centered at the origin for any number of columns; Ball(10, center=[1, 2]) fixes two.
    """

    kind: ClassVar[str] = "ball"
    usual_missing: ClassVar[str] = "row"
    firm: ClassVar[bool] = True
    even: ClassVar[bool] = True
    radius: float
    center: float | Floats

    def __init__(self, radius: float, center: Any = 0.0, columns: Columns | None = None) -> None:
        object.__setattr__(self, "radius", positive("radius", radius))
        object.__setattr__(self, "center", scalar_or_vector("center", center))
        object.__setattr__(self, "columns", names("columns", columns, self.d))

    @property
    def d(self) -> int | None:
        return length_of(self.center)

    def resolve(self, d: int) -> Ball:
        self._check_length(d)
        return self._with(center=spread_out(self.center, d))

    def region(self, d: int, options: RegionOptions, n: int | None, noise_multiplier: float) -> Clip:
        """[E1]"""
        if self.importances(d, options.error_weights) is not None:
            raise UsageError("error_weights need per-coordinate knowledge. Use Box or Normal rows.")
        ellipsoid = Ellipsoid(np.asarray(self.center, float), np.full(d, 1 / self.radius))
        return Clip(ellipsoid, None, 0.0, self.distance(d, n))

    def fits(self, region: Clip, n: int | None, noise: float) -> bool:
        ellipsoid = region.ellipsoid
        return without_clip(region) and close(ellipsoid.center, self.center) and close(ellipsoid.scale, 1 / self.radius)

    def middle(self) -> Floats:
        return np.asarray(self.center, float)

    def distances(self, d: int, n: int | None) -> Floats:
        """A mean uniform in the ball is sqrt(d / (d + 2)) of the radius away, root mean square."""
        return np.full(d, self.radius / math.sqrt(d + 2))

    def bounds(self) -> tuple[Floats, Floats]:
        center = np.asarray(self.center)
        return center - self.radius, center + self.radius

    def reach(self, d: int, metric: str, n: int | None, clip_probability: float | None) -> Reach:
        center = np.asarray(self.center, float)
        if metric == "scaled":
            return Reach(center, np.full(d, 1 / self.radius), 1.0)
        return Reach(center, np.ones(d), self.radius)

    def __repr__(self) -> str:
        return f"Ball(radius={self.radius:g}, center={short(self.center)})"
