"""Rows of which only a magnitude is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..errors import Floats, UsageError, names, positive, shown
from .base import Reach, Rows
from .parsing import Columns, length_of, plain, scalar_or_vector, short, spread_out

_LEAST, _MOST = 1e-140, 1e140  # doubles hold the squares of all that is learned within such a magnitude


@dataclass(frozen=True, init=False, repr=False)
class Unknown(Rows):
    """Only |value| <= magnitude is known: bounds are learned privately, by `method` with its own options.

    Unknown(1e6) for every column, a list with one magnitude per column, or Unknown({"age": 200, "income": 1e8}).
    """

    kind: ClassVar[str] = "unknown"
    magnitude: float | Floats
    method: str
    options: Mapping[str, Any]
    """The method's own."""

    def __init__(self, magnitude: Any, columns: Columns | None = None, *, method: str = "auto", **options: Any) -> None:
        if isinstance(magnitude, Mapping):
            if columns is not None:
                raise UsageError("Unknown takes either a mapping of name: magnitude, or magnitude and columns.")
            if not magnitude:
                raise UsageError("Unknown needs at least one column.")
            columns, magnitude = tuple(map(str, magnitude)), list(magnitude.values())
        found = scalar_or_vector("magnitude", magnitude)
        if not isinstance(found, np.ndarray):
            found = positive("magnitude", found)
        if not np.all((np.asarray(found) >= _LEAST) & (np.asarray(found) <= _MOST)):
            raise UsageError(
                f"magnitude must lie between {_LEAST:g} and {_MOST:g}, got {short(found)}. Rescale the columns."
            )
        object.__setattr__(self, "magnitude", found)
        object.__setattr__(self, "columns", names("columns", columns, self.d))
        if not isinstance(method, str):
            raise UsageError(f"method must be the name of a method, got {type(method).__name__}.")
        object.__setattr__(self, "method", method)
        object.__setattr__(self, "options", {name: value for name, value in options.items() if value is not None})

    @property
    def d(self) -> int | None:
        return length_of(self.magnitude)

    def to_dict(self) -> dict[str, Any]:
        fields = super().to_dict()
        return {**fields, "options": {name: plain(value) for name, value in self.options.items()}}

    @property
    def largest(self) -> float:
        """The magnitude that every entry of every column lies within."""
        return float(np.max(self.magnitude))

    def magnitudes(self, d: int) -> Floats:
        """One per column."""
        return spread_out(self.magnitude, d)

    def resolve(self, d: int) -> Unknown:
        self._check_length(d)
        return self

    def reach(self, d: int, metric: str, n: int | None, clip_probability: float | None) -> Reach:
        raise UsageError(
            "A projection needs rows with a bound, got Unknown. State Ball, Box or Normal rows, "
            "or learn them first with es.learn."
        )

    def __repr__(self) -> str:
        return f"Unknown(magnitude={self.shown})"

    @property
    def shown(self) -> str:
        """The magnitude in a few words."""
        if self.columns is None or not isinstance(self.magnitude, np.ndarray):
            return short(self.magnitude)
        pairs = zip(self.columns[:4], self.magnitude, strict=False)
        texts = [f"{shown(name)}: {size:g}" for name, size in pairs]
        return "{" + ", ".join(texts) + (", ..." if len(self.columns) > 4 else "") + "}"
