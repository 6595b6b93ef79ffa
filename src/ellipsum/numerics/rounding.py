"""Directed rounding: of exact numbers, and of balls that enclose a real number (python-flint) [P2].

Every number that a guarantee rests on is compared as a true number: balls enclose it, at a precision that decides.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flint import arb

FLINT = threading.RLock()
"""Ball arithmetic has one working precision for the whole process: one lock guards it."""
_FIRST_BITS, _LAST_BITS = 128, 1 << 14


def round_up(value: Fraction) -> float:
    """The least double >= value."""
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.nextafter(math.inf, 0)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def round_down(value: Fraction) -> float:
    """The greatest double <= value."""
    return -round_up(-value)


def typed(value: float) -> Fraction:
    """The decimal that was typed for this double: the shortest that reads as it."""
    return Fraction(repr(float(value)))


def within_typed(value: float) -> float:
    """The greatest double that is no more than what was typed: the double read from 0.2 is a little more than 0.2."""
    return round_down(min(Fraction(value), typed(value)))


def sqrt_down(value: Fraction) -> float:
    """The greatest double whose exact square is at most value >= 0."""
    return round_down(_sqrt_floor(value))


def sqrt_up(value: Fraction) -> float:
    """A double whose exact square is at least value >= 0: the least, or the next one."""
    floor = _sqrt_floor(value)
    return round_up(floor if floor * floor == value else floor * (1 + Fraction(1, 1 << 79)))


def _sqrt_floor(value: Fraction) -> Fraction:
    """floor(sqrt(value) 2^k) / 2^k, with k such that the floor has at least 80 bits."""
    shift = max(0, 82 - (value.numerator.bit_length() - value.denominator.bit_length()) // 2)
    return Fraction(math.isqrt((value.numerator << 2 * shift) // value.denominator), 1 << shift)


def enclose_ever_tighter(evaluate: Callable[[], arb], bits: int = _FIRST_BITS, most: int = _LAST_BITS) -> Iterator[arb]:
    """The same ball at 128, 256, ... bits: each encloses the true value, ever more tightly."""
    from flint import ctx

    while bits <= most:
        with FLINT, ctx.workprec(bits):
            ball = evaluate()
        yield ball
        bits *= 2


def is_proved_nonnegative(evaluate: Callable[[], arb]) -> bool:
    """Whether a real number is proved to be >= 0; a tie that no precision decides counts as not [P2]."""
    for ball in enclose_ever_tighter(evaluate):
        if ball >= 0:
            return True
        if ball < 0:
            return False
    return False


def round_ball_up(ball: arb) -> float:
    """The least double that is certainly at least the enclosed number (infinity for an empty enclosure)."""
    if not ball.is_finite():
        return math.inf
    upper = ball.upper()
    nearest = float(upper)
    return nearest if upper <= nearest else math.nextafter(nearest, math.inf)


def find_safe(start: float, unit: float, safe: Callable[[float], bool]) -> float | None:
    """The first safe number among start, start + unit 2^-50, start + unit 2^-47, ... start + unit / 4."""
    for shift in (2000, *range(50, 0, -3)):
        candidate = start + math.ldexp(unit, -shift)
        if safe(candidate):
            return candidate
    return None
