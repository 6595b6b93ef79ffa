"""Equality by contents, for objects that hold arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any

import numpy as np

PLAIN = frozenset({type(None), bool, int, float, str, bytes})  # what stands for itself: most of what is compared


class Alike:
    """Base of dataclasses that are equal where their types and contents are, and hash accordingly."""

    def __init_subclass__(cls, **words: Any) -> None:
        super().__init_subclass__(**words)
        for name in ("__eq__", "__hash__"):  # in the class itself: a dataclass puts its own where there is none
            setattr(cls, name, getattr(Alike, name))

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and contents(self) == contents(other))

    def __hash__(self) -> int:
        return hash(contents(self))


def contents(value: Any) -> Any:
    """A value as something that can be compared and hashed; lists, tuples and arrays of the same numbers are one."""
    kind: Any = type(value)
    return value if kind in PLAIN else _way(kind)(value)


@lru_cache(maxsize=512)
def _way(kind: type) -> Callable[[Any], Any]:
    """How values of a type are taken apart."""
    if issubclass(kind, np.ndarray):
        return lambda value: _nested(np.asarray(value))  # a row of a matrix would be a matrix again
    if issubclass(kind, Mapping):
        return lambda value: frozenset((name, contents(part)) for name, part in value.items())
    if issubclass(kind, (list, tuple)):
        return _several
    if is_dataclass(kind):
        return _of_fields(kind)
    return lambda value: value


def _of_fields(kind: type) -> Callable[[Any], Any]:
    names = _compared(kind)

    def parts(value: Any) -> tuple[Any, ...]:
        found = [getattr(value, name) for name in names]
        return (kind, *[part if type(part) in PLAIN else contents(part) for part in found])

    return parts


def _several(value: Any) -> tuple[Any, ...]:
    return tuple(value if PLAIN.issuperset(map(type, value)) else map(contents, value))


def _compared(kind: Any) -> tuple[str, ...]:
    """The fields of a dataclass that equality is about."""
    return tuple(field.name for field in fields(kind) if field.compare)


def _nested(array: Any) -> Any:
    if array.ndim < 2:
        return tuple(array.tolist()) if array.ndim else array.item()
    return tuple(map(_nested, array))
