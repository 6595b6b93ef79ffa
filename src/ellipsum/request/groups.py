"""Public groups, as a caller lists them: checked before any data is opened, compared with cells by their type."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np

from ..errors import UsageError, listing, whole
from ..sources.group_codes import KeyTable
from ..sources.group_labels import (
    MOST_BYTES,
    canonical_labels,
    is_text,
    published_type,
    read_dates,
    spelled_date,
    text,
    texts,
)
from ..util.structural_equality import Alike

Value = None | bool | int | float | str
_MOST = 1 << 30
_MOST_OF_ONE = 1 << 20
_BY = "by must name columns of the data, or be arrays with a cell for each row."
_TWICE = "keys names a group twice. List each once."
_WRONG = (
    "keys must be a list of groups (of tuples, where by names several columns), a frame with the columns of by, or a "
    "dict with a list for each of them, whose combinations are the groups."
)
_KINDS = {
    "integer": "whole numbers",
    "uint64": "whole numbers",
    "real": "finite numbers",
    "bool": "True or False",
    "text": f"texts of at most {MOST_BYTES} bytes",
}


@dataclass(frozen=True)
class Listed(Alike):
    """Public groups: for each column of `by`, the cell of every group; None is a missing cell."""

    columns: tuple[tuple[Value, ...], ...]

    def __post_init__(self) -> None:
        if not self.columns or len({len(column) for column in self.columns}) != 1 or not self.columns[0]:
            raise UsageError("keys lists no group. List at least one, or leave it out.")
        if len(set(map(_told_apart, zip(*self.columns, strict=True)))) < self.size:
            raise UsageError(_TWICE)

    @property
    def size(self) -> int:
        return len(self.columns[0])

    def labels(self, kinds: tuple[str, ...]) -> list[Any]:
        """The cells as a source of these kinds would have them."""
        if len(kinds) != len(self.columns):
            raise UsageError(f"keys has {len(self.columns)} columns, by has {len(kinds)}. Give one for each.")
        return [_cells(column, kind) for column, kind in zip(self.columns, kinds, strict=True)]

    def table(self, kinds: tuple[str, ...]) -> KeyTable:
        """The groups by their numbers, in the order of the list; other keys are nobody's."""
        keys = KeyTable(kinds)
        if np.unique(keys.enter(self.labels(kinds))).size < self.size:
            raise UsageError(_TWICE)
        return keys


@dataclass(frozen=True)
class Grouping(Alike):
    """The columns that name a row's group, the public groups where they are listed, and a person's most groups.

    labels: arrays in place of columns of the data.
    """

    by: tuple[str | int, ...]
    keys: Listed | None = None
    max_groups: int = 1
    labels: tuple[Any, ...] = field(default=(), compare=False)


def by_of(by: Any) -> dict[str, Any]:
    """The word `by` of a call: names or places of columns, or arrays with a cell for each row."""
    given = list(by) if isinstance(by, (list, tuple)) else [by]
    if not given:
        raise UsageError("by names no column. Name one, or several.")
    if all(isinstance(name, str) or _is_place(name) for name in given):
        names = tuple(name if isinstance(name, str) else int(name) for name in given)
        if len(set(names)) < len(names):
            raise UsageError("by names a column twice. Name each once.")
        return {"by": names, "labels": ()}
    if not all(hasattr(array, "__array__") and hasattr(array, "__len__") for array in given):
        raise UsageError(_BY)
    return {"by": tuple(_name(array, i, len(given)) for i, array in enumerate(given)), "labels": tuple(given)}


def _is_place(name: Any) -> bool:
    return isinstance(name, (int, np.integer)) and not isinstance(name, (bool, np.bool_))


def _name(array: Any, place: int, many: int) -> str:
    """A series has a name of its own."""
    name = getattr(array, "name", None)
    return name if isinstance(name, str) and name else ("key" if many == 1 else f"key{place + 1}")


def grouping_of(by: Any, keys: Any, max_groups: Any, people: bool) -> Grouping | None:
    """The words `by`, `keys` and `max_groups` of a call; None where rows are not grouped."""
    most = 1 if max_groups is None else whole("max_groups", max_groups, most=_MOST_OF_ONE)
    if by is None:
        if keys is not None or most != 1:
            raise UsageError("keys and max_groups need by, the columns that name a row's group.")
        return None
    if most > 1 and not people:
        raise UsageError("max_groups needs privacy_id, the column that names people: a row has one group.")
    named = by_of(by)
    return Grouping(named["by"], listed(keys, named["by"]), most, named["labels"])


