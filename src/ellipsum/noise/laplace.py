"""Laplace noise of one scale in every coordinate, for sums whose moves are bounded in the l1 norm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from ..errors import Floats, UsageError
from ..numerics.rounding import round_up
from ..numerics.wide_integers import Ints, Wide
from ..privacy.guarantee import Privacy
from ..privacy.spherical_curve import Guarantee
from .law import TOO_LITTLE, NoiseLaw, joined
from .stream import Stream
from .vector_runs import box_shifts


@dataclass(frozen=True)
class LaplaceLaw(NoiseLaw):
    """Independent Laplace noise: scale * epsilon >= the l1-sensitivity in exact arithmetic [H4]."""

    kind: ClassVar[str] = "laplace"
    scale: float

    @staticmethod
    def least(sensitivity: int, epsilon: float) -> LaplaceLaw:
        """[H4] The least noise for an l1-sensitivity, rounded up."""
        return LaplaceLaw(round_up(Fraction(sensitivity) / Fraction(epsilon)))

    def stds(self, width: int) -> Floats:
        return np.full(width, math.sqrt(2) * self.scale)

    def multiples(self, width: int, level: float) -> Floats:
        return np.full(width, -math.log1p(-level) / math.sqrt(2))

    def add(self, sums: Wide, last: list[int], stream: Stream, start: int = 0) -> Floats:
        from .vectors import add_box_noise  # compiles

        whole = joined(sums, last)
        shape, size = whole.high.shape, whole.high.size
        flat = Wide(whole.high.reshape(-1), whole.low.reshape(-1))
        scales, sizes = [self.scale] * size, [1] * size
        noisy = add_box_noise(flat, sizes, scales, stream, start).to_float()
        return np.ldexp(noisy, box_shifts(scales, sizes)).reshape(shape)

    def prove(self, privacy: Guarantee, sensitivity: Fraction, moves: Ints) -> None:
        """As of any law, but the sensitivity is in l1."""
        pure = privacy.pure if isinstance(privacy, Privacy) and not privacy.mu else ()
        enough = len(pure) == 1 and math.isfinite(self.scale)
        if not enough or Fraction(self.scale) * Fraction(pure[0]) < sensitivity:
            raise UsageError(TOO_LITTLE)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "scale": self.scale}
