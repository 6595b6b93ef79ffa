"""Exceptions and argument checks, worded once for the whole library.

Every message names the argument, the rule and what to do. A message may quote an argument that the
caller typed (public), never anything read from the data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_NAME_LETTERS = 60
_NAMES = 20


class EllipsumError(Exception):
    """Base of every error that the library raises on purpose."""


class UsageError(EllipsumError, ValueError):
    """An argument is missing or wrong; the message says which, and what to do."""


class BudgetRefused(EllipsumError):
    """The privacy budget does not allow this release; nothing was spent."""


class DataError(EllipsumError, OSError):
    """A source could not be read or a result could not be written; nothing was published."""


class InsecureWarning(UserWarning):
    """A release used a caller's generator instead of the operating system's entropy."""


def visible(text: str) -> str:
    """The text with control characters spelled out: a terminal obeys them."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shown(name: Any) -> str:
    """A name that data brought along, fit for messages and screens: of bounded length, control characters escaped."""
    text = str(name)
    return visible(text if len(text) <= _NAME_LETTERS else text[:_NAME_LETTERS] + "...")


def named(name: Any) -> str:
    """`shown`, in quotes where it is text."""
    return f"'{shown(name)}'" if isinstance(name, str) else shown(name)


def listing(names: Iterable[Any]) -> str:
    """The first of some names, and how many more there are."""
    names = list(names)
    rest = len(names) - _NAMES
    return ", ".join(map(named, islice(names, _NAMES))) + (f" and {rest} more" if rest > 0 else "")


def _number(name: str, value: Any, advice: str) -> float:
    if value is None:
        raise UsageError(f"{name} is missing. {advice}")
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise UsageError(f"{name} must be a number, got {type(value).__name__}. {advice}")
    try:
        return float(value)
    except OverflowError:
        raise UsageError(f"{name} must be within the range of a double. {advice}") from None


def positive(name: str, value: Any, advice: str = "State a finite number above zero.") -> float:
    """A finite number > 0."""
    number = _number(name, value, advice)
    if not (number > 0 and math.isfinite(number)):
        raise UsageError(f"{name} must be > 0 and finite, got {number}. {advice}")
    return number


def non_negative(name: str, value: Any, advice: str = "State a finite number, zero or above.") -> float:
    """A finite number >= 0."""
    number = _number(name, value, advice)
    if not (number >= 0 and math.isfinite(number)):
        raise UsageError(f"{name} must be >= 0 and finite, got {number}. {advice}")
    return number


def open_unit(name: str, value: Any, advice: str = "State a number strictly between 0 and 1.") -> float:
    """A number in (0, 1)."""
    number = _number(name, value, advice)
    if not 0 < number < 1:
        raise UsageError(f"{name} must be between 0 and 1, got {number}. {advice}")
    return number


def whole(name: str, value: Any, least: int = 1, advice: str = "") -> int:
    """A whole number >= least."""
    text = advice or f"State a whole number of at least {least}."
    number = _number(name, value, text)
    if number != math.floor(number) or number < least:
        raise UsageError(f"{name} must be a whole number >= {least}, got {value}. {text}")
    return int(value)


def choice(name: str, value: Any, allowed: Sequence[str]) -> str:
    """One of a few words."""
    if value not in allowed:
        raise UsageError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}.")
    return str(value)


def vector(name: str, value: Any, length: int | None = None) -> Floats:
    """A finite one-dimensional float64 array (a copy), of the given length if one is given."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise UsageError(f"{name} must be a list of numbers. Check for text or ragged nesting.") from None
    if array.ndim != 1 or array.size == 0:
        raise UsageError(f"{name} must be a non-empty one-dimensional list, got shape {array.shape}.")
    if length is not None and array.size != length:
        raise UsageError(f"{name} must have {length} entries, one a column, got {array.size}.")
    if not np.isfinite(array).all():
        raise UsageError(f"{name} must be finite: it holds a NaN or an infinity.")
    return array
