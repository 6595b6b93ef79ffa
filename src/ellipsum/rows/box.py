"""Lower and upper bounds for each column."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..errors import Floats, UsageError, checks_keywords, choice, named, names
from ..regions.ellipsoid import THIN, Clip, Ellipsoid, balanced_scale
from .base import (
    NEAR,
    Columns,
    ErrorWeights,
    Reach,
    Rows,
    alike,
    close,
    length_of,
    named_pairs,
    named_short,
    short,
    spread_out,
    without_clip,
)

_WIDEST = sys.float_info.max / 4  # of half a width


@checks_keywords
@dataclass(frozen=True, init=False, repr=False)
class Box(Rows):
    """Lower and upper bounds for each column; values outside are clamped.

    Parameters
    ----------
    lower : float, array-like or dict
        Lower bound of every column, or of each; or both bounds of each column by name: {"age": (0, 120)}.
    upper : float or array-like, optional
        Upper bounds, unless `lower` is a dict.
    columns : tuple of str, optional
        Names of the columns, unless `lower` is a dict.
    shape : {"optimal", "ball"}, default "optimal"
        "ball": the same noise in every column (isotropic Gaussian noise), as a baseline.

    Examples
    --------
    >>> import ellipsum as es
    >>> es.Box({"age": (0, 120), "income": (0, 200_000)})
    Box({age: (0, 120), income: (0, 200000)})
    >>> es.Box(0, [1, 10]).d
    2
    """

    kind: ClassVar[str] = "box"
    is_hard_bound: ClassVar[bool] = True
    clamps: ClassVar[bool] = True
    lower: float | Floats
    upper: float | Floats
    shape: str

    def __init__(
        self,
        lower: ArrayLike | Mapping[str, Sequence[float]],
        upper: ArrayLike | None = None,
        columns: Columns | None = None,
        *,
        shape: str = "optimal",
    ) -> None:
        if isinstance(lower, Mapping):
            if upper is not None or columns is not None:
                raise UsageError("Box takes either a mapping of name: (lower, upper), or lower and upper.")
            columns, lower, upper = named_pairs("Box", lower, "(lower, upper)")
        low, high = alike("lower", lower, "upper", upper)
        self._set(lower=low, upper=high)
        self._set(columns=names("columns", columns, self.d), shape=choice("shape", shape, ("optimal", "ball")))
        is_reversed = np.atleast_1d(np.asarray(low) > high)
        if is_reversed.any():
            j = int(np.argmax(is_reversed))
            where = named(self.columns[j]) if self.columns else f"column {j + 1}"
            low, high = (np.broadcast_to(end, is_reversed.shape)[j] for end in (low, high))
            raise UsageError(f"The lower bound of {where} must be at most the upper bound, got {low:g} and {high:g}.")
        if np.any(np.asarray(high) / 2 - np.asarray(low) / 2 > _WIDEST):
            raise UsageError("upper - lower must be finite. Use narrower bounds.")

    @property
    def d(self) -> int | None:
        return length_of(self.lower)

    def resolve(self, d: int) -> Box:
        self._check_length(d)
        return self._with(lower=spread_out(self.lower, d), upper=spread_out(self.upper, d))

    def region(
        self, d: int, n: int | None, noise_multiplier: float, error_weights: ErrorWeights, count_clipped: bool
    ) -> Clip:
        """[E2] Half-widths h_j: b_j^-2 proportional to h_j / sqrt(w_j), through the corners of the box."""
        weights = self.importances(d, error_weights)
        half, center = self._halves()
        spread = self.distance(d, n)
        if not half.any():
            return Clip(Ellipsoid(center, np.zeros_like(half)), None, 0.0, spread)
        largest = float(half.max())
        relative = half / largest
        if self.shape == "ball":
            if weights is not None:
                raise UsageError("error_weights do nothing with shape='ball'. Use shape='optimal'.")
            scale = np.where(relative > 0, 1 / float(np.sqrt(np.sum(relative**2))), 0.0)
        else:
            scale = balanced_scale(relative, weights)
        return Clip(Ellipsoid(center, scale / largest), None, 0.0, spread)

    def _halves(self) -> tuple[Floats, Floats]:
        """Half of each column's width, and its middle."""
        lower, upper = self.bounds()
        half = (upper - lower) / 2
        return half, lower + half

    def fits(self, region: Clip, n: int | None, noise: float) -> bool:
        """Whether the box lies in the ellipsoid, so that nothing of a stated row is clipped [E2]."""
        half, center = self._halves()
        scale = region.ellipsoid.scale
        with np.errstate(over="ignore"):
            inside = float(np.sum((scale * half) ** 2)) <= 1 + NEAR
        inside &= bool((scale[half > THIN * half.max()] > 0).all())
        return without_clip(region) and inside and close(region.ellipsoid.center, center)

    def distances(self, d: int, n: int | None) -> Floats:
        """How far a mean uniform in the box is from its middle, root mean square."""
        half, _ = self._halves()
        return half / math.sqrt(3)

    def spread(self) -> Floats:
        lower, upper = self.bounds()
        return upper - lower

    def bounds(self) -> tuple[Floats, Floats]:
        return np.asarray(self.lower, float), np.asarray(self.upper, float)

    def reach(self, d: int, metric: str, n: int | None) -> Reach:
        """The ball through the corners: no region that holds the box has a smaller diameter [J7]."""
        half, center = self._halves()
        live = half > 0
        if not live.any():
            raise UsageError("Every column has lower = upper, so all rows are the same. Check the bounds.")
        if metric == "scaled":
            with np.errstate(divide="ignore"):
                return Reach(center, np.where(live, 1 / half, 0.0), math.sqrt(np.count_nonzero(live)))
        largest = float(half.max())
        return Reach(center, np.where(live, 1.0, 0.0), largest * float(np.linalg.norm(half / largest)))

    def __repr__(self) -> str:
        if self.columns is None:
            return f"Box(lower={short(self.lower)}, upper={short(self.upper)})"
        return f"Box({named_short(self.columns, self.lower, self.upper)})"
