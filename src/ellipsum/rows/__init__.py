"""Public knowledge about rows: per-column bounds (Box), an L2 bound (Ball), a normal prior, or unknown bounds.

Wrong knowledge costs accuracy, never privacy: rows outside the region are clipped. Each kind has its own region,
bounds and spread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import MOST_WHOLE, UsageError
from ..util import json_codec
from .ball import Ball
from .base import Reach, Rows
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
    "parse_bounds",
    "rows_from_dict",
]

KINDS: dict[str, type[Rows]] = {cls.kind: cls for cls in (Ball, Box, Normal, Unknown, LearnedRows)}

_NUMBERS = json_codec.any_of(json_codec.number, json_codec.numbers)
_FIELDS: dict[str, json_codec.Kind[Any]] = {
    **dict.fromkeys(("radius", "outside"), json_codec.number),
    **dict.fromkeys(("center", "lower", "upper", "std", "center_error", "magnitude", "mean_bias"), _NUMBERS),
    "scale": json_codec.numbers,
    **dict.fromkeys(("cov", "axes"), json_codec.matrix),
    "columns": json_codec.names,
    "shape": json_codec.word("optimal", "closed_form", "ball"),
    "clip": json_codec.any_of(json_codec.word("optimal", "quantile"), json_codec.number),
    "clip_probability": json_codec.number,
    "method": json_codec.text,
}
_METHOD_OPTIONS: dict[str, json_codec.Kind[Any]] = {
    "steps": json_codec.integer(1, MOST_WHOLE),
    "std": _NUMBERS,
    "clip_share": json_codec.number,
}


def rows_from_dict(saved: object) -> Rows:
    """Inverse of `to_dict`."""
    with json_codec.Fields(saved, "The bounds in this file have missing, unknown or wrong fields.") as fields:
        kind = fields.take("kind", json_codec.any_of(json_codec.word(*KINDS), lambda value: None))
        if kind is None:
            raise UsageError(f"The kind of bounds must be one of {', '.join(KINDS)}.")
        values = {name: fields.take(name, take) for name, take in _FIELDS.items() if name in fields}
        if kind == "unknown" and "options" in fields:
            values |= fields.take("options", _options_from_dict)
    try:
        return KINDS[kind](**values)
    except TypeError:
        raise UsageError(f"The {kind} bounds in this file have missing or unknown fields.") from None


def _options_from_dict(saved: object) -> dict[str, Any]:
    """The own options of a method that learns bounds."""
    with json_codec.Fields(saved, "The bounds in this file have missing, unknown or wrong fields.") as fields:
        return {name: fields.take(name, take) for name, take in _METHOD_OPTIONS.items() if name in fields}


def parse_bounds(bounds: Any) -> Rows:
    """The `bounds` argument of a call; a dict is a Box."""
    if isinstance(bounds, Mapping):
        return Box(bounds)
    if not isinstance(bounds, Rows):
        raise UsageError(
            f"bounds must be a dict of (lower, upper), or a Box, Ball, Normal or Unknown object, "
            f"got {type(bounds).__name__}."
        )
    return bounds
