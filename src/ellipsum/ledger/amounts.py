"""Amounts of a budget: exact numbers, written as the decimals that were typed."""

from __future__ import annotations

from decimal import ROUND_DOWN, ROUND_UP, Context, Decimal
from fractions import Fraction
from typing import Any

from ..curves import typed
from ..errors import UsageError, non_negative

_MOST_DIGITS = 400
_SHORT = 12


def amount(name: str, value: Any) -> Fraction:
    """What somebody typed, exactly: a text, a Decimal, or a double read as the shortest decimal that it is."""
    if isinstance(value, Fraction):
        return value
    if not isinstance(value, (str, Decimal)):
        return typed(non_negative(name, value))
    text = str(value).strip()
    try:
        number = Fraction(text) if len(text) <= _MOST_DIGITS and "/" not in text else None
        float(number or 0)
    except (ValueError, OverflowError, ZeroDivisionError):
        number = None
    if number is None or number < 0:
        raise UsageError(f"{name} must be a decimal number of zero or above. Write it as in 0.25 or 1e-6.")
    return number


def written(value: Fraction) -> str:
    """The exact decimal; every amount has one, being made of decimals and doubles."""
    twos = (value.denominator & -value.denominator).bit_length() - 1
    fives, rest = 0, value.denominator >> twos
    while rest > 1:
        rest //= 5
        fives += 1
    places = max(twos, fives)
    digits = str(value.numerator * 10**places // value.denominator)
    while places and digits.endswith("0"):
        digits, places = digits[:-1], places - 1
    return str(Decimal(f"{digits}E-{places}"))


def brief(value: Fraction, up: bool = False) -> str:
    """The amount for people: exact where it is short, else five digits of it, rounded down or up."""
    exact = written(value)
    if len(exact) > _SHORT:
        return str(Context(prec=5, rounding=ROUND_UP if up else ROUND_DOWN).create_decimal(exact))
    return exact
