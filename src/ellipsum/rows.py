"""What is known about a row before any row is read: Ball, Box, Normal, Unknown.

These are plain public facts. A fact that turns out wrong costs accuracy, never privacy: rows outside the
stated region are clipped to the ellipsoid that the plan lays around it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from . import codec
from .errors import Floats, UsageError, finite, floats, names, positive, vector

Columns = tuple[str, ...]
_R = TypeVar("_R", bound="Rows")


@dataclass(frozen=True, eq=False)
class Rows:
    """Base of what can be known; `columns` are names if the caller gave names."""

    kind: ClassVar[str] = ""
    columns: Columns | None

    @property
    def d(self) -> int | None:
        """Number of coordinates, or None while only scalars were given."""
        raise NotImplementedError

    def resolve(self: _R, d: int) -> _R:
        """The same knowledge written out for d coordinates."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        fields = {k: _plain(v) for k, v in vars(self).items() if v is not None and not k.startswith("_")}
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
                "Give one entry a column, or pick columns."
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(str(self.to_dict()))


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Ball(Rows):
    """Every row lies within `radius` of `center`: the Gaussian mechanism.

    Ball(10) is centred at the origin for any number of columns; Ball(10, center=[1, 2]) fixes two.
    """

    kind: ClassVar[str] = "ball"
    radius: float
    center: float | Floats

    def __init__(self, radius: float, center: Any = 0.0, columns: Columns | None = None) -> None:
        object.__setattr__(self, "radius", positive("radius", radius))
        object.__setattr__(self, "center", _scalar_or_vector("center", center))
        object.__setattr__(self, "columns", names("columns", columns, self.d))

    @property
    def d(self) -> int | None:
        return _length(self.center)

    def resolve(self, d: int) -> Ball:
        self._check_length(d)
        return self._with(center=_spread(self.center, d))

    def __repr__(self) -> str:
        return f"Ball(radius={self.radius:g}, center={_short(self.center)})"


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Box(Rows):
    """Each coordinate lies in its own interval: the Elliptical Gaussian mechanism.

    Box(lower, upper) with numbers or lists, or Box({"age": (0, 120), "income": (0, 2e5)}).
    """

    kind: ClassVar[str] = "box"
    lower: float | Floats
    upper: float | Floats

    def __init__(self, lower: Any, upper: Any = None, columns: Columns | None = None) -> None:
        if isinstance(lower, Mapping):
            if upper is not None or columns is not None:
                raise UsageError("Box takes either a mapping of name: (lower, upper), or lower and upper.")
            columns, lower, upper = _pairs("Box", lower, "(lower, upper)")
        low, high = _alike("lower", lower, "upper", upper)
        if np.any(np.asarray(low) > np.asarray(high)):
            raise UsageError("lower must be <= upper in every column. Check the order of each pair.")
        if np.any(np.asarray(high) / 2 - np.asarray(low) / 2 > np.finfo(float).max / 4):
            raise UsageError("upper - lower must be finite. State narrower bounds.")
        object.__setattr__(self, "lower", low)
        object.__setattr__(self, "upper", high)
        object.__setattr__(self, "columns", names("columns", columns, self.d))

    @property
    def d(self) -> int | None:
        return _length(self.lower)

    def resolve(self, d: int) -> Box:
        self._check_length(d)
        return self._with(lower=_spread(self.lower, d), upper=_spread(self.upper, d))

    def __repr__(self) -> str:
        return f"Box(lower={_short(self.lower)}, upper={_short(self.upper)})"


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Normal(Rows):
    """Rows are roughly N(center, std^2) or N(center, cov): the elliptical mechanism with clipping.

    `center_error` is the uncertainty of the stated centre: a std a coordinate, in units of that
    coordinate's own std (along a covariance's axes: of that axis); 0 means that the centre is exact.
    """

    kind: ClassVar[str] = "normal"
    center: float | Floats
    std: float | Floats | None
    cov: Floats | None
    center_error: float | Floats

    def __init__(
        self,
        center: Any,
        std: Any = None,
        cov: Any = None,
        center_error: Any = 0.1,
        columns: Columns | None = None,
    ) -> None:
        if isinstance(center, Mapping):
            if std is not None or cov is not None or columns is not None:
                raise UsageError("Normal takes either a mapping of name: (center, std), or center with std= or cov=.")
            columns, center, std = _pairs("Normal", center, "(center, std)")
        if (std is None) == (cov is None):
            raise UsageError("Normal needs exactly one of std= and cov=.")
        if cov is not None:
            matrix = _symmetric(cov)
            object.__setattr__(self, "_axes", _principal_axes(matrix))
            middle: float | Floats = _spread(_scalar_or_vector("center", center), len(matrix))
            object.__setattr__(self, "std", None)
            object.__setattr__(self, "cov", matrix)
        else:
            middle, spread = _alike("center", center, "std", std)
            if np.any(np.asarray(spread) < 0) or not np.any(np.asarray(spread) > 0):
                raise UsageError("std must be > 0. A column that never varies may have std 0 beside others.")
            object.__setattr__(self, "std", spread)
            object.__setattr__(self, "cov", None)
        object.__setattr__(self, "center", middle)
        errors = _scalar_or_vector("center_error", center_error)
        if np.any(np.asarray(errors) < 0):
            raise UsageError("center_error must be >= 0. It counts stds; 0 means an exact centre.")
        if len({_length(middle), _length(errors)} - {None}) > 1:
            raise UsageError(f"center_error must have {_length(middle)} entries, one a column, got {_length(errors)}.")
        object.__setattr__(self, "center_error", errors)
        object.__setattr__(self, "columns", names("columns", columns, self.d))

    @property
    def d(self) -> int | None:
        return _length(self.center) or _length(self.center_error)

    @property
    def axes(self) -> tuple[Floats, Floats]:
        """Stds along the principal axes, and the axes as columns (with `cov` only)."""
        found: tuple[Floats, Floats] = self.__dict__["_axes"]
        return found

    def resolve(self, d: int) -> Normal:
        self._check_length(d)
        std = None if self.std is None else _spread(self.std, d)
        errors = _spread(self.center_error, d)
        return self._with(center=_spread(self.center, d), std=std, center_error=errors)

    def __repr__(self) -> str:
        spread = f"cov={len(self.cov)}x{len(self.cov)}" if self.cov is not None else f"std={_short(self.std)}"
        return f"Normal(center={_short(self.center)}, {spread}, center_error={_short(self.center_error)})"


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Unknown(Rows):
    """Only |coordinate| <= magnitude is known: centre, scales and radius are learned privately."""

    kind: ClassVar[str] = "unknown"
    magnitude: float

    def __init__(self, magnitude: float, columns: Columns | None = None) -> None:
        object.__setattr__(self, "magnitude", positive("magnitude", magnitude))
        object.__setattr__(self, "columns", names("columns", columns))

    @property
    def d(self) -> int | None:
        return None

    def resolve(self, d: int) -> Unknown:
        return self

    def __repr__(self) -> str:
        return f"Unknown(magnitude={self.magnitude:g})"


