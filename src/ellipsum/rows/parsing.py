"""Numbers and vectors that a caller may state about rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import (
    Floats,
    UsageError,
    finite,
    floats,
    shown,
    vector,
)

Columns = tuple[str, ...]


def scalar_or_vector(name: str, value: Any) -> float | Floats:
    if value is None or isinstance(value, (int, float, str, np.number)) or floats(name, value).ndim == 0:
        return finite(name, value)
    return vector(name, value)


def alike(first: str, a: Any, second: str, b: Any) -> tuple[float | Floats, float | Floats]:
    x, y = scalar_or_vector(first, a), scalar_or_vector(second, b)
    length = length_of(x) or length_of(y)
    if length is None:
        return x, y
    if length_of(x) not in (None, length) or length_of(y) not in (None, length):
        raise UsageError(f"{first} and {second} must have the same length, got {length_of(x)} and {length_of(y)}.")
    return spread_out(x, length), spread_out(y, length)


def named_pairs(owner: str, given: Mapping[str, Any], form: str) -> tuple[Columns, list[Any], list[Any]]:
    try:
        pairs = [(a, b) for a, b in given.values()]
    except (TypeError, ValueError):
        raise UsageError(f"{owner} expects name: {form} for every column.") from None
    if not pairs:
        raise UsageError(f"{owner} needs at least one column.")
    return tuple(map(str, given)), [a for a, _ in pairs], [b for _, b in pairs]


def length_of(value: float | Floats | None) -> int | None:
    return int(value.size) if isinstance(value, np.ndarray) else None


def spread_out(value: float | Floats, d: int) -> Floats:
    return np.full(d, float(value)) if not isinstance(value, np.ndarray) else value


def plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else list(value) if isinstance(value, tuple) else value


def short(value: float | Floats | None) -> str:
    if not isinstance(value, np.ndarray):
        return f"{value:g}" if value is not None else "None"
    first = ", ".join(f"{v:g}" for v in value[:4])
    return f"[{first}{', ...' if value.size > 4 else ''}]"


def named_short(columns: Columns, lower: float | Floats, upper: float | Floats) -> str:
    """name: (lower, upper), a few of them."""
    pairs = zip(columns, spread_out(lower, len(columns)), spread_out(upper, len(columns)), strict=True)
    texts = [f"{shown(name)}: ({low:g}, {high:g})" for name, low, high in pairs]
    return "{" + ", ".join(texts[:4]) + (", ..." if len(texts) > 4 else "") + "}"
