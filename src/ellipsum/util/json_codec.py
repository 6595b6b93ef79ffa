"""JSON in and out: texts are parsed strictly, and objects are read from them field by field.

Whatever a text contains (deep nesting, endless digits, NaN, a field twice, other types or shapes), the result is a
checked object or a `UsageError` that quotes nothing of it. Only finite numbers are ever written.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import repeat
from types import TracebackType
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats, UsageError

T = TypeVar("T")
Number = TypeVar("Number", bound=np.generic)
Kind = Callable[[Any], T]
"""Converts a field, or raises `Wrong`."""
_MOST_DIGITS = 40
_NEAR = 1e-6  # what rounding may change; the displayed digits are fewer
_MISSING: Any = object()


class Wrong(Exception):
    """A field is not of its kind."""


@contextmanager
def refused_overflow(complaint: str) -> Iterator[None]:
    """Refuse a file if its numbers cause an overflow."""
    try:
        with np.errstate(over="raise"):
            yield
    except (OverflowError, FloatingPointError):
        raise UsageError(complaint) from None


def dump(fields: Mapping[str, object]) -> str:
    """The JSON of an object. NaN and infinities are refused."""
    try:
        return json.dumps(fields, allow_nan=False, default=_plain)
    except ValueError:
        raise UsageError("A number is beyond the range of doubles, so it cannot be written as JSON.") from None


def _plain(value: np.generic | NDArray[np.generic]) -> object:
    """Numbers of numpy, alone or in arrays, as Python's own."""
    return value.tolist()


def parse(text: str | bytes) -> dict[str, Any]:
    """The JSON object in a text."""
    if not isinstance(text, (str, bytes)):
        raise UsageError(f"Pass the text that to_json wrote, got {type(text).__name__}.")
    try:
        content = json.loads(
            text, object_pairs_hook=_unique, parse_int=_integer, parse_float=_finite, parse_constant=_refuse
        )
    except (ValueError, Wrong, RecursionError):  # bytes that are not text are a ValueError too
        raise UsageError("The text is not valid JSON. Pass what to_json or save wrote.") from None
    if not isinstance(content, dict):
        raise UsageError("The text is not a JSON object. Pass what to_json or save wrote.")
    return content


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
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
    """The fields of one JSON object, each read once. Missing, wrong and unknown fields are the same error.

    complaint: the text of that error.
    """

    def __init__(self, saved: object, complaint: str) -> None:
        self._complaint = complaint
        if not isinstance(saved, Mapping):
            raise UsageError(complaint)
        self._left = dict(saved)
        self._taken: set[str] = set()

    def __enter__(self) -> Fields:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._left:
            raise UsageError(self._complaint)

    def __iter__(self) -> Iterator[str]:
        """The names of the fields that were not taken yet."""
        return iter(self._left)

    def check_format(self, wanted: str, complaint: str) -> None:
        """Check the first two fields of every format. The version that wrote it does not matter."""
        if self._left.pop("format", None) != wanted:
            raise UsageError(complaint)
        self._taken.add("format")
        self.take("version", text)

    def take(self, name: str, kind: Kind[T], default: T = _MISSING) -> T:
        """A field that must exist, unless it has a default."""
        self._taken.add(name)
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

    def agree(self, wanted: Mapping[str, object], sizes: Mapping[str, float], skipped: Collection[str] = ()) -> bool:
        """Whether all fields that were not read are as wanted, numbers up to rounding.

        sizes: of the numbers that rounding is relative to, by field. skipped: fields that may be anything.
        """
        shown, self._left = self._left, {}
        wanted = {name: part for name, part in wanted.items() if name not in self._taken}
        if shown.keys() != wanted.keys():
            raise UsageError(self._complaint)
        return all(agrees(shown[name], wanted[name], sizes.get(name, 0.0)) for name in wanted if name not in skipped)


def agrees(shown: object, wanted: object, size: float = 0.0) -> bool:
    """Whether a part of a file is as wanted: numbers up to rounding, relative to this size."""
    if isinstance(wanted, Mapping):
        if not isinstance(shown, Mapping) or shown.keys() != wanted.keys():
            return False
        return all(agrees(shown[name], wanted[name], size) for name in wanted)
    if isinstance(wanted, (list, tuple)):
        if not isinstance(shown, (list, tuple)) or len(shown) != len(wanted):
            return False
        try:
            numbers_shown, right = numbers(shown), numbers(wanted)
        except Wrong:
            return all(map(agrees, shown, wanted, repeat(size)))
        near = _NEAR * max(size, float(np.abs(right).max(initial=0.0)))
        return np.allclose(numbers_shown, right, rtol=_NEAR, atol=near)
    if isinstance(wanted, float):
        if not isinstance(shown, (int, float)) or isinstance(shown, bool):
            return False
        return abs(shown - wanted) <= _NEAR * max(size, abs(wanted))
    return type(shown) is type(wanted) and bool(shown == wanted)


def optional(kind: Kind[T]) -> Kind[T | None]:
    return lambda value: None if value is None else kind(value)


def any_of(*kinds: Kind[Any]) -> Kind[Any]:
    """The first kind that fits."""

    def take(value: object) -> object:
        for kind in kinds:
            try:
                return kind(value)
            except Wrong:
                pass
        raise Wrong

    return take


def flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise Wrong
    return value


def text(value: object) -> str:
    if not isinstance(value, str) or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise Wrong
    return value


def word(*allowed: str) -> Kind[str]:
    def take(value: object) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise Wrong
        return value

    return take


def number(value: object) -> float:
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
    def take(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise Wrong
        return value

    return take


def list_of(kind: Kind[T]) -> Kind[tuple[T, ...]]:
    def take(value: object) -> tuple[T, ...]:
        if not isinstance(value, (list, tuple)):
            raise Wrong
        return tuple(map(kind, value))

    return take


names = list_of(text)


def numbers(value: object) -> Floats:
    """A list of finite numbers."""
    return np.array(list_of(number)(value), np.float64)


def table(kind: Kind[object], dtype: type[Number]) -> Kind[NDArray[Number]]:
    """A list of lists of the same length, none of them empty."""

    def take(value: object) -> NDArray[Number]:
        lines = list_of(list_of(kind))(value)
        if not lines or not lines[0] or len({len(line) for line in lines}) > 1:
            raise Wrong
        return np.array(lines, dtype)

    return take


matrix = table(number, np.float64)
