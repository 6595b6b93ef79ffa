"""Groups of rows: grouping columns, and public groups in the caller's list."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np

from ..errors import MOST_WHOLE, UsageError, checks_keywords, listing, whole
from ..util import json_codec
from ..util.structural_equality import ValueEquality

Value = None | bool | int | float | str
_NAMED = (date, time, timedelta, UUID, Decimal, Fraction)
_MOST = 1 << 30
_MOST_OF_ONE = 1 << 20
_BY = "by must name columns of the data, or be arrays with one entry for each row."
_WRONG_FIELDS = "Invalid plan file: the groups have missing, unknown or wrong fields. Create a new plan."
PLACE = json_codec.any_of(json_codec.text, json_codec.integer(0, MOST_WHOLE))
CELL = json_codec.optional(
    json_codec.any_of(json_codec.flag, json_codec.integer(-(1 << 63), 1 << 64), json_codec.number, json_codec.text)
)
TWICE = "keys lists a group twice. List each once."
_WRONG = (
    "keys must be a list of groups (of tuples, where by names several columns), a frame with the columns of by, or a "
    "dict with a list for each of them, whose combinations are the groups."
)


@dataclass(frozen=True)
class Listed(ValueEquality):
    """Public groups: for each column of `by`, the value of every group; None is a missing value."""

    columns: tuple[tuple[Value, ...], ...]

    def __post_init__(self) -> None:
        if not self.columns or len({len(column) for column in self.columns}) != 1 or not self.columns[0]:
            raise UsageError("keys is empty. List at least one group, or leave keys out.")
        if len(set(map(_typed_key, zip(*self.columns, strict=True)))) < self.size:
            raise UsageError(TWICE)

    @property
    def size(self) -> int:
        return len(self.columns[0])


@checks_keywords
@dataclass(frozen=True, init=False)
class Groups(ValueEquality):
    """Groups of rows: the grouping columns, and the groups where they are public.

    Groups("sex", keys=["f", "m"]) lists public groups, all of which are released. Without keys, groups are selected
    privately, and `expected` is a public guess of their number for the forecast. max_per_person: with privacy_id, the
    largest number of groups of a person that are used; a person has one row in each.
    """

    by: tuple[str | int, ...]
    keys: Listed | None
    max_per_person: int
    expected: int | None
    labels: tuple[Any, ...] = field(compare=False)
    """The caller's arrays, where `by` names no columns."""

    def __init__(self, by: Any, keys: Any = None, max_per_person: int = 1, expected: int | None = None) -> None:
        names, labels = _parse_by(by)
        object.__setattr__(self, "by", names)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "keys", listed(keys, names))
        object.__setattr__(self, "max_per_person", whole("max_per_person", max_per_person, most=_MOST_OF_ONE))
        object.__setattr__(self, "expected", None if expected is None else whole("expected", expected))

    @property
    def size(self) -> int | None:
        """The number of listed groups, or the expected number."""
        return self.expected if self.keys is None else self.keys.size

    def without_labels(self) -> Groups:
        """The same groups without the caller's arrays, since a plan holds no data."""
        return self.named(self.by)

    def named(self, by: Any) -> Groups:
        """The same groups by other columns or arrays."""
        return Groups(by, self.keys, self.max_per_person, self.expected)

    def to_dict(self) -> dict[str, Any]:
        keys = self.keys
        return {
            "by": list(self.by),
            "keys": None if keys is None else [list(column) for column in keys.columns],
            "max_per_person": self.max_per_person,
            "expected": self.expected,
        }

    @staticmethod
    def from_dict(saved: object) -> Groups:
        """Inverse of `to_dict`."""
        with json_codec.Fields(saved, _WRONG_FIELDS) as fields:
            by = fields.take("by", json_codec.list_of(PLACE))
            keys = fields.maybe("keys", json_codec.list_of(json_codec.list_of(CELL)))
            most = fields.take("max_per_person", json_codec.integer(1, MOST_WHOLE))
            expected = fields.maybe("expected", json_codec.integer(1, MOST_WHOLE))
        if not by or (keys is not None and len(keys) != len(by)):
            raise UsageError(_WRONG_FIELDS)
        return Groups(by, None if keys is None else Listed(keys), most, expected)


def parse_groups(by: Any) -> Groups | None:
    """The `by` argument of a call; None where rows have no groups."""
    return by if by is None or isinstance(by, Groups) else Groups(by)


def _parse_by(by: Any) -> tuple[tuple[str | int, ...], tuple[Any, ...]]:
    """Names or positions of columns; or names for the caller's arrays, and these arrays."""
    parts = list(by) if isinstance(by, (list, tuple)) else [by]
    if not parts:
        raise UsageError("by is empty. Name one column, or several.")
    if all(isinstance(name, str) or _is_place(name) for name in parts):
        names = tuple(name if isinstance(name, str) else int(name) for name in parts)
        if len(set(names)) < len(names):
            raise UsageError("by names a column twice. Name each once.")
        return names, ()
    if not all(hasattr(array, "__array__") and hasattr(array, "__len__") for array in parts):
        raise UsageError(_BY)
    return tuple(_name(array, i, len(parts)) for i, array in enumerate(parts)), tuple(parts)


