"""The law of a plan's noise: how much each coordinate gets, how it is drawn, and what that proves.

docs/proofs/plans.md [U9]. A law speaks of the coordinates of a plan's integer sum: values, counts beside them, and the
count of rows where there is one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats, UsageError
from ..numerics.wide_integers import Ints, Wide
from ..privacy.gaussian_curve import round_up
from ..privacy.guarantee import Privacy
from ..privacy.spherical_privacy import BallPrivacy, Guarantee
from . import Stream, add_noise, add_noise_exact, shift_for
from .ball_norm import add_sphere_noise, ball_runs
from .block_law import Blocks
from .box_norm import add_block_noise, box_runs

if TYPE_CHECKING:
    from .vectors import Runs

TOO_LITTLE = "this plan's noise is below what its guarantee needs. Make the plan anew."


class Law:
    """What plans ask of a law of noise; all numbers are in units of the grid."""

    kind: ClassVar[str] = ""

    @property
    def apart(self) -> frozenset[int]:
        """Coordinates that are proved by how far each moves, while the others are by how far they do in l2 [U9]."""
        return frozenset()

    def check_stated(self, privacy: Guarantee, stated: Mapping[str, float]) -> None:
        """An error unless a guarantee under this law is that of the budget in the caller's words."""
        privacy.check_stated(stated)

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

    def prove(self, privacy: Guarantee, sensitivity: Fraction, moves: Sequence[int]) -> None:
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

    def prove(self, privacy: Guarantee, sensitivity: Fraction, moves: Sequence[int]) -> None:
        mu = privacy.mu if isinstance(privacy, Privacy) and not privacy.pure else 0.0
        if not math.isfinite(self.units) or Fraction(self.units) * Fraction(mu) < sensitivity:
            raise UsageError(TOO_LITTLE)


@dataclass(frozen=True)
class BallLaw(Law):
    """Spherical noise of density exp(-‖x‖/scale): scale * ratio >= sensitivity in exact arithmetic [B1]."""

    kind: ClassVar[str] = "ball"
    scale: float
    dimension: int

    def stds(self, width: int) -> Floats:
        from .spherical_law import ball_std

        return np.full(width, self.scale * ball_std(self.dimension))

    def multiples(self, width: int, level: float) -> Floats:
        from .spherical_law import ball_isf, ball_std

        return np.full(width, ball_isf((1 - level) / 2, self.dimension) / ball_std(self.dimension))

    def squared_radius(self, rank: int, level: float) -> float:
        from .spherical_law import ball_square_isf, ball_std

        return ball_square_isf(1 - level, rank, self.dimension) / ball_std(self.dimension) ** 2  # [B5]

    def add(self, sums: Wide, last: list[int], stream: Stream) -> Floats:
        runs, unit = self._drawing
        return add_sphere_noise(joined(sums, last), runs, stream).to_float() * unit

    @cached_property
    def _drawing(self) -> tuple[Runs, float]:
        """The coordinates as one run, and 2^shift."""
        runs = ball_runs(self.scale, self.dimension)
        return runs, math.ldexp(1.0, int(runs.shifts[0]))

    def prove(self, privacy: Guarantee, sensitivity: Fraction, moves: Sequence[int]) -> None:
        valid = math.isfinite(self.scale) and self.dimension == len(moves) and isinstance(privacy, BallPrivacy)
        if not valid or not isinstance(privacy, BallPrivacy) or privacy.dimension != self.dimension:
            raise UsageError(TOO_LITTLE)
        if Fraction(self.scale) * Fraction(privacy.ratio) < sensitivity:
            raise UsageError(TOO_LITTLE)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "scale": self.scale, "dimension": self.dimension}

    @staticmethod
    def least(privacy: BallPrivacy, sensitivity: Fraction) -> BallLaw:
        return BallLaw(round_up(sensitivity / Fraction(privacy.ratio)), privacy.dimension)


class Uneven(Law):
    """Laws whose coordinates have noise of their own stds: their regions are boxes."""

    def joint_multiples(self, wanted: NDArray[np.bool_], level: float) -> Floats:
        """Half-widths in stds of a box that holds the wanted coordinates all at once at a level; 0 of others [K4]."""
        raise NotImplementedError

    def sum_multiple(self, level: float) -> float:
        """The half-width at a level for a sum of coordinates, in stds, where it is wider than each of theirs [K3]."""
        raise NotImplementedError


