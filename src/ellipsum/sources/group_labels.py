"""The cells that name a row's group: columns of any ordinary type, compared by value and published in their own type.

[G6] What a cell is compared by is a function of the cell alone; a cell that is missing, or too long, names no group.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..errors import UsageError, named, shown
from ..request.groups import Listed, Value, text
from .identities import canonical, plain_type

Labels = Any
"""An Arrow struct: one field for each column that names groups and, where somebody asked, one with identities."""
MOST_BYTES = 1024
"""A text of more bytes names no group: memory then does not grow with one cell."""
_ZONED = re.compile(r"timestamp\[(\w+), tz=(.*)\]", re.DOTALL)
_PER_DAY = {"day": 1, "s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}
_MIDDLE_DAY, _MOST_DAYS = 1_106_867, 1_826_027  # days since 1970: the years 1 to 9999, but for two days at either end
_KINDS = {
    "integer": "whole numbers",
    "uint64": "whole numbers",
    "real": "finite numbers",
    "bool": "True or False",
    "text": f"texts of at most {MOST_BYTES} bytes",
}
_NAMES = {"integer": "int64", "real": "float64", "text": "large_string", "bool": "bool"}


def label_kind(kind: Any, name: str, where: str) -> str:
    """How cells of this type are compared; a usage error for types that cannot name groups [T1]."""
    from pyarrow import types

    plain = plain_type(kind)
    if types.is_integer(plain):
        return "uint64" if types.is_uint64(plain) else "integer"
    if types.is_string(plain) or types.is_large_string(plain) or types.is_string_view(plain) or types.is_decimal(plain):
        return "text"
    if types.is_floating(plain):
        return "real"
    if types.is_boolean(plain):
        return "bool"
    if (types.is_date(plain) or types.is_timestamp(plain)) and _has_python_values(plain):
        return str(plain).replace("timestamp[ns", "timestamp[us")  # as fine as Python's own
    if types.is_null(plain):
        return "text"
    raise UsageError(
        f"by names {named(name)} of {where}, which is of type {shown(kind)}. Groups are told apart by text, whole "
        "numbers, numbers, yes and no, dates or times."
    )


def known_kind(kind: str) -> bool:
    """Whether groups can be of a kind; it may come from a file."""
    try:
        return kind == "uint64" or kind in _NAMES or kind in ("date32[day]", "date64[ms]") or _is_time(kind)
    except Exception:  # no type at all
        return False


def _is_time(kind: str) -> bool:
    import pyarrow as pa

    return kind.startswith("timestamp[") and bool(pa.types.is_timestamp(published_type(kind)))


def published_type(kind: str) -> Any:
    """The Arrow type in which labels of a kind are published."""
    import pyarrow as pa

    zoned = _ZONED.fullmatch(kind)
    if zoned is not None:
        return pa.timestamp(zoned[1], zoned[2])
    return pa.type_for_alias(_NAMES.get(kind, kind))


def is_text(kind: str) -> bool:
    return kind == "text"


def canonical_labels(array: Any, kind: str) -> Any:
    """Texts as bytes of UTF-8, anything else as 64-bit whole numbers or doubles; null where no group is named [G6]."""
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ExtensionArray):
        return canonical_labels(array.storage, kind)
    if pa.types.is_dictionary(array.type):
        return canonical_labels(array.dictionary, kind).take(array.indices)
    if is_text(kind):
        return _texts(array)
    cells = canonical(array, "boolean" if kind == "bool" else kind)
    if kind == "real":
        return _within(cells, np.isfinite)
    unit = kind.partition("[")[2].partition("]")[0].partition(",")[0]
    if unit in _PER_DAY:
        if getattr(array.type, "unit", "") == "ns":
            cells = _changed(cells, lambda whole: whole // 1000)
        if kind == "date64[ms]":  # published as a day
            cells = _changed(cells, lambda whole: whole - whole % _PER_DAY["ms"])
        return _within(cells, lambda whole: np.abs(whole // _PER_DAY[unit] - _MIDDLE_DAY) < _MOST_DAYS)
    return cells


def read_dates(cells: Iterable[str | None], kind: str) -> Any:
    """Dates or times of a kind from their ISO texts; an error of Arrow's for what is none."""
    import pyarrow as pa

    target = published_type(kind)
    given = pa.array(cells, pa.string())
    if pa.types.is_timestamp(target):  # texts have microseconds, whatever the kind has
        given = given.cast(pa.timestamp("us", target.tz))
    return given.cast(target)


