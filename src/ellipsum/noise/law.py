"""The law of a plan's noise: how much each coordinate gets, how it is drawn, and what that proves.

docs/proofs/plans.md [U9]. A law speaks of the coordinates of a plan's integer sum: values, counts beside them, and the
count of rows where there is one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from ..errors import Floats, UsageError
from ..numerics.wide_integers import Ints, Wide
from ..privacy.guarantee import Privacy
from ..privacy.spherical_curve import Guarantee
from .gaussian import add_noise, add_noise_exact, shift_for
from .stream import Stream

TOO_LITTLE = "this plan's noise is below what its guarantee needs. Make the plan anew."


class Law:
    """What plans ask of a law of noise; all numbers are in units of the grid."""

    kind: ClassVar[str] = ""

    def stds(self, width: int) -> Floats:
        """The std of the noise of each of so many coordinates."""
        raise NotImplementedError

    def multiples(self, width: int, level: float) -> Floats:
        """For each coordinate, the half-width of an interval at a level, in units of its std."""
        raise NotImplementedError

    def squared_radius(self, rank: int, level: float) -> float:
        """What the squared length of noise in so many directions, in stds, stays below at a level."""
        raise UsageError("noise in blocks has no confidence ellipsoid. Use confidence_region: a box.")

    def add(self, sums: Wide, last: list[int], stream: Stream) -> Floats:
        """The noisy sums; `last` are coordinates that follow, which may be too wide for limbs.

        Sums of several groups or runs, one in each row, have noise of their own each; nothing follows them.
        """
        raise NotImplementedError

    def prove(self, privacy: Guarantee, sensitivity: Fraction, moves: Ints) -> None:
        """An error unless the noise gives the guarantee: sensitivity in l2, and how far each coordinate moves."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        raise NotImplementedError


@dataclass(frozen=True)
class GaussianLaw(Law):
    """Normal noise of one std in every coordinate: units * mu >= sensitivity in exact arithmetic [U1]."""

    kind: ClassVar[str] = "gaussian"
    units: float

    def stds(self, width: int) -> Floats:
        return np.full(width, self.units)

    def multiples(self, width: int, level: float) -> Floats:
        return np.full(width, normal_multiple(level))

    def squared_radius(self, rank: int, level: float) -> float:
        from scipy.special import chdtri

        return float(chdtri(rank, 1 - level))

    def add(self, sums: Wide, last: list[int], stream: Stream) -> Floats:
        shift = shift_for(self.units)
        noisy = add_noise(sums, self.units, shift, stream)
        if last:  # an exact rational: its integer may be too wide for limbs before the shift, never after
            noisy = noisy.join(add_noise_exact(last, self.units, shift, stream, len(sums)))
        scaled: Floats = np.ldexp(noisy.to_float(), shift)
        return scaled

    def prove(self, privacy: Guarantee, sensitivity: Fraction, moves: Ints) -> None:
        mu = privacy.mu if isinstance(privacy, Privacy) and not privacy.pure else 0.0
        if not math.isfinite(self.units) or Fraction(self.units) * Fraction(mu) < sensitivity:
            raise UsageError(TOO_LITTLE)


def normal_multiple(level: float) -> float:
    """The half-width of an interval at a level, in stds of normal noise."""
    from scipy.special import ndtri

    return float(ndtri((1 + level) / 2))


def joined(sums: Wide, last: list[int]) -> Wide:
    """The sums with whole numbers behind them."""
    if not last:
        return sums
    return sums.join(Wide.from_ints(last))
