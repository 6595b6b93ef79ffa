"""Exceptions and argument checks of the whole library.

Every message names the argument, the rule and what to do. A message may quote an argument that the
caller typed (public), never anything read from the data.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from itertools import islice
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from .suggestions import suggest_value, unknown_argument

Named = TypeVar("Named", bound=Callable[..., Any])
Floats = NDArray[np.float64]
MOST_WHOLE = 2**53
"""The largest number below which doubles represent every whole number."""
MOST_COLUMNS = 10_000_000
_LETTERS = 40
_NAME_LETTERS = 60
_NAMES = 20


class EllipsumError(Exception):
    """Base of every error that the library raises on purpose."""


class UsageError(EllipsumError, ValueError):
    """An argument is missing or wrong; the message says which, and what to do."""


class BudgetRefused(EllipsumError):
    """The privacy budget does not allow this release; nothing was charged."""


class DataError(EllipsumError, OSError):
    """A source could not be read or a result could not be written; nothing was published."""


class AccuracyWarning(UserWarning):
    """Warns that a release may be inaccurate, for example because many values were clamped.

    The release, already charged, is in the attribute `release`; of a plan it is None.
    """

    def __init__(self, text: str, release: Any = None) -> None:
        super().__init__(text)
        self.release = release


def refuse_unknown(call: str, keywords: Iterable[str], known: Sequence[str]) -> None:
    """Refuse a keyword that a call does not have, with the nearest name."""
    for name in keywords:
        if name not in known:
            raise UsageError(unknown_argument(call, name, known))


def checks_keywords(target: Named) -> Named:
    """Decorate a function or a class: an unknown keyword is refused with the nearest name."""
    is_class = inspect.isclass(target)
    call = target.__init__ if is_class else target
    accepted = [name for name in inspect.signature(call).parameters if name != "self"]

    @wraps(call)
    def checked(*arguments: Any, **keywords: Any) -> Any:
        refuse_unknown(type(arguments[0]).__name__ if is_class else target.__name__, keywords, accepted)
        return call(*arguments, **keywords)

    if not is_class:
        return cast(Named, checked)
    target.__init__ = checked  # type: ignore[misc, method-assign]
    return target


def visible(text: str) -> str:
    """The text with control characters escaped, since a terminal would obey them."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shown(name: Any) -> str:
    """Shorten a name from the data and escape its control characters, for messages and pages."""
    text = str(name)
    return visible(text if len(text) <= _NAME_LETTERS else text[:_NAME_LETTERS] + "...")


def named(name: Any) -> str:
    """The same as `shown`, with quotes around a text."""
    return f"'{shown(name)}'" if isinstance(name, str) else shown(name)


def listing(names: Iterable[Any]) -> str:
    """List the first names, and the number of the others."""
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


def positive(name: str, value: Any, advice: str = "Pass a finite number above 0.") -> float:
    """Check a finite number above 0."""
    number = _number(name, value, advice)
    if not (number > 0 and math.isfinite(number)):
        raise UsageError(f"{name} must be > 0 and finite, got {number}. {advice}")
    return number


def finite(name: str, value: Any, advice: str = "Pass a finite number.") -> float:
    """Check a finite number; minus zero becomes zero."""
    number = _number(name, value, advice)
    if not math.isfinite(number):
        raise UsageError(f"{name} must be finite, got {number}. {advice}")
    return number + 0.0


def non_negative(name: str, value: Any, advice: str = "Pass a finite number >= 0.") -> float:
    """Check a finite number of at least 0."""
    number = _number(name, value, advice)
    if not (number >= 0 and math.isfinite(number)):
        raise UsageError(f"{name} must be >= 0 and finite, got {number}. {advice}")
    return number


def open_unit(name: str, value: Any, advice: str = "Pass a number strictly between 0 and 1.") -> float:
    """Check a number strictly between 0 and 1."""
    number = _number(name, value, advice)
    if not 0 < number < 1:
        raise UsageError(f"{name} must be between 0 and 1, got {number}. {advice}")
    return number


def whole(name: str, value: Any, least: int = 1, advice: str = "", most: int = MOST_WHOLE) -> int:
    """Check a whole number of at least `least`."""
    text = advice or f"Pass a whole number of at least {least}."
    number = _number(name, value, text)
    if not math.isfinite(number) or number != math.floor(number) or number < least:
        raise UsageError(f"{name} must be a whole number >= {least}, got {number:.15g}. {text}")
    if value > most:
        raise UsageError(f"{name} must be at most {most}, got {number:.15g}.")
    return int(value)


def columns_of(name: str, value: Any) -> int:
    """Check a number of columns: at least one, and not more than a plan can hold."""
    return whole(name, value, advice="Pass the number of columns.", most=MOST_COLUMNS)


def yes_or_no(name: str, value: Any) -> bool:
    """Check True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise UsageError(f"{name} must be True or False, got {type(value).__name__}.")
    return bool(value)


def choice(name: str, value: Any, allowed: Sequence[str]) -> str:
    """Check that a value is one of a few texts."""
    if not isinstance(value, str) or value not in allowed:
        got = repr(value[:_LETTERS]) if isinstance(value, str) else type(value).__name__
        advice = suggest_value(name, value, allowed) if isinstance(value, str) else ""
        raise UsageError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {got}.{advice}")
    return str(value)


def names(name: str, value: Any, length: int | None = None) -> tuple[str, ...] | None:
    """Check the names of columns; None stays None."""
    if value is None:
        return None
    try:
        entries = () if isinstance(value, (str, bytes)) else tuple(value)
    except TypeError:
        entries = ()
    if not entries or not all(isinstance(entry, str) for entry in entries):
        raise UsageError(f"{name} must be a list of names.")
    if length is not None and len(entries) != length:
        raise UsageError(f"{name} must have {length} entries, one per column, got {len(entries)}.")
    return tuple(map(str, entries))


def in_column_order(name: str, value: Any, columns: Sequence[Any] | None) -> Any:
    """Sort the numbers of a dict by column; return anything else unchanged."""
    if not isinstance(value, Mapping):
        return value
    if columns is None:
        raise UsageError(f"{name} must be a list of numbers, because the columns have no names.")
    columns = list(columns)
    if sorted(map(str, value)) != sorted(map(str, columns)):
        raise UsageError(f"{name} must have one number for each column: {listing(columns)}.")
    return [value.get(column) for column in columns]


def floats(name: str, value: Any, copy: bool = True) -> Floats:
    """Check numbers: a float64 array of any shape, which may hold NaN and infinities."""
    try:
        return np.array(value, dtype=np.float64, copy=copy or None)
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"{name} must hold numbers only. Check for text, ragged nesting and huge integers.") from None


def vector(name: str, value: Any, length: int | None = None, copy: bool = True) -> Floats:
    """Check finite numbers: a one-dimensional float64 array, of this length if one is given."""
    array = floats(name, value, copy)
    if array.ndim != 1 or array.size == 0:
        raise UsageError(f"{name} must be a non-empty one-dimensional list, got shape {array.shape}.")
    if length is not None and array.size != length:
        raise UsageError(f"{name} must have {length} entries, one per column, got {array.size}.")
    if not np.isfinite(array).all():
        raise UsageError(f"{name} must be finite: it holds a NaN or an infinity.")
    return array
