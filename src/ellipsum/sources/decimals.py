"""Decimal numbers to the nearest double, compiled: w 10^q for w of at most 19 digits, or "cannot say". [T3]

w and 10^q = 5^q 2^q are kept to 64 and 128 bits; the product then lies in an interval so short that its rounding is
nearly always the same at both ends. Where it is not, or the result is no normal number, the caller decides otherwise.
"""

from __future__ import annotations

from typing import Any

import llvmlite.ir  # type: ignore[import-untyped]
import numba
import numba.extending
import numpy as np
from numpy.typing import NDArray

from ..util.compile import compiled

ir: Any = llvmlite.ir
types: Any = numba.types
extending: Any = numba.extending

MOST_DIGITS = 19
_LEAST, _MOST = -342, 308  # powers of ten beyond which no w of 19 digits gives a normal number
_EXACT_POWER = 22  # 10^22 is a double
_EXACT_INTEGER = np.uint64(1 << 53)
_TENS = 10.0 ** np.arange(_EXACT_POWER + 1)
_U0, _U1, _9, _10, _52, _63 = (np.uint64(k) for k in (0, 1, 9, 10, 52, 63))
_DIGIT_ZERO, _DIGIT_NINE = np.uint8(ord("0")), np.uint8(9)
_WHOLE_TENS = 10 ** np.arange(9, dtype=np.uint64)
_3, _8, _16, _32, _100, _10000 = (np.uint64(k) for k in (3, 8, 16, 32, 100, 10_000))
_ZEROS, _OVER_NINE, _TOP_BITS = (np.uint64(byte * 0x0101010101010101) for byte in (0x30, 0x46, 0x80))
_PAIRS, _FOURS, _WORD = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF), np.uint64(0xFFFFFFFF)
_FRACTION = np.uint64((1 << 52) - 1)
_SIGN = np.uint64(1 << 63)
_ALL = np.uint64((1 << 64) - 1)


def _powers() -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64]]:
    """For each q: 5^q 2^s cut off to an integer of 128 bits, in halves, and q - s."""
    high, low, exponents = [], [], []
    for q in range(_LEAST, _MOST + 1):
        five = 5 ** abs(q)
        size = five.bit_length()
        if q >= 0:
            shift = 128 - size
            whole = five << shift if shift >= 0 else five >> -shift
        else:
            shift = 127 + size  # 2^shift / five lies in (2^127, 2^128)
            whole = (1 << shift) // five
        assert 1 << 127 <= whole < 1 << 128
        high.append(whole >> 64)
        low.append(whole & (1 << 64) - 1)
        exponents.append(q - shift)
    return np.array(high, np.uint64), np.array(low, np.uint64), np.array(exponents, np.int64)


_HIGH, _LOW, _SHIFTS = _powers()


@extending.intrinsic  # type: ignore[untyped-decorator]
def _product(typing: Any, a: Any, b: Any) -> Any:
    """(high, low) 64 bits of a product."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide, word = ir.IntType(128), ir.IntType(64)
        whole = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        halves = builder.trunc(builder.lshr(whole, wide(64)), word), builder.trunc(whole, word)
        return context.make_tuple(builder, signature.return_type, halves)

    return types.UniTuple(types.uint64, 2)(types.uint64, types.uint64), generate


@extending.intrinsic  # type: ignore[untyped-decorator]
def _leading_zeros(typing: Any, a: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


@extending.intrinsic  # type: ignore[untyped-decorator]
def _trailing_zeros(typing: Any, a: Any) -> Any:
    """64 for zero."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


@extending.intrinsic  # type: ignore[untyped-decorator]
def _as_double(typing: Any, a: Any) -> Any:
    """The double of these bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.uint64), generate


@extending.intrinsic  # type: ignore[untyped-decorator]
def _eight_bytes(typing: Any, text: Any, i: Any) -> Any:
    """Eight bytes of an array of bytes as one number, the first as its lowest."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(text)(context, builder, args[0]).data
        pointer = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(64).as_pointer())
        return builder.load(pointer, align=1)

    return types.uint64(text, types.uint64), generate


