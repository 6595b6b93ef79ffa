"""The cells that identify the group of a row. They are compared by value and published in their own type.

[G6] The value that a cell is compared by depends on the cell alone. A missing or too long cell belongs to no group.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types

from ..errors import UsageError, named, shown
from ..numerics.wide_integers import Ints
from ..request.groups import Listed, Value, text
from .identities import canonicalize, convert_plain, is_text_type, plain_type, storage

MOST_BYTES = 1024
"""A text of more bytes belongs to no group, so that memory does not grow with one cell."""
_ZONED = re.compile(r"timestamp\[(\w+), tz=(.*)\]", re.DOTALL)
_PER_DAY = {"day": 1, "s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}
_MIDDLE_DAY, _MOST_DAYS = 1_106_867, 1_826_027  # days since 1970: years 1 to 9999, without two days at either end
_KINDS = {
    "integer": "whole numbers",
    "uint64": "whole numbers",
    "real": "finite numbers",
    "bool": "True or False",
    "text": f"texts of at most {MOST_BYTES} bytes",
}
_NAMES = {"integer": "int64", "real": "float64", "text": "large_string", "bool": "bool"}


def label_kind(kind: pa.DataType, name: str, where: str) -> str:
    """Find how cells of this type are compared. It is a usage error if the type cannot identify groups [T1]."""
    plain = plain_type(kind)
    if types.is_integer(plain):
        return "uint64" if types.is_uint64(plain) else "integer"
    if is_text_type(plain) or types.is_decimal(plain) or types.is_null(plain):
        return "text"
    if types.is_floating(plain):
        return "real"
    if types.is_boolean(plain):
        return "bool"
    if (types.is_date(plain) or types.is_timestamp(plain)) and _has_python_values(plain):
        return str(plain).replace("timestamp[ns", "timestamp[us")  # the resolution of Python's own times
    raise UsageError(
        f"by names {named(name)} of {where}, which is of type {shown(kind)}. Use a column of text, whole numbers, "
        "numbers, yes and no, dates or times."
    )


def is_known_kind(kind: str) -> bool:
    """Whether this is a kind of groups. It may come from a file."""
    try:
        return kind == "uint64" or kind in _NAMES or kind in ("date32[day]", "date64[ms]") or _is_time(kind)
    except Exception:  # not the name of a type
        return False


def _is_time(kind: str) -> bool:
    return kind.startswith("timestamp[") and bool(types.is_timestamp(published_type(kind)))


def published_type(kind: str) -> pa.DataType:
    """The Arrow type in which labels of a kind are published."""
    zoned = _ZONED.fullmatch(kind)
    if zoned is not None:
        return pa.timestamp(zoned[1], zoned[2])
    return pa.type_for_alias(_NAMES.get(kind, kind))


def label_type(kind: str) -> pa.DataType:
    """The Arrow type of canonical labels of a kind."""
    return storage("boolean" if kind == "bool" else kind)


def canonicalize_labels(array: pa.Array | pa.ChunkedArray, kind: str) -> pa.Array:
    """Convert texts to bytes of UTF-8 and other cells to 64-bit numbers. A null belongs to no group [G6]."""
    return convert_plain(array, _canonical_texts if kind == "text" else lambda plain: _canonical_cells(plain, kind))


def _canonical_cells(array: pa.Array, kind: str) -> pa.Array:
    cells = canonicalize(array, "boolean" if kind == "bool" else kind)
    if kind == "real":
        return _keep_where(cells, np.isfinite)
    unit = kind.partition("[")[2].partition("]")[0].partition(",")[0]
    if unit not in _PER_DAY:
        return cells
    if getattr(array.type, "unit", "") == "ns":
        cells = _change(cells, lambda numbers: numbers // 1000)
    if kind == "date64[ms]":  # published as a day
        cells = _change(cells, lambda numbers: numbers - numbers % _PER_DAY["ms"])
    return _keep_where(cells, lambda numbers: np.abs(numbers // _PER_DAY[unit] - _MIDDLE_DAY) < _MOST_DAYS)


def read_dates(cells: Iterable[str | None], kind: str) -> pa.Array:
    """Parse dates or times of a kind from ISO texts. Other texts raise an Arrow error."""
    target = published_type(kind)
    array = pa.array(cells, pa.string())
    if types.is_timestamp(target):  # texts have microseconds, whatever the kind has
        array = array.cast(pa.timestamp("us", target.tz))
    return array.cast(target)


def _has_python_values(kind: pa.DataType) -> bool:
    """Whether Python can show a date or time of this type. It may not know the time zone."""
    try:
        pa.scalar(0, kind).as_py()
    except Exception:
        return False
    return True


def _keep_where(cells: pa.Array, is_valid: Callable[[NDArray[np.generic]], NDArray[np.bool_]]) -> pa.Array:
    """Replace the cells that cannot be shown by null: infinities, and years beyond 9999 [G6]."""
    valid = is_valid(cells.fill_null(0).to_numpy(zero_copy_only=False))
    return cells if valid.all() else pc.if_else(pa.array(valid), cells, pa.scalar(None, cells.type))


def _change(cells: pa.Array, change: Callable[[Ints], Ints]) -> pa.Array:
    missing = cells.is_null().to_numpy(zero_copy_only=False)
    return pa.array(change(cells.fill_null(0).to_numpy(zero_copy_only=False)), mask=missing)


def to_texts(values: Iterable[object]) -> pa.Array:
    """Convert the cells of a list that identifies groups to texts."""
    return pa.array([text(value) for value in values], pa.large_string())


def _canonical_texts(array: pa.Array) -> pa.Array:
    if types.is_decimal(array.type):
        array = array.cast(pa.string())
    cells = array.cast(pa.large_binary())
    long = pc.fill_null(pc.greater(pc.binary_length(cells), MOST_BYTES), False)
    if pc.any(long, min_count=0).as_py():
        cells = pc.if_else(long, pa.scalar(None, pa.large_binary()), cells)
    try:
        cells.cast(pa.large_string())
    except pa.ArrowInvalid:  # bytes that are not UTF-8 are escaped
        escaped = [None if cell is None else _escape(cell) for cell in cells.to_pylist()]
        return pa.array(escaped, pa.large_binary())
    return cells


def _escape(cell: bytes) -> bytes:
    return cell.decode("utf-8", "backslashreplace").encode()


def join_cells(labels: Sequence[pa.Array], who: pa.Array | None) -> pa.Array | None:
    """Join the cells beside the rows of a piece: identities alone, or a struct of labels and, last, any identities."""
    if not labels:
        return who
    arrays = [*labels, *([] if who is None else [who])]
    return pa.StructArray.from_arrays(arrays, names=[str(i) for i in range(len(arrays))])


def to_bits(array: pa.Array) -> tuple[Ints, NDArray[np.bool_]]:
    """The 64-bit patterns of canonical labels that are not texts, and which of them are not null."""
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    numbers = array.fill_null(0).to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(numbers).view(np.int64), valid


def label_listed(listed: Listed, kinds: tuple[str, ...]) -> list[pa.Array]:
    """Convert listed groups to the canonical labels of a source of these kinds."""
    if len(kinds) != len(listed.columns):
        raise UsageError(f"keys has {len(listed.columns)} columns, by has {len(kinds)}. Give one for each.")
    return [_label_column(column, kind) for column, kind in zip(listed.columns, kinds, strict=True)]


def _label_column(column: tuple[Value, ...], kind: str) -> pa.Array:
    try:
        if kind == "text":
            array = to_texts(column)
        elif kind in _KINDS:
            array = pa.array([_parse_cell(cell, kind) for cell in column], published_type(kind))
        else:
            array = read_dates([None if cell is None else str(cell) for cell in column], kind)
        labels = canonicalize_labels(array, kind)
        if labels.null_count > column.count(None):
            raise ValueError  # a cell that is not missing belongs to no group
    except (ValueError, TypeError, LookupError, OverflowError, pa.ArrowException):
        what = _KINDS.get(kind, "dates or times, as in '2026-01-31'")
        raise UsageError(f"keys contains a value that its column cannot contain: the column has {what}.") from None
    return labels


def _parse_cell(cell: Value, kind: str) -> Value:
    """Convert a listed cell to a number or to True or False. Texts are parsed."""
    if cell is None:
        return None
    if kind == "bool":
        return cell if isinstance(cell, bool) else {"true": True, "false": False}[str(cell).lower()]
    if isinstance(cell, bool) or (kind != "real" and isinstance(cell, float) and not cell.is_integer()):
        raise ValueError
    return float(cell) if kind == "real" else int(cell)


def publish_labels(labels: Sequence[pa.Array], kinds: Sequence[str]) -> list[pa.Array]:
    """Convert canonical labels to the types in which they are published."""
    return [_published(cells, kind) for cells, kind in zip(labels, kinds, strict=True)]


def _published(cells: pa.Array, kind: str) -> pa.Array:
    target = published_type(kind)
    if kind == "text" or kind == "bool":
        return cells.cast(target)
    return cells.cast(pa.int32()).view(target) if kind == "date32[day]" else cells.view(target)
