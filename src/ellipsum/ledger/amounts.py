"""Amounts of a privacy budget: read as exact decimals, added exactly, and written exactly or in short."""

from __future__ import annotations

import re
from decimal import ROUND_DOWN, ROUND_UP, Context, Decimal, Inexact
from fractions import Fraction

from ..errors import UsageError, non_negative
from ..numerics.rounding import typed

Amount = float | str | Decimal | Fraction
"""What a caller may pass as an amount."""
_LARGEST = Fraction(10) ** 300
_DECIMAL = re.compile(r"[-+.0-9eE]+", re.ASCII)
_EXACT = Context(prec=20_000, traps=[Inexact])
_SHORT = 12


def parse_amount(name: str, value: Amount) -> Fraction:
    """The exact amount of a text, a Decimal or a number; a double is read as the shortest decimal that it prints."""
    if not isinstance(value, (str, Decimal, Fraction)):
        return typed(non_negative(name, value))
    try:
        number = value if isinstance(value, Fraction) else _read_decimal(str(value).strip(), 400, 300)
        exact_text(number)
    except (ValueError, ArithmeticError):
        number = Fraction(-1)
    if not 0 <= number <= _LARGEST:
        raise UsageError(f"{name} must be a decimal number, 0 or larger. Write it as in 0.25 or 1e-6.")
    return number


def read_amount(text: str) -> Fraction:
    """The amount that `exact_text` wrote. Limits keep a forged entry from asking for millions of digits."""
    number = _read_decimal(text, 4_000, 3_000)
    if number < 0:
        raise ValueError("not an amount")
    return number


def _read_decimal(text: str, most_digits: int, most_places: int) -> Fraction:
    if len(text) > most_digits or not _DECIMAL.fullmatch(text):
        raise ValueError("not a decimal")
    number = Decimal(text)
    if abs(number.adjusted()) > most_places:
        raise ValueError("not an amount")
    return Fraction(number)


def exact_text(value: Fraction) -> str:
    """The exact decimal. Every amount has one, since amounts are sums of decimals and doubles."""
    return str(_EXACT.divide(Decimal(value.numerator), Decimal(value.denominator)))


def short_text(value: Fraction, up: bool = False) -> str:
    """The amount as it is printed: exact if it is short, otherwise five digits, rounded down or up."""
    text = exact_text(value)
    if len(text) > _SHORT:
        text = str(Context(prec=5, rounding=ROUND_UP if up else ROUND_DOWN).create_decimal(text))
    return f"{float(text):.{_SHORT}g}"
