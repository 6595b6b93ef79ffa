"""What can be known about a row: the questions that every kind of rows answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from ..errors import Floats, UsageError, choice, vector
from ..regions.ellipsoid import THIN, Clip, Ellipsoid, length
from ..util.structural_equality import Alike
from .parsing import Columns, plain

_R = TypeVar("_R", bound="Rows")
NEAR = 1e-6  # what rounding on another machine may change
PULL = 0.97
"""Where rows may leave their region, those clipped are brought to this share of its radius, and counted [S10]."""


@dataclass(frozen=True)
class RegionOptions:
    """What a request says about the clip region of its rows."""

    error_weights: Any = None
    count_clipped: bool = True


@dataclass(frozen=True)
class Reach:
    """How far rows lie from their center in a metric: v = scale * (axes^T (x - center)), ‖v‖ <= radius [J7]."""

    center: Floats
    scale: Floats
    radius: float
    axes: Floats | None = None


@dataclass(frozen=True)
class Rows(Alike):
    """Base of what can be known; `columns` are names if the caller gave names."""

    kind: ClassVar[str] = ""
    usual_missing: ClassVar[str] = "column"
    """What is done about missing entries where nobody says it."""
    firm: ClassVar[bool] = False
    """Whether the region is a bound that was stated, and not a law of which rows may leave it."""
    clamps: ClassVar[bool] = False
    """Whether each entry is clamped to bounds of its own, rather than rows clipped by their norm."""
    even: ClassVar[bool] = False
    """Whether nothing that is known tells one column from another."""
    columns: Columns | None

    @property
    def d(self) -> int | None:
        """Number of coordinates, or None while only scalars were given."""
        raise NotImplementedError

    def resolve(self: _R, d: int) -> _R:
        """The same knowledge written out for d coordinates."""
        raise NotImplementedError

    def region(self, d: int, options: RegionOptions, n: int | None, noise_multiplier: float) -> Clip:
        """The clip region of resolved rows; noise_multiplier is std / radius in the scaled space."""
        raise NotImplementedError

    def fits(self, region: Clip, n: int | None, noise: float) -> bool:
        """Whether a region and its forecast, from a file, are those of resolved rows; noise is their squared noise."""
        raise NotImplementedError

    def distances(self, d: int, n: int | None) -> Floats:
        """How far the mean of resolved rows is taken to be from the center in each column, root mean square [U2]."""
        raise NotImplementedError

    def distance(self, d: int, n: int | None) -> float:
        """How far it is over all columns."""
        return length(self.distances(d, n))

    def outside_share(self, ellipsoid: Ellipsoid) -> float:
        """The share of resolved rows that is expected to lie outside a region."""
        return 0.0

    def spread(self) -> Floats:
        """A length for each column, in which its error may be measured."""
        raise UsageError("error_weights='relative' needs a spread for each column. Use Box or Normal rows.")

    def middle(self) -> Floats:
        """The center that resolved rows are measured from."""
        lower, upper = self.bounds()
        return lower + (upper - lower) / 2

    def bounds(self) -> tuple[Floats, Floats]:
        """What each coordinate of a row lies between."""
        raise UsageError("clamp needs bounds. State lower= and upper=.")

    def reach(self, d: int, metric: str, n: int | None, clip_probability: float | None) -> Reach:
        """The ball that holds rows in a metric, "original" or "scaled" by their own spread [J7]."""
        raise NotImplementedError

    def importances(self, d: int, weights: Any) -> Floats | None:
        """Importance of each coordinate's squared error; "relative" counts errors in units of the spread."""
        if weights is None or (isinstance(weights, str) and weights == "equal"):
            return None
        if isinstance(weights, str):
            choice("error_weights", weights, ("relative", "equal"))
            spread = self.spread()
            relative = spread / (float(spread.max()) or 1.0)
            return 1 / np.where(relative > THIN, relative, 1.0) ** 2
        given = vector("error_weights", weights, d)
        if (given <= 0).any():
            raise UsageError("error_weights must be > 0. Leave a column out to ignore it.")
        return given

    def to_dict(self) -> dict[str, Any]:
        fields = {k: plain(v) for k, v in vars(self).items() if v is not None and not k.startswith("_")}
        return {"kind": self.kind, **fields}

    def _with(self: _R, **changes: Any) -> _R:
        """A copy with fields that are known to be valid; nothing is checked again."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, **changes)
        return copy

    def _check_length(self, d: int) -> None:
        if self.d is not None and self.d != d:
            raise UsageError(
                f"{type(self).__name__} describes {self.d} columns but there are {d}. "
                "Give one entry per column, or pick columns."
            )


def close(found: Any, wanted: Any, beside: float = 0.0) -> bool:
    """Whether numbers from a file are those that were computed here, but for rounding."""
    return bool(np.allclose(found, wanted, rtol=NEAR, atol=beside))


def without_clip(region: Clip) -> bool:
    """Whether a region says that nothing of a row inside it is clipped."""
    return region.radius is None and region.clipping_error == 0 and region.ellipsoid.axes is None
