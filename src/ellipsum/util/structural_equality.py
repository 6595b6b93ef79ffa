"""Equality by contents, for objects with arrays."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

PLAIN = frozenset({type(None), bool, int, float, str, bytes})
"""Types whose values are compared as they are."""


class ValueEquality:
    """Base of dataclasses that are equal if their types and contents are, and that hash accordingly."""

    def __init_subclass__(cls, **keywords: object) -> None:
        super().__init_subclass__(**keywords)
        for name in ("__eq__", "__hash__"):  # in the class itself: otherwise a dataclass adds its own
            setattr(cls, name, getattr(ValueEquality, name))

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and contents(self) == contents(other))

    def __hash__(self) -> int:
        return hash(contents(self))


def contents(value: Any) -> Hashable:
    """The value in a form that can be compared and hashed. Lists, tuples and arrays of the same numbers are equal."""
    if type(value) in PLAIN:
        return value  # type: ignore[no-any-return]
    if isinstance(value, np.ndarray):
        value = np.asarray(value).tolist()  # a row of a matrix would be a matrix again
    if isinstance(value, Mapping):
        return frozenset((name, contents(part)) for name, part in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(value if PLAIN.issuperset(map(type, value)) else map(contents, value))
    if is_dataclass(value):
        return (type(value), *[contents(getattr(value, field.name)) for field in fields(value) if field.compare])
    return value  # type: ignore[no-any-return]
