"""JSON in and out: texts are parsed strictly, and objects taken from them field by field.

Whatever a text holds (deep nesting, endless digits, NaN, a field twice, other types or shapes), reading it ends in a
checked object or in a `UsageError` that quotes nothing of it; and nothing but finite numbers is ever written.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats, UsageError

T = TypeVar("T")
Kind = Callable[[Any], T]
_MOST_DIGITS = 40
_MISSING: Any = object()


class Wrong(Exception):
    """A field is not of its kind."""


def dump(fields: Mapping[str, Any]) -> str:
    """The JSON of an object; numbers that JSON does not have are refused."""
    try:
        return json.dumps(fields, allow_nan=False, default=_plain)
    except ValueError:
        raise UsageError("a number is beyond the range of doubles, so there is no JSON for this.") from None


def _plain(value: Any) -> Any:
    """Numbers of numpy, alone or in arrays, as Python's own."""
    return value.tolist()


def parse(text: str | bytes) -> dict[str, Any]:
    """The JSON object in a text."""
    if not isinstance(text, (str, bytes)):
        raise UsageError(f"expected the text that to_json wrote, got {type(text).__name__}.")
    try:
        content = json.loads(
            text, object_pairs_hook=_unique, parse_int=_integer, parse_float=_finite, parse_constant=_refuse
        )
    except (ValueError, Wrong, RecursionError):  # text that is no text is a ValueError too
        raise UsageError("not valid JSON. Give the text or file that to_json or save wrote.") from None
    if not isinstance(content, dict):
        raise UsageError("not a JSON object. Give the text or file that to_json or save wrote.")
    return content


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise Wrong
    return entries


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise Wrong
    return int(digits)


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise Wrong
    return value


def _refuse(word: str) -> NoReturn:
    raise Wrong


class Fields:
    """The fields of one JSON object, each taken once: missing, wrong and left-over ones are one and the same error.

    complaint: what that error says.
    """

    def __init__(self, saved: Any, complaint: str) -> None:
        self._complaint = complaint
        if not isinstance(saved, Mapping):
            raise UsageError(complaint)
        self._left = dict(saved)

    def __enter__(self) -> Fields:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._left:
            raise UsageError(self._complaint)

    def check_format(self, wanted: str, complaint: str) -> None:
        """The first two fields of every format; the version that wrote it does not matter."""
        if self._left.pop("format", None) != wanted:
            raise UsageError(complaint)
        self.take("version", text)

    def take(self, name: str, kind: Kind[T], default: T = _MISSING) -> T:
        """A field that is there, or has a default."""
        value = self._left.pop(name, _MISSING)
        if value is _MISSING:
            if default is _MISSING:
                raise UsageError(self._complaint)
            return default
        try:
            return kind(value)
        except Wrong:
            raise UsageError(self._complaint) from None

    def maybe(self, name: str, kind: Kind[T], default: T | None = _MISSING) -> T | None:
        """A field that may be null."""
        return self.take(name, optional(kind), default)


# Kinds of fields ---------------------------------------------------------------------------------------


def optional(kind: Kind[T]) -> Kind[T | None]:
    return lambda value: None if value is None else kind(value)


def any_of(*kinds: Kind[Any]) -> Kind[Any]:
    """The first kind that fits."""

    def take(value: Any) -> Any:
        for kind in kinds:
            try:
                return kind(value)
            except Wrong:
                pass
        raise Wrong

    return take


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Wrong
    return value


def text(value: Any) -> str:
    if not isinstance(value, str) or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise Wrong
    return value


def word(*allowed: str) -> Kind[str]:
    def take(value: Any) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise Wrong
        return value

    return take


def number(value: Any) -> float:
    """Finite."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Wrong
    try:
        double = float(value)
    except OverflowError:
        raise Wrong from None
    if not math.isfinite(double):
        raise Wrong
    return double


def integer(least: int, most: int) -> Kind[int]:
    def take(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise Wrong
        return value

    return take


def list_of(kind: Kind[T]) -> Kind[tuple[T, ...]]:
    def take(value: Any) -> tuple[T, ...]:
        if not isinstance(value, (list, tuple)):
            raise Wrong
        return tuple(map(kind, value))

    return take


names = list_of(text)


def numbers(value: Any) -> Floats:
    """A list of finite numbers."""
    return np.array(list_of(number)(value), np.float64)


def table(kind: Kind[Any], dtype: Any) -> Kind[NDArray[Any]]:
    """A list of lists of the same length, none of them empty."""

    def take(value: Any) -> NDArray[Any]:
        lines = list_of(list_of(kind))(value)
        if not lines or not lines[0] or len({len(line) for line in lines}) > 1:
            raise Wrong
        return np.array(lines, dtype)

    return take


matrix = table(number, np.float64)
