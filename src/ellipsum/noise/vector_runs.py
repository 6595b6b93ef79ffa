"""How noise vectors are laid out: runs of coordinates that share a factor, their shifts, and the draws they take.

Compiles nothing: plans ask for these numbers before any noise is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats, UsageError, positive, vector
from ..numerics.wide_integers import LOW_BITS, Ints
from .gaussian import SCALE_BITS, shift_for

COLUMNS = "sizes must add up to the columns, each at least 1. Pass the blocks of the plan."


@dataclass(frozen=True)
class Runs:
    """Runs of coordinates that lie one after the other and share a factor; repeated for every vector."""

    sizes: Ints
    scales: Floats
    """Noise scale of a run in the units of the sums."""
    shifts: Ints
    normal: bool
    """Coordinates are normals (True) or uniform on [-1, 1] (False)."""

    @cached_property
    def width(self) -> int:
        return int(self.sizes.sum())

    @cached_property
    def ends(self) -> Ints:
        """Where each run ends."""
        return np.cumsum(self.sizes)

    @cached_property
    def shifted(self) -> Floats:
        """The scales over 2^shift, exactly: powers of two."""
        return np.ldexp(self.scales, -self.shifts)

    @cached_property
    def outside(self) -> NDArray[np.bool_]:
        """Shifts that the compiled rounding does not serve."""
        return (self.shifts < 0) | (self.shifts >= LOW_BITS)

    @cached_property
    def served(self) -> Ints | None:
        """The shifts where it serves all of them."""
        return None if self.outside.any() else self.shifts


def ball_shift(scale: float, d: int) -> int:
    """The shift of a coordinate: its own std over 2^shift lies in [2^20, 2^21)."""
    return shift_for(scale * math.sqrt(d + 1))


def ball_draws(d: int, vectors: int = 1) -> int:
    """How many draws from a stream the noise of this number of vectors takes."""
    return vectors * (d + (d + 2) // 2)


def ball_runs(scale: float, d: int) -> Runs:
    """One run of d columns with this scale of noise."""
    shift = ball_shift(positive("scale", scale), d)
    return Runs(np.array([d], np.int64), np.array([scale]), np.array([shift], np.int64), normal=True)


def box_shifts(scales: Sequence[float] | Floats, sizes: Sequence[int] | Ints) -> Ints:
    """The shift of each block's coordinates: their own std over 2^shift lies in [2^20, 2^21)."""
    counts = np.asarray(sizes, np.int64)
    std = np.asarray(scales, np.float64) * np.sqrt((counts + 1) * (counts + 2) / 3)
    if not (std.min() > 0 and std.max() < np.inf):
        raise UsageError("scales must be > 0 and the noise they make finite. Check the plan's blocks.")
    return np.frexp(std)[1].astype(np.int64) - SCALE_BITS - 1


def box_draws(sizes: Sequence[int], vectors: int = 1) -> int:
    """How many draws from a stream the noise of this number of vectors takes."""
    return vectors * (2 * sum(sizes) + len(sizes))


def box_runs(sizes: Sequence[int] | Ints, scales: Sequence[float] | Floats) -> Runs:
    """Blocks of these sizes, with their scales of noise."""
    counts, levels = np.array(sizes, np.int64), vector("scales", scales, len(sizes))
    if not (counts.size and counts.min() > 0):
        raise UsageError(COLUMNS)
    return Runs(counts, levels, box_shifts(levels, counts), normal=False)
