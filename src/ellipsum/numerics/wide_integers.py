"""Exact vectors of wide integers: what 64-bit partial sums are flushed into.

value = high * 2^48 + low, 0 <= low < 2^48, so magnitudes up to 2^110: 2^66 rows on the widest grid.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats

LOW_BITS = 48
_BASE = 1 << LOW_BITS
_MASK = _BASE - 1
_LEFT_STEP = 63 - LOW_BITS  # how far a low limb shifts left within 64 bits
_DIGIT = 12  # bits; values of up to 50 more are multiplied within 64
_HALF = np.uint64((1 << 32) - 1)
Ints = NDArray[np.int64]
Squares = tuple[NDArray[np.uint64], NDArray[np.uint64]]


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

    @staticmethod
    def product(values: Ints, factor: int) -> Wide:
        """values * factor, exactly: values below 2^50 and a factor of at least 0, digit by digit."""
        total = Wide.zeros(len(values))
        for place in range(factor.bit_length() // _DIGIT, -1, -1):
            digit = (factor >> place * _DIGIT) & ((1 << _DIGIT) - 1)
            total = total.split(-_DIGIT)[0] + Wide.from_int64(values * digit)
        return total

    def __len__(self) -> int:
        return int(self.high.size)

    def __getitem__(self, index: int) -> int:
        return int(self.high[index]) * _BASE + int(self.low[index])

    def to_ints(self) -> list[int]:
        return [self[j] for j in range(len(self))]

    def __add__(self, other: Wide) -> Wide:
        high, low = self.high + other.high, self.low + other.low
        high += low >> LOW_BITS
        low &= _MASK
        return Wide(high, low)

    def equals(self, other: Wide) -> bool:
        return bool(np.array_equal(self.high, other.high) and np.array_equal(self.low, other.low))

    def join(self, other: Wide) -> Wide:
        """This vector followed by the other."""
        return Wide(np.concatenate([self.high, other.high]), np.concatenate([self.low, other.low]))

    def to_float(self) -> Floats:
        """Nearest doubles up to one rounding of each limb (relative error below 2^-51)."""
        values = self.high.astype(np.float64)
        values *= _BASE
        values += self.low
        return values

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


def squares_of(parts: Sequence[Ints]) -> Squares:
    """(high, low) with sum of part^2 = high * 2^62 + low, element by element.

    Up to four parts from 0 to below 2^62, of which at most two are above 2^61.
    """
    top = middle = low = np.zeros(parts[0].size, np.uint64)
    for part in parts:
        whole = part.astype(np.uint64)
        head, tail = whole >> np.uint64(31), whole & np.uint64((1 << 31) - 1)
        top, middle, low = top + head * head, middle + head * tail, low + tail * tail
    last, rest = np.uint64(62), np.uint64((1 << 62) - 1)
    low_middle = (middle & np.uint64((1 << 30) - 1)) << np.uint64(32)
    total = (low & rest) + low_middle
    high: NDArray[np.uint64] = top + (middle >> np.uint64(30)) + (low >> last) + (total >> last)
    return high, total & rest


def larger_squares(first: Squares, second: Squares) -> Squares:
    """The larger of two such numbers, element by element."""
    wins = (first[0] > second[0]) | ((first[0] == second[0]) & (first[1] >= second[1]))
    return np.where(wins, first[0], second[0]), np.where(wins, first[1], second[1])


def sum_of(squares: Squares) -> int:
    """The exact sum of all elements, up to 2^31 of them."""
    high, low = ((int((limb >> np.uint64(32)).sum()) << 32) + int((limb & _HALF).sum()) for limb in squares)
    return (high << 62) + low
