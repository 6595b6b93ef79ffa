"""Rows of which only a magnitude is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..errors import UsageError, names, positive
from .base import Reach, Rows
from .values import Columns

_LEAST, _MOST = 1e-200, 1e200  # doubles hold every width, spread and noise that is learned within such a magnitude


@dataclass(frozen=True, init=False, repr=False)
class Unknown(Rows):
    """Only |coordinate| <= magnitude is known: centre, scales and radius are learned privately."""

    kind: ClassVar[str] = "unknown"
    magnitude: float

    def __init__(self, magnitude: float, columns: Columns | None = None) -> None:
        found = positive("magnitude", magnitude)
        if not _LEAST <= found <= _MOST:
            raise UsageError(f"magnitude must lie between {_LEAST:g} and {_MOST:g}, got {found}. Rescale the columns.")
        object.__setattr__(self, "magnitude", found)
        object.__setattr__(self, "columns", names("columns", columns))

    @property
    def d(self) -> int | None:
        return None

    def resolve(self, d: int) -> Unknown:
        return self

    def reach(self, d: int, metric: str, n: int | None, clip_probability: float | None) -> Reach:
        raise UsageError(
            "A projection needs rows with a bound, got Unknown. State Ball, Box or Normal rows, "
            "or learn them first with es.learn."
        )

    def __repr__(self) -> str:
        return f"Unknown(magnitude={self.magnitude:g})"
