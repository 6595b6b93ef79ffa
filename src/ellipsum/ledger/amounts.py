"""Amounts of a budget: exact numbers, written as the decimals that were typed."""

from __future__ import annotations

import re
from decimal import ROUND_DOWN, ROUND_UP, Context, Decimal
from fractions import Fraction
from typing import Any

from ..errors import UsageError, non_negative
from ..numerics.rounding import typed

_MOST_DIGITS, _MOST_PLACES = 400, 300
_MOST = Fraction(10) ** _MOST_PLACES
_DECIMAL = re.compile(r"[-+.0-9eE]+", re.ASCII)
_SHORT = 12
_LONGEST, _MOST_KEPT = 4_000, 3_000


def amount(name: str, value: Any) -> Fraction:
    """What somebody typed, exactly: a text, a Decimal, or a double read as the shortest decimal that it is."""
    if not isinstance(value, (str, Decimal, Fraction)):
        return typed(non_negative(name, value))
    number = value if isinstance(value, Fraction) else _parsed(str(value).strip())
    if number is None or not 0 <= number <= _MOST or Fraction(written(number)) != number:
        raise UsageError(f"{name} must be a decimal number of zero or above. Write it as in 0.25 or 1e-6.")
    return number


def _parsed(text: str) -> Fraction | None:
    """The number of a text; None where it is none, or beyond all budgets."""
    try:
        number = Decimal(text) if len(text) <= _MOST_DIGITS and _DECIMAL.fullmatch(text) else None
    except ArithmeticError:
        return None
    if number is None or not number.is_finite() or abs(number.adjusted()) > _MOST_PLACES:
        return None
    return Fraction(number)


def read(text: str) -> Fraction:
    """An amount as `written` wrote it; sums have more digits than what people type, and never millions of them."""
    number = Decimal(text)
    if not number.is_finite() or number < 0 or not -_MOST_KEPT < number.adjusted() < _MOST_KEPT or len(text) > _LONGEST:
        raise ValueError("no amount")
    return Fraction(number)


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
