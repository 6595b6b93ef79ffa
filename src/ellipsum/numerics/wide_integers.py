"""Exact vectors of wide integers: what 64-bit partial sums are flushed into.

value = high * 2^48 + low, 0 <= low < 2^48, so magnitudes up to 2^110: 2^66 rows on the widest grid.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats

LOW_BITS = 48
_BASE = 1 << LOW_BITS
_MASK = _BASE - 1
_LEFT_STEP = 63 - LOW_BITS  # how far a low limb shifts left within 64 bits
Ints = NDArray[np.int64]


@dataclass(frozen=True, init=False)
class Wide:
    """An immutable vector of exact integers in two limbs."""

    high: Ints
    low: Ints

    def __init__(self, high: Ints, low: Ints) -> None:
        fields = self.__dict__  # made for every step of every sum: at once
        fields["high"], fields["low"] = high, low

    @staticmethod
    def zeros(width: int) -> Wide:
        return Wide(np.zeros(width, np.int64), np.zeros(width, np.int64))

    @staticmethod
    def from_int64(values: Ints) -> Wide:
        return Wide(values >> LOW_BITS, values & _MASK)

    @staticmethod
    def from_ints(values: Iterable[int]) -> Wide:
        numbers = [int(v) for v in values]
        high = np.array([v >> LOW_BITS for v in numbers], np.int64)
        return Wide(high, np.array([v & _MASK for v in numbers], np.int64))

    def __len__(self) -> int:
        return int(self.high.size)

    def __getitem__(self, index: int) -> int:
        return int(self.high[index]) * _BASE + int(self.low[index])

    def to_ints(self) -> list[int]:
        return [self[j] for j in range(len(self))]

    def __add__(self, other: Wide) -> Wide:
        low = self.low + other.low
        return Wide(self.high + other.high + (low >> LOW_BITS), low & _MASK)

    def equals(self, other: Wide) -> bool:
        return bool(np.array_equal(self.high, other.high) and np.array_equal(self.low, other.low))

    def join(self, other: Wide) -> Wide:
        """This vector followed by the other."""
        return Wide(np.concatenate([self.high, other.high]), np.concatenate([self.low, other.low]))

    def to_float(self) -> Floats:
        """Nearest doubles but for one rounding of each limb (relative error below 2^-51)."""
        return self.high.astype(np.float64) * _BASE + self.low.astype(np.float64)

    def split(self, shift: int) -> tuple[Wide, Floats]:
        """(floor(value / 2^shift), the remainder / 2^shift in [0, 1] rounded to double)."""
        if 0 <= shift < LOW_BITS:
            mask = (1 << shift) - 1
            low = (self.low >> shift) + ((self.high & mask) << (LOW_BITS - shift))
            return Wide(self.high >> shift, low), np.ldexp((self.low & mask).astype(np.float64), -shift)
        if shift >= LOW_BITS:
            step = LOW_BITS - 1
            whole, fraction = self.split(step)
            whole, coarse = whole.split(shift - step)
            return whole, coarse + np.ldexp(fraction, step - shift)
        step = max(shift, -_LEFT_STEP)
        low = self.low << -step
        whole = Wide((self.high << -step) + (low >> LOW_BITS), low & _MASK)
        return whole.split(shift - step) if step > shift else (whole, np.zeros(len(self)))