@dataclass(frozen=True)
class BoxLaw(Uneven):
    """Pure noise in blocks that share a radius; a coordinate that never moves has none [K1]."""

    kind: ClassVar[str] = "box"
    blocks: Blocks
    scales: tuple[float, ...]
    """One per block: scale * share of epsilon >= how far its coordinates move, in exact arithmetic."""

    def stds(self, width: int) -> Floats:
        from .block_law import box_std

        stds = np.zeros(width)
        for block, scale in zip(self.blocks.blocks, self.scales, strict=True):
            stds[list(block.columns)] = scale * box_std(block.size)
        return stds

    def multiples(self, width: int, level: float) -> Floats:
        from .block_law import box_isf, box_std

        multiples = np.ones(width)
        for block in self.blocks.blocks:
            multiples[list(block.columns)] = box_isf((1 - level) / 2, block.size) / box_std(block.size)
        return multiples

    def joint_multiples(self, wanted: NDArray[np.bool_], level: float) -> Floats:
        from .block_law import box_largest_isf, box_std

        multiples, total = np.zeros(wanted.size), int(wanted[list(self.blocks.columns)].sum())
        for block in self.blocks.blocks:
            columns = np.array(block.columns)
            mine = columns[wanted[columns]]
            if mine.size:
                tail = -math.expm1(math.log(level) * mine.size / total)
                multiples[mine] = box_largest_isf(tail, mine.size, block.size) / box_std(block.size)
        return multiples

    def sum_multiple(self, level: float) -> float:
        from .block_law import box_sum_multiple

        shared = [size for size in self.blocks.sizes if size > 1]
        return max(normal_multiple(level), box_sum_multiple(level, min(shared)) if shared else 0.0)

    def add(self, sums: Wide, last: list[int], stream: Stream) -> Floats:
        whole, (order, plain, runs, units) = joined(sums, last), self._drawing
        if plain and whole.high.shape[-1] == runs.width:
            return add_block_noise(whole, runs, stream).to_float() * units
        noisy = add_block_noise(Wide(whole.high[..., order], whole.low[..., order]), runs, stream)
        scaled = whole.to_float()  # coordinates that never move are public
        scaled[..., order] = noisy.to_float() * units
        return scaled

    @cached_property
    def _drawing(self) -> tuple[Ints, bool, Runs, Floats]:
        """The blocks' coordinates, whether these are simply the first ones, the blocks, and 2^shift of the columns."""
        order, runs = np.array(self.blocks.columns, np.int64), box_runs(self.blocks.sizes, self.scales)
        units = np.ldexp(1.0, np.repeat(runs.shifts, runs.sizes))
        return order, bool((order == np.arange(order.size)).all()), runs, units

    def prove(self, privacy: Guarantee, sensitivity: Fraction, moves: Sequence[int]) -> None:
        if not isinstance(privacy, Privacy) or privacy.mu or len(privacy.pure) != 1:
            raise UsageError(TOO_LITTLE)
        blocks = self.blocks.blocks
        if len(self.scales) != len(blocks) or not all(map(math.isfinite, self.scales)):
            raise UsageError(TOO_LITTLE)
        served = set(self.blocks.columns)
        if any(moves[j] for j in range(len(moves)) if j not in served) or max(served, default=0) >= len(moves):
            raise UsageError(TOO_LITTLE)
        if sum((Fraction(block.epsilon) for block in blocks), Fraction(0)) > Fraction(privacy.pure[0]):
            raise UsageError(TOO_LITTLE)
        for block, scale in zip(blocks, self.scales, strict=True):
            if Fraction(scale) * Fraction(block.epsilon) < max(moves[j] for j in block.columns):
                raise UsageError(TOO_LITTLE)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "blocks": self.blocks.to_dict(), "scales": list(self.scales)}

    @staticmethod
    def least(blocks: Blocks, moves: Sequence[int]) -> BoxLaw:
        scales = tuple(block.scale(Fraction(max(moves[j] for j in block.columns))) for block in blocks.blocks)
        return BoxLaw(blocks, scales)


def normal_multiple(level: float) -> float:
    """The half-width of an interval at a level, in stds of normal noise."""
    from scipy.special import ndtri

    return float(ndtri((1 + level) / 2))


def joined(sums: Wide, last: list[int]) -> Wide:
    """The sums with whole numbers behind them."""
    if not last:
        return sums
    return sums.join(Wide.from_ints(last))