def _is_place(name: Any) -> bool:
    return isinstance(name, (int, np.integer)) and not isinstance(name, (bool, np.bool_))


def _name(array: Any, place: int, many: int) -> str:
    """The name of a grouping array: a series has its own."""
    name = getattr(array, "name", None)
    return name if isinstance(name, str) and name else ("key" if many == 1 else f"key{place + 1}")


def listed(keys: Any, by: Sequence[str | int]) -> Listed | None:
    """The `keys` argument of a call."""
    if keys is None or isinstance(keys, Listed):
        return keys
    if isinstance(keys, Mapping):
        return _product(keys, by)
    if hasattr(keys, "__arrow_c_stream__") and type(keys).__name__ != "Series":
        return _of_frame(keys, by)
    entries = _of_numpy(keys) if isinstance(keys, np.ndarray) else keys
    entries = entries.to_pylist() if hasattr(entries, "to_pylist") else entries
    if _is_text(entries) or not hasattr(entries, "__iter__"):
        raise UsageError(_WRONG)
    return _of_list(list(entries), len(by))


def _of_list(entries: list[Any], width: int) -> Listed:
    if width == 1:
        return Listed((tuple(_plain(entry[0] if _is_tuple(entry) else entry) for entry in entries),))
    if not all(_is_tuple(entry) and len(entry) == width for entry in entries):
        raise UsageError(f"keys must be tuples of {width} values, one for each column of by.")
    return Listed(tuple(tuple(map(_plain, column)) for column in zip(*entries, strict=True)))


def _is_text(entries: Any) -> bool:
    return isinstance(entries, (str, bytes))


def _is_tuple(entry: Any) -> bool:
    return isinstance(entry, (list, tuple))


def _product(keys: Mapping[Any, Any], by: Sequence[str | int]) -> Listed:
    if set(keys) != set(by) or not all(hasattr(keys[name], "__iter__") and not _is_text(keys[name]) for name in by):
        raise UsageError(f"keys must have a list for each column of by, and no others: {listing(by)}.")
    lists = [[_plain(cell) for cell in keys[name]] for name in by]
    if math.prod(map(len, lists)) > _MOST:
        raise UsageError("keys has more combinations than memory can hold. List the groups that you need.")
    return Listed(tuple(zip(*itertools.product(*lists), strict=True)))


def _of_frame(keys: Any, by: Sequence[str | int]) -> Listed:
    import pyarrow as pa

    table = pa.table(keys)
    names = [str(name) for name in by]
    if not set(names) <= set(table.column_names):
        raise UsageError(f"keys must be a frame with the columns of by: {listing(by)}.")
    return Listed(tuple(tuple(map(_plain, table.column(name).to_pylist())) for name in names))


def _of_numpy(values: Any) -> Any:
    """The Python values of an array or a cell; Python has no times finer than microseconds."""
    return (values.astype("datetime64[us]") if values.dtype == "datetime64[ns]" else values).tolist()


def _plain(cell: Any) -> Value:
    """A listed value as JSON has it; dates and times become ISO texts."""
    if cell is None or isinstance(cell, (bool, int)):
        return cell
    if isinstance(cell, np.generic):
        return _plain(_of_numpy(cell))
    if isinstance(cell, float):
        if math.isinf(cell):
            raise UsageError("keys holds an infinity, which names no group.")
        return None if math.isnan(cell) else cell
    if isinstance(cell, date):
        return spelled_date(cell) if cell == cell else None  # The missing time of pandas differs from itself.
    key = text(cell)
    if key is None:
        raise UsageError(f"keys holds a value of type {type(cell).__name__}, which names no group.")
    return key


def _typed_key(key: tuple[Value, ...]) -> tuple[Any, ...]:
    """A key that distinguishes True from 1."""
    return tuple((type(cell) is bool, cell) for cell in key)


def spelled_date(moment: date) -> str:
    """A date or time as ISO text, in UTC if its zone is no whole number of minutes from UTC: Arrow cannot read that."""
    offset = moment.utcoffset() if isinstance(moment, datetime) else None
    if offset is not None and offset % timedelta(minutes=1):
        moment = moment.astimezone(UTC)  # type: ignore[attr-defined]
    return moment.isoformat()


def text(value: Any) -> str | None:
    """The text of a value that names a group, the same for equal numbers; None for other values [G6]."""
    try:
        return _text(value)
    except Exception:  # A value that cannot be compared or converted names no group.
        return None


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        number = float(value)
        whole = number.is_integer() and abs(number) < 2.0**53
        return str(int(number)) if whole else (repr(number) if math.isfinite(number) else None)
    if isinstance(value, _NAMED) and value == value:
        return str(value)
    return None
