"""The base of descriptions of rows, and checks of the numbers that callers pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ..errors import Floats, UsageError, choice, finite, floats, shown, vector
from ..regions.ellipsoid import THIN, Clip, Ellipsoid, length
from ..util.structural_equality import ValueEquality

Columns = tuple[str, ...]
ErrorWeights: TypeAlias = "str | Mapping[str, float] | Sequence[float] | None"
"""The `error_weights` argument of a call."""


def scalar_or_vector(name: str, value: ArrayLike | None) -> float | Floats:
    if value is None or isinstance(value, (int, float, str, np.number)) or floats(name, value).ndim == 0:
        return finite(name, value)
    return vector(name, value)


def alike(first: str, a: ArrayLike | None, second: str, b: ArrayLike | None) -> tuple[float | Floats, float | Floats]:
    x, y = scalar_or_vector(first, a), scalar_or_vector(second, b)
    length = length_of(x) or length_of(y)
    if length is None:
        return x, y
    if length_of(x) not in (None, length) or length_of(y) not in (None, length):
        raise UsageError(f"{first} and {second} must have the same length, got {length_of(x)} and {length_of(y)}.")
    return spread_out(x, length), spread_out(y, length)


def named_pairs(
    owner: str, columns: Mapping[str, Sequence[float]], form: str
) -> tuple[Columns, list[float], list[float]]:
    try:
        pairs = [(a, b) for a, b in columns.values()]
    except (TypeError, ValueError):
        raise UsageError(f"{owner} expects name: {form} for every column.") from None
    if not pairs:
        raise UsageError(f"{owner} needs at least one column.")
    return tuple(map(str, columns)), [a for a, _ in pairs], [b for _, b in pairs]


def length_of(value: float | Floats | None) -> int | None:
    return int(value.size) if isinstance(value, np.ndarray) else None


def spread_out(value: float | Floats, d: int) -> Floats:
    return np.broadcast_to(float(value), d) if not isinstance(value, np.ndarray) else value


def plain(value: object) -> object:
    return value.tolist() if isinstance(value, np.ndarray) else list(value) if isinstance(value, tuple) else value


def short(value: float | Floats | None) -> str:
    if not isinstance(value, np.ndarray):
        return f"{value:g}" if value is not None else "None"
    first = ", ".join(f"{v:g}" for v in value[:4])
    return f"[{first}{', ...' if value.size > 4 else ''}]"


def named_short(columns: Columns, lower: float | Floats, upper: float | Floats) -> str:
    """name: (lower, upper), a few of them."""
    pairs = zip(columns, spread_out(lower, len(columns)), spread_out(upper, len(columns)), strict=True)
    texts = [f"{shown(name)}: ({low:g}, {high:g})" for name, low, high in pairs]
    return "{" + ", ".join(texts[:4]) + (", ..." if len(texts) > 4 else "") + "}"


_R = TypeVar("_R", bound="Rows")
NEAR = 1e-6  # by which numbers computed on another machine may differ, because of rounding
PULL = 0.97
"""Where rows may leave their region, those clipped are brought to this share of its radius, and counted [S10]."""


@dataclass(frozen=True)
class Reach:
    """How far rows lie from their center in a metric: v = scale * (axes^T (x - center)), ‖v‖ <= radius [J7]."""

    center: Floats
    scale: Floats
    radius: float
    axes: Floats | None = None


@dataclass(frozen=True)
class Rows(ValueEquality):
    """Base of descriptions of rows; `columns` are names if the caller gave names."""

    kind: ClassVar[str] = ""
    usual_missing: ClassVar[str] = "skip"
    """What is done about missing values by default."""
    is_hard_bound: ClassVar[bool] = False
    """Whether the region is a bound on the rows; rows of a distribution may lie outside it."""
    clamps: ClassVar[bool] = False
    """Whether each value is clamped to bounds of its own, rather than rows clipped by their norm."""
    is_isotropic: ClassVar[bool] = False
    """Whether the same is known of every column."""
    described_by: ClassVar[str] = "the given bounds"
    """Where the region comes from, in messages."""
    remedy: ClassVar[str] = "Check the units, or use wider bounds."
    """What the caller can do if more rows than expected lie outside, in messages."""
    open_range: ClassVar[str] = "the range allowed by the bounds"
    """What an interval of a mean does not cover, in messages."""
    columns: Columns | None

    @property
    def d(self) -> int | None:
        """Number of coordinates, or None while only scalars were given."""
        raise NotImplementedError

    def resolve(self: _R, d: int) -> _R:
        """The same bounds, with one number for each of d coordinates."""
        raise NotImplementedError

    def region(
        self, d: int, n: int | None, noise_multiplier: float, error_weights: ErrorWeights, count_clipped: bool
    ) -> Clip:
        """The clip region of resolved rows; noise_multiplier is std / radius in the scaled space."""
        raise NotImplementedError

    def fits(self, region: Clip, n: int | None, noise: float) -> bool:
        """Whether a region and its forecast, from a file, are those of resolved rows; noise is their squared noise."""
        raise NotImplementedError

    def distances(self, d: int, n: int | None) -> Floats:
        """The assumed distance of the mean of resolved rows from the center in each column, root mean square [U2]."""
        raise NotImplementedError

    def distance(self, d: int, n: int | None) -> float:
        """The norm of `distances` over all columns."""
        return length(self.distances(d, n))

    def clipped_shares(self, ellipsoid: Ellipsoid, classes: int) -> Floats:
        """The shares of resolved rows expected outside a region, by distance: up to 2, 4, 8, ... radii, and beyond."""
        return np.zeros(classes)

    @property
    def learned_bias(self) -> Floats | None:
        """A bound on the clipping bias of the mean of each column, if it was measured before."""
        return None

    def spread(self) -> Floats:
        """A length for each column, in which its error may be measured."""
        raise UsageError("error_weights='relative' needs a range or std for each column. Use Box or Normal bounds.")

    def middle(self) -> Floats:
        """The center that resolved rows are measured from."""
        lower, upper = self.bounds()
        return lower + (upper - lower) / 2

    def bounds(self) -> tuple[Floats, Floats]:
        """The lower and upper bounds of each coordinate of a row."""
        raise UsageError("These rows have no bounds. Pass lower= and upper=.")

    def reach(self, d: int, metric: str, n: int | None) -> Reach:
        """The ball that holds rows in a metric, "original" or "scaled" by their own spread [J7]."""
        raise NotImplementedError

    def importances(self, d: int, weights: ErrorWeights) -> Floats | None:
        """Importance of each coordinate's squared error; "relative" counts errors in units of the spread."""
        if weights is None or (isinstance(weights, str) and weights == "equal"):
            return None
        if isinstance(weights, str):
            choice("error_weights", weights, ("relative", "equal"))
            spread = self.spread()
            relative = spread / (float(spread.max()) or 1.0)
            return 1 / np.where(relative > THIN, relative, 1.0) ** 2
        numbers = vector("error_weights", weights, d)
        if (numbers <= 0).any():
            raise UsageError("error_weights must be > 0. Leave a column out of columns=[...] to ignore it.")
        return numbers

    def to_dict(self) -> dict[str, Any]:
        fields = {k: plain(v) for k, v in vars(self).items() if v is not None and not k.startswith("_")}
        return {"kind": self.kind, **fields}

    def _set(self, **fields: object) -> None:
        """Set the fields of a frozen object that is being made, in the order in which they are saved."""
        self.__dict__.update(fields)

    def _with(self: _R, **changes: Any) -> _R:
        """A copy with other fields, which are valid: nothing is checked again."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, **changes)
        return copy

    def _check_length(self, d: int) -> None:
        if self.d is not None and self.d != d:
            raise UsageError(
                f"{type(self).__name__} describes {self.d} columns, but there are {d}. "
                "Pass bounds for every column, or columns=[...]."
            )


def close(numbers: ArrayLike, own: ArrayLike, beside: float = 0.0) -> bool:
    """Whether numbers from a file equal those computed here, up to rounding."""
    return bool(np.allclose(numbers, own, rtol=NEAR, atol=beside))


def without_clip(region: Clip) -> bool:
    """Whether a region does not expect that any row inside the bounds is clipped."""
    return region.radius is None and region.clipping_error == 0 and region.ellipsoid.axes is None
