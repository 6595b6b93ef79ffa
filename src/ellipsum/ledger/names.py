"""Names that callers state: of data sets, keys, analysts and columns."""

from __future__ import annotations

from typing import Any

from ..errors import UsageError

_MOST = 200


def checked_name(what: str, value: Any) -> str:
    """A text that can be shown on a line."""
    if not isinstance(value, str) or not value.strip() or len(value) > _MOST or not value.isprintable():
        raise UsageError(f"{what} must be a name of 1 to {_MOST} printable letters.")
    return value


def dataset_name(value: Any) -> str:
    """A name to which a version may be added."""
    if "@" in checked_name("dataset", value):
        raise UsageError("dataset must have no @ in its name: a version follows it, as in survey@2026.")
    return str(value)
