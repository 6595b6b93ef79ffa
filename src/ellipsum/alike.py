"""Equality by contents, for objects that hold arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import numpy as np

_PLAIN = frozenset({type(None), bool, int, float, str, bytes})  # what stands for itself: most of what is compared


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
    if kind in _PLAIN:
        return value
    if kind is tuple or kind is list:
        return tuple(map(contents, value))
    if isinstance(value, np.ndarray):
        return _nested(np.asarray(value))  # a row of a matrix would be a matrix again
    if isinstance(value, Mapping):
        return frozenset((name, contents(part)) for name, part in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(contents, value))
    if is_dataclass(value):
        return (kind, *[contents(getattr(value, name)) for name in _compared(kind)])
    return value


@cache
def _compared(kind: Any) -> tuple[str, ...]:
    """The fields of a dataclass that equality is about."""
    return tuple(field.name for field in fields(kind) if field.compare)


def _nested(array: Any) -> Any:
    if array.ndim < 2:
        return tuple(array.tolist()) if array.ndim else array.item()
    return tuple(map(_nested, array))
