"""Rows whose columns were learned one by one: ends that each entry is clamped to, and what lies beyond them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..errors import Floats, UsageError, vector, whole
from .box import Box
from .parsing import Columns, short

_LEAST_DISTANCE = 0.02  # of half the width: the mean is known no better
_WRONG = "the learned columns are not valid: ends in order, an own place for absent cells, nothing below zero."


@dataclass(frozen=True, init=False, repr=False)
class LearnedBox(Box):
    """What learning found of few columns, each by itself; what it counted is part of it, as noisy as it was counted.

    mean, std: about where a column's rows lie; an absent cell counts as its column's mean. missed: how far clamping may
    move the mean of a column, and missed_std: the noise of that. absent: the number of rows that lack a column, with
    noise of absent_std; 0 of 0 where none can. unseen: so many rows far out, noise may hide; far: so many are seen, but
    not where.
    """

    kind: ClassVar[str] = "learned_box"
    mean: Floats
    std: Floats
    missed: Floats
    missed_std: Floats
    absent: Floats
    absent_std: Floats
    unseen: int
    far: int

    def __init__(
        self,
        lower: Any,
        upper: Any,
        mean: Any,
        std: Any,
        missed: Any,
        missed_std: Any,
        absent: Any,
        absent_std: Any,
        unseen: Any,
        far: Any,
        columns: Columns | None = None,
    ) -> None:
        super().__init__(vector("lower", lower), vector("upper", upper), columns)
        parts = {"mean": mean, "std": std, "missed": missed, "missed_std": missed_std}
        parts |= {"absent": absent, "absent_std": absent_std}
        for name, value in parts.items():
            object.__setattr__(self, name, vector(name, value, np.size(self.lower)))
        for name, value in (("unseen", unseen), ("far", far)):
            object.__setattr__(self, name, whole(name, value, least=0))
        within = (self.mean >= self.lower) & (self.mean <= self.upper) & (self.std > 0) & (self.missed >= 0)
        if not (within & (self.missed_std >= 0) & (self.absent_std >= 0)).all():
            raise UsageError(_WRONG)

    def to_dict(self) -> dict[str, Any]:
        fields = super().to_dict()
        del fields["shape"]
        return fields

    def resolve(self, d: int) -> LearnedBox:
        self._check_length(d)
        return self

    def distances(self, d: int, n: int | None) -> Floats:
        """How far the mean is from the middle of the ends."""
        half, middle = self._halves()
        return np.maximum(np.hypot(self.mean - middle, self.missed), _LEAST_DISTANCE * half)

    @property
    def known_absences(self) -> tuple[Floats, Floats] | None:
        return (self.absent, self.absent_std) if self.absent_std.any() else None

    def absent_at(self) -> Floats:
        return np.asarray(self.mean, float)

    def beyond(self) -> tuple[Floats, Floats, int, int]:
        return self.missed, self.missed_std, self.unseen, self.far

    def spread(self) -> Floats:
        return np.asarray(self.std, float)

    def named(self, columns: Columns | None) -> LearnedBox:
        return self._with(columns=columns)

    def __repr__(self) -> str:
        return f"LearnedBox(lower={short(self.lower)}, upper={short(self.upper)}, std={short(self.std)})"