def _has_python_values(kind: Any) -> bool:
    """Whether Python can show a date or time of this type: it may not know the zone."""
    import pyarrow as pa

    try:
        pa.scalar(0, kind).as_py()
    except Exception:
        return False
    return True


def _within(cells: Any, holds: Callable[[Any], Any]) -> Any:
    """The cells that can be shown as they are; null for the others: infinities, years beyond 9999 [G6]."""
    import pyarrow as pa
    import pyarrow.compute as pc

    sound = holds(cells.fill_null(0).to_numpy(zero_copy_only=False))
    return cells if sound.all() else pc.if_else(pa.array(sound), cells, pa.scalar(None, cells.type))


def _changed(cells: Any, change: Callable[[Any], Any]) -> Any:
    import pyarrow as pa

    missing = cells.is_null().to_numpy(zero_copy_only=False)
    return pa.array(change(cells.fill_null(0).to_numpy(zero_copy_only=False)), mask=missing)


def texts(values: Iterable[Any]) -> Any:
    """The cells of a list that name groups, by their texts."""
    import pyarrow as pa

    return pa.array([text(value) for value in values], pa.large_string())


def _texts(array: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_decimal(array.type):
        array = array.cast(pa.string())
    cells = array.cast(pa.large_binary())
    long = pc.fill_null(pc.greater(pc.binary_length(cells), MOST_BYTES), False)
    if pc.any(long, min_count=0).as_py():
        cells = pc.if_else(long, pa.scalar(None, pa.large_binary()), cells)
    try:
        cells.cast(pa.large_string())
    except pa.ArrowInvalid:  # bytes that are no text are spelled out
        spelled = [None if cell is None else _spelled(cell) for cell in cells.to_pylist()]
        return pa.array(spelled, pa.large_binary())
    return cells


def _spelled(cell: bytes) -> bytes:
    return cell.decode("utf-8", "backslashreplace").encode()


def beside(labels: list[Any], who: Any) -> Any:
    """What goes beside the rows of a piece: identities alone, or labels and, last, identities."""
    if not labels:
        return who
    import pyarrow as pa

    arrays = [*labels, *([] if who is None else [who])]
    return pa.StructArray.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])


def bits_of(array: Any) -> tuple[Any, Any]:
    """(64-bit patterns, which are there) of canonical labels that are no texts."""
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    numbers = array.fill_null(0).to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(numbers).view(np.int64), valid


def from_bits(bits: Any, kind: str) -> Any:
    """The published values of 64-bit patterns: inverse of `canonical_labels`."""
    import pyarrow as pa

    target = published_type(kind)
    if kind == "real":
        return pa.array(bits.view(np.float64))
    if kind == "uint64":
        return pa.array(bits.view(np.uint64))
    whole = pa.array(bits)
    if kind == "bool":
        return whole.cast(target)
    if kind == "date32[day]":
        return whole.cast(pa.int32()).view(target)
    return whole.view(target)


def label_listed(listed: Listed, kinds: tuple[str, ...]) -> list[Any]:
    """The cells of listed groups as a source of these kinds would have them."""
    if len(kinds) != len(listed.columns):
        raise UsageError(f"keys has {len(listed.columns)} columns, by has {len(kinds)}. Give one for each.")
    return [_cells(column, kind) for column, kind in zip(listed.columns, kinds, strict=True)]


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


def published(labels: list[Any], kinds: tuple[str, ...]) -> list[Any]:
    """Canonical labels as they are published: in their own types."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = []
    for cells, kind in zip(labels, kinds, strict=True):
        if is_text(kind):
            columns.append(cells.cast(pa.large_string()))
        else:
            bits, valid = bits_of(cells)
            values = from_bits(bits, kind)
            columns.append(pc.if_else(pa.array(valid), values, pa.scalar(None, values.type)))
    return columns
