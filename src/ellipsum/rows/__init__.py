"""What is known about a row before any row is read: Ball, Box, Normal, Unknown; or what was learned of rows.

These are plain public facts. A fact that turns out wrong costs accuracy, never privacy: rows outside the
stated region are clipped to the ellipsoid that the plan lays around it. Each kind owns its region, bounds and spread.
"""

from __future__ import annotations

from typing import Any

from ..errors import UsageError
from ..util import json_codec
from .ball import Ball
from .base import Reach, Rows, Wishes
from .box import Box
from .learned import LearnedRows
from .normal import Normal
from .unknown import Unknown

__all__ = [
    "KINDS",
    "Ball",
    "Box",
    "LearnedRows",
    "Normal",
    "Reach",
    "Rows",
    "Unknown",
    "Wishes",
    "checked_rows",
    "rows_from_dict",
]

KINDS: dict[str, type[Rows]] = {cls.kind: cls for cls in (Ball, Box, Normal, Unknown, LearnedRows)}

_NUMBERS = json_codec.any_of(json_codec.number, json_codec.numbers)
_FIELDS: dict[str, json_codec.Kind[Any]] = {
    **dict.fromkeys(("radius", "outside"), json_codec.number),
    **dict.fromkeys(("center", "lower", "upper", "std", "center_error", "magnitude"), _NUMBERS),
    "scale": json_codec.numbers,
    **dict.fromkeys(("cov", "axes"), json_codec.matrix),
    "columns": json_codec.names,
}


def rows_from_dict(saved: Any) -> Rows:
    """Inverse of `to_dict`."""
    with json_codec.Fields(saved, "the description of rows has missing, unknown or wrong fields.") as fields:
        kind = fields.take("kind", json_codec.any_of(json_codec.word(*KINDS), lambda value: None))
        if kind is None:
            raise UsageError(f"rows are of one kind of {', '.join(KINDS)}.")
        known = {name: fields.take(name, take) for name, take in _FIELDS.items() if name in saved}
    try:
        return KINDS[kind](**known)
    except TypeError:
        raise UsageError(f"the description of {kind} rows has missing or unknown fields.") from None


def checked_rows(rows: Any) -> Rows:
    """The `rows` argument of a call."""
    if not isinstance(rows, Rows):
        raise UsageError(f"rows must be one of Ball, Box, Normal, Unknown, got {type(rows).__name__}.")
    return rows
