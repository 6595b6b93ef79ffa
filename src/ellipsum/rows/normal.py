"""Approximate normal prior: rows are clipped to an ellipsoid of small total error."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..errors import Floats, UsageError, checks_keywords, floats, names, open_unit
from ..regions.ellipsoid import Clip, Ellipsoid
from .base import (
    NEAR,
    PULL,
    Columns,
    ErrorWeights,
    Reach,
    Rows,
    alike,
    close,
    length_of,
    named_pairs,
    scalar_or_vector,
    short,
    spread_out,
)


@checks_keywords
@dataclass(frozen=True, init=False, repr=False)
class Normal(Rows):
    """Approximate mean and standard deviation of each column; distant rows are clipped.

    Parameters
    ----------
    center : float, array-like or dict
        Approximate means; or both numbers of each column by name: {"age": (45, 12)}.
    std : float or array-like, optional
        Approximate standard deviations, unless `center` is a dict or `cov` is given.
    cov : array-like, optional
        Approximate covariance matrix, instead of `std`.
    center_error : float or array-like, default 0.1
        Uncertainty of the center: a standard deviation in units of the column's own; 0 means that it is exact.
    columns : tuple of str, optional
        Names of the columns, unless `center` is a dict.
    shape : {"optimal", "closed_form", "ball"}, default "optimal"
        Shape of the clip region; "ball": the same noise in every column.
    clip : {"optimal", "quantile"} or float, default "optimal"
        Clipping radius: of smallest expected error, by a quantile, or in the scaled space where E|y|^2 = 1.
    clip_probability : float, optional
        For clip="quantile": the share of rows that is clipped; default 1/n.

    Examples
    --------
    >>> import ellipsum as es
    >>> es.Normal({"age": (45, 12), "bmi": (26, 5)})
    Normal(center=[45, 26], std=[12, 5], center_error=0.1)
    """

    kind: ClassVar[str] = "normal"
    described_by: ClassVar[str] = "the given mean and standard deviation"
    remedy: ClassVar[str] = "Use a larger std, or es.Unknown."
    open_range: ClassVar[str] = "the uncertainty of the given center"
    center: float | Floats
    std: float | Floats | None
    cov: Floats | None
    center_error: float | Floats
    shape: str
    clip: str | float
    clip_probability: float | None

    def __init__(
        self,
        center: ArrayLike | Mapping[str, Sequence[float]],
        std: ArrayLike | None = None,
        cov: ArrayLike | None = None,
        center_error: ArrayLike = 0.1,
        columns: Columns | None = None,
        *,
        shape: str = "optimal",
        clip: str | float = "optimal",
        clip_probability: float | None = None,
    ) -> None:
        if isinstance(center, Mapping):
            if std is not None or cov is not None or columns is not None:
                raise UsageError("Normal takes either a mapping of name: (center, std), or center with std= or cov=.")
            columns, center, std = named_pairs("Normal", center, "(center, std)")
        if (std is None) == (cov is None):
            raise UsageError("Normal needs exactly one of std= and cov=.")
        if cov is not None:
            matrix = _symmetric(cov)
            middle: float | Floats = spread_out(scalar_or_vector("center", center), len(matrix))
            self._set(_axes=_principal_axes(matrix), std=None, cov=matrix)
        else:
            middle, spread = alike("center", center, "std", std)
            if np.any(np.asarray(spread) < 0) or not np.any(np.asarray(spread) > 0):
                raise UsageError("std must be > 0. A column that never varies may have std 0 beside others.")
            self._set(std=spread, cov=None)
        self._set(center=middle)
        errors = scalar_or_vector("center_error", center_error)
        if np.any(np.asarray(errors) < 0):
            raise UsageError(
                "center_error must be >= 0. Its unit is the standard deviation of the column; 0 means an exact center."
            )
        if len({length_of(middle), length_of(errors)} - {None}) > 1:
            raise UsageError(
                f"center_error must have {length_of(middle)} numbers, one per column, got {length_of(errors)}."
            )
        self._set(center_error=errors)
        self._set(columns=names("columns", columns, self.d), shape=shape, clip=clip, clip_probability=clip_probability)

    @property
    def d(self) -> int | None:
        return length_of(self.center) or length_of(self.center_error)

    @property
    def axes(self) -> tuple[Floats, Floats]:
        """Standard deviations along the principal axes, and the axes as columns (with `cov` only)."""
        axes: tuple[Floats, Floats] = self.__dict__["_axes"]
        return axes

    def resolve(self, d: int) -> Normal:
        self._check_length(d)
        std = None if self.std is None else spread_out(self.std, d)
        errors = spread_out(self.center_error, d)
        return self._with(center=spread_out(self.center, d), std=std, center_error=errors)

    @property
    def along_axes(self) -> tuple[Floats, Floats | None]:
        """Stds along the axes, and the axes; None where they are the coordinates themselves."""
        return self.axes if self.cov is not None else (np.asarray(self.std, float), None)

    def region(
        self, d: int, n: int | None, noise_multiplier: float, error_weights: ErrorWeights, count_clipped: bool
    ) -> Clip:
        """[E15]"""
        from ..regions.normal_shape import lay_normal

        weights = self.importances(d, error_weights)
        rules = self.shape, self.clip, self.clip_probability
        return lay_normal(self, *rules, weights, n, noise_multiplier, PULL if count_clipped else 1.0)

    def fits(self, region: Clip, n: int | None, noise: float) -> bool:
        from ..regions.normal_shape import forecast_of

        ellipsoid = region.ellipsoid
        if not close(ellipsoid.center, self.center) or not self._has_axes(ellipsoid.axes):
            return False
        own = forecast_of(self, ellipsoid.scale, n, region.pull)
        if own is None or own.radius is None or not close(own.radius, region.radius or 0.0):
            return False
        return math.isclose(own.clipping_error, region.clipping_error, rel_tol=NEAR, abs_tol=NEAR * noise)

    def _has_axes(self, axes: Floats | None) -> bool:
        """Whether the rows are uncorrelated along these axes, with the spreads that the covariance has."""
        if self.cov is None or axes is None:
            return self.cov is None and axes is None
        stds = self.axes[0]
        if axes.shape != self.cov.shape or not close(axes.T @ axes, np.eye(len(axes)), NEAR):
            return False
        largest = float(stds.max())
        cov = axes.T @ (self.cov / largest) @ axes / largest
        return bool(np.abs(cov - np.diag((stds / largest) ** 2)).max() < NEAR)

    def middle(self) -> Floats:
        return np.asarray(self.center, float)

    def distances(self, d: int, n: int | None) -> Floats:
        from ..regions.normal_shape import normal_distances

        return normal_distances(self, n)

    def clipped_shares(self, ellipsoid: Ellipsoid, classes: int) -> Floats:
        """Upper tails of a weighted chi-square distribution."""
        from ..numerics.weighted_chisquare import WeightedChiSquare

        stds, _ = self.along_axes
        weights = (ellipsoid.scale * stds) ** 2 * (1 + np.asarray(self.center_error, float) ** 2)
        live = weights > 0
        if not live.any():
            return np.zeros(classes)
        tails = WeightedChiSquare(weights[live]).sf(4.0 ** np.arange(classes))
        return np.asarray(tails - np.append(tails[1:], 0.0))

    def spread(self) -> Floats:
        return np.sqrt(np.diag(self.cov)) if self.cov is not None else np.asarray(self.std, float)

    def reach(self, d: int, metric: str, n: int | None) -> Reach:
        """The ball that a row leaves with probability clip_probability, the center's uncertainty included."""
        from ..numerics.weighted_chisquare import WeightedChiSquare

        clip_probability = self.clip_probability
        if clip_probability is None:
            if n is None:
                raise UsageError("n is missing. Pass n=, or Normal(..., clip_probability=).")
            clip_probability = 1 / n if n > 1 else 0.5
        odds = open_unit("clip_probability", clip_probability)
        std, axes = self.along_axes
        errors = np.asarray(self.center_error, float)
        if axes is not None:
            live = std > 0
            std, axes, errors = std[live], axes[:, live], errors[live]
        wander = 1 + errors**2
        spread = wander[std > 0] if metric == "scaled" else (std**2 * wander)[std > 0]
        largest = float(spread.max())
        radius = math.sqrt(largest) * math.sqrt(float(WeightedChiSquare(spread / largest).isf(odds)))
        center = np.asarray(self.center, float)
        if metric == "scaled":
            with np.errstate(divide="ignore"):
                return Reach(center, np.where(std > 0, 1 / std, 0.0), radius, axes)
        if axes is not None:  # lengths need no rotation; a covariance only decides how long rows are
            return Reach(center, np.ones(len(axes)), radius)
        return Reach(center, np.where(std > 0, 1.0, 0.0), radius)

    def __repr__(self) -> str:
        spread = f"cov={len(self.cov)}x{len(self.cov)}" if self.cov is not None else f"std={short(self.std)}"
        return f"Normal(center={short(self.center)}, {spread}, center_error={short(self.center_error)})"


def _symmetric(value: ArrayLike) -> Floats:
    matrix = floats("cov", value)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        raise UsageError(f"cov must be a square matrix, got shape {matrix.shape}.")
    if not np.isfinite(matrix).all():
        raise UsageError("cov must be finite: it holds a NaN or an infinity.")
    if not np.allclose(matrix, matrix.T, rtol=1e-8, atol=1e-12 * float(np.abs(matrix).max())):
        raise UsageError("cov must be symmetric. Average it with its transpose if rounding is the cause.")
    half: Floats = (matrix + matrix.T) / 2
    return half


def _principal_axes(matrix: Floats) -> tuple[Floats, Floats]:
    variances, directions = np.linalg.eigh(matrix)
    largest = variances[-1]
    if variances[0] < -1e-10 * max(largest, 0.0) or largest <= 0:
        raise UsageError("cov must be positive semidefinite and not zero. Check it, or add to its diagonal.")
    # Eigenvalues below the rounding of the decomposition count as zero.
    floor = len(matrix) * np.finfo(float).eps * largest
    return np.sqrt(np.where(variances > floor, variances, 0.0)), directions