KINDS: dict[str, type[Rows]] = {cls.kind: cls for cls in (Ball, Box, Normal, Unknown)}


_NUMBERS = codec.any_of(codec.number, codec.numbers)
_FIELDS: dict[str, codec.Kind[Any]] = {
    **dict.fromkeys(("radius", "magnitude"), codec.number),
    **dict.fromkeys(("center", "lower", "upper", "std", "center_error"), _NUMBERS),
    "cov": codec.matrix,
    "columns": codec.names,
}


def rows_from_dict(found: Any) -> Rows:
    """Inverse of `to_dict`."""
    with codec.Fields(found, "the description of rows has missing, unknown or wrong fields.") as fields:
        kind = fields.take("kind", codec.any_of(codec.word(*KINDS), lambda value: None))
        if kind is None:
            raise UsageError(f"rows are of one kind of {', '.join(KINDS)}.")
        known = {name: fields.take(name, take) for name, take in _FIELDS.items() if name in found}
    try:
        return KINDS[kind](**known)
    except TypeError:
        raise UsageError(f"the description of {kind} rows has missing or unknown fields.") from None


def _symmetric(value: Any) -> Floats:
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
    # Eigenvalues below the rounding of the decomposition are no spread at all.
    floor = len(matrix) * np.finfo(float).eps * largest
    return np.sqrt(np.where(variances > floor, variances, 0.0)), directions


def _scalar_or_vector(name: str, value: Any) -> float | Floats:
    if value is None or isinstance(value, (int, float, str, np.number)) or floats(name, value).ndim == 0:
        return finite(name, value)
    return vector(name, value)


def _alike(first: str, a: Any, second: str, b: Any) -> tuple[float | Floats, float | Floats]:
    x, y = _scalar_or_vector(first, a), _scalar_or_vector(second, b)
    length = _length(x) or _length(y)
    if length is None:
        return x, y
    if _length(x) not in (None, length) or _length(y) not in (None, length):
        raise UsageError(f"{first} and {second} must have the same length, got {_length(x)} and {_length(y)}.")
    return _spread(x, length), _spread(y, length)


def _pairs(owner: str, given: Mapping[str, Any], form: str) -> tuple[Columns, list[Any], list[Any]]:
    try:
        pairs = [(a, b) for a, b in given.values()]
    except (TypeError, ValueError):
        raise UsageError(f"{owner} expects name: {form} for every column.") from None
    if not pairs:
        raise UsageError(f"{owner} needs at least one column.")
    return tuple(map(str, given)), [a for a, _ in pairs], [b for _, b in pairs]


def _length(value: float | Floats | None) -> int | None:
    return int(value.size) if isinstance(value, np.ndarray) else None


def _spread(value: float | Floats, d: int) -> Floats:
    return np.full(d, float(value)) if not isinstance(value, np.ndarray) else value


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else list(value) if isinstance(value, tuple) else value


def _short(value: float | Floats | None) -> str:
    if not isinstance(value, np.ndarray):
        return f"{value:g}" if value is not None else "None"
    shown = ", ".join(f"{v:g}" for v in value[:4])
    return f"[{shown}{', ...' if value.size > 4 else ''}]"