def listed(keys: Any, by: Sequence[str | int]) -> Listed | None:
    """The word `keys` of a call."""
    if keys is None or isinstance(keys, Listed):
        return keys
    if isinstance(keys, Mapping):
        return _product(keys, by)
    if hasattr(keys, "__arrow_c_stream__") and type(keys).__name__ != "Series":
        return _of_frame(keys, by)
    entries = _of_numpy(keys) if isinstance(keys, np.ndarray) else keys
    entries = entries.to_pylist() if hasattr(entries, "to_pylist") else entries
    if isinstance(entries, (str, bytes)) or not hasattr(entries, "__iter__"):
        raise UsageError(_WRONG)
    return _of_list(list(entries), len(by))


def _of_list(entries: list[Any], width: int) -> Listed:
    if width == 1:
        return Listed((tuple(_plain(entry[0] if _is_tuple(entry) else entry) for entry in entries),))
    if not all(_is_tuple(entry) and len(entry) == width for entry in entries):
        raise UsageError(f"keys must be tuples of {width}, one cell for each column of by.")
    return Listed(tuple(tuple(map(_plain, column)) for column in zip(*entries, strict=True)))


def _is_tuple(entry: Any) -> bool:
    return isinstance(entry, (list, tuple))


def _product(keys: Mapping[Any, Any], by: Sequence[str | int]) -> Listed:
    if set(keys) != set(by):
        raise UsageError(f"keys must have a list for each column of by, and no others: {listing(by)}.")
    lists = [[_plain(cell) for cell in keys[name]] for name in by]
    if math.prod(map(len, lists)) > _MOST:
        raise UsageError("keys has more combinations than memory holds. List those that are wanted.")
    return Listed(tuple(zip(*itertools.product(*lists), strict=True)))


def _of_frame(keys: Any, by: Sequence[str | int]) -> Listed:
    import pyarrow as pa

    table = pa.table(keys)
    names = [str(name) for name in by]
    if not set(names) <= set(table.column_names):
        raise UsageError(f"keys must be a frame with the columns of by: {listing(by)}.")
    return Listed(tuple(tuple(map(_plain, table.column(name).to_pylist())) for name in names))


def _of_numpy(values: Any) -> Any:
    """Python's values of an array or of a cell; times as fine as Python has them."""
    return (values.astype("datetime64[us]") if values.dtype == "datetime64[ns]" else values).tolist()


def _plain(cell: Any) -> Value:
    """A listed cell as JSON has it: dates and times by their ISO texts."""
    if cell is None or isinstance(cell, (bool, int)):
        return cell
    if isinstance(cell, np.generic):
        return _plain(_of_numpy(cell))
    if isinstance(cell, float):
        if math.isinf(cell):
            raise UsageError("keys holds an infinity, which names no group.")
        return None if math.isnan(cell) else cell
    if isinstance(cell, date):
        return spelled_date(cell) if cell == cell else None  # pandas has a missing time
    found = text(cell)
    if found is None:
        raise UsageError(f"keys holds a value of type {type(cell).__name__}, which names no group.")
    return found


def _told_apart(key: tuple[Value, ...]) -> tuple[Any, ...]:
    """True and 1 are two cells, as are 1 and '1'."""
    return tuple((type(cell) is bool, cell) for cell in key)


def _cells(column: tuple[Value, ...], kind: str) -> Any:
    import pyarrow as pa

    try:
        if is_text(kind):
            array = texts(column)
        elif kind in _KINDS:
            array = pa.array([_typed(cell, kind) for cell in column], published_type(kind))
        else:
            array = read_dates([None if cell is None else str(cell) for cell in column], kind)
        labels = canonical_labels(array, kind)
        if labels.null_count > column.count(None):
            raise ValueError  # a cell that names no group is none of the missing ones
    except (ValueError, TypeError, OverflowError, pa.ArrowException):
        what = _KINDS.get(kind, "dates or times, as in '2026-01-31'")
        raise UsageError(f"keys holds a cell that its column cannot: it holds {what}.") from None
    return labels


def _typed(cell: Value, kind: str) -> Any:
    """A listed cell for a column of numbers or of yes and no; texts are read as what they say."""
    if cell is None:
        return None
    if kind == "bool":
        return _truth(cell)
    if isinstance(cell, bool):
        raise ValueError
    return float(cell) if kind == "real" else _whole(cell)


def _whole(cell: Value) -> int:
    if isinstance(cell, float) and not cell.is_integer():
        raise ValueError
    return int(cell)  # type: ignore[arg-type]


def _truth(cell: Value) -> bool:
    words = {"true": True, "false": False}
    found = cell if isinstance(cell, bool) else words.get(str(cell).lower())
    if found is None:
        raise ValueError
    return found
