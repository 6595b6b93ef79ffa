"""Two laws in one release: pure noise in blocks for some coordinates, Gaussian noise for the others.

docs/proofs/plans.md [U9]. Both parts have noise of their own, so together they are (mu, pure = (epsilon_1,)) [P8].
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats, UsageError
from ..numerics.wide_integers import Wide
from ..privacy.budget_split import check_split
from ..privacy.guarantee import Privacy
from ..privacy.spherical_privacy import Guarantee
from . import Stream, add_noise, box_draws, shift_for
from .law import (
    TOO_LITTLE,
    BoxLaw,
    GaussianLaw,
    Uneven,
    joined,
    normal_multiple,
)


@dataclass(frozen=True)
class MixedLaw(Uneven):
    """Noise in blocks for the coordinates that `pure` names, and normal noise of one std for every other [U9]."""

    kind: ClassVar[str] = "mixed"
    pure: BoxLaw
    units: float
    """Of the others: units * mu >= how far these move together in l2, in exact arithmetic."""

    @cached_property
    def _apart(self) -> frozenset[int]:
        return frozenset(self.pure.blocks.columns)

    @property
    def apart(self) -> frozenset[int]:
        return self._apart

    def _normal(self, width: int) -> NDArray[np.bool_]:
        """Which of so many coordinates have normal noise."""
        normal = np.ones(width, bool)
        normal[list(self.pure.blocks.columns)] = False
        return normal

    def stds(self, width: int) -> Floats:
        return np.where(self._normal(width), self.units, self.pure.stds(width))

    def multiples(self, width: int, level: float) -> Floats:
        return np.where(self._normal(width), normal_multiple(level), self.pure.multiples(width, level))

    def joint_multiples(self, wanted: NDArray[np.bool_], level: float) -> Floats:
        """[K4] Every coordinate has a share of the level's logarithm; normal ones are alone with theirs."""
        normal = wanted & self._normal(wanted.size)
        total, alone = int(wanted.sum()), int(normal.sum())
        multiples = np.zeros(wanted.size)
        if total > alone:
            multiples = self.pure.joint_multiples(wanted & ~normal, level ** ((total - alone) / total))
        multiples[normal] = normal_multiple(level ** (1 / total)) if alone else 0.0
        return multiples

    def sum_multiple(self, level: float) -> float:
        return self.pure.sum_multiple(level)

    def add(self, sums: Wide, last: list[int], stream: Stream) -> Floats:
        whole = joined(sums, last)
        width = whole.high.shape[-1]
        normal, shift = self._normal(width), shift_for(self.units)
        scaled = self.pure.add(whole, [], stream)
        start = box_draws(self.pure.blocks.sizes, whole.high.size // width)
        rest = Wide(np.ascontiguousarray(whole.high[..., normal]), np.ascontiguousarray(whole.low[..., normal]))
        scaled[..., normal] = np.ldexp(add_noise(rest, self.units, shift, stream, start).to_float(), shift)
        return scaled

    def prove(self, privacy: Guarantee, sensitivity: Fraction, moves: Sequence[int]) -> None:
        """sensitivity: in l2, of the coordinates that are not `apart` [U9]."""
        valid = isinstance(privacy, Privacy) and privacy.mu > 0 and len(privacy.pure) == 1
        valid &= math.isfinite(self.units) and self.units > 0 and len(self.apart) < len(moves)
        if not valid or not isinstance(privacy, Privacy):
            raise UsageError(TOO_LITTLE)
        own = [move if j in self.apart else 0 for j, move in enumerate(moves)]
        self.pure.prove(Privacy.of_pure(privacy.pure[0], privacy.neighbors, privacy.unit), Fraction(0), own)
        GaussianLaw(self.units).prove(Privacy(privacy.mu, 0.0, privacy.neighbors, privacy.unit), sensitivity, moves)

    def check_stated(self, privacy: Guarantee, stated: Mapping[str, float]) -> None:
        check_split(privacy, stated)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "pure": self.pure.to_dict(), "units": self.units}
