"""Rows as they were learned: center, axes, spreads and the law of their norms, whatever law the rows have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..errors import Floats, UsageError, finite, names, vector
from ..regions.ellipsoid import Clip, Ellipsoid, length
from .base import (
    NEAR,
    PULL,
    Reach,
    RegionOptions,
    Rows,
    close,
)
from .normal import Normal
from .parsing import Columns, short

STEP = 1 / 16  # octaves between the radii of a law
_LADDER, _FAR = np.arange(-1.5, 4.0, STEP), 1 / 4  # octaves from the median, and steps beyond
_DOUBT = 0.08  # share of the worst squared bias of clipping that the choice of a radius reckons with
_ASSUMED_ROWS = 10_000.0
_WIDEST_COVARIANCE = 1e140  # beyond it squares of spreads leave the range of doubles
_THINNEST = 1e-7  # the thinnest axis of a covariance that its eigenvalues can still tell from rounding


@dataclass(frozen=True)
class NormLaw:
    """A law on radii: masses at the radii 2^grid."""

    grid: Floats
    mass: Floats

    @property
    def radii(self) -> Floats:
        return np.exp2(self.grid)

    def scaled(self, ratio: float) -> NormLaw:
        return NormLaw(self.grid + math.log2(ratio), self.mass)

    def quantile(self, q: float) -> float:
        return float(2.0 ** np.interp(q, np.cumsum(self.mass) - self.mass / 2, self.grid))

    @property
    def median(self) -> float:
        return self.quantile(0.5)

    @property
    def ladder(self) -> Floats:
        """Clip radii that may be tried: about the median, and up to the farthest row."""
        middle = math.log2(self.median)
        farthest = float(self.grid[np.flatnonzero(self.mass)[-1]])
        octaves = np.concatenate([_LADDER, np.arange(4.0, farthest - middle + _FAR, _FAR)])
        return np.exp2(middle + octaves)

    def beyond(self, radius: float) -> float:
        """P[r > radius]."""
        return float(self.mass[self.radii > radius].sum())

    def excess(self, radius: float, top: float = math.inf) -> float:
        """E[(min(r, top) - radius)_+]."""
        return float((self.mass * np.maximum(np.minimum(self.radii, top) - radius, 0)).sum())

    def squared_excess(self, radius: float, pull: float = 1.0) -> float:
        """E[(r - pull radius)^2; r > radius]."""
        return float((self.mass * np.where(self.radii > radius, self.radii - pull * radius, 0.0) ** 2).sum())


@dataclass(frozen=True, init=False, repr=False)
class LearnedRows(Rows):
    """What `ellipsum.learn` found: y = scale * (axes^T (x - center)) has norms of the learned law.

    std: spreads along the axes; center_error: stds of the center's error in units of those. law: log2 of the first
    radius, and the masses at it and every 1/16 octave further.
    """

    kind: ClassVar[str] = "learned"
    center: Floats
    std: Floats
    axes: Floats | None
    center_error: Floats
    scale: Floats
    law_start: float
    law: Floats

    def __init__(
        self,
        center: Any,
        std: Any,
        scale: Any,
        law_start: Any,
        law: Any,
        center_error: Any,
        axes: Any = None,
        columns: Columns | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "center", vector("center", center))
        put(self, "axes", None if axes is None else np.array(axes, np.float64))
        width = self.center.size if self.axes is None else self.axes.shape[-1]
        for name, value in (("std", std), ("scale", scale), ("center_error", center_error)):
            put(self, name, vector(name, value, width))
        put(self, "law_start", finite("law_start", law_start))
        put(self, "law", vector("law", law))
        put(self, "columns", names("columns", columns, self.d))
        self._check()

    def _check(self) -> None:
        Ellipsoid(self.center, self.scale, self.axes).check()
        lawful = (self.law >= 0).all() and math.isclose(float(self.law.sum()), 1.0, rel_tol=NEAR)
        lawful &= abs(self.law_start) < 900 and self.law.size * STEP < 900
        if not (lawful and (self.std > 0).all() and (self.scale > 0).all() and (self.center_error >= 0).all()):
            raise UsageError("the learned rows are not valid: spreads above zero, and masses that add up to 1.")
        if self.axes is not None and not close(self.axes.T @ self.axes, np.eye(self.scale.size), NEAR):
            raise UsageError("the axes of learned rows must be of length 1 and at right angles.")

    @property
    def d(self) -> int | None:
        return int(self.center.size)

    @property
    def norm_law(self) -> NormLaw:
        """The law of ‖y‖."""
        return NormLaw(np.asarray(self.law_start + STEP * np.arange(self.law.size), np.float64), self.law)

    def resolve(self, d: int) -> LearnedRows:
        self._check_length(d)
        return self

    def region(self, d: int, options: RegionOptions, n: int | None, noise_multiplier: float) -> Clip:
        """The radius of least forecast error under the learned law."""
        if options.error_weights is not None:
            raise UsageError("error_weights cannot be chosen for learned rows: they were learned.")
        pull = PULL if options.count_clipped else 1.0
        law, rows = self.norm_law, _ASSUMED_ROWS if n is None else float(n)
        unit = float(self.std.max())  # squares may leave the range of doubles
        noise = noise_multiplier**2 * float(np.sum((self.scale * unit) ** -2.0))
        spread = self._squared_length(unit)
        worst = math.sqrt(_DOUBT * spread) * rows

        def forecast(radius: float) -> float:
            bias = worst * law.excess(radius)
            return noise * radius * radius + rows * spread * law.squared_excess(radius) + bias * bias

        return self._clip(min(law.ladder.tolist(), key=forecast), n, pull)

    def _clip(self, radius: float, n: int | None, pull: float) -> Clip:
        rows = _ASSUMED_ROWS if n is None else float(n)
        unit = float(self.std.max())
        lost = rows * self._squared_length(unit) * self.norm_law.squared_excess(radius, pull) * unit * unit
        ellipsoid = Ellipsoid(self.center, self.scale / radius, self.axes)
        return Clip(ellipsoid, radius, lost, self.distance(self.center.size, n), pull)

    def _squared_length(self, unit: float) -> float:
        """Of a row of norm 1 whose columns share it as their spreads do; lengths in this unit."""
        return float(np.sum((self.std / unit) ** 2) / np.sum((self.scale * self.std) ** 2))

    def fits(self, region: Clip, n: int | None, noise: float) -> bool:
        ellipsoid = region.ellipsoid
        if not close(ellipsoid.center, self.center) or (ellipsoid.axes is None) != (self.axes is None):
            return False
        if self.axes is not None and not (ellipsoid.axes is not None and close(ellipsoid.axes, self.axes, NEAR)):
            return False
        radius = region.radius
        if radius is None or radius <= 0 or not close(ellipsoid.scale, self.scale / radius):
            return False
        lost = self._clip(radius, n, region.pull).clipping_error
        return math.isclose(lost, region.clipping_error, rel_tol=NEAR, abs_tol=NEAR * noise)

    def middle(self) -> Floats:
        return np.asarray(self.center, float)

    def distances(self, d: int, n: int | None) -> Floats:
        sampling = 1 / (_ASSUMED_ROWS if n is None else float(n))
        return self._by_column(self.std * np.sqrt(self.center_error**2 + sampling))

    def _by_column(self, along_axes: Floats) -> Floats:
        """From lengths along the axes to lengths in each column."""
        if self.axes is None:
            return along_axes
        largest = float(along_axes.max()) or 1.0
        return largest * np.sqrt(self.axes**2 @ (along_axes / largest) ** 2)

    def outside_share(self, ellipsoid: Ellipsoid) -> float:
        return self.norm_law.beyond(float(self.scale[0] / ellipsoid.scale[0]))

    def spread(self) -> Floats:
        return self._by_column(self.std)

    def reach(self, d: int, metric: str, n: int | None, clip_probability: float | None) -> Reach:
        return self.as_normal().resolve(d).reach(d, metric, n, clip_probability)

    def as_normal(self) -> Normal:
        """Normal rows of the same center and spreads, for what needs a law of every column."""
        if self.axes is None:
            return Normal(self.center, std=self.std, center_error=self.center_error, columns=self.columns)
        largest = float(self.std.max())
        if not 1 / _WIDEST_COVARIANCE < largest < _WIDEST_COVARIANCE:
            errors = np.sqrt(self.axes**2 @ self.center_error**2)
            return Normal(self.center, std=self.spread(), center_error=errors, columns=self.columns)
        spread = np.maximum(self.std, _THINNEST * largest)
        cov = (self.axes * spread**2) @ self.axes.T
        order = np.argsort(spread, kind="stable")  # a covariance lists its axes by growing spread
        return Normal(self.center, cov=(cov + cov.T) / 2, center_error=self.center_error[order], columns=self.columns)

    def __repr__(self) -> str:
        size = f"{length(self.std):.4g}"
        return f"LearnedRows(center={short(self.center)}, std={short(self.spread())}, spread {size} over all columns)"