@compiled
def _few_digits(text: NDArray[np.uint8], i: Any) -> tuple[Any, Any]:
    """(how many of the eight bytes at i are digits in one run, the number that these spell); little-endian."""
    if i + _8 > np.uint64(text.size):
        count = number = _U0
        while i < np.uint64(text.size) and text[i] - _DIGIT_ZERO <= _DIGIT_NINE:
            number = number * _10 + np.uint64(text[i] - _DIGIT_ZERO)
            count += _U1
            i += _U1
        return count, number
    v = _eight_bytes(text, i)
    others = ((v + _OVER_NINE) | (v - _ZEROS)) & _TOP_BITS
    # A byte that is no digit may disturb those above it, never those below: the lowest mark is right.
    count = _trailing_zeros(others) >> _3
    shift = (_8 - count) << _3
    # The digits move up; zeros fill the places below. (A shift by 64, for no digit, is undone by the mask.)
    v = ((v - _ZEROS) << (shift & _63)) & (_U0 if count == _U0 else _ALL)
    v = (v * _10 + (v >> _8)) & _PAIRS  # 00 to 99 in every other byte, the first two digits lowest
    v = (v * _100 + (v >> _16)) & _FOURS
    return count, (v * _10000 + (v >> _32)) & _WORD


@compiled
def digits(text: NDArray[np.uint8], w: Any, i: Any) -> tuple[Any, Any]:
    """(w with the digits that start at i behind it, modulo 2^64; where they end)."""
    while True:
        count, number = _few_digits(text, i)
        if count < _8:
            return w * _WHOLE_TENS[count] + number, i + count
        w = w * _WHOLE_TENS[8] + number
        i += _8  # not `count`: a guess that the processor need not wait for


@compiled
def _exact(w: Any, q: int, negative: bool) -> tuple[bool, float]:
    """w 10^q where both are doubles: one operation, one rounding."""
    if w > _EXACT_INTEGER or q < -_EXACT_POWER or q > _EXACT_POWER:
        return False, 0.0
    value = float(w) * _TENS[q] if q >= 0 else float(w) / _TENS[-q]
    return True, -value if negative else value


@compiled
def nearest_double(w: Any, q: int, negative: bool) -> tuple[bool, float]:
    """(True, the double nearest to w 10^q), or (False, anything) where this method cannot say which it is. [T3]"""
    sign = _SIGN if negative else _U0
    if w == _U0:
        return True, _as_double(sign)
    if q < _LEAST or q > _MOST:
        return False, 0.0
    zeros = _leading_zeros(w)
    full = w << zeros
    # The truth lies in [high, high + 1], then, with the power's lower half, in [high, high + 2^-64].
    high, middle = _product(full, _HIGH[q - _LEAST])
    upper = high >> _63
    below = (_U1 << (_9 + upper)) - _U1  # bits of `high` below the one that rounds
    rest = high & below
    if rest in (_U0, below):
        carried = _product(full, _LOW[q - _LEAST])[0]
        middle += carried
        if middle < carried:
            high += _U1
            upper = high >> _63
            below = (_U1 << (_9 + upper)) - _U1
            rest = high & below
        if (rest == _U0 and middle == _U0) or (rest == below and middle == _ALL):
            return _exact(w, q, negative)
    mantissa = ((high >> (_9 + upper)) + _U1) >> _U1
    exponent = np.int64(upper) + 138 - np.int64(zeros) + _SHIFTS[q - _LEAST]
    if mantissa > _FRACTION << _U1 | _U1:  # rounded up to the next power of two
        mantissa >>= _U1
        exponent += 1
    biased = exponent + 1075
    if biased < 1 or biased > 2046:
        return False, 0.0
    return True, _as_double(sign | (np.uint64(biased) << _52) | (mantissa & _FRACTION))
