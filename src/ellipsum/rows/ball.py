"""Bound on the L2 distance of a row from a center."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..errors import Floats, UsageError, checks_keywords, names, positive
from ..regions.ellipsoid import Clip, Ellipsoid
from .base import (
    Columns,
    ErrorWeights,
    Reach,
    Rows,
    close,
    length_of,
    scalar_or_vector,
    short,
    spread_out,
    without_clip,
)


@checks_keywords
@dataclass(frozen=True, init=False, repr=False)
class Ball(Rows):
    """Bound on the L2 distance of a row from `center`; rows outside are clipped to the ball.

    Parameters
    ----------
    radius : float
        Largest distance, above 0.
    center : float or array-like, default 0
        One number for every column, or one per column, which fixes their number.
    columns : tuple of str, optional
        Names of the columns.

    Examples
    --------
    >>> import ellipsum as es
    >>> es.Ball(10, center=[1, 2])
    Ball(radius=10, center=[1, 2])
    """

    kind: ClassVar[str] = "ball"
    usual_missing: ClassVar[str] = "drop_row"
    is_hard_bound: ClassVar[bool] = True
    is_isotropic: ClassVar[bool] = True
    described_by: ClassVar[str] = "the given radius"
    remedy: ClassVar[str] = "Check the units, use a larger radius, or es.Unknown."
    open_range: ClassVar[str] = "the range allowed by the radius"
    radius: float
    center: float | Floats

    def __init__(self, radius: float, center: ArrayLike = 0.0, columns: Columns | None = None) -> None:
        self._set(radius=positive("radius", radius), center=scalar_or_vector("center", center))
        self._set(columns=names("columns", columns, self.d))

    @property
    def d(self) -> int | None:
        return length_of(self.center)

    def resolve(self, d: int) -> Ball:
        self._check_length(d)
        return self._with(center=spread_out(self.center, d))

    def region(
        self, d: int, n: int | None, noise_multiplier: float, error_weights: ErrorWeights, count_clipped: bool
    ) -> Clip:
        """[E1]"""
        if self.importances(d, error_weights) is not None:
            raise UsageError("error_weights need bounds for each column. Use Box or Normal.")
        ellipsoid = Ellipsoid(np.asarray(self.center, float), np.full(d, 1 / self.radius))
        return Clip(ellipsoid, None, 0.0, self.distance(d, n))

    def fits(self, region: Clip, n: int | None, noise: float) -> bool:
        ellipsoid = region.ellipsoid
        return without_clip(region) and close(ellipsoid.center, self.center) and close(ellipsoid.scale, 1 / self.radius)

    def middle(self) -> Floats:
        return np.asarray(self.center, float)

    def distances(self, d: int, n: int | None) -> Floats:
        """A mean uniform in the ball is sqrt(d / (d + 2)) of the radius away, root mean square."""
        return np.broadcast_to(self.radius / math.sqrt(d + 2), d)

    def bounds(self) -> tuple[Floats, Floats]:
        center = np.asarray(self.center)
        return center - self.radius, center + self.radius

    def reach(self, d: int, metric: str, n: int | None) -> Reach:
        center = np.asarray(self.center, float)
        if metric == "scaled":
            return Reach(center, np.full(d, 1 / self.radius), 1.0)
        return Reach(center, np.ones(d), self.radius)

    def __repr__(self) -> str:
        return f"Ball(radius={self.radius:g}, center={short(self.center)})"
